"""Outcomes as text for people, and as plain data for JSON."""

from __future__ import annotations

import dataclasses

from tilegen.simulate.launch import Counter, Outcome


def report(outcome: Outcome, source: str = "", costs: bool = True) -> str:
    """A readable account: findings with the lines of the .cu, then what runs slowly and what never ran.

    Args:
        source: name of the .cu, put before line numbers.
        costs: list bank conflicts, excess sectors and coverage.
    """
    lines = []
    for finding in outcome.findings:
        where = f"{source}:" if source else "line "
        at = f"{where}{finding.lines[0]}: " if finding.lines else ""
        who = f" [block {finding.block}" if finding.block >= 0 else ""
        if who:
            who += f", warp {finding.warp}" if finding.warp >= 0 else ""
            who += f", lane {finding.lane}" if finding.lane >= 0 else ""
            who += "]"
        times = f" ({finding.count} times)" if finding.count > 1 else ""
        lines.append(f"{at}{finding.kind}: {finding.message.partition(chr(10))[0]}{who}{times}")
        lines += finding.message.split("\n")[1:]
    verdict = f"{len(outcome.findings)} findings" if outcome.findings else "no findings"
    lines.append(f"{verdict}; {outcome.steps} warp instructions in {outcome.seconds:.3f} s")
    if costs:
        lines += _costs(outcome)
    return "\n".join(lines)


def _by_line(counters: tuple[Counter, ...]) -> dict[int, list[int]]:
    """Sums of wavefronts, ideal wavefronts, sectors, ideal sectors for each source line."""
    sums: dict[int, list[int]] = {}
    for c in counters:
        entry = sums.setdefault(c.line, [0, 0, 0, 0])
        for k, value in enumerate((c.wavefronts, c.ideal_wavefronts, c.sectors, c.ideal_sectors)):
            entry[k] += value
    return sums


def _costs(outcome: Outcome) -> list[str]:
    lines = []
    for line, (waves, ideal_waves, sectors, ideal_sectors) in sorted(
        _by_line(outcome.counters).items()
    ):
        if waves > ideal_waves:
            lines.append(
                f"  line {line}: {waves} shared-memory wavefronts where {ideal_waves} suffice "
                f"({waves / ideal_waves:.2f}-way bank conflicts)"
            )
        if sectors > ideal_sectors:
            lines.append(f"  line {line}: {sectors} global sectors where {ideal_sectors} suffice")
    if lines:
        lines.insert(0, "costs:")
    never = sorted({c.line for c in outcome.counters if not c.executions and c.line})
    lines.append(
        f"coverage: {outcome.coverage:.1%} of {len(outcome.counters)} static instructions ran"
    )
    if never:
        lines.append("  lines with instructions that never ran: " + _ranges(never))
    return lines


def _ranges(numbers: list[int]) -> str:
    """`3-5, 9`."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][1] + 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def as_json(outcome: Outcome, counters: bool = True) -> dict:
    """Plain data: findings, steps, seconds, coverage and, if asked for, the counters of instructions that ran."""
    data = {
        "ok": outcome.ok,
        "findings": [dataclasses.asdict(f) for f in outcome.findings],
        "steps": outcome.steps,
        "seconds": outcome.seconds,
        "coverage": outcome.coverage,
    }
    if counters:
        data["counters"] = [dataclasses.asdict(c) for c in outcome.counters if c.executions]
    return data
