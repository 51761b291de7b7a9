"""The tables of this repository can be read whole, and their rows hold what a user needs to judge them."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT
from tilegen.tables import files, lookup, page, selector, words
from tilegen.tables.cover import FEW
from tilegen.targets import target

TABLES = sorted((ROOT / files.FOLDER).glob("*/*.toml"))


def test_there_are_tables():
    assert TABLES


@pytest.mark.parametrize("path", TABLES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_table_is_whole(path):
    table = files.read(path)
    assert table.rows and not table.faults
    assert path.read_text() == files.text_of(table.device, table.operator, table.rows)
    for row in table.rows:
        spec = words.kernel_spec(table.operator, target(row.target), row.problem, row.schedule)
        assert words.problem_text(spec.problem) == row.problem
        assert len(row.ratios) == len(row.seconds) >= 10
        assert row.verified and row.digest and row.toolchain and row.machine
        assert row.speedup >= 1 - 2 * max(row.noise, 0.01)
        assert row.speedups[row.default] == pytest.approx(1.0, abs=0.2)


def test_the_largest_table_makes_a_dispatcher_of_many_kernels(monkeypatch):
    """Long names of kernels fit the lines of its text; also while rows wait to be timed again."""
    where = target("sm_90a")
    problem = words.kernel_spec("gemm", where, "dtype=bf16", "wgmma").problem
    text = words.problem_text(problem)
    fresh = lambda table, *_: lookup.Sorted(
        [r for r in table.rows if r.problem == text]
    )  # noqa: E731
    monkeypatch.setattr(lookup, "sort_rows", fresh)
    monkeypatch.setattr(lookup, "current", lambda rows, *_: list(rows))
    wanted = selector.Wanted(problem, where, "nvidia-h200", threads=0, most=FEW)
    made = selector.make(wanted, ROOT / files.FOLDER)
    assert len(made.rows) > 100 and made.kernels == FEW


def test_the_page_of_tables_is_of_these_tables():
    path = ROOT / "docs/tables.md"
    assert path.read_text() == page.page(ROOT / files.FOLDER), "tilegen tune --page docs/tables.md"
