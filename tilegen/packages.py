"""Packages that can be called: `tilegen.emit` and `tilegen.simulate` are packages and the functions of that name."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any


def make_callable(package: str, function: str) -> None:
    """Let a call of the package call a function of a module above it, which is imported at the first call.

    A package and a function of one parent cannot share a name, so the package itself is callable.

    Args:
        package: full name of the package, already imported.
        function: full name of the function.
    """
    module, _, name = function.rpartition(".")

    class CallablePackage(types.ModuleType):
        def __call__(self, *arguments: Any, **named: Any) -> Any:
            return getattr(importlib.import_module(module), name)(*arguments, **named)

    sys.modules[package].__class__ = CallablePackage
