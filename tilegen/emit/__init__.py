"""From plans to text: the Jinja environment, C printing of formulas, names, arguments, banner, hygiene.

The name `tilegen.emit` is also the function that users call: `tilegen.emit(problem, target="sm_80")`.
"""

from __future__ import annotations

from tilegen.packages import make_callable

make_callable(__name__, "tilegen.kernel.emit")
