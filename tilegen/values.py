"""Small frozen value types that parse from text and print back: DType, Layout, Tile."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tilegen.errors import UsageError


@dataclass(frozen=True)
class DType:
    """An element type.

    Attributes:
        name: the name used on the command line, in stems and in formulas, such as `bf16`.
        bits: storage size of an element in bits.
        numpy: the NumPy type that holds an element (`ml_dtypes` for bf16 and fp8).
        c: the type of an element in emitted C (half and fp8 types are stored as their bits).
        cuda: the type of an element in emitted CUDA C.
        kind: `float`, `int` or `bool`.
        mantissa: bits of a float's fraction, implicit one not counted; 0 for the others.
    """

    name: str
    bits: int
    numpy: np.dtype
    c: str
    cuda: str
    kind: str
    mantissa: int = 0

    @property
    def bytes(self) -> int:
        """Storage size of an element in bytes."""
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def epsilon(self) -> float:
        """Distance from 1 to the next value: 2 ** -mantissa; 0 for exact types."""
        return 2.0**-self.mantissa if self.is_float else 0.0

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


def _float(name: str, bits: int, numpy: object, c: str, cuda: str, mantissa: int) -> DType:
    return DType(name, bits, np.dtype(numpy), c, cuda, "float", mantissa)


F64 = _float("f64", 64, np.float64, "double", "double", 52)
F32 = _float("f32", 32, np.float32, "float", "float", 23)
TF32 = _float("tf32", 32, np.float32, "float", "float", 10)
F16 = _float("f16", 16, np.float16, "uint16_t", "__half", 10)
BF16 = _float("bf16", 16, ml_dtypes.bfloat16, "uint16_t", "__nv_bfloat16", 7)
E4M3 = _float("e4m3", 8, ml_dtypes.float8_e4m3fn, "uint8_t", "__nv_fp8_e4m3", 3)
E5M2 = _float("e5m2", 8, ml_dtypes.float8_e5m2, "uint8_t", "__nv_fp8_e5m2", 2)
I8 = DType("i8", 8, np.dtype(np.int8), "int8_t", "int8_t", "int")
U8 = DType("u8", 8, np.dtype(np.uint8), "uint8_t", "uint8_t", "int")
I32 = DType("i32", 32, np.dtype(np.int32), "int32_t", "int32_t", "int")
I64 = DType("i64", 64, np.dtype(np.int64), "int64_t", "int64_t", "int")
BOOL = DType("bool", 8, np.dtype(np.bool_), "uint8_t", "uint8_t", "bool")

DTYPES = {t.name: t for t in (F64, F32, TF32, F16, BF16, E4M3, E5M2, I8, U8, I32, I64, BOOL)}


def nearest(word: str, known: object) -> str:
    """Return ` (did you mean 'x'?)` for the closest of the known words, or an empty string."""
    close = difflib.get_close_matches(word, [str(k) for k in known], n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def dtype(name: str | DType) -> DType:
    """Look an element type up by name.

    Raises:
        UsageError: the name is none of ours; the message lists them.
    """
    if isinstance(name, DType):
        return name
    if name not in DTYPES:
        raise UsageError(
            f"unknown dtype '{name}'{nearest(name, DTYPES)}", f"Known: {' '.join(sorted(DTYPES))}"
        )
    return DTYPES[name]


@dataclass(frozen=True)
class Layout:
    """How A and B of a GEMM are stored, in BLAS letters for column-major BLAS; C is row-major [M,N].

    First letter, A: `t` is [M,K] (K contiguous), `n` is [K,M] (M contiguous).
    Second letter, B: `n` is [N,K] (K contiguous), `t` is [K,N] (N contiguous).
    So `tn` is x @ w.T of two row-major matrices, and `tt` is x @ w.
    """

    a: str
    b: str

    @classmethod
    def parse(cls, text: str | Layout) -> Layout:
        """Read `tn`, `tt`, `nn` or `nt`. Raises UsageError for anything else."""
        if isinstance(text, Layout):
            return text
        if len(text) != 2 or set(text) - {"n", "t"}:
            raise UsageError(
                f"unknown layout '{text}'",
                "Layouts: tn (A[M,K] B[N,K], x @ w.T), tt (A[M,K] B[K,N], x @ w), "
                "nn (A[K,M] B[N,K]), nt (A[K,M] B[K,N])",
            )
        return cls(text[0], text[1])

    @property
    def a_dims(self) -> tuple[str, str]:
        """Stored order of A's indices, outer first."""
        return ("m", "k") if self.a == "t" else ("k", "m")

    @property
    def b_dims(self) -> tuple[str, str]:
        """Stored order of B's indices, outer first."""
        return ("n", "k") if self.b == "n" else ("k", "n")

    def __str__(self) -> str:
        return self.a + self.b


@dataclass(frozen=True)
class Tile:
    """A block of the iteration space in elements, such as 128x128x32 (M x N x K)."""

    extents: tuple[int, ...]

    @classmethod
    def parse(cls, text: str | Tile | Sequence[int], rank: int = 0) -> Tile:
        """Read `128x128x32`, or the integers themselves.

        Args:
            text: positive integers joined by `x`, or a sequence of them.
            rank: how many there must be; 0 for any number.

        Raises:
            UsageError: not that shape of text.
        """
        if isinstance(text, Tile):
            return text
        text = text if isinstance(text, str) else "x".join(map(str, text))
        words = text.lower().split("x")
        if not all(w.isdigit() and int(w) > 0 for w in words) or (rank and len(words) != rank):
            example = "x".join(["128", "128", "32", "2"][: rank or 3])
            count = f"{rank} positive integers" if rank else "positive integers"
            raise UsageError(f"'{text}' is not a tile", f"A tile is {count}, such as {example}.")
        return cls(tuple(int(w) for w in words))

    def __getitem__(self, i: int) -> int:
        return self.extents[i]

    def __len__(self) -> int:
        return len(self.extents)

    def __iter__(self):
        return iter(self.extents)

    def __str__(self) -> str:
        return "x".join(str(e) for e in self.extents)
