"""The simulator's compiled core and PTX are kept in the toolchain's cache."""

from tilegen.toolchain.cache import cache_dir, cached, digest

__all__ = ["cache_dir", "cached", "digest"]
