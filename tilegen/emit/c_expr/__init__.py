"""Formulas as C text: expressions, statements and the helper functions they call.

`print_statements(typed, backend, names, stores)` gives the lines of one element and everything they need;
`print_expr` prints one expression; `helper_texts` and `includes_for` serve kernels that call helpers of
their own, such as `exp_f32` in a softmax.
"""

from tilegen.emit.c_expr.dialects import CUDA, CUDA_SHORT, C, Dialect, dialect
from tilegen.emit.c_expr.helpers import (
    catalogue,
    closure,
    helper_texts,
    includes_for,
    shortened,
)
from tilegen.emit.c_expr.literals import literal
from tilegen.emit.c_expr.printer import ExpressionPrinter
from tilegen.emit.c_expr.statements import Printed, print_expr, print_statements

__all__ = [
    "C",
    "CUDA",
    "CUDA_SHORT",
    "Dialect",
    "ExpressionPrinter",
    "Printed",
    "catalogue",
    "closure",
    "dialect",
    "helper_texts",
    "includes_for",
    "literal",
    "print_expr",
    "print_statements",
    "shortened",
]
