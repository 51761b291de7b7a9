"""tilegen writes tiled GPU and CPU kernels as source a person would have written."""
