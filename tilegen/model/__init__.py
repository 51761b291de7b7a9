"""Estimates how long a schedule takes at given sizes, and so chooses one without a measurement."""
