"""Legality rules that several schedules share."""

from __future__ import annotations

import re
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
    named = {*problem.formula.operands, *problem.formula.outputs, *problem.formula.scalars}
    product = "c" if "c" not in named else "product"
    rest = re.sub(r"\bacc\b", f"{product}[m,n]", problem.formula.text)
    return Violation(
        "epilogue",
        f"the {name} schedule does not reduce rows, as {problem.row_reductions[0].name} does: store the "
        f"product, --epilogue none, and leave the rest to a kernel of its own, tilegen emit '{rest}'",
    )
