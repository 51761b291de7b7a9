"""Runs a suite on a backend and collects a report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tilegen.bench import cpu, gpu
from tilegen.bench.peers import gpu_peer, peer_names, require_known
from tilegen.bench.process import Worker, WorkerFailed
from tilegen.bench.samples import Report, Row, host_facts
from tilegen.bench.split import requests, splits
from tilegen.bench.suites import BenchCase, Suite
from tilegen.bench.tensors import device_tensors
from tilegen.emit.naming import stem
from tilegen.errors import TilegenError
from tilegen.plans import make_plan
from tilegen.spec import KernelSpec
from tilegen.tables.files import FOLDER
from tilegen.targets import Target
from tilegen.toolchain.find import find_cc, find_nvcc

# Operations a byte beyond which reading memory bounds no kernel of a backend: a GPU's matrix units multiply more.
READ_BOUND = {"c_openmp": 16, "cuda": 64}

Progress = Callable[[str], None]
# Told the report of the cases that are timed, after each: what a run that is stopped keeps.
Keep = Callable[[Report], None]


def _nothing(_: object) -> None:
    """Neither progress nor keeping."""


def _row(case: BenchCase, spec: KernelSpec) -> Row:
    row = Row(case.label(), case.group, case.operator, dict(case.sizes))
    row.kernel, row.command = stem(make_plan(spec)), spec.command()
    row.flops, row.bytes = spec.problem.flops(case.sizes), spec.problem.bytes(case.sizes)
    return row


def _chosen(backend: str, spec: KernelSpec, wanted: Sequence[str], row: Row) -> list[str]:
    """Peers that know the problem, of those that are wanted; a plain read where reading may bound the case."""
    known = peer_names(backend, spec.problem)
    if row.flops > READ_BOUND[backend] * row.bytes:
        known = [n for n in known if n != "read"]
    return [n for n in known if n in wanted] if wanted else known


class Workers:
    """One process a competitor, kept from case to case and started again where it failed."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._running: dict[str, Worker] = {}

    def prepare(self, name: str, request: dict[str, object]) -> Worker:
        """A worker that is ready to be timed. Raises WorkerFailed."""
        worker = self._running.get(name)
        if worker is None or not worker.alive:
            worker = Worker(name, [name, str(self._threads)], cpu.environment(self._threads))
            self._running[name] = worker
        worker.ask("prepare " + json.dumps(request), cpu.PREPARE_TIMEOUT)
        return worker

    def close(self) -> None:
        """End them all."""
        for worker in self._running.values():
            worker.close()


def run_cpu(
    suite: Suite,
    where: Target,
    threads: int,
    peers: Sequence[str] = (),
    count: int = 12,
    progress: Progress = _nothing,
    tuned: str = "",
    tables: Path = Path(FOLDER),
    keep: Keep = _nothing,
) -> Report:
    """Time a suite on the CPU.

    A competitor that cannot be loaded, crashes or hangs is reported in the case's `errors`.

    Args:
        suite: the cases.
        where: target of our kernels.
        threads: threads of every competitor.
        peers: names of peers; empty for all that know a case.
        count: interleaved rounds a case.
        progress: told each case's label.
        tuned: the device whose table chooses the schedules; empty for the model.
        tables: folder of the tables.
        keep: told the report so far, after each case.

    Raises:
        UsageError: an unknown peer, or a case that is not legal on the target.
    """
    require_known("c_openmp", peers)
    specs = [case.chosen(where, tuned, tables) for case in suite.cases]
    report = Report(suite.name, _host(where, threads), [])
    workers = Workers(threads)
    try:
        for case, spec in zip(suite.cases, specs):
            progress(case.label())
            report.rows.append(_cpu_row(case, spec, workers, peers, count))
            keep(report)
    finally:
        workers.close()
    return report


def run_split(
    suite: Suite,
    where: Target,
    threads: int,
    count: int = 12,
    progress: Progress = _nothing,
    keep: Keep = _nothing,
) -> Report:
    """Time every case's fused kernel beside its splits into several kernels, interleaved.

    In the report the splits are the peers, so that a ratio above 1 says that fusing wins.

    Raises:
        UsageError: a case that cannot be split.
    """
    cases = [(case, case.spec(where)) for case in suite.cases]
    found = [splits(spec.problem, where) for _, spec in cases]
    report = Report(suite.name, _host(where, threads), [])
    workers = Workers(threads)
    try:
        for (case, spec), ways in zip(cases, found):
            progress(case.label())
            row = _row(case, spec)
            request = {"target": where.name, "sizes": dict(case.sizes)}
            fused = {"operator": case.operator, "options": dict(case.options)}
            wanted = {"tilegen": request | fused}
            for number, parts in enumerate(ways, start=1):
                name = f"split {number}"
                wanted[name] = request | {"parts": requests(parts)}
                row.notes[name] = " | ".join(part.text() for part in parts)
            report.rows.append(_timed(row, workers, wanted, count))
            keep(report)
    finally:
        workers.close()
    return report


def _host(where: Target, threads: int) -> dict[str, str]:
    facts = {**host_facts(), "threads": str(threads), "target": where.name}
    return facts | ({"compiler": find_cc().version} if where.backend == "c_openmp" else {})


def _cpu_row(
    case: BenchCase, spec: KernelSpec, workers: Workers, peers: Sequence[str], count: int
) -> Row:
    row = _row(case, spec)
    request = {"operator": case.operator, "target": spec.target.name}
    request |= {"options": spec.options(), "sizes": dict(case.sizes)}
    names = ["tilegen", *_chosen("c_openmp", spec, peers, row)]
    return _timed(row, workers, dict.fromkeys(names, request), count)


def _timed(row: Row, workers: Workers, wanted: Mapping[str, object], count: int) -> Row:
    """Time competitors by their requests, ours first, and fill the row."""
    ready = []
    for name, request in wanted.items():
        try:
            ready.append(workers.prepare(name, request))
        except WorkerFailed as error:
            row.errors[name] = error.message.removeprefix(f"{name}: ")
            if name == "tilegen":
                return row
    row.seconds, failed = cpu.rounds(ready, count)
    row.errors |= {name: e.message.removeprefix(f"{name}: ") for name, e in failed.items()}
    ours = row.seconds.get("tilegen")
    for name, times in row.seconds.items():
        if ours and name != "tilegen":
            row.ratios[name] = [t / o for t, o in zip(times, ours)]
    return row


def run_gpu(
    suite: Suite,
    where: Target,
    peers: Sequence[str] = (),
    pairs: int = 11,
    progress: Progress = _nothing,
    tuned: str = "",
    tables: Path = Path(FOLDER),
    keep: Keep = _nothing,
) -> Report:
    """Time a suite on the GPU of this process, each peer paired with ours; see `run_cpu`."""
    require_known("cuda", peers)
    specs = [case.chosen(where, tuned, tables) for case in suite.cases]
    torch = gpu.torch()
    report = Report(suite.name, {}, [])
    for case, spec in zip(suite.cases, specs):
        progress(case.label())
        report.rows.append(_gpu_row(case, spec, peers, pairs))
        torch.cuda.empty_cache()
        # Clocks and power as they are under the load: after the first case, and again after the last.
        if len(report.rows) in (1, len(suite.cases)):
            facts = {**gpu.machine_facts(), "nvcc": find_nvcc().version, "target": where.name}
            report.machine.update(facts)
        keep(report)
    return report


def _gpu_row(case: BenchCase, spec: KernelSpec, peers: Sequence[str], pairs: int) -> Row:
    row = _row(case, spec)
    count = gpu.input_sets(row.bytes)
    sets, scalars = device_tensors(spec, case.sizes, count)
    try:
        ours = gpu.capture(gpu_peer("tilegen").prepare(spec, case.sizes, sets, scalars), count)
    except (TilegenError, RuntimeError) as error:
        row.errors["tilegen"] = str(error).splitlines()[0]
        return row
    for name in _chosen("cuda", spec, peers, row):
        try:
            launch = gpu_peer(name).prepare(spec, case.sizes, sets, scalars)
            graph = gpu.capture(launch, count)
            mine, theirs, ratios = gpu.paired(ours, graph, pairs)
        except (TilegenError, RuntimeError, ImportError) as error:
            row.errors[name] = str(error).splitlines()[0]
            continue
        row.seconds.setdefault("tilegen", []).extend(mine)
        row.seconds[name], row.ratios[name] = theirs, ratios
    if not row.seconds:
        row.seconds["tilegen"] = [gpu.timed(ours) for _ in range(pairs)]
    return row
