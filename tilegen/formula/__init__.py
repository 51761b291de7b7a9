"""The formula language: parse, bind to a context, evaluate, ask what it reads.

`parse(text)` reads Python expression syntax without running it; `bind` gives every name its meaning and
every node its type; `evaluate` is the float64 meaning on NumPy arrays; `error_bound` says how far a
kernel's result may honestly be from it. Every refusal is a FormulaError with a caret under the column.
`tilegen.emit.c_expr` prints typed formulas as C. The language is described in docs/formulas.md.
"""

from tilegen.formula.analysis import (
    Assumption,
    operands_by_indices,
    reads_under,
    unread_when,
    unread_when_zero,
)
from tilegen.formula.bind import bind
from tilegen.formula.bounds import error_bound, evaluate_with_bound
from tilegen.formula.evaluate import evaluate
from tilegen.formula.parsed import Formula, digest, free_indices, parse
from tilegen.formula.functions import CASTS, CONSTANTS, FUNCTIONS, REDUCTIONS
from tilegen.formula.nodes import (
    Assign,
    Binary,
    Call,
    Cast,
    Compare,
    Logical,
    Name,
    Node,
    Number,
    Operand,
    Reduce,
    Select,
    Span,
    Unary,
    transform,
    walk,
)
from tilegen.formula.source import formula
from tilegen.formula.text import node_text, statement_text
from tilegen.formula.typed import Special, TypedFormula, stored
from tilegen.packages import make_callable

__all__ = [
    "Assign",
    "Assumption",
    "Binary",
    "CASTS",
    "CONSTANTS",
    "Call",
    "Cast",
    "Compare",
    "FUNCTIONS",
    "Formula",
    "Logical",
    "Name",
    "Node",
    "Number",
    "Operand",
    "REDUCTIONS",
    "Reduce",
    "Select",
    "Span",
    "Special",
    "TypedFormula",
    "Unary",
    "bind",
    "error_bound",
    "digest",
    "evaluate",
    "evaluate_with_bound",
    "formula",
    "free_indices",
    "node_text",
    "operands_by_indices",
    "parse",
    "reads_under",
    "statement_text",
    "stored",
    "transform",
    "unread_when",
    "unread_when_zero",
    "walk",
]

# `tilegen.formula` names this package and is also the decorator @tilegen.formula.
make_callable(__name__, "tilegen.formula.source.formula")
