"""Names that every attention template needs beyond its plan: formulas, key ranges and arrays as C text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilegen import formula as fl
from tilegen.emit import tensors
from tilegen.emit.c_expr import helper_texts, includes_for, print_expr, print_statements
from tilegen.emit.wrap import wrap
from tilegen.emit.filters import c_float, comment
from tilegen.plans.base import Plan
from tilegen.problems.attention import Attention
from tilegen.problems.attention_formulas import INDICES, AttentionFormula
from tilegen.problems.attention_mask import KeyRange, Linear, is_distance, key_range
from tilegen.problems.attention_score import CappedScore, SlopedScore, short_score

# Positions as floats: the conversion is one of the slow instructions, an addition is not.
_WHOLE = """// A whole number of a size up to 2^22 as a float.
__device__ __forceinline__ float whole(int number) {
  return __int_as_float(0x4b400000 + number) - 12582912.0f;
}"""

# The library's tanh has branches; weights that are rounded to half precision need less.
_SOFTCAP = """// cap * tanh(x / cap) from the hardware's exponential, within cap * 2^-21.
__device__ __forceinline__ float softcap(float x, float cap) {
  return cap - __fdividef(2.0f * cap, 1.0f + exp2_approx(x * (2.0f * kLog2E / cap)));
}"""

# The whole of a capped score, in units of its cap: relative error 2^-11 (PTX ISA, tanh).
_TANH = """__device__ __forceinline__ float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}"""

_HEADERS = {"__half": "<cuda_fp16.h>", "__nv_bfloat16": "<cuda_bf16.h>"}


def context(plan: Plan) -> dict[str, Any]:
    """The template names of attention, both backends."""
    problem: Attention = plan.problem
    cuda = plan.target.backend == "cuda"
    call = "call." if cuda else "call->"
    keys = key_range(problem)
    # Forward kernels take q, k, v and o beside the rest, which the call carries.
    beside = ("q", "k", "v", "o") if problem.operator == "attention" else ()
    arrays = [t for t in problem.tensors() if t.name not in beside]
    scalars = [s for s in problem.scalars() if s.name != "scale"]
    position = _position_type(keys) if cuda else "int64_t"
    ends = _bound_lines(problem, keys.ends, call, "end", position)
    firsts = _bound_lines(problem, keys.firsts, call, "first", position)
    short = short_score(problem) if cuda else None
    score = _function(problem.score_formula(), "score", problem.shifted, cuda, call)
    unit = "1.0f" if problem.score else f"{call}scale"
    if isinstance(short, CappedScore):
        unit = c_float(short.cap)
        score |= {"lines": [f"return tanh_approx(s * ({call}scale / {unit}));"], "own": [_TANH]}
    rest = _function(keys.rest, "mask", problem.shifted, cuda, call)
    backend = plan.target.backend
    helpers = helper_texts([*plan.helpers, *score["helpers"], *rest["helpers"]], backend)
    includes = {*score["includes"], *rest["includes"], *plan.includes}
    includes |= set(includes_for(helpers, backend))
    if cuda:
        kinds = {t.dtype.cuda for t in problem.tensors()}
        includes |= {_HEADERS[k] for k in kinds if k in _HEADERS}
    return {
        "computes": problem.title(),
        "includes": sorted(includes - {"<stdint.h>"}),
        "helpers": [*helpers, *dict.fromkeys([*score["own"], *rest["own"]])],
        "score_lines": score["lines"],
        "mask_lines": rest["lines"],
        "end_lines": ends,
        "first_lines": firsts,
        "clamps": int(any("clamp_key" in line for line in (*ends, *firsts))),
        "position_type": position,
        "has_first": int(bool(keys.firsts)),
        "formula_comment": comment(_mask_sentence(problem)),
        "score_comment": _score_comment(problem, short),
        **_slope_names(problem, short),
        "mask_comment": comment(f"What ranges do not say of the mask: {problem.mask}."),
        "call_members": tensors.members(arrays, scalars, cuda),
        "call_assignments": tensors.assignments(arrays, scalars, cuda),
        "writes_lse": int(problem.lse),
        "has_sinks": int(problem.sinks),
        **_page_names(problem, cuda),
        # A formula's score is in natural units; without one the scale is folded into the exponential.
        "weight_factor": "kLog2E" if unit == "1.0f" else f"{unit} * kLog2E",
        "score_scale": "" if isinstance(short, CappedScore) else f" * {call}scale",
        "score_factor": f"{call}scale" if problem.score else f"{call}scale * kLog2E",
        "reads_row_end": int(any(_reads_row(term) for term in keys.ends)),
        **_batch_names(keys, cuda),
        "reads_row_first": int(any(_reads_row(term) for term in keys.firsts)),
        "score_unit": unit,
    }


def _batch_names(keys: KeyRange, cuda: bool) -> dict[str, Any]:
    """How functions of the bounds are given the batch, where a bound is an operand of it."""
    end, first = (any("[b" in n for t in terms for n in t) for terms in (keys.ends, keys.firsts))
    needed = end or first
    return {
        "reads_batch_end": int(end),
        "reads_batch_first": int(first),
        "bounds_by_batch": int(needed),
        "batch_parameter": ("int b, " if cuda else "int64_t b, ") if needed else "",
        "batch_argument": ("tile.batch, " if cuda else "batch, ") if needed else "",
    }


def _page_names(problem: Attention, cuda: bool) -> dict[str, Any]:
    """How blocks of keys and values are found: in their sequence, or by the table in their page."""
    paged = bool(problem.page)
    names: dict[str, Any] = {}
    for x in ("k", "v"):
        batch = (
            f"tile.batch * {x}_stride_batch + " if cuda else f"batch * call->{x}_stride_batch + "
        )
        names[f"{x}_batch"] = "" if paged else batch
        names[f"{x}_pages"] = f"{x}_stride_page, pages, " if paged else ""
        names[f"{x}_block"] = f"{x} + block * call->{x}_stride_seq"
        names[f"{x}_few"] = f" {x} + block * call->{x}_stride_seq"
        names[f"{x}_block_first"] = f" {x} + block.first * call->{x}_stride_seq"
        if paged:
            names[f"{x}_block"] = f"page_{x}"
            strides = f"call->{x}_stride_page, call->{x}_stride_seq"
            names[f"{x}_block_first"] = (
                f"\n        find_block(call, {x}, {strides}, batch, block.first)"
            )
            names[f"{x}_few"] = f"\n            find_block(call, {x}, {strides}, batch, block)"
    return names | {
        "page": problem.page,
        "seq_keys": "seq_pages * kPage" if paged else "seq_k",
        "key_sizes": "pages, seq_pages" if paged else "seq_k",
        "outer": "page" if paged else "batch",
        "fetch_block": "fetch_block" if paged else "fetch<kBlockN>",
    }


def _mask_sentence(problem: Attention) -> str:
    if not (problem.causal or problem.mask):
        return "Every query sees every key."
    text = "j <= i" if problem.causal else problem.mask
    shift = ", where row r of q is query r + seq_k - seq_q" if problem.shifted else ""
    return f"Query i sees the keys j with {text}{shift}."


def _function(
    f: AttentionFormula | None, role: str, shifted: bool, cuda: bool, call: str
) -> dict[str, list[str]]:
    """Body, helpers and includes of the function of one element of a formula; empty without one."""
    if f is None:
        return {"lines": [], "helpers": [], "own": [], "includes": []}
    names = {n: f"{call}{n}" for n in (*f.typed.scalars, "seq_q", "seq_k")}
    lines = []
    used: set[str] = set()
    # // and % need the sign of a position, which the longer form shows.
    typed = f.placed if _divides(f) else f.typed
    if shifted and typed is f.typed and _reads_position(f):
        lines.append(f"const int position = i + {call}seq_k - {call}seq_q;")
        names["i"] = "position"
    for tensor in f.tensors():
        indices = f.typed.formula.operands[tensor.name]
        used |= set(indices)
        terms = [f"{_read(i)} * {call}{s}" for i, s in zip(indices, tensor.strides)]
        terms += [_read(indices[-1])] if indices else ["0"]
        names[tensor.name] = f"{call}{tensor.name}[{' + '.join(terms)}]"
    for index, size in (("i", "seq_q"), ("j", "seq_k")):
        if index in used:
            last = f"{call}{size} - 1"
            if not any("_read" in line for line in lines):
                lines.append(
                    "// Elements past the ends are computed and dropped; they read the last operand."
                )
            lines.append(f"const int {index}_read = {index} < {last} ? {index} : {last};")
    into = "cuda" if cuda else "c_openmp"
    own: list[str] = []
    if cuda:
        typed, distances = _distances(typed, names)
        names |= distances
        own += [_WHOLE] if distances else []
    printed = print_statements(typed, into, names, {role: "return {value};"})
    statements = printed.lines
    if role == "mask" and len(typed.statements) == 1:
        # As a condition, without the conversion to the type that a bool is stored in.
        whole = frozenset(INDICES)
        text = print_expr(typed.statements[0].value, into, names, nonnegative=whole)
        statements = wrap(f"return {text};", 96)
    helpers = list(printed.helpers)
    if cuda and "softcap" in helpers:
        helpers.remove("softcap")
        own.append(_SOFTCAP)
    return {
        "lines": [*lines, *statements],
        "helpers": helpers,
        "own": own,
        "includes": list(printed.includes),
    }


def _distances(
    typed: fl.TypedFormula, names: dict[str, str]
) -> tuple[fl.TypedFormula, dict[str, str]]:
    """The formula with floats of positions under names of their own, and the C text of those."""
    found: dict[str, str] = {}

    def change(node: fl.Node) -> fl.Node:
        if not is_distance(node):
            return node
        name = f"distance_{len(found)}"
        found[name] = f"whole({print_expr(node.a, 'cuda', names, nonnegative=frozenset(INDICES))})"
        return fl.Name(name, dtype=node.dtype)

    statements = tuple(replace(s, value=fl.transform(s.value, change)) for s in typed.statements)
    return replace(typed, statements=statements), found


def _score_comment(problem: Attention, short: CappedScore | SlopedScore | None) -> str:
    if not problem.score:
        return ""
    rest = ""
    if isinstance(short, CappedScore):
        rest = (
            f" In units of {short.cap:g}, which the exponential multiplies with; s is not scaled."
        )
    return comment(f"The score: {problem.score}.{rest}")


def _slope_names(
    problem: Attention, short: CappedScore | SlopedScore | None
) -> dict[str, str | int | list[str]]:
    """A sloped score's factor and distance as bodies of functions, and its growth from key to key."""
    f = problem.score_formula()
    if f is None or not isinstance(short, SlopedScore) or _divides(f):
        return {"sloped": 0, "slope_lines": [], "distance_lines": [], "slope_step": ""}
    slope = fl.Unary("-", short.slope, dtype=short.slope.dtype) if short.negative else short.slope
    bodies = []
    for value in (slope, short.distance):
        last = replace(f.typed.statements[-1], value=value)
        part = replace(f, typed=replace(f.typed, statements=(last,)))
        bodies.append(_function(part, "score", problem.shifted, True, "call.")["lines"])
    return {
        "sloped": 1,
        "slope_lines": bodies[0],
        "distance_lines": bodies[1],
        "slope_step": "slope" if short.rises else "-slope",
    }


def _divides(f: AttentionFormula) -> bool:
    nodes = (n for s in f.typed.statements for n in fl.walk(s.value))
    return any(isinstance(n, fl.Binary) and n.op in ("//", "%") for n in nodes)


def _reads_position(f: AttentionFormula) -> bool:
    nodes = (n for s in f.typed.statements for n in fl.walk(s.value))
    return any(isinstance(n, fl.Name) and n.name == "i" for n in nodes)


def _read(index: str) -> str:
    return f"{index}_read" if index in ("i", "j") else index


def _position_type(keys: KeyRange) -> str:
    """C type of a bound: scalars of the caller may add up to more than 32 bits, positions do not."""
    plain = all(
        abs(factor) <= (1 if name else 1 << 28) and name in ("", "i")
        for term in (*keys.ends, *keys.firsts)
        for name, factor in term.items()
    )
    return "int" if plain else "int64_t"


def _bound_lines(
    problem: Attention, bounds: tuple[Linear, ...], call: str, name: str, kind: str
) -> list[str]:
    """Body of `end_key` or `first_key`: the tightest of the bounds, inside the sequence."""
    if not bounds:
        return [f"return {call}seq_k;"] if name == "end" else ["return 0;"]
    lines = []
    if any(n.endswith("i]") for term in bounds for n in term):
        index = "int" if call == "call." else "int64_t"
        lines.append("// Rows past the end are computed and dropped; they read the last operand.")
        lines.append(f"const {index} last = {call}seq_q - 1;")
        lines.append(f"const {index} row_read = row < last ? row : last;")
    if any("i" in term for term in bounds):
        shift = f" + {call}seq_k - {call}seq_q" if problem.shifted else ""
        lines.append(f"const {kind} i = row{shift};")
    texts = [_linear_text(term, call) for term in bounds]
    if len(texts) == 1:
        return [*lines, f"return clamp_key(call, {texts[0]});"]
    lines.append(f"{kind} {name} = {texts[0]};")
    sign = "<" if name == "end" else ">"
    for text in texts[1:]:
        lines += [f"if ({text} {sign} {name}) {{", f"  {name} = {text};", "}"]
    return [*lines, f"return clamp_key(call, {name});"]


def _reads_row(term: Linear) -> bool:
    return any(n == "i" or n.endswith("i]") for n in term)


def _linear_text(term: Linear, call: str) -> str:
    """A sum of multiples as C, in 64 bits."""
    text = ""
    for name, factor in sorted(term.items(), key=lambda item: (item[0] == "", item[0] != "i")):
        if not factor:
            continue
        size = abs(factor)
        word = name.replace("[i]", "[row_read]")
        if name.endswith("[b,i]"):
            array = name.removesuffix("[b,i]")
            word = f"{array}[b * {call}{array}_stride_b + row_read]"
        if name != "i":
            word = f"int64_t{{{call}{word}}}" if call == "call." else f"(int64_t){call}{word}"
        piece = str(size) if not name else word if size == 1 else f"{size} * {word}"
        if text:
            text += f" {'-' if factor < 0 else '+'} {piece}"
        else:
            text = f"-{piece}" if factor < 0 else piece
    return text or "0"
