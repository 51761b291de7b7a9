"""Choosers by size: few kernels, readable comparisons, an honest account of what is lost."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import itertools
import shutil
import subprocess

import numpy as np
import pytest

from test_tables import DEFAULT, OTHER, row
from tilegen.emit.render import render
from tilegen.errors import ToolMissing, UsageError
from tilegen.tables import cover, selector, tree, words
from tilegen.tables.files import table_path, update
from tilegen.tables.rows import Row
from tilegen.targets import target
from tilegen.toolchain.find import find_nvcc

BASE = words.schedule_text(DEFAULT.schedule)
SMALL = "packed tile=16x16x16 micro=8x8 unroll=4"
WIDE = "packed tile=32x32x32 micro=4x8 unroll=4"
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror"]


def table(*entries):
    """Rows of speedups over the default, by m; every schedule measured everywhere."""
    rows = []
    for m, speedups in entries:
        best, speedups = max(speedups, key=speedups.get), {BASE: 1.0, **speedups}
        digests = {s: digest_of("portable", s) for s in speedups}
        changes = {"speedups": speedups, "digests": digests, "digest": digests[best]}
        rows.append(row(m, best, speedup=speedups[best], **changes))
    return rows


@functools.cache
def digest_of(where: str, schedule: str) -> str:
    spec = words.kernel_spec("gemm", target(where), "dtype=f32", schedule)
    return words.kernel_digest(spec)


ROWS = table(
    (8, {SMALL: 2.0, OTHER: 1.2, WIDE: 1.98}),
    (32, {SMALL: 1.8, OTHER: 1.2, WIDE: 1.76}),
    (512, {SMALL: 0.5, OTHER: 1.5, WIDE: 1.2}),
    (2048, {SMALL: 0.4, OTHER: 1.3, WIDE: 1.27}),
)


def test_few_kernels_with_the_least_worst_loss_are_chosen():
    assert cover.cover(ROWS, 1).schedules == (WIDE,)
    assert cover.cover(ROWS, 1).worst == pytest.approx(0.25)
    two = cover.cover(ROWS, 2)
    assert set(two.schedules) == {SMALL, OTHER} and two.worst == 0.0
    assert cover.smallest(ROWS, 6, within=0.3).schedules == (WIDE,)
    assert set(cover.smallest(ROWS, 6, within=0.03).schedules) == {SMALL, OTHER}
    assert cover.smallest(ROWS, 1, within=0.0).worst == pytest.approx(0.25)


def test_a_schedule_covers_only_where_it_was_measured():
    rows = [*ROWS, row(64, speedup=1.1, speedups={OTHER: 1.1})]
    assert set(cover.measured(rows)) == {BASE, OTHER, SMALL, WIDE}
    assert cover.cover(rows, 1).schedules == (OTHER,)
    assert cover.judge([SMALL], rows).worst == float("inf")
    assert tree.worst(tree.grow(rows, [SMALL])) == pytest.approx(2.25)
    assert set(cover.smallest(rows, 6, within=0.03).schedules) == {SMALL, OTHER}


def test_a_chooser_takes_kernels_that_lose_little_anywhere(monkeypatch):
    """Where not all sizes keep within what was asked for, most sizes are no reason to lose much at one."""
    monkeypatch.setattr(cover, "MOST_SUBSETS", 0)
    quick = {SMALL: 2.0, WIDE: 1.85}
    rows = table((8, quick), (16, quick), (32, quick), (512, {SMALL: 0.4, WIDE: 1.5}))
    assert cover.smallest(rows, 1, within=0.03).schedules == (SMALL,)
    gentle = cover.gentlest(rows, 1, within=0.03)
    assert gentle.schedules == (WIDE,) and gentle.worst == pytest.approx(2.0 / 1.85 - 1)
    assert cover.gentlest(rows, 2, within=0.03) == cover.smallest(rows, 2, within=0.03)


def test_many_schedules_are_added_one_by_one(monkeypatch):
    monkeypatch.setattr(cover, "MOST_SUBSETS", 0)
    found = cover.smallest(ROWS, 6, within=0.03)
    # WIDE serves three rows within 3 % and OTHER the fourth; SMALL in its place leaves less.
    assert set(found.schedules) == {SMALL, OTHER} and found.worst < 0.03


def test_many_rows_get_comparisons_one_after_the_other():
    rows = table(
        *((m, {SMALL: 2.0, OTHER: 1.2, WIDE: 1.5}) for m in range(1, 12)),
        *((m, {SMALL: 0.5, OTHER: 1.5, WIDE: 1.2}) for m in range(100, 112)),
    )
    grown = tree.grow(rows, [SMALL, OTHER, WIDE])
    assert isinstance(grown, tree.Split) and (grown.size, grown.limit) == ("m", 32)
    assert tree.worst(grown) == 0.0 and len(tree.leaves(grown)) == 2


def test_a_comparison_is_chosen_with_the_next_one_in_view():
    """SMALL is best where both sizes are small or both large: no comparison helps before a second one does."""
    rows = []
    for m, n in itertools.product((1, 2, 4, 8, 100, 200, 400, 800), (1, 2, 400, 800)):
        best, other = (SMALL, OTHER) if (m < 100) == (n < 100) else (OTHER, SMALL)
        speedups = {best: 1.5, other: 1.0}
        rows.append(row(m, best, speedup=1.5, speedups=speedups, sizes={"m": m, "n": n, "k": 64}))
    grown = tree.grow(rows, [SMALL, OTHER])
    assert tree.worst(grown) == 0.0 and len(tree.leaves(grown)) == 4


def test_the_tree_uses_one_readable_comparison_where_one_suffices():
    grown = tree.grow(ROWS, [SMALL, OTHER])
    assert isinstance(grown, tree.Split)
    assert (grown.size, grown.limit) == ("m", 128)
    assert tree.worst(grown) == 0.0 and len(tree.leaves(grown)) == 2
    assert tree.choose(grown, {"m": 100, "n": 1, "k": 1}) == SMALL
    assert tree.choose(grown, {"m": 10**9, "n": 1, "k": 1}) == OTHER
    assert isinstance(tree.grow(ROWS, [OTHER]), tree.Leaf)


def test_limits_are_powers_of_two_where_one_lies_between():
    assert tree._limits([8, 32, 512]) == [16, 128]
    assert tree._limits([0, 1, 2]) == [0, 1]
    assert tree._limits([1000, 1001]) == [1000]
    # Else a round number.
    assert tree._limits([6144, 8192, 8200, 18432, 28672]) == [7168, 8192, 16384, 22528]
    assert tree._limits([1000, 1024]) == [1008]


@pytest.fixture
def tables(tmp_path):
    update(table_path(tmp_path / "tuning", "some-cpu", "gemm"), ROWS)
    return tmp_path / "tuning"


def command(*more: str) -> tuple[str, ...]:
    base = ("dispatch", "gemm", "--dtype", "f32", "--target", "portable", "--tuned", "some-cpu")
    return (*base, "-o", "out", *more)


def test_the_emitted_c_compiles_strictly_chooses_and_computes(tilegen, tables, tmp_path):
    ran = tilegen(*command())
    assert ran.status == 0, ran.err
    assert "2 kernels cover 4 measured sizes within 0.0% of the best kernel at each" in ran.out
    sources = sorted((tmp_path / "out").rglob("*.c"))
    assert len(sources) == 3
    chooser = next(p for p in sources if "by_size" in p.name)
    text = chooser.read_text()
    assert "if (m <= 128) {" in text and "#define" not in text
    assert max(len(line) for line in text.splitlines()) <= 100
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path / "all.so"
    words_ = [compiler, *STRICT, "-O2", "-fopenmp", "-shared", "-fPIC", *map(str, sources)]
    subprocess.run([*words_, "-lm", "-o", str(library)], check=True)
    function = getattr(ctypes.CDLL(str(library)), "tilegen_gemm_f32_tn_by_size_portable")
    rng = np.random.default_rng(0)
    for m, n, k in ((1, 1, 1), (0, 4, 4), (128, 9, 33), (129, 9, 33), (300, 17, 5)):
        a = rng.standard_normal((m, k), np.float32)
        b = rng.standard_normal((n, k), np.float32)
        c = np.full((m, n), np.nan, np.float32)
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)]
        strides = [ctypes.c_int64(x) for x in (k, k, n)]
        sizes = [ctypes.c_int64(x) for x in (m, n, k)]
        pairs = [item for pair in zip(pointers, strides) for item in pair]
        assert function(*sizes, *pairs, ctypes.c_int(1)) == 0
        np.testing.assert_allclose(c, a @ b.T, rtol=1e-4, atol=1e-4)
    bad = [ctypes.c_int64(-1), *sizes[1:]]
    assert function(*bad, *pairs, ctypes.c_int(1)) == 22


def test_the_first_line_reproduces_the_chooser(tilegen, tables, tmp_path):
    assert tilegen(*command("--most", "1")).status == 0
    path = next((tmp_path / "out").rglob("*by_size*.c"))
    first = path.read_text().splitlines()[0].removeprefix("// tilegen ")
    assert tilegen(*first.split(), "-o", "again").status == 0
    again = next((tmp_path / "again").rglob("*by_size*.c"))
    assert again.read_bytes() == path.read_bytes()


def test_a_cuda_chooser_compiles_with_its_kernels(tmp_path):
    try:
        nvcc = find_nvcc()
    except ToolMissing as error:
        pytest.skip(error.message)
    where = target("sm_80")
    problem = "dtype=f32"
    first = words.default_spec(words.kernel_spec("gemm", where, problem, "simt").problem, where)
    base = words.schedule_text(first.schedule)
    other = "simt tile=64x64x16 thread_tile=4x4"
    digest = {s: digest_of("sm_80", s) for s in (base, other)}
    rows = []
    for m, best in ((16, other), (4096, base)):
        speedups = {other: 1.5 if best == other else 0.5, base: 1.0}
        changes = {"default": base, "speedups": speedups, "digest": digest[best], "threads": 0}
        changes["digests"] = digest
        spec = {"problem": problem, "target": "sm_80", "speedup": speedups[best]}
        rows.append(Row(sizes={"m": m, "n": 64, "k": 64}, schedule=best, **spec, **changes))
    update(table_path(tmp_path / "tuning", "some-gpu", "gemm"), rows)
    wanted = selector.Wanted(first.problem, where, "some-gpu", threads=0)
    made = selector.make(wanted, tmp_path / "tuning")
    assert len(tree.leaves(made.tree)) == 2
    for path, text in made.files.items():
        place = tmp_path / path.split("/")[-1]
        place.write_text(text)
    source = tmp_path / f"{made.stem}.cu"
    text = source.read_text()
    assert "_supports(" in text and "Choice::k" in text
    flags = [where.gencode, "-std=c++17", "--Werror=all-warnings", "-c"]
    flags += ["-Xcompiler", "-Wall,-Wextra,-Wconversion,-Wshadow"]
    subprocess.run([nvcc.path, *flags, str(source), "-o", str(tmp_path / "x.o")], check=True)


def test_what_cannot_be_chosen_from_is_said(tilegen, tables):
    ran = tilegen(*command("--layout", "tt"))
    assert ran.status == 2 and "no fresh row for" in ran.err
    ran = tilegen(*command("--threads", "8"))
    assert ran.status == 2 and "with 8 threads" in ran.err
    ran = tilegen(*[w.replace("some-cpu", "same-cpu") for w in command()])
    assert ran.status == 2 and "did you mean 'some-cpu'" in ran.err
    ran = tilegen("dispatch", "gemm", "--tuned", "some-cpu", "-o", "out")
    assert ran.status == 2 and "--tuned needs a --target" in ran.err


def test_stale_rows_are_not_chosen_from(tables, tmp_path, monkeypatch):
    wanted = selector.Wanted(DEFAULT.problem, target("portable"), "some-cpu")
    monkeypatch.setattr(words, "kernel_digest", lambda spec: "0123456789ab")
    with pytest.raises(UsageError) as refused:
        selector.make(wanted, tables)
    assert "is stale" in refused.value.hint


def test_speedups_of_kernels_that_have_changed_are_not_chosen_from(tables):
    """A kernel that won nowhere has no row of its own to be stale."""
    wanted = selector.Wanted(DEFAULT.problem, target("portable"), "some-cpu", most=1)
    assert selector.schedules(selector.make(wanted, tables)) == [WIDE]
    path = table_path(tables, "some-cpu", "gemm")
    old = [dataclasses.replace(r, digests={**r.digests, WIDE: "0123456789ab"}) for r in ROWS]
    update(path, old)
    (chosen,) = selector.schedules(selector.make(wanted, tables))
    assert chosen != WIDE
    # A table of before had no digests there: its winners alone are used.
    update(path, [dataclasses.replace(r, digests={}) for r in ROWS])
    assert set(selector.schedules(selector.make(wanted, tables))) <= {SMALL, OTHER}


def test_where_a_kernel_does_not_take_the_arrays_the_fallback_answers():
    """Rows of 63 elements start anywhere: a kernel of whole accesses refuses them, and a plain one answers."""
    where = target("sm_90a")
    texts = ["wgmma tile=128x128x64", "mma tile=64x64x64"]
    specs = [words.kernel_spec("gemm", where, "dtype=bf16", text) for text in texts]
    strict, plain = (words.schedule_text(spec.schedule) for spec in specs)
    kernels = dict(zip((strict, plain), map(render, specs)))
    base = dataclasses.replace(row(64), problem="dtype=bf16", target="sm_90a", threads=0)
    odd, even = (
        dataclasses.replace(
            base, sizes={"m": 64, "n": 64, "k": k}, schedule=plain, speedups={strict: s, plain: 2.0}
        )
        for k, s in ((63, 0.0), (64, 1.0))
    )
    assert selector._most_permissive([odd, even], kernels) == plain
    assert selector._answered(odd, kernels, plain).speedups == {strict: 2.0, plain: 2.0}
    assert selector._answered(even, kernels, plain) == even
