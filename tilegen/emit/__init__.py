"""From plans to text: the Jinja environment, C printing of formulas, names, arguments, banner, hygiene.

The name `tilegen.emit` is also the function that users call, `tilegen.emit(problem, target="sm_80")`; a
package and a function cannot share a name, so the package itself is callable.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any


class _CallableModule(types.ModuleType):
    """`tilegen.emit(...)` is `tilegen.kernel.emit(...)`."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return importlib.import_module("tilegen.kernel").emit(*arguments, **named)


sys.modules[__name__].__class__ = _CallableModule
