"""C text around a kernel's arrays: struct members, their assignment in the launcher, element access."""

from __future__ import annotations

from collections.abc import Iterable

from tilegen.problems.base import Scalar, Tensor


def element(tensor: Tensor, prefix: str = "") -> str:
    """The C expression of an element, its index names taken as C variables: `e.bias[n]`."""
    terms = [f"{d} * {prefix}{s}" for d, s in zip(tensor.dims, tensor.strides)]
    terms += [tensor.dims[-1]] if tensor.dims else ["0"]
    return f"{prefix}{tensor.name}[{' + '.join(terms)}]"


def _element_type(tensor: Tensor, cuda: bool) -> str:
    return tensor.dtype.cuda if cuda else tensor.dtype.c


def members(tensors: Iterable[Tensor], scalars: Iterable[Scalar], cuda: bool) -> list[str]:
    """Struct members for arrays with their strides, then scalars, one declaration a line."""
    lines = []
    for tensor in tensors:
        constant = "" if tensor.is_written else "const "
        shape = "".join(f"[{d}]" for d in tensor.dims) or "one element"
        lines.append(f"{constant}{_element_type(tensor, cuda)} *{tensor.name};  // {shape}")
        lines += [f"int64_t {', '.join(tensor.strides)};"] if tensor.strides else []
    lines += [f"{s.dtype.c} {s.name};" for s in scalars]
    return lines


def assignments(tensors: Iterable[Tensor], scalars: Iterable[Scalar], cuda: bool) -> list[str]:
    """Assignments `member = argument` in the order of `members`; CUDA's pointers come as void."""
    lines = []
    for tensor in tensors:
        constant = "" if tensor.is_written else "const "
        value = tensor.name
        if cuda:
            value = f"static_cast<{constant}{tensor.dtype.cuda} *>({tensor.name})"
        lines.append(f"{tensor.name} = {value}")
        lines += [f"{s} = {s}" for s in tensor.strides]
    lines += [f"{s.name} = {s.name}" for s in scalars]
    return lines
