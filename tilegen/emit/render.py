"""From a kernel in words to its files: plan, template, hygiene, banner."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import jinja2

from tilegen.emit import contract, naming, signature
from tilegen.emit.banner import add_banner
from tilegen.emit.environment import environment, sources_of
from tilegen.emit.hygiene import require_clean
from tilegen.emit.wrap import fit
from tilegen.errors import TemplateFault
from tilegen.plans import Plan, make_plan
from tilegen.spec import KernelSpec
from tilegen.values import nearest

# Bumped when the emitter itself changes the bytes that it writes for the same templates.
REVISION = 1

# operator: module whose `context(plan)` gives the names that the operator's templates need besides.
_CONTEXTS = {
    "attention": "tilegen.emit.attention",
    "attention_backward": "tilegen.emit.attention",
    "formula": "tilegen.emit.formula",
    "gemm": "tilegen.emit.gemm",
    "gated_gemm": "tilegen.emit.gemm",
    "grouped_gemm": "tilegen.emit.gemm",
    "scaled_gemm": "tilegen.emit.gemm",
}

# plan class: module whose `context(plan)` adds names that only its own templates need.
_PLAN_CONTEXTS = {
    "AmxAttentionPlan": "tilegen.emit.attention_amx",
    "WgmmaAttentionPlan": "tilegen.emit.attention_wgmma",
    "WgmmaAttentionBackwardPlan": "tilegen.emit.attention_wgmma",
    "WgmmaGemmPlan": "tilegen.emit.gemm_wgmma",
    "WgmmaGatedGemmPlan": "tilegen.emit.gemm_wgmma",
    "WgmmaScaledGemmPlan": "tilegen.emit.gemm_wgmma",
    "WgmmaGroupedGemmPlan": "tilegen.emit.gemm_wgmma_grouped",
}


@dataclass(frozen=True)
class Style:
    """What a project chooses about its kernels' text.

    Attributes:
        prefix: first word of every exported symbol.
        license: SPDX identifier in every banner.
    """

    prefix: str = "tilegen"
    license: str = "MIT-0"


@dataclass(frozen=True)
class Rendered:
    """An emitted kernel.

    Attributes:
        spec: the kernel in words.
        plan: what the template was filled from.
        stem: name of its files, its namespace and its manifest entry.
        symbol: name of its launcher.
        command: the shell command that reproduces the files.
        inputs: digest of command, templates and emitter.
        files: text by path relative to the output folder, source first.
    """

    spec: KernelSpec
    plan: Plan
    stem: str
    symbol: str
    command: str
    inputs: str
    files: dict[str, str]

    @property
    def source(self) -> str:
        """Path of the `.cu` or `.c` file, relative to the output folder."""
        return next(iter(self.files))


def context(plan: Plan, style: Style = Style()) -> dict[str, Any]:
    """Every name that a template of this plan may use."""
    stem = naming.stem(plan)
    groups = signature.grouped(plan)
    supports = signature.supports_groups(plan)
    cuda = plan.target.backend == "cuda"
    names: dict[str, Any] = {
        "stem": stem,
        "symbol": naming.symbol(stem, style.prefix),
        "guard": naming.guard(stem, style.prefix),
        "title": plan.problem.title(),
        "requires": contract.requires(plan),
        "parameters": signature.parameter_lines(groups),
        "supports_parameters": signature.parameter_lines(supports),
        "supports_arguments": signature.call_lines(supports),
        "workspace_parameters": (
            signature.parameter_lines(groups[:1]) if plan.uses_workspace else []
        ),
        "pack_parameters": (
            signature.parameter_lines(signature.pack_groups(plan)) if plan.packs else []
        ),
        "packed_size_parameters": (
            signature.parameter_lines(signature.pack_groups(plan)[:1]) if plan.packs else []
        ),
        "result_type": "cudaError_t" if cuda else "int",
        "header_includes": _header_includes(plan, cuda),
        "negative_sizes": contract.negative_sizes(plan),
        "short_strides": contract.short_strides(plan),
        "null_pointers": contract.null_pointers(plan, "nullptr" if cuda else "NULL"),
        "nothing_to_write": " || ".join(f"{n} == 0" for n in contract.written_extent(plan)),
        "family_checks": plan.refusals,
        "returns": contract.returns(plan),
    }
    extra = import_module(_CONTEXTS[plan.problem.operator]).context(plan)
    if type(plan).__name__ in _PLAN_CONTEXTS:
        extra |= import_module(_PLAN_CONTEXTS[type(plan).__name__]).context(plan)
    own = plan.context()
    for name in own:
        if name in names or name in extra:
            raise TemplateFault(f"plan {type(plan).__name__} redefines the template name '{name}'")
    return names | extra | own


def _header_includes(plan: Plan, cuda: bool) -> list[str]:
    found = ["<cuda_runtime_api.h>"] if cuda else []
    return found + (["<stddef.h>"] if plan.uses_workspace or plan.packs else []) + ["<stdint.h>"]


def _fill(name: str, names: dict[str, Any]) -> str:
    try:
        return environment().get_template(name).render(names)
    except jinja2.UndefinedError as error:
        word = str(error).split("'")[1] if "'" in str(error) else ""
        raise TemplateFault(f"templates/{name}: {error}{nearest(word, names)}") from None
    except jinja2.TemplateSyntaxError as error:
        raise TemplateFault(f"templates/{error.name}:{error.lineno}: {error.message}") from None
    except jinja2.TemplateNotFound as error:
        raise TemplateFault(f"templates/{name}: no template '{error}'") from None


def inputs_digest(plan: Plan, command: str, style: Style) -> str:
    """Digest of what the text depends on: the command, the style, the templates, the emitter."""
    sources = sources_of(environment(), [plan.template, plan.header, *plan.parts()])
    facts = {
        "command": command,
        "style": [style.prefix, style.license],
        "revision": REVISION,
        "templates": {name: hashlib.sha256(s.encode()).hexdigest() for name, s in sources.items()},
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def render(spec: KernelSpec, style: Style = Style()) -> Rendered:
    """Emit a kernel as text; nothing is written.

    Raises:
        TemplateFault: a template and its plan disagree, or the text is not clean.
    """
    plan = make_plan(spec)
    names = context(plan, style)
    stem = str(names["stem"])
    command = spec.command()
    inputs = inputs_digest(plan, command, style)
    files = {}
    for path, template in zip(naming.paths(plan, stem), (plan.template, plan.header)):
        body = fit(_fill(template, names))
        text = add_banner(
            command, plan.problem.title(), plan.description(), inputs, body, style.license
        )
        require_clean(path, text)
        files[path] = text
    return Rendered(spec, plan, stem, str(names["symbol"]), command, inputs, files)
