"""What the build refuses: fences in the loop along K, products that ptxas serialises."""

from __future__ import annotations

import dataclasses

import pytest

from tests.conftest import ROOT
from tests.test_simulated import missing
from tilegen.emit.render import Rendered, render
from tilegen.errors import BuildError, ToolMissing
from tilegen.spec import KernelSpec
from tilegen.targets import target
from tilegen.toolchain import build, sass

LISTING = """
\t\tFunction : tiles
        /*0010*/                   MEMBAR.ALL.GPU ;                /* 0x0000 */
        /*0020*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24 ;
        /*0030*/                   {arrive} ;
        /*0040*/              @!P1 BRA 0x20 ;
        /*0050*/                   ERRBAR ;
        /*0060*/               @P0 BRA 0x10 ;
        /*0070*/                   EXIT ;
"""


def without_cuobjdump() -> str:
    try:
        sass.find_cuobjdump()
    except ToolMissing as error:
        return error.message
    return missing()


def changed(old: str, new: str) -> Rendered:
    options = {"dtype": "bf16", "schedule": "wgmma", "tile": "64x64x64", "cluster": "2"}
    kernel = render(KernelSpec.make("gemm", "sm_90a", options))
    text = kernel.files[kernel.source]
    assert text.count(old) == 1, old
    text = text.replace(old, new)
    return dataclasses.replace(kernel, files={**kernel.files, kernel.source: text})


def test_only_the_innermost_loop_with_products_is_searched():
    assert not sass.fenced_loops(LISTING.format(arrive="SYNCS.ARRIVE.TRANS64 RZ, [R2+URZ], RZ"))
    for fence in ("MEMBAR.ALL.GPU", "MEMBAR.SC.GPU", "ERRBAR"):
        (loop,) = sass.fenced_loops(LISTING.format(arrive=fence))
        assert (loop.function, loop.first, loop.last) == ("tiles", 0x20, 0x40)
        assert loop.fence == f"/*0030*/ {fence}"
    assert not sass.fenced_loops(LISTING.format(arrive="MEMBAR.ALL.CTA"))


@pytest.mark.skipif(bool(without_cuobjdump()), reason=without_cuobjdump() or "-")
def test_a_qualified_arrive_in_the_loop_is_refused():
    arrive = "mbarrier.arrive.shared::cluster.b64 _, [remote]"
    build.require_no_spill(changed(arrive, arrive), target("sm_90a"))
    with pytest.raises(BuildError, match="drains memory in every round: /.*(MEMBAR|ERRBAR)"):
        kernel = changed(arrive, "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote]")
        build.require_no_spill(kernel, target("sm_90a"))


@pytest.mark.skipif(bool(missing()), reason=missing() or "-")
def test_serialised_products_are_refused():
    wait = "    wgmma_wait<1>();\n"
    with pytest.raises(BuildError, match="C75"):
        build.require_no_spill(changed(wait, f"    sums[0][0] += 1;\n{wait}"), target("sm_90a"))


@pytest.mark.parametrize("stem", ["128x128x64_s6_c2_pp", "128x256x64_s4_c2"])
def test_the_whole_of_a_plain_product_is_under_450_lines_of_code(stem):
    text = (ROOT / "generated" / "cuda" / f"gemm_bf16_tn_{stem}_sm90a.cu").read_text()
    lines = [line.strip() for line in text.splitlines()]
    assert sum(bool(line) and not line.startswith("//") for line in lines) < 450
