"""The products of attention with wgmma as inline assembly: numbers and names of their registers."""

from __future__ import annotations

from typing import Any

from tilegen.plans.attention_backward_wgmma import WgmmaAttentionBackwardPlan
from tilegen.plans.attention_wgmma import WgmmaAttentionPlan
from tilegen.problems.attention_score import CappedScore, short_score


def context(plan: WgmmaAttentionPlan | WgmmaAttentionBackwardPlan) -> dict[str, Any]:
    """The template names of the products, forward or backward."""
    return _backward(plan) if isinstance(plan, WgmmaAttentionBackwardPlan) else _forward(plan)


def _forward(plan: WgmmaAttentionPlan) -> dict[str, Any]:
    in_shared = plan.schedule.query_stages > 0
    scores = _product(
        "// s = q k^T over 16 elements of a head, rows of k being keys; `accumulate` 1 adds to s.",
        ("s", "kBlockN", plan.block_n),
        ("q", in_shared),
        "k",
        immediates="0, 0" if in_shared else "0",
        keep=True,
    )
    output = _product(
        "// o += p v over 16 keys, rows of v being keys: v is read transposed.",
        ("o", "kValueDim", plan.value_dim),
        ("p", False),
        "v",
        immediates="1",
    )
    return {
        "score_product": scores,
        "output_product": output,
        # Long rows of queries leave the products so much of the time that looking for maxima is free.
        "weighs_first": int(not in_shared),
        # Where it is not, the exponentials of capped scores wait for nothing but the hardware's tanh.
        "capped": int(not in_shared and isinstance(short_score(plan.problem), CappedScore)),
    }


def _backward(plan: WgmmaAttentionBackwardPlan) -> dict[str, Any]:
    return {
        "score_product": _product(
            "// product = left right^T over 16 elements of a head; `accumulate` 1 adds to the product.",
            ("product", "kBlockN", plan.block_n),
            ("left", True),
            "right",
            immediates="0, 0",
            keep=True,
        ),
        "dv_product": _product(
            "// dv += p d_o over 16 queries, rows of d_o being queries: it is read transposed.",
            ("dv", "kValueDim", plan.value_dim),
            ("p", False),
            "d_o",
            immediates="1",
        ),
        "dk_product": _product(
            "// dk += ds q over 16 queries, rows of ds being keys and of q queries: q is read transposed.",
            ("dk", "kHeadDim", plan.head_dim),
            ("ds", True),
            "q",
            immediates="0, 1",
        ),
        "dq_product": _product(
            "// dq = ds k over 16 keys, rows of both being keys: both are read transposed.",
            ("dq", "kPiece", plan.piece),
            ("ds", True),
            "k",
            immediates="1, 1",
            keep=True,
        ),
    }


def _product(
    comment: str,
    accumulator: tuple[str, str, int],
    left: tuple[str, bool],
    right: str,
    *,
    immediates: str,
    keep: bool = False,
) -> dict[str, Any]:
    """One wrapper of wgmma.

    Args:
        comment: what it computes, as a C comment.
        accumulator: its name, the C name of its columns, and how many these are.
        left: name of the left side, and whether it is in shared memory rather than in registers.
        right: name of the right side.
        immediates: which operands in shared memory are read transposed, as PTX has it.
        keep: whether an argument says if the accumulator is added to.
    """
    (name, extent, columns), (left_name, in_shared) = accumulator, left
    first = columns // 2
    fragment = "{" + ", ".join(f"%{first + i}" for i in range(4)) + "}"
    places = ", ".join(f'"r"({left_name}[{i}])' for i in range(4))
    right_number = first + (1 if in_shared else 4)
    return {
        "comment": comment,
        "sum": name,
        "parameters": [
            f"float (&{name})[{extent} / 2]",
            f"uint64_t {left_name}" if in_shared else f"const uint32_t (&{left_name})[4]",
            f"uint64_t {right}",
            *(["int accumulate"] if keep else []),
        ],
        "left_text": f"%{first}" if in_shared else fragment,
        "left_places": f'"l"({left_name})' if in_shared else places,
        "right": right,
        "right_number": f"%{right_number}",
        "keep": int(keep),
        "keep_number": f"%{right_number + 1}" if keep else "",
        "keep_operand": ', "r"(accumulate)' if keep else "",
        "immediates": f"{'keep' if keep else '1'}, 1, 1, {immediates}",
        **_registers(name, columns),
    }


def _registers(name: str, columns: int) -> dict[str, Any]:
    """Accumulator registers of a product with so many columns, in rows that fit a line."""
    count = columns // 2
    numbers = [f"%{i}" for i in range(count)]
    places = [f'"+f"({name}[{i}])' for i in range(count)]
    width = min(6, 91 // (len(places[-1]) + 2))  # places in a line

    def rows(words: list[str], width: int) -> list[str]:
        lines = [", ".join(words[i : i + width]) for i in range(0, count, width)]
        return [line + (", " if words is numbers else ",") for line in lines[:-1]] + lines[-1:]

    return {
        "n": columns,
        "number_rows": rows(numbers, 16 if count <= 100 else 15),
        "register_rows": rows(places, width),
    }
