"""Which problems exist by operator name, and which schedules compute them, in order of preference."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from tilegen import fields
from tilegen.errors import IllegalSchedule, UsageError
from tilegen.problems.base import Problem
from tilegen.schedules.base import Schedule
from tilegen.targets import TARGETS, Target, target
from tilegen.values import nearest

# operator: module:class of its problem.
_PROBLEMS = {
    "attention": "tilegen.problems.attention:Attention",
    "attention_backward": "tilegen.problems.attention_backward:AttentionBackward",
    "formula": "tilegen.problems.formula:FormulaProblem",
    "gemm": "tilegen.problems.gemm:Gemm",
    "gated_gemm": "tilegen.problems.gated_gemm:GatedGemm",
    "grouped_gemm": "tilegen.problems.grouped_gemm:GroupedGemm",
    "scaled_gemm": "tilegen.problems.scaled_gemm:ScaledGemm",
}

# The table of formulas that have a name.
_NAMED_FORMULAS = "tilegen.problems.named:NAMED"

# module:class of every schedule; of several that accept a problem, the first is the default.
_SCHEDULES = [
    "tilegen.schedules.attention_wgmma:WgmmaAttention",
    "tilegen.schedules.attention_mma:MmaAttention",
    "tilegen.schedules.attention_decode:DecodeAttention",
    "tilegen.schedules.attention_backward_wgmma:WgmmaAttentionBackward",
    "tilegen.schedules.attention_backward_mma:MmaAttentionBackward",
    "tilegen.schedules.attention_backward_blocked:BlockedAttentionBackward",
    "tilegen.schedules.gemm_wgmma:WgmmaGemm",
    "tilegen.schedules.gemm_wgmma_grouped:WgmmaGroupedGemm",
    "tilegen.schedules.gemm_wgmma_gated:WgmmaGatedGemm",
    "tilegen.schedules.gemm_wgmma_scaled:WgmmaScaledGemm",
    "tilegen.schedules.attention_amx:AmxAttention",
    "tilegen.schedules.attention_blocked:BlockedAttention",
    "tilegen.schedules.gemm_simt:SimtGemm",
    "tilegen.schedules.gemm_mma:MmaGemm",
    "tilegen.schedules.gemm_gemv:GemvGemm",
    "tilegen.schedules.elementwise:ElementPacks",
    "tilegen.schedules.elementwise:ElementLoops",
    "tilegen.schedules.permute:TileShared",
    "tilegen.schedules.permute:TileLoops",
    "tilegen.schedules.columns:ColumnParts",
    "tilegen.schedules.columns:ColumnBlocks",
    "tilegen.schedules.columns:ColumnLoops",
    "tilegen.schedules.full:FullParts",
    "tilegen.schedules.full:FullLoops",
    "tilegen.schedules.rowwise:RowRegisters",
    "tilegen.schedules.rowwise_c:RowLoops",
    "tilegen.schedules.gemm_amx:AmxGemm",
    "tilegen.schedules.gemm_amx_skinny:AmxSkinnyGemm",
    "tilegen.schedules.gemm_vnni:VnniGemm",
    "tilegen.schedules.gemm_packed:PackedGemm",
    "tilegen.schedules.gemm_skinny:SkinnyGemm",
    "tilegen.schedules.gemm_prepacked:PrepackedGemm",
]


def _load(path: str) -> Any:
    module, name = path.split(":")
    return getattr(import_module(module), name)


def operators() -> list[str]:
    """Operator names, sorted."""
    return sorted(_PROBLEMS)


def problem_class(operator: str) -> type[Problem]:
    """The problem of an operator. Raises UsageError naming the nearest known operator."""
    if operator not in _PROBLEMS:
        raise UsageError(
            f"unknown operator '{operator}'{nearest(operator, _PROBLEMS)}",
            f"Operators: {', '.join(operators())}",
        )
    return _load(_PROBLEMS[operator])


def operator_of(text: str) -> tuple[str, dict[str, str]]:
    """The operator that a word of the command line means, and the options that the word implies.

    Raises:
        UsageError: it is no operator.
    """
    if text in _load(_NAMED_FORMULAS) or "=" in text:
        return "formula", {"formula": text}
    if text not in _PROBLEMS:
        known = [*_PROBLEMS, *_load(_NAMED_FORMULAS)]
        raise UsageError(
            f"unknown operator '{text}'{nearest(text, known)}",
            f"Operators: {', '.join(known)}; or a formula, such as 'y[m,n] = gelu(x[m,n])'.",
        )
    return text, {}


def known_options(operator: str, target_name: str, given: Mapping[str, Any]) -> set[str]:
    """Names of the fields that the operator's problem and its schedule on a target have."""
    where = target(target_name)
    cls = problem_class(operator)
    of_problem = fields.options(cls)
    problem = cls(**fields.from_text(cls, {k: v for k, v in given.items() if k in of_problem}))
    chosen = schedule_class(problem, where, str(given.get("schedule", "")))
    return {*of_problem, *fields.options(chosen), "schedule"}


def schedule_classes(operator: str, backend: str = "") -> list[type[Schedule]]:
    """Schedules of an operator, most preferred first, of one backend if it is given."""
    classes = [_load(path) for path in _SCHEDULES]
    return [c for c in classes if c.operator == operator and backend in ("", c.backend)]


def schedule_class(problem: Problem, where: Target, name: str = "") -> type[Schedule]:
    """The named schedule, or the first that accepts the problem on the target.

    Raises:
        UsageError: no schedule of that name.
        IllegalSchedule: none accepts the problem; the message gives each one's reason.
    """
    classes = schedule_classes(problem.operator, where.backend)
    if name:
        named = [c for c in classes if c.name == name]
        if not named:
            names = [c.name for c in classes]
            raise UsageError(
                f"no schedule '{name}' for {problem.operator} on {where}{nearest(name, names)}",
                f"Schedules: {', '.join(names)}",
            )
        return named[0]
    reasons = []
    for candidate in (c for c in classes if not c.by_name_only):
        refusal = candidate.accepts(problem, where)
        if refusal is None:
            return candidate
        reasons.append(f"  {candidate.name}: {refusal.message}")
    able = [str(other) for other in TARGETS.values() if _computed(problem, other)]
    if able:
        reasons.append(f"Targets that do: {', '.join(able)}")
    raise IllegalSchedule(
        f"no schedule computes this {problem.operator} on {where}", "\n".join(reasons)
    )


def _computed(problem: Problem, where: Target) -> bool:
    """Whether a schedule that need not be named accepts the problem on a target."""
    classes = schedule_classes(problem.operator, where.backend)
    return any(not c.by_name_only and c.accepts(problem, where) is None for c in classes)


def nearest_flag(name: str, known: list[str]) -> str:
    """The closest of the known fields, written as a flag, for a message."""
    return nearest(fields.flag(name), [fields.flag(k) for k in known])


def make(operator: str, where: Target, given: Mapping[str, Any]) -> tuple[Problem, Schedule]:
    """Build a problem and a schedule from the options of a command line or of `tilegen.toml`.

    Args:
        operator: operator name.
        where: the target.
        given: option texts by name; `schedule` names the schedule, the others are fields of the
            problem or of the schedule. Fields that are not given take their defaults.

    Raises:
        UsageError: an unknown option or a bad value.
        IllegalSchedule: no schedule accepts the problem.
    """
    cls = problem_class(operator)
    given = dict(given)
    wanted = str(given.pop("schedule", ""))
    of_problem = fields.options(cls)
    problem = cls(**fields.from_text(cls, {k: v for k, v in given.items() if k in of_problem}))
    rest = {k: v for k, v in given.items() if k not in of_problem}
    anywhere = {n for c in schedule_classes(operator) for n in fields.options(c)}
    for option in rest:
        if option not in anywhere:
            known = [*of_problem, *sorted(anywhere), "schedule"]
            raise UsageError(
                f"{operator} has no option {fields.flag(option)}{nearest_flag(option, known)}",
                f"Options: {', '.join(fields.flag(k) for k in known)}",
            )
    chosen = schedule_class(problem, where, wanted)
    of_schedule = fields.options(chosen)
    for name in rest:
        if name not in of_schedule:
            known = [*of_problem, *of_schedule, "schedule"]
            raise UsageError(
                f"{operator} on {where} has no option {fields.flag(name)}{nearest_flag(name, known)}",
                f"Options: {', '.join(fields.flag(k) for k in known)}",
            )
    return problem, chosen.with_options(problem, where, fields.from_text(chosen, rest))
