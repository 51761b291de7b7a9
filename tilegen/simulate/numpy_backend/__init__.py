"""The PTX semantics a second time, in NumPy: a cross-check of values for the C++ core."""

from tilegen.simulate.numpy_backend.run import run_numpy

__all__ = ["run_numpy"]
