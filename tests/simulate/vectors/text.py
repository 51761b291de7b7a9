"""Pieces of PTX that the kernels of several groups share."""

from __future__ import annotations

REGISTERS = (
    "  .reg .b64 %rd<32>; .reg .b32 %r<400>; .reg .b16 %h<8>; .reg .pred %p<8>; .reg .b32 %w<8>;"
)


def copy_in(parameter: str, size: int, at: int = 0, threads: int = 128) -> str:
    """Copy `size` bytes (a multiple of 16) from a global parameter to shared memory at `at`. Ends without a barrier."""
    label = f"IN_{parameter}_{at}"
    return f"""  ld.param.u64 %rd20, [{parameter}];
  mov.u32 %r300, %tid.x; shl.b32 %r300, %r300, 4;
  mov.u32 %r301, smem;
{label}:
  setp.lt.u32 %p7, %r300, {size};
  @!%p7 bra {label}_DONE;
  cvt.u64.u32 %rd21, %r300; add.u64 %rd21, %rd21, %rd20;
  ld.global.v4.b32 {{%r302, %r303, %r304, %r305}}, [%rd21];
  add.u32 %r306, %r301, %r300;
  st.shared.v4.b32 [%r306+{at}], {{%r302, %r303, %r304, %r305}};
  add.u32 %r300, %r300, {threads * 16};
  bra {label};
{label}_DONE:"""


def fill_shared(size: int, word: int, threads: int = 128) -> str:
    """Fill the first `size` bytes of shared memory with a 32-bit word."""
    return f"""  mov.u32 %r300, %tid.x; shl.b32 %r300, %r300, 2;
  mov.u32 %r301, smem; mov.u32 %r302, {word};
FILL:
  setp.lt.u32 %p7, %r300, {size};
  @!%p7 bra FILL_DONE;
  add.u32 %r306, %r301, %r300;
  st.shared.b32 [%r306], %r302;
  add.u32 %r300, %r300, {threads * 4};
  bra FILL;
FILL_DONE:"""


def copy_out(size: int, threads: int = 128, each_block: bool = False) -> str:
    """Copy the first `size` bytes of shared memory to the output, one part a block where asked."""
    offset = (
        f"  mov.u32 %r307, %ctaid.x; mad.wide.u32 %rd20, %r307, {size}, %rd20;\n"
        if each_block
        else ""
    )
    return f"""  ld.param.u64 %rd20, [out];
{offset}  mov.u32 %r300, %tid.x; shl.b32 %r300, %r300, 4;
  mov.u32 %r301, smem;
OUT:
  setp.lt.u32 %p7, %r300, {size};
  @!%p7 bra OUT_DONE;
  cvt.u64.u32 %rd21, %r300; add.u64 %rd21, %rd21, %rd20;
  add.u32 %r306, %r301, %r300;
  ld.shared.v4.b32 {{%r302, %r303, %r304, %r305}}, [%r306];
  st.global.v4.b32 [%rd21], {{%r302, %r303, %r304, %r305}};
  add.u32 %r300, %r300, {threads * 16};
  bra OUT;
OUT_DONE:
  ret;"""


def store_registers(names: list[str], threads: int) -> str:
    """Store 32-bit registers to the output: register i of thread t at word i * threads + t."""
    lines = [
        "  ld.param.u64 %rd20, [out];",
        "  mov.u32 %r300, %tid.x; mad.wide.u32 %rd20, %r300, 4, %rd20;",
    ]
    lines += [f"  st.global.b32 [%rd20+{4 * threads * i}], {name};" for i, name in enumerate(names)]
    return "\n".join(lines + ["  ret;"])


def load_registers(parameter: str, names: list[str], threads: int) -> str:
    """The inverse of store_registers, from an input."""
    lines = [
        f"  ld.param.u64 %rd22, [{parameter}];",
        "  mov.u32 %r308, %tid.x; mad.wide.u32 %rd22, %r308, 4, %rd22;",
    ]
    lines += [f"  ld.global.b32 {name}, [%rd22+{4 * threads * i}];" for i, name in enumerate(names)]
    return "\n".join(lines)


def wait(address: str, parity: int, label: str) -> str:
    """Wait for a phase, at most 2000 tries on hardware: a kernel that would hang writes a wrong result instead."""
    return f"""  mov.u32 %r310, 0;
{label}:
  mbarrier.try_wait.parity.shared::cta.b64 %p6, [{address}], {parity};
  @%p6 bra {label}_DONE;
  add.u32 %r310, %r310, 1;
  setp.lt.u32 %p5, %r310, 2000;
  @%p5 bra {label};
{label}_DONE:"""


def braces(names: list[str]) -> str:
    return "{" + ", ".join(names) + "}"
