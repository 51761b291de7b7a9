"""Checks that need no run: they see paths that a run does not take."""

from pathlib import Path

import pytest

from tilegen.simulate import SimulationError, compile_ptx
from tilegen.simulate.parse import parse
from tilegen.simulate.static import check

KERNELS = Path(__file__).parent / "kernels"


def product(old: str = "", new: str = "") -> list[str]:
    ptx = compile_ptx(KERNELS / "warpgroup_product.cu", "90a")
    assert old in ptx
    (kernel,) = parse(ptx.replace(old, new) if old else ptx).kernels.values()
    return [finding.message for finding in check(kernel)]


def test_a_correct_kernel_is_silent():
    assert product() == []


def test_a_missing_wait_is_seen_at_the_first_use_of_the_sums():
    messages = product("wgmma.wait_group.sync.aligned 0;")
    assert messages and all(
        "before the wait that covers it" in m and "st.global" in m for m in messages
    )


def test_a_missing_fence_is_seen_at_the_wgmma():
    messages = product("wgmma.fence.sync.aligned;")
    assert messages and all("no wgmma.fence" in m for m in messages)


def test_a_wait_at_the_cluster_barrier_without_an_arrival_is_seen():
    ptx = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k() {
  barrier.cluster.wait.acquire.aligned;
  ret;
}"""
    (finding,) = check(parse(ptx).kernels["k"])
    assert "no barrier.cluster.arrive" in finding.message


def test_scopes_of_inline_assembly_keep_their_names_apart():
    ptx = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
  .reg .b32 %r<3>;
  { .reg .pred p; .reg .b32 t; mov.b32 t, 1; L: setp.ne.s32 p, t, 0; @p bra L; }
  { .reg .b32 t; mov.b32 t, -2; L: bra.uni L; }
  ret;
}"""
    kernel = parse(ptx).kernels["k"]
    names = [register.name for register in kernel.registers]
    assert len(names) == len(set(names)) == 3
    first, second = [i.operands[-1].name for i in kernel.instructions if i.opcode.startswith("bra")]
    assert (kernel.labels[first], kernel.labels[second]) == (1, 4)


def test_only_the_wanted_bodies_are_read():
    ptx = compile_ptx(KERNELS / "misuse.cu", "90a")
    kernels = parse(ptx, "misaligned").kernels
    assert [name for name, kernel in kernels.items() if kernel.instructions] == ["misaligned"]
    assert len(kernels) > 5


def test_text_that_is_not_ptx_is_refused():
    with pytest.raises(SimulationError, match="cannot read near"):
        parse("int main() { return 0; }")
