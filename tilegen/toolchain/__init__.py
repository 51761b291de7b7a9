"""Compilers: where they are, what they said, and a cache of what they made."""
