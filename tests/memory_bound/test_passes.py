"""How a formula becomes passes over a row: what each pass reads, computes, keeps and stores."""

from tilegen.formula import node_text
from tilegen.problems.passes import arrange
from tilegen.problems.lowering import lower
from tilegen.problems.formula import FormulaProblem


def program(text, keep="costly", **options):
    return arrange(lower(FormulaProblem(formula=text, **options).typed, ("n",)), keep)


def reductions(found):
    return [[(r.name, r.op, node_text(r.node)) for r in p.reductions] for p in found.passes]


def test_softmax_keeps_its_exponentials_and_divides_once():
    found = program("softmax")
    assert reductions(found) == [[("row_max", "max", "x_mn")], [("row_sum", "sum", "e")], []]
    first, second, third = found.passes
    assert [(x.name, x.kept) for x in first.loads] == [("x_mn", True)]
    assert second.kept == ("e",) and [v.name for v in third.recalled] == ["e"]
    assert not third.loads
    assert [node_text(v.node) for v in second.after] == ["1.0 / row_sum"]


def test_layernorm_takes_its_variance_from_the_deviations():
    found = program("layernorm")
    assert reductions(found)[1] == [("row_sum_2", "sum", "d * d")]
    assert [v.name for v in found.passes[0].after] == ["mu"]
    assert [v.name for v in found.passes[2].values] == ["d"]
    assert [x.name for x in found.passes[2].loads if x.first] == ["w_n", "b_n"]


def test_a_sum_of_two_operands_is_kept_in_their_place_and_stored_at_once():
    found = program("add_rmsnorm")
    assert found.passes[0].kept == ("h_mn",)
    assert not any(x.kept for x in found.passes[0].loads)
    assert [s.name for s in found.passes[0].stores] == ["h"]
    assert [s.name for s in found.passes[1].stores] == ["y"]


def test_a_costly_expression_that_stands_twice_is_computed_once():
    found = program("y[m,n] = exp(x[m,n] - max(x[m,n], n)) / sum(exp(x[m,n] - max(x[m,n], n)), n)")
    assert [p.kept for p in found.passes] == [(), ("value",), ()]
    assert node_text(found.passes[2].stores[0].value.node) == "value / row_sum"


def test_independent_reductions_share_a_pass():
    found = program("y[m] = sum(x[m,n], n) / max(abs(x[m,n]), n)")
    assert reductions(found) == [[("row_sum", "sum", "x_mn"), ("row_max", "max", "abs(x_mn)")]]
    assert [s.name for s in found.passes[0].stores_after] == ["y"]


def test_argmax_is_the_smallest_position_of_the_maximum():
    found = program("argmax")
    assert [[r.op for r in p.reductions] for p in found.passes] == [["max"], ["min"]]
    assert found.positions == {"n_index": "n"}


def test_what_does_not_vary_along_the_row_is_computed_once_a_row():
    found = program("y[m,n] = x[m,n] * exp(s[m]) + exp(b[n] * alpha)")
    assert [x.name for x in found.loads] == ["s_m"]
    assert [node_text(v.node) for v in found.before] == ["exp(s_m)"]
    assert len(found.passes) == 1


def test_compact_keeps_only_what_is_costly_and_takes_no_more_room_than_its_operands():
    kept = [p.kept for p in program("softmax", "compact", dtype="bf16").passes]
    assert kept == [(), (), ()]
    assert [p.kept for p in program("softmax", "compact").passes] == [(), ("e",), ()]
    assert program("add_rmsnorm", "compact", dtype="bf16").passes[0].kept == ()
    assert program("add_rmsnorm", "costly", dtype="bf16").passes[0].kept == ("h_mn",)


def test_nothing_is_kept_where_nothing_can_be_held():
    found = program("softmax", "nothing")
    assert all(not p.kept and not p.recalled for p in found.passes)
    assert all(p.loads for p in found.passes)
