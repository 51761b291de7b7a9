"""Runs built kernels: NumPy arrays through ctypes, device arrays through PyCUDA's primary context."""
