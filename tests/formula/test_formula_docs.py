"""docs/formulas.md: its examples run, and its tables are those of the language."""

from __future__ import annotations

import ast
import doctest
import re
from pathlib import Path

import pytest

from tilegen.formula.functions import CASTS, FUNCTIONS, REDUCTIONS
from tilegen.problems.named import NAMED

DOCS = Path(__file__).resolve().parents[2] / "docs"
DOCUMENT = DOCS / "formulas.md"


def tables() -> dict[str, str]:
    """The tables that the documents must hold, made from the language itself."""
    functions = ["| function | meaning |", "|---|---|"]
    functions += [f"| `{row.signature}` | {row.meaning} |" for row in FUNCTIONS.values()]
    reductions = ["| reduction | meaning |", "|---|---|"]
    reductions += [f"| `{name}(e, n)` | {meaning} |" for name, meaning in REDUCTIONS.items()]
    named = ["| name | formula | meaning |", "|---|---|---|"]
    named += [f"| `{name}` | `{row.text}` | {row.meaning} |" for name, row in NAMED.items()]
    return {
        "functions": "\n".join(functions),
        "reductions": "\n".join(reductions),
        "named": "\n".join(named),
    }


def test_examples_run():
    text = re.sub(r"^```(python)?$", "", DOCUMENT.read_text(), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, "formulas.md", str(DOCUMENT), 0)
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    runner = doctest.DocTestRunner(optionflags=flags)
    runner.run(test)
    assert runner.tries >= 12 and runner.failures == 0


def test_the_error_example_is_what_a_user_sees():
    from tilegen.errors import FormulaError
    from tilegen.formula import parse

    shown = re.search(
        r"FormulaError: (unknown.*?) Functions: \.\.\.", DOCUMENT.read_text(), re.DOTALL
    )
    with pytest.raises(FormulaError) as error:
        parse("h = acc + bias[n]; gleu(h)")
    assert str(error.value).startswith(shown.group(1))


@pytest.mark.parametrize(
    "name, document",
    [("functions", "formulas"), ("reductions", "formulas"), ("named", "memory-bound")],
)
def test_tables_are_those_of_the_language(name, document):
    text = (DOCS / f"{document}.md").read_text()
    found = re.search(rf"<!-- {name}: begin -->\n(.*?)\n?<!-- {name}: end -->", text, re.DOTALL)
    assert found.group(1) == tables()[name]


def test_casts_are_listed():
    assert f"Casts: `{' '.join(CASTS)}`." in DOCUMENT.read_text()


def test_function_example_is_python():
    (block,) = re.findall(r"```python\n(@tilegen.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert isinstance(ast.parse(block).body[0], ast.FunctionDef)
