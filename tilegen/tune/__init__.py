"""Searches schedules offline: trials that cannot hurt each other, confirmed winners, tables in the repository."""
