"""Names of the WgmmaGemm templates beyond the plan's: the epilogue as a function of values."""

from __future__ import annotations

import dataclasses
from typing import Any

from tilegen.emit import gemm, gemm_rows, tensors
from tilegen.emit.c_expr import print_statements, shortened
from tilegen.plans.gemm_wgmma import WgmmaGemmPlan
from tilegen.problems.base import Tensor
from tilegen.problems.gemm import Gemm
from tilegen.schedules.gemm_wgmma import SPAN_BYTES
from tilegen.values import F32

# How the producer comes from tile to tile, or from piece to piece where tiles are cut.
_TILE_WALK = (
    "for (int tile = blockIdx.x / kCluster; tile < shape.tiles; tile += gridDim.x / kCluster) {",
    "  const Position at = tile_position(shape, tile);",
)
_STREAM_WALK = (
    "Walk walk(shape);",
    "for (Piece piece; walk.next(shape, piece);) {",
    "  const Position at = tile_position(shape, piece.tile);",
)


def context(plan: WgmmaGemmPlan) -> dict[str, Any]:
    """Template names of the epilogue as a function of values, and of what its kernel is given."""
    problem: Gemm = plan.problem
    arrays = [t for t in problem.tensors() if t.name not in problem.product_arrays]
    tiled = next((t for t in arrays if t.name == plan.tile_operand), None)
    return {
        "includes": sorted({*gemm.context(plan)["includes"], "<cuda.h>", "<cudaTypedefs.h>"}),
        "unit": 16 // problem.storage.bytes,
        "line": SPAN_BYTES // problem.storage.bytes,
        "outer_index": "batch, " if problem.batched else "part, " if plan.parts_of_k > 1 else "",
        "tiles_factor": (
            " * static_cast<int>(batch)"
            if problem.batched
            else " * kParts" if plan.parts_of_k > 1 else ""
        ),
        "sum_bytes": 4,
        "tile_walk": _STREAM_WALK if plan.stream else _TILE_WALK,
        "workspace_sizes": [s.name for s in problem.sizes()],
        "batch_argument": ", at.batch" if problem.batched else "",
        "batch_words": ["at.batch"] if problem.batched else [],
        "barrier_words": _barrier_words(plan),
        # What a plan hides because consumers in turn do not read it: those that share a tile do.
        **({"x_index": plan.x_index} if "x_index" in plan.hidden else {}),
        **_maps(plan, tiled),
        **(_values(plan, arrays) if plan.staged else {}),
        **_launch(plan, tensors.assignments(arrays, problem.scalars(), True)),
    }


def _maps(plan: WgmmaGemmPlan, tiled: Tensor | None) -> dict[str, Any]:
    """The tensor maps: what encodes one, and a call for each."""
    problem: Gemm = plan.problem
    batched = problem.batched
    # Where staging takes the widest swizzle, as the operands do, there is nothing to choose.
    stored = bool(plan.tma_c or tiled)
    narrow = stored and plan.chunk_bytes != SPAN_BYTES
    # Where results have the operands' type, so have all maps.
    alike = not stored or plan.map_output == plan.map_element
    parameters = [
        "CUtensorMap *map",
        *([] if alike else ["CUtensorMapDataType type", "int64_t element_bytes"]),
        "const void *address",
        "int64_t columns",
        "int64_t rows",
        "int64_t row_stride",
        *(["int64_t matrices", "int64_t matrix_stride"] if batched else []),
        "uint32_t box_columns",
        "uint32_t box_rows",
        *(["CUtensorMapSwizzle swizzle"] if narrow else []),
    ]

    def call(
        name: str, kind: str, element: str, what: tuple[str, ...], span: int
    ) -> tuple[str, ...]:
        address, columns, rows, stride, matrix_stride, *box = what
        matrices = ["batch", matrix_stride] if batched else []
        swizzle = [f"CU_TENSOR_MAP_SWIZZLE_{span}B"] if narrow else []
        where = [address, columns, rows, stride, *matrices, *box, *swizzle]
        typed = [] if alike else [kind, f"sizeof({element})"]
        return (f"&map_{name}", *typed, *where)

    depth = "k" if problem.skips_sum_when_zero is None else "depth"
    calls = []
    right = (problem.layout.b_dims, plan.b_box)
    for name, array, stride, dims, box in (
        ("a", "a", "lda", problem.layout.a_dims, plan.a_box),
        ("b", "b", "ldb", *right),
        *((("gate", "b_gate", "ld_b_gate", *right),) if plan.gated else ()),
    ):
        rows, columns = (depth if d == "k" else d for d in dims)
        what = (array, columns, rows, stride, f"stride_{name}", *box)
        calls.append(call(name, plan.map_element, "Element", what, SPAN_BYTES))
    staged = ("kChunkN", "kStagingRows")
    if plan.tma_c:
        made = _tile_output(problem)
        outer, stride = made.strides[0], made.strides[-1]
        what = (made.name, "n / kPiece * kPiece", "m", stride, outer, *staged)
        calls.append(call("c", plan.map_output, "Output", what, plan.chunk_bytes))
    if tiled:
        stride, outer = tiled.strides[-1], tiled.strides[0]
        what = (tiled.name, "n", "m", stride, outer, *staged)
        calls.append(call("operand", plan.map_output, "Output", what, plan.chunk_bytes))
    return {
        "map_parameters": parameters,
        "map_swizzle": "swizzle" if narrow else "CU_TENSOR_MAP_SWIZZLE_128B",
        "map_calls": calls,
        "map_type": plan.map_element if alike else "type",
        "same_bytes": problem.storage.bytes if alike else 0,
        "depth": depth,
    }


def _values(plan: WgmmaGemmPlan, arrays: list[Tensor]) -> dict[str, Any]:
    """The formula as a function of values, called for two neighbouring results."""
    problem: Gemm = plan.problem
    reads = [t for t in arrays if t.is_read]
    scalars = problem.scalars()
    sums = list(problem.typed.specials)
    names = {**{name: name for name in sums}, **{t.name: f"{t.name}_at" for t in reads}}
    names |= {s.name: f"e.{s.name}" for s in scalars}
    # The formula in float32: operands come converted, and the caller rounds the result.
    types = ",".join(f"{name}:{kind}" for name, kind in problem.typed.operands.items())
    wide = dataclasses.replace(problem, out_dtype=F32, operands=types)
    made = _tile_output(problem)
    rows = gemm_rows.context(plan)["rows"]
    names |= {row.partial: row.partial for row in rows}
    # What has to come after the result is known comes before it is returned.
    stores = {made.name: f"const float stored = {{value}};" if rows else "return {value};"}
    stores |= {
        name: f"{partial} = exists ? {{value}} : {partial};"
        for name, partial in gemm_rows.partial_stores(problem).items()
    }
    printed = print_statements(
        wide.elements, "cuda", names, stores, loaded={t.name: F32 for t in reads}
    )
    parameters = ["const Epilogue &e"] if scalars else []
    parameters += [f"{problem.accumulator.cuda} {name}" for name in sums]
    parameters += [f"float {t.name}_at" for t in reads]
    parameters += ["bool exists", *(f"{row.type} &{row.partial}" for row in rows)] if rows else []
    return {
        # A reduction that is kept in float32 has more digits than a 16-bit result.
        "value_helpers": (
            shortened(printed.helper_texts) if problem.typed.is_short else printed.helper_texts
        ),
        "value_members": tensors.members(arrays, scalars, True)
        + gemm_rows.context(plan)["row_members"],
        "value_parameters": parameters,
        "value_body": [*printed.lines, *(["return stored;"] if rows else [])],
        "value_reads": [_read(plan, t.name, t.dims[0]) for t in reads if len(t.dims) == 1],
        "sum_places": _sum_places(plan),
        "value_arguments": [_arguments(plan, reads, bool(scalars), half) for half in (0, 1)],
        "value_calls": [
            f"result({', '.join(_arguments(plan, reads, bool(scalars), half))})" for half in (0, 1)
        ],
        "c_place": tensors.element(made, "e.").replace("batch *", "at.batch *"),
    }


def _tile_output(problem: Gemm) -> Tensor:
    """The array of the result: of the outputs, the one with columns."""
    return next(t for t in problem.tensors() if t.is_written and "n" in t.dims)


def _barrier_words(plan: WgmmaGemmPlan) -> str:
    """Name of the mbarrier that lies `at` elements behind the first `full` one, and its number."""
    if plan.tile_operand:
        name, number = 'at < 0 ? "operand" : (at < kStages ? "full" : "empty")', "at + kConsumers"
        return f"{name},\n             at < 0 ? {number} : at % kStages"
    return 'at < kStages ? "full" : "empty", at % kStages'


def _read(plan: WgmmaGemmPlan, name: str, index: str) -> str:
    """The value of a vector for a pair of neighbouring results: one, or two side by side."""
    if plan.swap:
        row, column = "i * 16 + sum_row + j / 2 * 8", "chunk * 64 + sum_column + j % 2 * 8"
    else:
        row, column = "mma * 64 + sum_row + j % 2 * 8", "first + i * 16 + sum_column + j / 2 * 8"
    at = f"&shared.{name}[consumer][{row if index == 'm' else column}]"
    return f"const float *{name}_at = {at};"


def _sum_places(plan: WgmmaGemmPlan) -> list[str]:
    """Where a thread's sums begin in its consumer's part of the tile, as far as vectors ask for it."""
    across, along = "thread % 4 * 2", "thread / 32 * 16 + thread % 32 / 4"
    row, column = (across, along) if plan.swap else (along, across)
    indices = {index for _, index, _ in plan.vectors}
    lines = ["// Where this thread's sums begin."] if indices else []
    lines += [f"const int sum_row = {row};"] if "m" in indices else []
    lines += [f"const int sum_column = {column};"] if "n" in indices else []
    return lines


def _arguments(plan: WgmmaGemmPlan, reads: list[Tensor], scalars: bool, half: int) -> list[str]:
    """What the formula is given for one of two neighbouring results."""
    along = "m" if plan.swap else "n"
    words = ["e"] if scalars else []
    words.append(f"pair[{half}]")
    if plan.gated:
        words.append("pair[kSums / 2 + 1]" if half else "pair[kSums / 2]")
    for tensor in reads:
        if len(tensor.dims) == 1:
            words.append(f"{tensor.name}_at[{half if tensor.dims[0] == along else 0}]")
        else:
            words.append(f"{tensor.name}_at.{'xy'[half]}")
    if rows := gemm_rows.context(plan)["rows"]:
        words.append("column + 1 < left" if half else "column < left")
        words += [f"{row.partial}[mma][j % 2]" for row in rows]
    return words


def _launch(plan: WgmmaGemmPlan, values: list[str]) -> dict[str, Any]:
    """What passes from the launcher through the kernel to the store."""
    operand = ["map_operand"] if plan.tile_operand else []
    stores = ["map_c"] if plan.tma_c else []
    loads = ["map_a", "map_b", *(["map_gate"] if plan.gated else [])]
    maps = [*loads, *stores, *operand]
    map_parameters = {m: f"const CUtensorMap *{m}" for m in maps}
    shared = "SharedStorage &shared"
    turn = ["int other_turn"] if plan.pingpong else []
    scales = ["const Scales &scales"] if plan.scaled else []
    walk = ["int steps", "int first", *turn]
    if plan.scaled:
        walk = ["const Shape &shape", "int first", "const Position &at", *scales]
    sums = "Sum (&sums)[kMmas][kSums]"
    tile = ["const Shape &shape", "const Position &at", *(["int consumer"] if plan.staged else [])]
    head = [shared] if plan.staged else []
    parity = ["parity"] if plan.tile_operand else []
    inner = ["shape", "at", *(["consumer"] if plan.staged else [])]
    # What the tiles are written with; parts of K pass through the workspace first.
    what, how, given = ("e", "const Epilogue &e", "epilogue")
    if plan.parts_of_k > 1:
        what, how, given = ("workspace", "Sum *workspace", "static_cast<Sum *>(workspace)")
    # And, where tiles are cut, where their sums meet.
    meets = ["workspace"] if plan.stream else []
    return {
        "map_declarations": [f"{m} = {{}}" for m in maps],
        "load_maps": loads,
        "produce_parameters": [shared, *(map_parameters[m] for m in loads), "const Shape &shape"],
        "produce_arguments": ["shared", *(f"&{m}" for m in loads), "shape"],
        "multiply_parameters": [shared, "Ring &ring", *walk, sums],
        "consume_parameters": [
            shared,
            *(map_parameters[m] for m in [*stores, *operand]),
            how,
            *(f"const Workspace &{name}" for name in meets),
            *scales,
            "const Shape &shape",
            "int consumer",
        ],
        "consume_arguments": [
            "shared",
            *(f"&{m}" for m in [*stores, *operand]),
            what,
            *meets,
            *(["scales"] if scales else []),
            "shape",
            "warpgroup - 1",
        ],
        "prefetch_parameters": [
            shared,
            *(map_parameters[m] for m in operand),
            how,
            *tile,
        ],
        "prefetch_arguments": ["shared", *operand, what, *inner],
        "store_parameters": [
            *head,
            *(map_parameters[m] for m in stores),
            how,
            *tile,
            *(f"uint32_t {p}" for p in parity),
            f"const {sums}",
        ],
        "store_arguments": [
            *(["shared"] if plan.staged else []),
            *stores,
            what,
            *inner,
            *parity,
            "sums",
        ],
        "kernel_parameters": [
            *(f"const __grid_constant__ CUtensorMap {m}" for m in maps),
            "const Shape shape",
            how.replace("&", ""),
            *(f"const Workspace {name}" for name in meets),
            *(["const Scales scales"] if scales else []),
        ],
        "launch_arguments": [
            *("&config", "kernel", *maps, "shape", given),
            *("space" for _ in meets),
            *(["scales"] if scales else []),
        ],
        "epilogue_values": [v.split(" = ", 1)[1] for v in values]
        + gemm_rows.context(plan)["row_values"],
    }
