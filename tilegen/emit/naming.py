"""Names of a kernel: one function each for the stem, the symbol, the guard and the paths."""

from __future__ import annotations

import hashlib

from tilegen.emit.filters import c_ident
from tilegen.plans.base import Plan

# A line of the launcher names the symbol, and must fit in 100 columns.
LONGEST_STEM = 60


def stem(plan: Plan) -> str:
    """File stem, namespace and manifest key, such as `gemm_f16_tn_128x128x32_s3_sm80`."""
    words = [*plan.problem.tokens(), *plan.schedule.tokens()]
    target_word = plan.target.name.replace("_", "").replace("-", "_")
    if target_word != "portable":
        words.append(target_word)
    text = "_".join(words)
    if len(text) > LONGEST_STEM:
        digest = hashlib.sha256(text.encode()).hexdigest()[:6]
        text = f"{text[: LONGEST_STEM - 7].rstrip('_')}_{digest}"
    return c_ident(text)


def symbol(stem_text: str, prefix: str = "tilegen") -> str:
    """Name of the launcher in the linker's eyes."""
    return c_ident(f"{prefix}_{stem_text}")


def guard(stem_text: str, prefix: str = "tilegen") -> str:
    """Include guard of the header."""
    return f"{prefix}_{stem_text}_h".upper()


def paths(plan: Plan, stem_text: str) -> tuple[str, str]:
    """Source and header, relative to the output folder."""
    suffix = {"cuda": ".cu", "c_openmp": ".c"}[plan.target.backend]
    folder = plan.target.backend
    return f"{folder}/{stem_text}{suffix}", f"{folder}/{stem_text}.h"
