"""Run CUDA kernels without a GPU, from the PTX that nvcc makes, and say what a GPU would not show."""
