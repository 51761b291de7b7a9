"""Literals in the type that they are computed in; their text depends on no locale."""

from __future__ import annotations

import numpy as np

from tilegen.emit.filters import c_float
from tilegen.values import BOOL, F32, F64, I64, DType


def literal(value: int | float | bool, kind: DType) -> str:
    """The C literal of a value: `1.0f`, `1.0`, `98`, `INT64_C(5000000000)`, `-INFINITY`, `NAN`.

    A float that float32 cannot hold prints as what it rounds to, so that no compiler warns.
    """
    if kind in (F32, F64):
        if kind == F32:
            with np.errstate(over="ignore", under="ignore"):
                rounded = float(np.float32(value))
            if rounded == 0.0 or not np.isfinite(rounded):
                value = rounded
        return c_float(float(value), "f" if kind == F32 else "")
    if kind == BOOL:
        return "1" if value else "0"
    number = int(value)
    if number == -(2**63):
        return "INT64_MIN"
    if number == -(2**31):
        return "INT32_MIN" if kind != I64 else "INT64_C(-2147483648)"
    return str(number) if abs(number) < 2**31 else f"INT64_C({number})"
