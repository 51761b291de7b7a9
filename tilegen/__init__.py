"""tilegen writes tiled GPU and CPU kernels as source a person would have written.

import numpy as np
import tilegen

kernel = tilegen.emit(tilegen.Gemm(dtype="f32", epilogue="bias_gelu"), target="portable")
print(kernel.source)
y = kernel(x, w, bias)
"""

from __future__ import annotations

import importlib
from typing import Any

# Public names and the modules they come from; imported when first used, so that `import tilegen` is quick.
_PUBLIC = {
    "Attention": "tilegen.problems.attention",
    "FormulaProblem": "tilegen.problems.formula",
    "Gemm": "tilegen.problems.gemm",
    "GemvGemm": "tilegen.schedules.gemm_gemv",
    "Kernel": "tilegen.kernel",
    "KernelSpec": "tilegen.spec",
    "MmaGemm": "tilegen.schedules.gemm_mma",
    "PackedGemm": "tilegen.schedules.gemm_packed",
    "SimtGemm": "tilegen.schedules.gemm_simt",
    "TilegenError": "tilegen.errors",
    "WgmmaGemm": "tilegen.schedules.gemm_wgmma",
    "emit": "tilegen.emit",
    "formula": "tilegen.formula",
    "load": "tilegen.runtime.bundle",
    "simulate": "tilegen.simulate",
    "target": "tilegen.targets",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tilegen' has no attribute '{name}'")
    module = importlib.import_module(_PUBLIC[name])
    # `emit`, `formula` and `simulate` are packages that can be called.
    return module if module.__name__ == f"tilegen.{name}" else getattr(module, name)
