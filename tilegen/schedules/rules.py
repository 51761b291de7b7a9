"""Legality rules that several schedules share."""

from __future__ import annotations

from tilegen.schedules.base import Violation
from tilegen.values import Tile


def tile_rank(field: str, tile: Tile, rank: int) -> list[Violation]:
    """A violation if the tile does not have `rank` extents."""
    if len(tile) == rank:
        return []
    example = "x".join(["128", "128", "32", "2"][:rank])
    return [
        Violation(field, f"{field} {tile} has {len(tile)} extents, {rank} needed, as in {example}")
    ]
