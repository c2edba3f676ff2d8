import collections

import pytest

from placement_viz import analyze_run, load_run
from placement_viz.analysis.step import Flow
from placement_viz.analysis.step.scopes import scope_tree
from placement_viz.figures import DARK, LIGHT, icicle_figure
from tests.builders import SAMPLES, device, op, run


def tree_of(*ops, **wanted):
    """Return the scopes of a judged run of ``ops``."""
    analysis = analyze_run(run(*ops))
    return scope_tree(Flow(analysis.run, analysis.colocation), **wanted)


def test_a_scope_has_the_time_of_all_that_is_in_it():
    """Ops add up to scopes and scopes to the step, the largest first."""
    found = tree_of(
        op("a/b/mm", start_us=0, duration_us=10),
        op("a/b/add", start_us=10, duration_us=30, on="CPU:1"),
        op("a/mm", start_us=50, duration_us=5),
        op("c", start_us=60, duration_us=1),
    )

    columns = found.scopes.select(
        "depth", "parent", "scope", "n_ops", "duration_us", "start_us", "end_us"
    )
    assert columns.rows() == [
        (0, None, "", 4, 46, 0, 61),
        (1, "", "a", 3, 45, 0, 55),
        (1, "", "c", 1, 1, 60, 61),
        (2, "a", "a/b", 2, 40, 0, 40),
        (2, "a", "a/mm", 1, 5, 50, 55),
        (3, "a/b", "a/b/add", 1, 30, 10, 40),
        (3, "a/b", "a/b/mm", 1, 10, 0, 10),
    ]
    assert found.n_left_out == 0
    step = found.scopes.row(0, named=True)
    assert (step["device"], step["device_share"]) == (device("CPU:1"), 30 / 46)


def test_executions_of_one_op_are_one_row():
    """A loop's turns add up."""
    found = tree_of(op("w/mm", start_us=0), op("w/mm", start_us=20))

    assert found.scopes.select("scope", "n_ops", "duration_us").rows() == [
        ("", 2, 20),
        ("w", 2, 20),
        ("w/mm", 2, 20),
    ]


def test_misplaced_time_is_told_of_every_scope_around_it():
    """What is misplaced is part of all scopes that the gradient op is in."""
    found = tree_of(
        op("mm", on="CPU:1"),
        op("gradients/mm_grad/MatMul", start_us=20, duration_us=7, inputs=["mm"]),
    )

    misplaced = dict(found.scopes.select("scope", "misplaced_us").iter_rows())
    assert misplaced == {
        "": 7,
        "mm": 0,
        "gradients": 7,
        "gradients/mm_grad": 7,
        "gradients/mm_grad/MatMul": 7,
    }


def test_the_smallest_are_left_out_and_counted():
    """What has least time goes first, and never a scope before what is in it."""
    found = tree_of(
        *(op(f"s/{i}", start_us=10 * i, duration_us=i) for i in range(1, 6)), most=3
    )

    assert found.scopes["scope"].to_list() == ["", "s", "s/5", "s/4"]
    assert found.n_left_out == 3


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda p: p.stem)
def test_scopes_of_sample_runs_are_those_a_loop_over_names_adds_up(path):
    """Splitting each name by hand gives the same sums."""
    analysis = analyze_run(load_run(path, cache=False))
    flow = Flow(analysis.run, analysis.colocation)
    expected = collections.Counter()
    for name, us in flow.executed.select("name", "duration_us").iter_rows():
        parts = name.split("/")
        for depth in range(min(len(parts), 12) + 1):
            expected["/".join(parts[:depth])] += us

    found = scope_tree(flow, most=1_000_000)

    assert dict(found.scopes.select("scope", "duration_us").iter_rows()) == expected
    assert set(found.scopes["parent"].drop_nulls()) <= set(found.scopes["scope"])


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=lambda look: look.name)
def test_an_icicle_shows_markup_as_text(look):
    """Names are text; time is width; what is misplaced is hatched."""
    found = tree_of(
        op("<b>mm</b>", on="CPU:1", duration_us=4),
        op("gradients/<b>mm</b>_grad/MatMul", start_us=20, duration_us=7),
    )

    figure = icicle_figure(found, (device("CPU:0"), device("CPU:1")), look)

    (icicle,) = figure.data
    assert "&lt;b&gt;mm&lt;" in icicle.labels
    assert not any("<b>mm" in text for text in (*icicle.labels, *icicle.hovertext))
    assert icicle.values[0] == 11
    width = dict(zip(icicle.ids, icicle.values, strict=True))
    assert width["/gradients"] == 7
    assert icicle.parents[0] == ""
    assert set(icicle.parents[1:]) <= set(icicle.ids)
    assert len(set(icicle.marker.colors)) == 2


def test_an_icicle_of_nothing_is_empty():
    """A step without a proved op has no scopes and no picture."""
    found = tree_of(op("kernel", row_kind="stream", row="/device:GPU:0/stream:all"))

    assert found.scopes.is_empty()
    assert not icicle_figure(found, (), LIGHT).data
