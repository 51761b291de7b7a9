"""The seam between Python and the C++ core."""

import ctypes
from collections import Counter

from tilegen.simulate.abi import check_layouts
from tilegen.simulate.build import core_path, load_core


def test_structures_have_one_layout_on_both_sides():
    check_layouts()


def test_every_operation_has_a_name_of_its_own():
    core = load_core()
    names = Counter(core.sim_op_name(ctypes.c_int64(k)) for k in range(core.sim_op_count()))
    assert len(names) > 500 and max(names.values()) == 1


def test_the_core_is_built_once():
    before = core_path().stat().st_mtime_ns
    core_path.cache_clear()
    assert core_path().stat().st_mtime_ns == before
