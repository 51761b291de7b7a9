"""From an Attention node of the ONNX backend tests to a problem of ours; what is outside, with the reason."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .onnx_steps import TYPES, attributes

INPUTS = ("q", "k", "v", "mask", "past_key", "past_value", "lengths")
SCORES = "the matrix of scores as an output: it is never formed"


@dataclass
class Call:
    """A call of an attention kernel.

    Attributes:
        options: of the kernel, as on the command line.
        arrays: q, k, v as [batch][seq][head][dim], dims padded with zeros to multiples of 8, and operands.
        scalars: by name.
        value_dim: elements of a value before padding.
        present: keys and values that the kernel read, as ONNX returns them.
        lacks: outputs of the node that the call does not give, with the reason; empty if none.
    """

    options: dict[str, str]
    arrays: dict[str, np.ndarray]
    scalars: dict[str, float]
    value_dim: int
    present: list[np.ndarray]
    lacks: str = ""
    masks: list[str] = field(default_factory=list)

    def result(self, o: np.ndarray, rank: int) -> np.ndarray:
        """The kernel's output in the node's layout."""
        o = o[..., : self.value_dim]
        return o.reshape(*o.shape[:2], -1) if rank == 3 else o.transpose(0, 2, 1, 3)


def _heads(x: np.ndarray, count: int | None) -> np.ndarray:
    """[batch][head][seq][dim], whatever the rank."""
    if x.ndim == 4:
        return x
    return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)


def _ours(x: np.ndarray) -> np.ndarray:
    """[batch][seq][head][dim] with the heads padded to a multiple of 8."""
    x = x.transpose(0, 2, 1, 3)
    return np.ascontiguousarray(np.pad(x, [(0, 0)] * 3 + [(0, -x.shape[-1] % 8)]))


def _operand(call: Call, mask: np.ndarray, shape: tuple[int, ...]) -> str:
    """Add the mask as an operand; `bias[b,h,i,j]` without the dimensions that it broadcasts over."""
    missing = shape[-1] - mask.shape[-1]
    if missing:
        fill = False if mask.dtype == np.bool_ else -np.inf
        mask = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=fill)
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    kept = [i for i in range(4) if mask.shape[i] == shape[i] and (mask.shape[i] > 1 or i == 3)]
    is_bool = mask.dtype == np.bool_
    kind = np.dtype(np.int32) if is_bool else mask.dtype
    call.arrays["bias"] = np.ascontiguousarray(mask.reshape([shape[i] for i in kept]).astype(kind))
    call.options["operands"] = f"bias:{TYPES[kind]}"
    word = f"bias[{','.join('bhij'[i] for i in kept)}]"
    return f"{word} > 0" if is_bool else word


def adapt(node, given: list[np.ndarray | None]) -> Call:
    """The call that computes a node's first output."""
    at = attributes(node)
    x = dict(zip(INPUTS, [*given, *[None] * (len(INPUTS) - len(given))]))
    q = _heads(x["q"], at.get("q_num_heads"))
    k, v = (_heads(x[n], at.get("kv_num_heads")) for n in "kv")
    offset = 0
    if x["past_key"] is not None:
        offset = x["past_key"].shape[2]
        k = np.concatenate([x["past_key"], k], axis=2)
        v = np.concatenate([x["past_value"], v], axis=2)
    arrays = {"q": _ours(q), "k": _ours(k), "v": _ours(v)}
    options = {"dtype": TYPES[q.dtype], "align": "top_left"}
    options["head_dim"], options["value_dim"] = (str(arrays[n].shape[-1]) for n in "qv")
    scale = at.get("scale", q.shape[-1] ** -0.5)
    call = Call(options, arrays, {"scale": scale}, v.shape[-1], [k, v])

    score = f"softcap(s, {at['softcap']})" if at.get("softcap") else ""
    position = "i"
    if x["lengths"] is not None:
        arrays["length"] = x["lengths"].astype(np.int32)
        position = f"i + length[b] - {q.shape[2]}"
        call.masks.append("j < length[b]")
    elif offset:
        position = f"i + {offset}"
    if at.get("is_causal"):
        call.masks.append(f"j <= {position}")
    if at.get("left_window_size", -1) >= 0:
        call.masks.append(f"{position} - j <= {at['left_window_size']}")
    if at.get("right_window_size", -1) >= 0:
        call.masks.append(f"j - ({position}) <= {at['right_window_size']}")
    if x["mask"] is not None:
        shape = (*q.shape[:3], k.shape[2])
        word = _operand(call, x["mask"], shape)
        if x["mask"].dtype == np.bool_:
            call.masks.append(word)
        else:
            score = f"{score or 's'} + {word}"
    if "length" in arrays:
        others = options.get("operands", "")
        options["operands"] = ",".join(filter(None, ("length:i32", others)))
    if score:
        options["score"] = score
    if call.masks:
        options["mask"] = " and ".join(call.masks)
    if len(node.output) > 3 and node.output[3]:
        call.lacks = SCORES
    return call
