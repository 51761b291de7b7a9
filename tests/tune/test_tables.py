"""Tuning tables: readable, shared by writers, usable where they are broken, never stale in silence."""

from __future__ import annotations

import dataclasses
import functools
import multiprocessing
from pathlib import Path

import pytest

from tilegen.emit.render import render
from tilegen.errors import UsageError
from tilegen.model import peak
from tilegen.spec import KernelSpec
from tilegen.tables import files, lookup, words
from tilegen.tables.files import Table, read, table_path, update
from tilegen.tables.rows import Row, from_table
from tilegen.targets import target

WHERE = target("portable")
DEFAULT = words.default_spec(words.kernel_spec("gemm", WHERE, "dtype=f32", "packed").problem, WHERE)
OTHER = "packed tile=64x64x64 micro=8x8 unroll=4"


def row(m: int, schedule: str = OTHER, **changes) -> Row:
    """A row whose kernels are those of today, the others of `speedups` too."""
    spec = words.kernel_spec("gemm", WHERE, "dtype=f32", schedule)
    made = Row(
        problem=words.problem_text(spec.problem),
        target="portable",
        threads=1,
        sizes={"m": m, "n": 64, "k": 64},
        schedule=schedule,
        speedup=1.25,
        default=words.schedule_text(DEFAULT.schedule),
        peers={"numpy": 0.5},
        speedups={schedule: 1.25},
        seconds=(1e-5, 1.125e-5),
        ratios=(1.25, 1.25),
        verified="33 cases",
        digest=words.kernel_digest(spec),
        toolchain="gcc 12",
        machine={"cpu": 'A "quoted" name'},
    )
    made = dataclasses.replace(made, **changes)
    if "digests" not in changes and all(s.startswith("packed") for s in made.speedups):
        made = dataclasses.replace(made, digests={s: _digest(s) for s in made.speedups})
    return made


@functools.cache
def _digest(schedule: str) -> str:
    return words.kernel_digest(words.kernel_spec("gemm", WHERE, "dtype=f32", schedule))


@pytest.fixture
def path(tmp_path) -> Path:
    return table_path(tmp_path / "tuning", "some-cpu", "gemm")


def find(path: Path, m: int = 64, where=WHERE) -> lookup.Found:
    return lookup.find(read(path), DEFAULT.problem, where, {"m": m, "n": 64, "k": 64})


def test_rows_come_back_sorted_and_a_second_writing_changes_nothing(path):
    update(path, [row(128), row(8)])
    table = update(path, [row(64)])
    assert [r.sizes["m"] for r in table.rows] == [8, 64, 128] and not table.faults
    assert table.rows[1] == row(64)
    before = path.read_bytes()
    update(path, [row(64)])
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["gemm.toml"]


def test_a_problem_of_defaults_alone_has_a_row_too(path):
    update(path, [dataclasses.replace(row(8), problem="")])
    assert [r.problem for r in read(path).rows] == [""] and not read(path).faults


def test_one_new_row_is_one_hunk_of_a_diff(path):
    update(path, [row(8), row(128)])
    before = path.read_text().splitlines()
    update(path, [row(64)])
    after = path.read_text().splitlines()
    kept = iter(after)
    assert all(line in kept for line in before), "lines of other rows changed or moved"
    assert max(len(line) for line in after) < 200


def test_the_nearest_row_in_reach_is_found(path):
    update(path, [row(8), row(64), row(512)])
    assert find(path, 80).row.sizes["m"] == 64
    assert find(path, 2048).row.sizes["m"] == 512
    far = find(path, 4096)
    assert far.row is None and "has no row" in far.notes[-1]


@pytest.mark.parametrize(
    "broken", ["{", "\0\x01\xff\xfe junk", "<<<<<<< ours", 'x = "', "speedup ="]
)
def test_K11_a_broken_part_is_told_with_its_line_and_the_rest_is_used(path, broken):
    update(path, [row(8), row(64), row(512)])
    lines = path.read_text().splitlines()
    starts = [i for i, line in enumerate(lines) if line == "[[row]]"]
    lines.insert(starts[1] + 2, broken)
    path.write_text("\n".join(lines) + "\n")
    table = read(path)
    assert [r.sizes["m"] for r in table.rows] == [8, 512]
    assert table.faults[0].startswith(f"{path}:{starts[1] + 3}: ")
    assert find(path, 512).row is not None
    healed = update(path, [row(64)])
    assert [r.sizes["m"] for r in healed.rows] == [8, 64, 512] and not healed.faults
    assert broken in path.with_name("gemm.toml.broken").read_text()


def test_K11_a_file_of_junk_does_not_stop_anything(path):
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff\x00{{{")
    assert find(path).row is None
    assert len(update(path, [row(64)]).rows) == 1


def test_a_truncated_file_loses_only_its_last_row(path):
    update(path, [row(8), row(64)])
    path.write_text(path.read_text()[:-80])
    table = read(path)
    assert [r.sizes["m"] for r in table.rows] == [8] and len(table.faults) == 1


def test_K01_a_kernel_that_changed_since_makes_its_row_stale(path, monkeypatch):
    update(path, [row(64)])
    assert find(path).row is not None
    monkeypatch.setattr(words, "kernel_digest", lambda spec: "0123456789ab")
    found = find(path)
    assert found.row is None
    assert "is stale: the kernel's text is 0123456789ab now" in found.notes[0]


def test_many_stale_rows_are_told_in_one_line_with_what_mends_them(path):
    update(path, [dataclasses.replace(row(m), digest="0123456789ab") for m in range(1, 6)])
    (told,) = lookup.find(read(path), DEFAULT.problem, WHERE).notes[:-1]
    assert "the row of m=1 " in told and "4 rows more: tilegen tune --refresh" in told


def test_a_schedule_that_is_no_longer_legal_makes_its_row_stale(path):
    update(path, [row(64, digest="0" * 12)])
    text = path.read_text().replace("micro=8x8", "micro=99x8")
    path.write_text(text)
    found = find(path)
    assert found.row is None and "schedule does not fit" in found.notes[0]


def test_a_schedule_that_has_got_a_field_since_goes_by_its_words_of_today(path):
    older = OTHER.removesuffix(" unroll=4")
    update(path, [row(64, older, speedups={older: 1.25, "gone tile=1": 1.0})])
    found = find(path).row
    assert found.schedule == OTHER and found.speedups == {OTHER: 1.25, "gone tile=1": 1.0}
    (current,) = lookup.current([found], DEFAULT.problem, WHERE)
    assert current.speedups == {OTHER: 1.25}


@pytest.mark.parametrize("digest", ["", "unknown"])
def test_K05_a_row_without_metadata_is_unused_until_it_is_tuned_again(path, digest):
    update(path, [row(64, digest=digest)])
    assert find(path).row is None
    update(path, [row(64)])
    assert find(path).row is not None


def test_K03_a_table_of_another_device_is_kept_and_not_used(path):
    update(path, [row(64)])
    elsewhere = table_path(path.parent.parent, "other-cpu", "gemm")
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(path.read_bytes())
    table = read(elsewhere)
    assert not table.rows and "its device is 'some-cpu'" in table.faults[0]
    with pytest.raises(UsageError, match="its device is 'some-cpu'"):
        update(elsewhere, [row(8)])
    assert elsewhere.read_bytes() == path.read_bytes()


def test_a_row_of_another_target_is_a_clear_miss(path):
    update(path, [row(64)])
    found = find(path, where=target("x86-64-v3"))
    assert found.row is None and "on x86-64-v3" in found.notes[-1]


def test_a_newer_schema_is_neither_read_nor_overwritten(path):
    update(path, [row(64)])
    text = path.read_text().replace("schema = 2", "schema = 3")
    path.write_text(text)
    for act in (lambda: read(path), lambda: update(path, [row(8)])):
        with pytest.raises(UsageError, match="schema 3"):
            act()
    assert path.read_text() == text


@pytest.mark.parametrize(
    "change, message",
    [
        ({"speedup": "fast"}, "speedup = 'fast' is no float"),
        ({"speedup": float("nan")}, "no finite number"),
        ({"speedup": -1.0}, "no finite number"),
        ({"threads": True}, "threads = True is no int"),
        ({"sizes": {"m": 1.5}}, "sizes.m = 1.5 is no int"),
        ({"ratios": 3}, "ratios is no list"),
        ({"peak": "high"}, "peak = 'high' is no float"),
        ({"speed": 1.0}, "unknown key 'speed'"),
        ({"speedups": 1.0}, "speedups is no table"),
        ({"speedups": {"s": [1.0]}}, "speedups.s is no [SPEEDUP, DIGEST]"),
        ({"speedups": {"s": [1.0, 2]}}, "speedups.s = 2 is no str"),
    ],
)
def test_values_of_the_wrong_kind_are_named(change, message):
    good = {"problem": "", "target": "portable", "sizes": {}, "schedule": "s", "speedup": 1.0}
    assert from_table(good)
    with pytest.raises(UsageError) as refused:
        from_table(good | change)
    assert message in str(refused.value)


def _write(path: Path, first: int) -> None:
    for step in range(6):
        update(path, [row(first + step)])


def test_writers_at_once_lose_nothing(path):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(path, 10 * n)) for n in range(1, 5)]
    for writer in writers:
        writer.start()
    seen = set()
    while any(w.is_alive() for w in writers):
        table: Table = read(path)
        assert not table.faults
        seen.add(len(table.rows))
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert len(read(path).rows) == 24
    assert [p.name for p in path.parent.iterdir()] == ["gemm.toml"]


def test_without_sizes_the_schedule_that_loses_least_anywhere_is_taken(path):
    poor = "packed tile=32x32x32 micro=8x8 unroll=4"
    update(
        path,
        [
            row(8, poor, speedup=2.0, speedups={poor: 2.0, OTHER: 1.9}),
            row(64, OTHER, speedup=1.5, speedups={poor: 1.0, OTHER: 1.5}),
        ],
    )
    assert lookup.find(read(path), DEFAULT.problem, WHERE).row.schedule == OTHER


def test_emit_takes_a_rows_schedule_and_says_so_in_full(tilegen, tmp_path):
    update(table_path(tmp_path / "tuning", "some-cpu", "gemm"), [row(64)])
    words_ = ("emit", "gemm", "--target", "portable", "--dtype", "f32", "--tuned", "some-cpu")
    ran = tilegen(*words_, "--at", "m=64,n=64,k=64")
    assert ran.status == 0, ran.err
    assert "note: the schedule is that of tuning/some-cpu/gemm.toml at m=64 n=64 k=64" in ran.err
    path = next(tmp_path.rglob("*.c"))
    first = path.read_text().splitlines()[0]
    assert first == "// tilegen emit gemm --target portable --dtype f32 --tile 64x64x64"
    # An explicit field wins over the table.
    ran = tilegen(*words_, "--at", "m=64,n=64,k=64", "--tile", "32x32x32", "--stdout")
    assert "--tile 32x32x32" in ran.out.splitlines()[0]
    # Sizes out of reach: the stated rule, with a note.
    ran = tilegen(*words_, "--at", "m=9999,n=64,k=64", "--stdout")
    assert ran.status == 0 and "the stated rule holds" in ran.err
    assert "--tile" not in ran.out.splitlines()[0]


def test_emit_refuses_tables_that_are_not_there(tilegen, tmp_path):
    update(table_path(tmp_path / "tuning", "some-cpu", "gemm"), [row(64)])
    base = ("emit", "gemm", "--target", "portable", "--dtype", "f32")
    ran = tilegen(*base, "--tuned", "some-cpo")
    assert ran.status == 2 and "did you mean 'some-cpu'" in ran.err
    ran = tilegen(*base, "--tuned", "some-cpu", "--at", "m=1,n=1")
    assert ran.status == 2 and "the sizes are m, n, k" in ran.err


def test_a_listed_kernel_may_be_tuned(tilegen, project, tmp_path):
    update(table_path(tmp_path / "tuning", "some-cpu", "gemm"), [row(64)])
    project(
        '[[kernel]]\noperator = "gemm"\ntarget = "portable"\ndtype = "f32"\ntuned = "some-cpu"\n'
    )
    assert tilegen("emit").status == 0
    assert [p.name for p in tmp_path.rglob("*.c")] == ["gemm_f32_tn_64x64x64.c"]
    assert tilegen("check").status == 0


def test_a_projects_defaults_come_from_its_tables(tilegen, project, tmp_path):
    update(table_path(tmp_path / "tuning", "some-cpu", "gemm"), [row(64)])
    tuned = '[project]\ntuned = { portable = "some-cpu" }\n'
    project(tuned + '[[kernel]]\noperator = "gemm"\ntarget = "portable"\ndtype = "f32"\n')
    before = {p: p.read_bytes() for p in (tmp_path / "tuning").rglob("*") if p.is_file()}
    assert tilegen("emit").status == 0
    assert [p.name for p in tmp_path.rglob("*.c")] == ["gemm_f32_tn_64x64x64.c"]
    words_ = ("emit", "gemm", "--target", "portable", "--stdout")
    first = lambda *more: tilegen(*words_, *more).out.splitlines()[0]  # noqa: E731
    assert first("--dtype", "f32").endswith("--dtype f32 --tile 64x64x64")
    # A field that is given, `none`, or a problem without a row: as without a table, and nothing is said.
    assert "--tile" not in first("--dtype", "f32", "--tuned", "none")
    assert "--unroll 2" in first("--dtype", "f32", "--unroll", "2")
    ran = tilegen(*words_, "--dtype", "f64")
    assert ran.status == 0 and not ran.err and "--tile" not in ran.out.splitlines()[0]
    # Who only reads, writes nothing there.
    assert {p: p.read_bytes() for p in (tmp_path / "tuning").rglob("*") if p.is_file()} == before
    project('[project]\ntuned = { portable = "some-gpu" }\n')
    ran = tilegen(*words_)
    assert ran.status == 2 and "no tables for 'some-gpu' (did you mean 'some-cpu'?)" in ran.err
    project('[project]\ntuned = "some-cpu"\n')
    assert "tuned is no table of devices by target" in tilegen(*words_).err


def test_a_digest_is_of_the_code_and_not_of_its_layout():
    text = 'int f(void) {  // a comment\n  return g("// no comment", 1);\n}\n'
    same = 'int f(void) {\n  /* another\n one */ return \\\n g("// no comment", 1);\n}\n'
    assert words.code_digest(text) == words.code_digest(same)
    assert words.code_digest(text) != words.code_digest(text.replace("1", "2"))
    assert words.code_digest(text) != words.code_digest(text.replace("no", "a"))


@pytest.mark.parametrize("where", ["portable", "sm_80"])
def test_a_digest_is_not_of_the_checks_of_arguments(where):
    rendered = render(KernelSpec.make("gemm", where, {"dtype": "f32"}))
    text = rendered.files[rendered.source]
    assert text.count("return 2;") == 1
    assert words.code_digest(text) == words.code_digest(text.replace("return 2;", "return 3;"))
    assert words.code_digest(text) != words.code_digest(text.replace("k = ", "k = 1 + ", 1))


def test_keys_tell_devices_apart_that_one_name_would_not(monkeypatch):
    from tilegen.runtime import gpu
    from tilegen.tune import device

    keys = []
    for name in ("NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA H100 PCIe"):
        monkeypatch.setattr(gpu, "device_name", lambda name=name: name)
        keys.append(device.device_key(target("sm_90a")))
    assert keys == ["nvidia-h100-80gb-hbm3", "nvidia-h200", "nvidia-h100-pcie"]
    # Two models whose brand is a bare `Xeon Processor`.
    facts = {"cpu": "Intel(R) Xeon(R) Processor", "machine": "x86_64"}
    monkeypatch.setattr(device, "host_facts", lambda: facts)
    for model in ("6-106", "6-143"):
        monkeypatch.setattr(device, "_cpu_model", lambda model=model: model)
        assert device.device_key(WHERE) == f"intel-xeon-processor-{model}"


def test_a_row_tells_its_part_of_the_peak_where_a_data_sheet_gives_it():
    gemm = words.problem_of("gemm", "dtype=bf16")
    square, line = ({"m": m, "n": 8192, "k": 8192} for m in (8192, 1))
    flops, bytes_ = 2 * 8192**3 / 989.5e12, (8192 * 8192 + 2 * 8192) * 2 / 4.8e12
    assert peak.share("nvidia-h200", gemm, square, flops / 0.75) == pytest.approx(0.75)
    assert peak.share("nvidia-h200", gemm, line, bytes_ / 0.5) == pytest.approx(0.5)
    assert peak.share("nvidia-h100-80gb-hbm3", gemm, line, bytes_) == pytest.approx(4.8 / 3.35)
    rows_only = words.problem_of("formula", "dtype=bf16 formula=softmax")
    assert 0 < peak.share("nvidia-h200", rows_only, {"m": 64, "n": 64}, 1e-5) < 1
    assert peak.share("some-cpu", gemm, square, 1.0) is None
    told = row(64)
    assert "peak" not in told.text()
    assert "\npeak = 0.75\n" in dataclasses.replace(told, peak=0.75).text()
