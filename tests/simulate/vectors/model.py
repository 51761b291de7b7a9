"""A vector: one tiny PTX kernel for one form, its inputs, and how its output is compared with hardware's."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n\n"
SAMPLES = 1024
THREADS = 256


@dataclass(frozen=True)
class Map:
    """A tensor map over a buffer: `buffer` is the index of an input, or -1 for the output."""

    buffer: int
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...] = ()
    element_strides: tuple[int, ...] = ()
    swizzle: str = "none"
    interleave: str = "none"
    fill: str = "zeros"
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0

    @property
    def steps(self) -> tuple[int, ...]:
        return self.element_strides or (1,) * len(self.dims)


@dataclass(frozen=True)
class Vector:
    """One kernel. Parameters: a pointer for each input, the output's pointer, the tensor maps.

    Attributes:
        name: of the PTX entry.
        inputs: names in the pool of input arrays.
        output: bytes; filled with 0xcd before the launch.
        compare: "bits", or the dtype of the output elements for a bound.
        ulp: units in the last place allowed; absolute: allowed beside that.
    """

    name: str
    ptx: str
    inputs: tuple[str, ...]
    output: int
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (128, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared: int = 0
    maps: tuple[Map, ...] = ()
    compare: str = "bits"
    ulp: float = 0
    absolute: float = 0


@dataclass
class Group:
    """Vectors that share a PTX module and a file of recorded outputs."""

    name: str
    vectors: list[Vector] = field(default_factory=list)

    @property
    def uses_shared(self) -> bool:
        return any(vector.shared for vector in self.vectors)

    @property
    def ptx(self) -> str:
        shared = ".extern .shared .align 1024 .b8 smem[];\n" if self.uses_shared else ""
        return HEAD + shared + "\n".join(vector.ptx for vector in self.vectors)

    def add(self, vector: Vector) -> None:
        if any(other.name == vector.name for other in self.vectors):
            raise ValueError(f"two vectors are named {vector.name}")
        self.vectors.append(vector)


def identifier(text: str) -> str:
    return "v_" + "".join(c if c.isalnum() else "_" for c in text)


def entry(name: str, inputs: int, body: str, *, maps: int = 0, directives: str = "") -> str:
    """An entry whose parameters are p0.. (inputs), out, and map0.. ."""
    parameters = [f".param .u64 p{i}" for i in range(inputs)] + [".param .u64 out"]
    parameters += [f".param .align 128 .b8 map{i}[128]" for i in range(maps)]
    return f".visible .entry {name}({', '.join(parameters)}) {directives}\n{{\n{body}\n}}\n"


def bits_of(pool: str) -> int:
    """Bits of an element of a pool, by its name's prefix."""
    prefix = pool.split(".")[0]
    return {"i16": 16, "f16": 16, "bf16": 16, "i64": 64, "f64": 64}.get(prefix, 32)


def scalar(
    group: Group,
    form: str,
    body: str,
    inputs: tuple[str, ...],
    out: int = 32,
    regs: str = "",
    compare: str = "bits",
    ulp: float = 0,
    absolute: float = 0,
    suffix: str = "",
) -> None:
    """A vector that applies `body` to each of 1024 samples; $d is the result, $0.. the operands, `out` the result's bits."""
    name = identifier(form + suffix)
    lines = [
        "  .reg .b64 %rd<16>; .reg .b32 %r<8>; .reg .pred %p<4>;",
        f"  .reg .b{max(out, 16)} %d;",
        *(f"  .reg .b{bits_of(pool)} %s{i};" for i, pool in enumerate(inputs)),
        f"  {regs}" if regs else "",
        "  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x;",
        f"  mad.lo.u32 %r2, %r0, {THREADS}, %r1;",
    ]
    for i, pool in enumerate(inputs):
        bits = bits_of(pool)
        lines.append(f"  ld.param.u64 %rd{i}, [p{i}];")
        lines.append(f"  mad.wide.u32 %rd{i}, %r2, {bits // 8}, %rd{i};")
        lines.append(f"  ld.global.b{bits} %s{i}, [%rd{i}];")
        body = body.replace(f"${i}", f"%s{i}")
    lines.append("  " + body.replace("$d", "%d"))
    lines.append("  ld.param.u64 %rd9, [out];")
    lines.append(f"  mad.wide.u32 %rd9, %r2, {out // 8}, %rd9;")
    lines.append(f"  st.global.b{out} [%rd9], %d;")
    lines.append("  ret;")
    group.add(
        Vector(
            name,
            entry(name, len(inputs), "\n".join(line for line in lines if line.strip())),
            inputs,
            SAMPLES * out // 8,
            grid=(SAMPLES // THREADS, 1, 1),
            block=(THREADS, 1, 1),
            compare=compare,
            ulp=ulp,
            absolute=absolute,
        )
    )


def expected_difference(vector: Vector, got: np.ndarray, want: np.ndarray) -> str:
    """ "" where `got` is within the vector's bound of `want` (both uint8 [output]), else what differs."""
    if vector.compare == "bits":
        wrong = np.flatnonzero(got != want)
        if not wrong.size:
            return ""
        at = int(wrong[0])
        lo = at // 4 * 4
        return (
            f"{vector.name}: {wrong.size} of {got.size} bytes differ, first at byte {at}: "
            f"{got[lo:lo + 4].tobytes()[::-1].hex()} for {want[lo:lo + 4].tobytes()[::-1].hex()}"
        )
    import ml_dtypes

    dtype = np.dtype({"bf16": ml_dtypes.bfloat16}.get(vector.compare, vector.compare))
    g, w = got.view(dtype), want.view(dtype)
    g64, w64 = g.astype(np.float64), w.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        finfo = ml_dtypes.finfo(dtype)
        spacing = np.maximum(np.abs(w64), float(finfo.smallest_normal)) * float(finfo.eps)
        bound = vector.ulp * np.where(np.isfinite(spacing), spacing, 0) + vector.absolute
        same = (g64 == w64) | (np.isnan(g64) & np.isnan(w64)) | (np.abs(g64 - w64) <= bound)
    if same.all():
        return ""
    at = int(np.flatnonzero(~same)[0])
    return (
        f"{vector.name}: {np.count_nonzero(~same)} of {same.size} outside {vector.ulp} ulp + "
        f"{vector.absolute}, first at {at}: {g64[at]!r} for {w64[at]!r}"
    )
