"""Names that a formula must not use, since the emitted text has them for something else."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tilegen.errors import UsageError
from tilegen.formula.diagnostics import fault
from tilegen.formula.functions import FUNCTIONS
from tilegen.formula.parsed import Formula
from tilegen.names import c_ident
from tilegen.problems.rewrites import name_span

# Locals and arguments of launchers, then functions and types.
RESERVED = frozenset("""
    across aligned alike alike_blocks alone all_strides args askew at_once batches before begin blocks
    blocks_of_row chunk chunk_columns chunks chunks_of_line chunks_of_row cluster column columns
    config count device down element element_size elements elements_past_line end error even
    even_of_line exists fewest finishing first first_column first_part first_read first_row
    first_written held in_ring items keeps kept kept_before kernel lane last_chunk last_part
    left_read length line lines lines_alike most needed num_threads overlap own_streams packs
    part partials parts past_line piece pieces reach reads refusal resident results row
    row_length row_quotient rows rows_at_once rows_of_block segment share shared_parts shares
    short_rows side space staging start step stop stream streaming streams team thread threads
    tile tile_end tile_first tile_lead tile_left tile_start tile_width tiles_read tiles_written
    together turn turns vector whole whole_read whole_write width workspace workspace_bytes
    writes

    Arguments Around Kept Pack Partial Place Results Rows Share Slot Steps Stream Width WordOf
    bf16_to_f32 bits_of bulk_load choose choose_bits choose_f64 cluster_sync combine
    combine_rows compute compute_chunk compute_long_row compute_long_rows compute_pieces
    compute_row count_parts elements_askew elements_before_packs exp_negative_f32 f32_to_bf16
    fetch fetch_around finish finish_columns finish_line finish_row finish_stream finish_streams
    float_of grid lie_within lies_behind load load_across load_columns load_if long_rows maximum
    maximum_f64 maximum_i32 mbarrier_arrive mbarrier_arrive_expect_tx mbarrier_init
    mbarrier_init_fence mbarrier_wait memcpy memset minimum_i64 move_to_piece named_barrier_sync
    part_start place prefetch prefetch_result put read_singly reduce_chunk reduce_columns
    reduce_parts ring_reduce ring_rows row_reduce send_to_block settle share_of_block
    shared_address short_exp start_streams steps_within store store_as store_columns store_word
    stream_line stream_out stream_piece threads_of_block turn_tile turn_tiles wait_for_blocks
    warp_reduce whole_line
    blockDim blockIdx gridDim threadIdx warpSize
    """.split())

# Constants, lane types, reductions and functions that exist for each type.
_TYPES = "bf16|e4m3|e5m2|f16|f32|f64|i8|i32|i64|u8"
_STEMS = "|".join([*FUNCTIONS, "choose", "floor_div", "floor_mod", "maximum", "minimum"])
PATTERN = re.compile(
    r"(k[A-Z]\w*|_[A-Z]\w*|Lanes\w+|pass_\d+|omp_\w+|cuda\w+|std|u?int\w*_t|size_t"
    rf"|(Sum|Prod|Max|Min|Any|All|ArgMax|ArgMin)([FIU]\d+)?|(high|low|turn|{_STEMS})_({_TYPES})"
    rf"|({_TYPES})_to_({_TYPES}))\Z"
)

# A name with one of these behind it is where its array lies, a part of it, or one of its elements.
ENDINGS = frozenset(
    "at chunk early first kept line lines near out pack pack_ends packs row segment step stop tile turned".split()
)


def check_names(formula: Formula, names: Iterable[str]) -> None:
    """Refuse names that C or the emitted text has taken.

    Args:
        names: every operand, scalar, intermediate, output and index of the formula.

    Raises:
        FormulaError: with the caret under the name.
    """
    known = dict.fromkeys(names)
    arrays = {**formula.outputs, **formula.operands}
    derived = {f"{name}_{ending}" for name in arrays for ending in ENDINGS}
    derived |= {f"{name}_index" for name in formula.index_names}
    derived |= {f"{name}_{''.join(indices)}" for name, indices in arrays.items() if indices}
    derived |= {f"{name}_stride_{i}" for name in arrays for i in formula.index_names}
    for name in known:
        at = name_span(formula, name)
        try:
            c_ident(name)
        except UsageError as error:
            raise fault(formula.source, at, error.message, error.hint) from None
        if name in RESERVED or PATTERN.match(name) or name in derived:
            raise fault(
                formula.source,
                at,
                f"'{name}' has a meaning of its own in the emitted text",
                f"Choose another name, such as 'my_{name}'.",
            )
