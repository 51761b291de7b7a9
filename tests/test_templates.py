"""Templates stay small and honest: every plan field is used, every name is known, budgets hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilegen.artifacts import kernel_list
from tilegen.emit.environment import environment, names_used
from tilegen.emit.render import context
from tilegen.plans import make_plan, plan_classes

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = sorted((ROOT / "templates").rglob("*.j2"))
LIST = kernel_list.read(ROOT / "tilegen.toml")

MOST_LINES = 200
MOST_LINES_SHOWPIECE = 450
MOST_CONDITIONALS = 14
MOST_NESTING = 2


def plans():
    """One plan of every listed kernel, by plan class."""
    found = {}
    for spec in LIST.specs:
        plan = make_plan(spec)
        found.setdefault(type(plan), []).append(plan)
    return found


PLANS = plans()


def test_every_plan_class_has_a_listed_kernel():
    assert set(plan_classes()) <= set(PLANS)


@pytest.mark.parametrize("cls", PLANS, ids=lambda c: c.__name__)
def test_plan_and_template_agree(cls):
    used, given = set(), set()
    for plan in PLANS[cls]:
        names = context(plan)
        read = names_used(environment(), [plan.template, *plan.parts()])
        missing = read - set(names)
        assert not missing, f"{plan.template} reads {sorted(missing)}, which nothing supplies"
        used |= read
        given |= set(plan.context())
    unused = given - used
    assert not unused, f"{cls.__name__} has fields that no template uses: {sorted(unused)}"


@pytest.mark.parametrize("cls", PLANS, ids=lambda c: c.__name__)
def test_every_plan_tells_its_numbers(cls):
    """What `tilegen plan` prints: each fact has a name, a value and a word on why."""
    for plan in PLANS[cls]:
        facts = plan.facts()
        assert all(fact.name and fact.value and fact.why for fact in facts)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_budgets(path):
    text = path.read_text()
    lines = text.splitlines()
    is_part = "parts" in path.parts or "common" in path.parts
    assert len(lines) <= (MOST_LINES if is_part else MOST_LINES_SHOWPIECE)
    depth = conditionals = 0
    for line in lines:
        statement = re.match(r"\s*//% *(\w+)", line)
        if not statement:
            continue
        word = statement.group(1)
        if word in ("if", "for"):
            depth += 1
            conditionals += word == "if"
        elif word in ("endif", "endfor"):
            depth -= 1
        elif word == "macro":
            conditionals = 0
        assert depth <= MOST_NESTING, f"{path.name}: nested deeper than {MOST_NESTING}: {line}"
        assert conditionals <= MOST_CONDITIONALS, f"{path.name}: more than {MOST_CONDITIONALS} ifs"
        assert word != "set", f"{path.name}: plans compute, templates print: {line}"


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_comments_are_wrapped_as_they_stand(path):
    """What is too long is broken when it is emitted, and leaves a word or two on a line of their own."""
    fixed = [line for line in path.read_text().splitlines() if "${" not in line]
    comments = [line for line in fixed if re.match(r"\s*(//[^%]|\*)", line)]
    assert [line for line in comments if len(line) > 100] == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_arithmetic(path):
    """No computation but `+ 1` inside `${...}` of a template."""
    for expression in re.findall(r"\$\{([^}\"']*)\}", path.read_text()):
        bare = re.sub(r"\+ 1\b", "", expression)
        bare = re.sub(r"\([^)]*\)", "", bare)
        assert not re.search(r"\s[-+*/%]\s", bare), f"{path.name}: ${{{expression}}}"


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_k13_a_launcher_returns_the_error_of_its_own_launch(path):
    # The runtime's last error may be an earlier call's; cudaLaunchKernelEx returns the launch's own.
    assert not re.search(r"<<<|GetLastError|PeekAtLastError", path.read_text())
