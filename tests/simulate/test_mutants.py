"""Mutants are single changes in the right place, and scoring them says how each was found."""

from __future__ import annotations

import pytest

from planted_corpus import CORPUS
from tilegen.errors import UsageError
from tilegen.simulate import run_ptx
from tilegen.simulate.launch import Memory, SimulationError
from tilegen.simulate.mutants import instructions, mutants
from tilegen.simulate.mutate import Case, score, source_line
from tilegen.simulate.parse import parse
from tilegen.verify.mutation_page import Reviewed, read_reviewed

PTX = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry other() { bar.sync 0; ret; }
.visible .entry k(.param .u64 p) .maxntid 64
{
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<3>;  // a comment; with bar.sync 0;
  .loc 1 7 3
  mov.u32 %r1, 64; @%p1 bar.sync 1, 64;
  { .reg .pred P; WAIT: mbarrier.try_wait.parity.shared::cta.b64 P, [%r2], %r3; @P bra DONE; bra WAIT; DONE: }
  @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2+8], 512;
  mbarrier.arrive.shared::cta.b64 %rd1, [%r2];
  mbarrier.init.shared::cta.b64 [%r2], %r1;
  cp.async.wait_group 1;
  cp.async.bulk.wait_group 0;
  red.release.gpu.global.add.u32 [%rd1], 1;
  ret;
}
"""


def changed(mutant) -> str:
    """The instruction that the mutant has in place of the original, or nothing."""
    kernel = parse(mutant.ptx).kernels["k"]
    before = [i.text for i in parse(PTX).kernels["k"].instructions]
    after = [i.text for i in kernel.instructions]
    extra = [text for text in after if text not in before]
    return " ; ".join(extra)


def test_instructions_are_those_of_the_parser():
    texts = [text for _, _, _, text in instructions(PTX, "k")]
    assert texts == [i.text for i in parse(PTX).kernels["k"].instructions]
    for index, start, end, text in instructions(PTX, "k"):
        assert " ".join(PTX[start:end].split()) == text
        assert parse(PTX).kernels["k"].instructions[index].text == text


def test_every_change():
    found = [(m.text.split(" [")[0], m.change, changed(m)) for m in mutants(PTX, "k")]
    assert found == [
        ("@%p1 bar.sync 1, 64", "arrives without waiting", "@%p1 bar.arrive 1, 64"),
        ("@%p1 bar.sync 1, 64", "deleted", ""),
        (
            "mbarrier.try_wait.parity.shared::cta.b64 P,",
            "passes at once",
            "setp.eq.u32 P, 0, 0",
        ),
        (
            "mbarrier.try_wait.parity.shared::cta.b64 P,",
            "waits for the other parity",
            "xor.b32 changed, %r3, 1 ; mbarrier.try_wait.parity.shared::cta.b64 P, [%r2], changed",
        ),
        (
            "@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _,",
            "expects half the bytes",
            "@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2+8], 256",
        ),
        (
            "@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _,",
            "expects 16 bytes more",
            "@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2+8], 528",
        ),
        ("@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _,", "deleted", ""),
        ("mbarrier.arrive.shared::cta.b64 %rd1,", "deleted", "mov.b64 %rd1, 0"),
        (
            "mbarrier.init.shared::cta.b64",
            "expects one arrival more",
            "add.u32 changed, %r1, 1 ; mbarrier.init.shared::cta.b64 [%r2], changed",
        ),
        (
            "mbarrier.init.shared::cta.b64",
            "expects one arrival less",
            "add.u32 changed, %r1, -1 ; mbarrier.init.shared::cta.b64 [%r2], changed",
        ),
        ("cp.async.wait_group 1", "waits for all but 2", "cp.async.wait_group 2"),
        ("cp.async.wait_group 1", "deleted", ""),
        ("cp.async.bulk.wait_group 0", "waits for all but 1", "cp.async.bulk.wait_group 1"),
        (
            "cp.async.bulk.wait_group 0",
            "waits for the reads alone",
            "cp.async.bulk.wait_group.read 0",
        ),
        ("cp.async.bulk.wait_group 0", "deleted", ""),
        (
            "red.release.gpu.global.add.u32",
            "made relaxed",
            "red.relaxed.gpu.global.add.u32 [%rd1], 1",
        ),
    ]
    counts = {len(parse(m.ptx).kernels["k"].instructions) for m in mutants(PTX, "k")}
    whole = len(parse(PTX).kernels["k"].instructions)
    assert counts == {whole - 1, whole, whole + 1}
    assert all(len(parse(m.ptx).kernels["other"].instructions) == 2 for m in mutants(PTX, "k"))


def test_an_unknown_kernel():
    with pytest.raises(SimulationError, match="'none' names 0 kernels"):
        mutants(PTX, "none")


def test_score_of_a_pipeline():
    corpus = next(c for c in CORPUS if c.source == "pipeline.cu")
    host = corpus.host()
    result = score(
        "pipeline", host.build.ptx, [corpus.case(host, 0)], run_ptx, corpus.path.read_text()
    )
    # At exit it makes no difference whether a store has been written or only read.
    assert [v.mutant.change for v in result.survivors] == ["waits for the reads alone"]
    counts = result.counts()
    assert counts["deadlock"] and counts["race"] and counts["proxy"] and counts["pending-at-exit"]
    assert sum(counts.values()) == len(result.verdicts) >= 25
    sources = {v.source for v in result.verdicts}
    assert any("The barriers are initialised before anyone uses them." in s for s in sources)


def test_a_kernel_with_findings_has_no_score():
    corpus = next(c for c in CORPUS if c.source == "pipeline.cu")
    host = corpus.host()
    with pytest.raises(SimulationError, match="has findings before any change"):
        score("early", host.build.ptx, [corpus.case(host, 7)], run_ptx)


def test_values_alone_can_show_a_mutant():
    """With the detectors' findings removed, the changed bytes are what is seen."""
    from dataclasses import replace

    corpus = next(c for c in CORPUS if c.source == "block.cu")
    host = corpus.host()

    def blind(ptx, launch, memory, options):
        return replace(run_ptx(ptx, launch, memory, options), findings=())

    result = score("block", host.build.ptx, [corpus.case(host, 0)], blind, seeds=0)
    assert 0 < result.counts()["values"] < len(result.executed)


def test_no_case_executes_nothing():
    case = Case("none", (), Memory)
    assert score("empty", PTX, [case], run_ptx).verdicts == []


def test_the_line_that_names_an_instruction():
    text = ["void wait() {", "  asm(x);", "}", "// Everyone is here.", "// At last.", "wait();"]
    assert source_line(text, (2, 6)) == (6, "wait();  // Everyone is here. At last.")
    assert source_line(text, (2,)) == (2, "asm(x);")
    assert source_line([*text, "outer(4);"], (2, 6, 7)) == (
        6,
        "wait();  // Everyone is here. At last.  <- outer(4);",
    )
    assert source_line(text, ()) == (0, "")


def test_reviewed_list(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text(
        "# remarks\n\ngemm_mma.cu.j2: deleted: copy_wait<0>()\n    no copy is\n    under way\n"
        "x.cu.j2 (x_*_k2): *: // first: second\n    because\n"
    )
    assert read_reviewed(path) == [
        Reviewed("gemm_mma.cu.j2", "deleted", "copy_wait<0>()", "no copy is under way"),
        Reviewed("x.cu.j2", "*", "// first: second", "because", "x_*_k2"),
    ]
    path.write_text("not a mutant\n")
    with pytest.raises(UsageError, match=":1: not `template"):
        read_reviewed(path)
    path.write_text("   a reason\n")
    with pytest.raises(UsageError, match="without a mutant"):
        read_reviewed(path)
