"""The page on the simulator: its example runs and prints what the page says."""

import contextlib
import io
import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_prints_what_the_page_says():
    page = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")
    code, expected = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.S).groups()
    printed, before = io.StringIO(), os.getcwd()
    os.chdir(ROOT)
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/simulator.md", "exec"), {})
    finally:
        os.chdir(before)
    assert printed.getvalue() == expected
