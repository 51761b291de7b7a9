"""Runs a suite on a backend and collects a report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np

from tilegen.bench import cpu, gpu
from tilegen.bench.peers import gpu_peer, peer_names
from tilegen.bench.samples import Report, Row, host_facts
from tilegen.bench.suites import BenchCase, Suite
from tilegen.emit.naming import stem
from tilegen.errors import TilegenError
from tilegen.plans import make_plan
from tilegen.spec import KernelSpec
from tilegen.targets import Target
from tilegen.toolchain.find import find_cc, find_nvcc

Progress = Callable[[str], None]


def _row(case: BenchCase, spec: KernelSpec) -> Row:
    row = Row(case.label(), case.group, case.operator, dict(case.sizes))
    row.kernel, row.command = stem(make_plan(spec)), spec.command()
    row.flops, row.bytes = spec.problem.flops(case.sizes), spec.problem.bytes(case.sizes)
    return row


def _chosen(backend: str, spec: KernelSpec, wanted: Sequence[str]) -> list[str]:
    known = peer_names(backend, spec.problem)
    return [n for n in known if n in wanted] if wanted else known


def run_cpu(
    suite: Suite,
    where: Target,
    threads: int,
    peers: Sequence[str] = (),
    count: int = 12,
    progress: Progress = lambda _: None,
) -> Report:
    """Time a suite on the CPU.

    Args:
        suite: the cases.
        where: target of our kernels.
        threads: threads of every competitor.
        peers: names of peers; empty for all that know a case.
        count: interleaved rounds a case.
        progress: told each case's label.
    """
    rows = []
    for case in suite.cases:
        progress(case.label())
        spec = case.spec(where)
        row = _row(case, spec)
        workers = []
        request = {"operator": case.operator, "target": where.name, "options": dict(case.options)}
        request["sizes"] = dict(case.sizes)
        for name in ["tilegen", *_chosen("c_openmp", spec, peers)]:
            worker = cpu.Worker(name, threads)
            try:
                worker.ask("prepare " + json.dumps(request))
                workers.append(worker)
            except TilegenError as error:
                row.errors[name] = error.message
                worker.close()
        if workers and workers[0].name == "tilegen":
            row.seconds = cpu.rounds(workers, count)
            ours = row.seconds["tilegen"]
            for name, times in row.seconds.items():
                if name != "tilegen":
                    row.ratios[name] = [t / o for t, o in zip(times, ours)]
        for worker in workers:
            worker.close()
        rows.append(row)
    facts = {**host_facts(), "threads": str(threads), "compiler": find_cc().version}
    return Report(suite.name, {**facts, "target": where.name}, rows)


def run_gpu(
    suite: Suite,
    where: Target,
    peers: Sequence[str] = (),
    pairs: int = 11,
    progress: Progress = lambda _: None,
) -> Report:
    """Time a suite on the GPU of this process, each peer paired with ours; see `run_cpu`."""
    torch = gpu.torch()
    rows = []
    for case in suite.cases:
        progress(case.label())
        spec = case.spec(where)
        row = _row(case, spec)
        count = gpu.input_sets(row.bytes)
        sets, scalars = _tensors(spec, case, count)
        try:
            ours = gpu.capture(gpu_peer("tilegen").prepare(spec, case.sizes, sets, scalars), count)
        except (TilegenError, RuntimeError) as error:
            row.errors["tilegen"] = str(error).splitlines()[0]
            rows.append(row)
            continue
        for name in _chosen("cuda", spec, peers):
            try:
                launch = gpu_peer(name).prepare(spec, case.sizes, sets, scalars)
                graph = gpu.capture(launch, count)
                mine, theirs, ratios = gpu.paired(ours, graph, pairs)
            except (TilegenError, RuntimeError, NotImplementedError) as error:
                row.errors[name] = str(error).splitlines()[0]
                continue
            row.seconds.setdefault("tilegen", []).extend(mine)
            row.seconds[name], row.ratios[name] = theirs, ratios
        rows.append(row)
        del ours, sets
        torch.cuda.empty_cache()
    facts = {**gpu.machine_facts(), "nvcc": find_nvcc().version, "target": where.name}
    return Report(suite.name, facts, rows)


def _tensors(spec: KernelSpec, case: BenchCase, count: int):
    """Input sets on the device; every set has values of its own, outputs are zero."""
    import torch

    from tilegen.bench.peers.torch_cpu import tensor

    problem = spec.problem
    rng = np.random.default_rng(0)
    small = problem.draw({k: min(v, 64) for k, v in case.sizes.items()}, rng)
    scalars = problem.draw_scalars(rng)
    sets = []
    for _ in range(count):
        made = {}
        for t in problem.tensors():
            shape = [case.sizes[d] for d in t.dims]
            kind = tensor(np.zeros(1, t.dtype.numpy)).dtype
            if t.name in small and t.dtype.is_float:
                made[t.name] = torch.randn(shape, device="cuda").to(kind)
            elif t.name in small:
                made[t.name] = torch.randint(0, 8, shape, device="cuda").to(kind)
            else:
                made[t.name] = torch.zeros(shape, dtype=kind, device="cuda")
        sets.append(made)
    return sets, scalars
