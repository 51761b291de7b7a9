"""Names of the WgmmaGemm templates beyond the plan's: the epilogue for two neighbouring results."""

from __future__ import annotations

import dataclasses
from typing import Any

from tilegen.emit import gemm, tensors
from tilegen.emit.c_expr import print_statements
from tilegen.emit.filters import listed
from tilegen.plans.gemm_wgmma import WgmmaGemmPlan
from tilegen.problems.base import Tensor
from tilegen.problems.gemm import Gemm
from tilegen.values import F32


def context(plan: WgmmaGemmPlan) -> dict[str, Any]:
    """Template names of the epilogue as a function of values, and of what its kernel is given."""
    problem: Gemm = plan.problem
    arrays = [t for t in problem.tensors() if t.name not in ("a", "b")]
    values = tensors.assignments(arrays, problem.scalars(), True)
    return {
        "includes": sorted({*gemm.context(plan)["includes"], "<cuda.h>", "<cudaTypedefs.h>"}),
        "batch_argument": ", at.batch" if problem.batched else "",
        "map_parameters": _map_parameters(problem),
        **(_pair(plan, arrays) if plan.staged else {}),
        **_launch(plan, values),
    }


def _map_parameters(problem: Gemm) -> list[str]:
    return [
        "CUtensorMap *map",
        "CUtensorMapDataType type",
        "int64_t element_bytes",
        "const void *address",
        "int64_t columns",
        "int64_t rows",
        "int64_t row_stride",
        *(["int64_t matrices", "int64_t matrix_stride"] if problem.batched else []),
        "uint32_t box_columns",
        "uint32_t box_rows",
        "CUtensorMapSwizzle swizzle",
    ]


def _pair(plan: WgmmaGemmPlan, arrays: list[Tensor]) -> dict[str, Any]:
    """The formula as a function of values, called for two neighbouring results."""
    problem: Gemm = plan.problem
    reads = [t for t in arrays if t.is_read]
    scalars = problem.scalars()
    loads = [(t.name, *_load(t, plan.swap)) for t in reads]
    names = {"acc": "acc", **{t.name: f"{t.name}_at" for t in reads}}
    names |= {s.name: f"e.{s.name}" for s in scalars}
    # The formula in float32: operands come converted, and the caller rounds the result.
    wide = dataclasses.replace(problem, out_dtype=F32, operands=_operand_types(problem))
    printed = print_statements(
        wide.typed, "cuda", names, {"c": "return {value};"}, loaded={t.name: F32 for t in reads}
    )
    parameters = ["const Epilogue &e"] if scalars else []
    parameters += ["float acc", *(f"float {t.name}_at" for t in reads)]
    sums = ("low", "high") if reads else ("pair[0]", "pair[1]")
    return {
        "c_place": _place(next(t for t in arrays if t.name == "c")),
        "value_helpers": printed.helper_texts,
        "value_members": tensors.members(arrays, scalars, True),
        "value_loaders": sorted({kind for _, kind, _ in loads}),
        "value_parameters": parameters,
        "value_body": printed.lines,
        "value_loads": [
            listed(f"const float2 {name}_at = {kind}(", words, ");", 2)
            for name, kind, words in loads
        ],
        "pair_calls": [_call(s, reads, h, bool(scalars)) for s, h in zip(sums, "xy")],
        "pair_place": (
            "rows m and m + 1 of column n" if plan.swap else "columns n and n + 1 of row m"
        ),
        "pair_left": "shape.m - m" if plan.swap else "shape.n - n",
        "pair_inside": "n < shape.n" if plan.swap else "m < shape.m",
    }


def _operand_types(problem: Gemm) -> str:
    return ",".join(f"{name}:{kind}" for name, kind in problem.typed.operands.items())


def _place(tensor: Tensor) -> str:
    return tensors.element(tensor, "e.").replace("batch *", "at.batch *")


def _load(tensor: Tensor, swap: int) -> tuple[str, list[str]]:
    """The function that reads an operand for two neighbouring results, and its arguments."""
    place = _place(tensor)
    kind = "load_twice"
    if "m" in tensor.dims and "n" in tensor.dims:
        kind = "load_column" if swap else "load_pair"
    elif tensor.dims and tensor.dims[-1] == ("m" if swap else "n"):
        kind = "load_pair"
    stride = [f"e.{tensor.strides[-1]}"] if kind == "load_column" else []
    return kind, [f"&{place}", *stride, "valid"]


def _call(value: str, reads: list[Tensor], half: str, scalars: bool) -> str:
    words = ["e"] if scalars else []
    return f"result({', '.join([*words, value, *(f'{t.name}_at.{half}' for t in reads)])})"


def _launch(plan: WgmmaGemmPlan, values: list[str]) -> dict[str, Any]:
    """What passes from the launcher through the kernel to the store."""
    maps = ["map_a", "map_b"] + (["map_c"] if plan.staged else [])
    stores = ["map_c"] if plan.staged else []
    parameters = ["const CUtensorMap *map_c"] if plan.staged else []
    stores.append("e")
    parameters.append("const Epilogue &e")
    kernel = [f"const __grid_constant__ CUtensorMap {m}" for m in maps] + ["const Shape shape"]
    kernel.append("const Epilogue e")
    arguments = [*maps, "shape", "epilogue"]
    lines = ["Epilogue epilogue = {};", *(f"epilogue.{v};" for v in values)]
    inner = ["shape", "at", "consumer"] if plan.staged else ["shape", "at"]
    shared = ["SharedStorage &shared"]
    place = ["const Shape &shape", "const Position &at", *(["int consumer"] if plan.staged else [])]
    return {
        "consume_parameters": [*shared, *parameters, "const Shape &shape", "int consumer"],
        "consume_arguments": [
            "shared",
            *("&map_c" if s == "map_c" else s for s in stores),
            "shape",
            "warpgroup - 1",
        ],
        "store_parameters": [
            *(shared if plan.staged else []),
            *parameters,
            *place,
            "const Sum (&sums)[kMmas][kSums]",
        ],
        "store_arguments": [*(["shared"] if plan.staged else []), *stores, *inner, "sums"],
        "kernel_parameters": kernel,
        "launch_arguments": ["&config", "kernel", *arguments],
        "epilogue_value": lines,
    }
