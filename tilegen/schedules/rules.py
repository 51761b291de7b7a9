"""Legality rules that several schedules share."""

from __future__ import annotations

from typing import Any

from tilegen.schedules.base import Violation
from tilegen.values import Tile


def whole_pages(field: str, block: int, page: int) -> list[Violation]:
    """A violation if blocks of keys cross the borders of a paged cache's pages."""
    if not page or page % block == 0:
        return []
    return [
        Violation(
            field, f"blocks of {block} keys do not divide a page of {page}: none may cross a page"
        )
    ]


def tile_rank(field: str, tile: Tile, rank: int) -> list[Violation]:
    """A violation if the tile does not have `rank` extents."""
    if len(tile) == rank:
        return []
    example = "x".join(["128", "128", "32", "2"][:rank])
    return [
        Violation(field, f"{field} {tile} has {len(tile)} extents, {rank} needed, as in {example}")
    ]


def no_rows(name: str, problem: Any) -> Violation | None:
    """A violation if the epilogue reduces rows, which the kernels of a schedule do not."""
    if not problem.row_reductions:
        return None
    row = problem.row_reductions[0]
    return Violation(
        "epilogue",
        f"the {name} schedule does not reduce rows, as {row.name} does: store what it reduces, and reduce "
        f"that, tilegen emit '{row.name}[m] = {row.op}(x[m,n], n)'",
    )
