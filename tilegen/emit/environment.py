"""The one Jinja environment: C-shaped delimiters, strict names, templates found in every install."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import meta

from tilegen.emit.filters import FILTERS
from tilegen.errors import TemplateFault


def template_root() -> Path:
    """The folder that holds `cuda/`, `c_openmp/` and `common/`.

    Looks at `TILEGEN_TEMPLATES`, then inside the installed package, then beside it in a checkout.

    Raises:
        TemplateFault: none of the three places has templates.
    """
    places = []
    if os.environ.get("TILEGEN_TEMPLATES"):
        places.append(Path(os.environ["TILEGEN_TEMPLATES"]))
    package = Path(str(resources.files("tilegen")))
    places += [package / "_templates", package.parent / "templates"]
    for place in places:
        if (place / "common" / "kernel.h.j2").is_file():
            return place
    searched = "\n".join(f"  {place}" for place in places)
    raise TemplateFault("tilegen's templates are not installed", f"Searched:\n{searched}")


def _finalize(value: Any) -> Any:
    if value is None or isinstance(value, (bool, float)):
        raise TemplateFault(
            f"a template printed {value!r}",
            "Print bools with c_bool and floats with c_float, so that they become C literals.",
        )
    return value


_STATEMENT = re.compile(r"^[ \t]*//%(.*)$", re.MULTILINE)
_REMARK = re.compile(r"^[ \t]*//#(.*)$", re.MULTILINE)


def expand_line_statements(source: str) -> str:
    """Turn `//% for ...` lines into blocks, line for line.

    Jinja's own line statements swallow the blank lines that follow them; blocks with trim_blocks
    swallow only their own line, so that a template's blank lines are the text's blank lines.
    """
    return _REMARK.sub(r"/*#\1 #*/", _STATEMENT.sub(r"/*%\1 %*/", source))


class _Loader(jinja2.FileSystemLoader):
    """Reads templates and expands their line statements."""

    def get_source(self, environment, template):
        source, filename, uptodate = super().get_source(environment, template)
        return expand_line_statements(source), filename, uptodate


def make_environment(root: Path | None = None) -> jinja2.Environment:
    """Build the environment over the template folder (`template_root()` if not given)."""
    environment = jinja2.Environment(
        loader=_Loader(root or template_root(), encoding="utf-8"),
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        autoescape=False,
        keep_trailing_newline=True,
        newline_sequence="\n",
        block_start_string="/*%",
        block_end_string="%*/",
        variable_start_string="${",
        variable_end_string="}",
        comment_start_string="/*#",
        comment_end_string="#*/",
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    return environment


_shared: dict[Path, jinja2.Environment] = {}


def environment() -> jinja2.Environment:
    """The environment of the current template root, compiled templates kept between renderings."""
    root = template_root()
    if root not in _shared:
        _shared[root] = make_environment(root)
    return _shared[root]


@functools.lru_cache(maxsize=1024)
def _references(source: str) -> tuple[str, ...]:
    """Names of the templates that a template's text imports by a constant name."""
    tree = environment().parse(source)
    return tuple(r for r in meta.find_referenced_templates(tree) if r is not None)


def sources_of(env: jinja2.Environment, names: Iterable[str]) -> dict[str, str]:
    """Text of the given templates and of every template they import by a constant name."""
    found: dict[str, str] = {}
    queue = list(names)
    while queue:
        name = queue.pop()
        if name in found:
            continue
        found[name] = env.loader.get_source(env, name)[0]
        queue += _references(found[name])
    return found


def names_used(env: jinja2.Environment, names: Iterable[str]) -> set[str]:
    """Context names that the given templates and their imports read."""
    used: set[str] = set()
    for text in sources_of(env, names).values():
        used |= meta.find_undeclared_variables(env.parse(text))
    return used
