"""Tuning tables: what was measured, as text in the repository; read for defaults and for dispatchers."""
