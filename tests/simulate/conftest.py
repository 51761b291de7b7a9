"""Where a compiler is missing, the tests that need it are skipped, with the reason."""

import pytest

from tilegen.errors import ToolMissing


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    try:
        return (yield)
    except ToolMissing as missing:
        pytest.skip(missing.message)
