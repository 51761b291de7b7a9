"""Imports run one way: a module imports only from its own layer and the layers below."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

LAYERS = [
    {"errors"},
    {"names"},
    {"packages"},
    {"shared_files"},
    {"values"},
    {"fields"},
    {"formula"},
    {"targets"},
    {"problems"},
    {"schedules"},
    {"registry"},
    {"spec"},
    {"plans"},
    {"model"},
    {"emit"},
    {"tables"},
    {"artifacts"},
    {"toolchain"},
    {"simulate"},
    {"runtime"},
    {"verify"},
    {"kernel"},
    {"bench"},
    {"tune"},
    {"cli"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

# The package façade may import anything, `python -m tilegen` is the command line.
FACADE = {"tilegen/__init__.py", "tilegen/__main__.py"}


def modules() -> list[Path]:
    return sorted(p for p in (ROOT / "tilegen").rglob("*.py"))


def imports_of(path: Path) -> set[str]:
    """First words below `tilegen.` of everything a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("tilegen.")}
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            if parts[0] == "tilegen":
                found |= {parts[1]} if len(parts) > 1 else {a.name for a in node.names}
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_imports_run_downwards(path: Path) -> None:
    relative = path.relative_to(ROOT).as_posix()
    if relative in FACADE:
        return
    own = path.relative_to(ROOT / "tilegen").parts[0].removesuffix(".py")
    assert own in RANK, f"{relative} belongs to no layer: add it to LAYERS"
    for name in imports_of(path):
        assert name in RANK, f"{relative} imports tilegen.{name}, which belongs to no layer"
        assert (
            RANK[name] <= RANK[own]
        ), f"{relative} ({own}) imports tilegen.{name}, a layer above it"
