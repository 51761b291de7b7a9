"""The contract of a launcher: what it computes, requires and returns, and the checks that enforce it."""

from __future__ import annotations

from tilegen.plans.base import Plan
from tilegen.problems.base import Tensor, counted


def negative_sizes(plan: Plan) -> str:
    """C condition: some size is negative."""
    return " || ".join(f"{s.name} < 0" for s in plan.problem.sizes())


def _empty(tensor: Tensor) -> str:
    return " && ".join(f"{d} > 0" for d in tensor.dims if not d.isdigit())


def short_strides(plan: Plan) -> str:
    """C condition: rows or matrices of some array would overlap; empty without strides."""
    checks: list[str] = []
    for tensor in plan.tensors():
        if not tensor.strides:
            continue
        span = tensor.dims[-1]
        if tensor.any_order:
            words = [
                f"({dim} > 1 && {stride} < {span})" if tensor.is_written else f"{stride} < 0"
                for dim, stride in zip(tensor.dims, tensor.strides)
            ]
        else:
            words = _nested(tensor)
        checks += words
    return " || ".join(checks)


def _nested(tensor: Tensor) -> list[str]:
    """Conditions under which dimensions, outer before inner, would overlap."""
    span = tensor.dims[-1]
    words = [f"{tensor.strides[-1]} < {span}"]
    for outer in reversed(range(len(tensor.strides) - 1)):
        span = f"({tensor.dims[outer + 1]} - 1) * {tensor.strides[outer + 1]} + {span}"
        if tensor.is_written:
            inner = "".join(f" && {d} > 0" for d in tensor.dims[outer + 1 : -1])
            words.append(f"({tensor.dims[outer]} > 1{inner} && {tensor.strides[outer]} < {span})")
        else:
            words.append(f"{tensor.strides[outer]} < 0")
    return words


def null_pointers(plan: Plan, null: str) -> str:
    """C condition: some array has elements and no address."""
    checks = []
    for tensor in plan.tensors():
        elements = _empty(tensor)
        check = f"{tensor.name} == {null}"
        checks.append(f"({elements} && {check})" if elements else check)
    return " || ".join(checks)


def written_extent(plan: Plan) -> list[str]:
    """Sizes of which any being 0 means that there is nothing to write."""
    written = [t for t in plan.tensors() if t.is_written]
    common = set(written[0].dims)
    for tensor in written[1:]:
        common &= set(tensor.dims)
    return [s.name for s in plan.problem.sizes() if s.name in common]


def requires(plan: Plan) -> list[str]:
    """Sentences of the Requires paragraph."""
    sentences = ["Sizes are not negative; a size of 0 is an empty array."]
    for tensor in plan.tensors():
        shape = "".join(f"[{d}]" for d in tensor.dims)
        access = {"input": "read", "output": "written", "inout": "read and written"}[tensor.role]
        what = f"{tensor.dtype}" if tensor.packed else f"{tensor.dtype} {shape}"
        text = f"{tensor.name}: {what}, {access}; {tensor.doc}"
        sentences.append(text.rstrip(".") + ".")
        for stride, dim in zip(tensor.strides, tensor.dims):
            sentences[-1] += f" {stride}: elements from one {counted(dim)} to the next."
    for scalar in plan.problem.scalars():
        sentences.append(f"{scalar.name}: {scalar.dtype}; {scalar.doc}.")
    sentences += [*plan.problem.requirements(), *plan.requirements]
    sentences.append("Arrays that are written overlap no other array.")
    return sentences


def returns(plan: Plan) -> str:
    """The Returns paragraph."""
    if plan.target.backend == "cuda":
        return (
            "cudaSuccess once the kernel is enqueued, cudaErrorInvalidValue for a call that "
            "the function below refuses, or the error of the launch."
        )
    return "0, EINVAL for a call that the function below refuses, or ENOMEM."
