"""Proves built kernels right against float64, with poisoned and guarded outputs."""
