from hypothesis import given
from hypothesis import strategies as st

from placement_viz import compare_runs
from placement_viz.analysis.compare import CHANGES
from placement_viz.reports.sentences import comparison_headline
from tests.builders import device, op, run

FORWARD = op("mm", on="CPU:1")


def test_a_gradient_that_came_home_is_fixed():
    """The move has its two devices, its two times and its kind."""
    before = run(FORWARD, op("gradients/mm_grad/Mul", on="CPU:0", duration_us=7))
    after = run(FORWARD, op("gradients/mm_grad/Mul", on="CPU:1", duration_us=5))

    (move,) = compare_runs(before, after).moves.to_dicts()

    assert move["kind"] == "fixed"
    assert (move["from_device"], move["to_device"]) == (
        device("CPU:0"),
        device("CPU:1"),
    )
    assert (move["baseline_us"], move["candidate_us"]) == (7, 5)


def test_a_gradient_is_recognised_in_another_scope():
    """Gradients built another way lie in scopes of other numbers."""
    before = run(FORWARD, op("gradients/mm_grad/Mul", on="CPU:0"))
    after = run(FORWARD, op("gradients_2/mm_grad/Mul", on="CPU:1"))

    comparison = compare_runs(before, after)

    assert comparison.moves["candidate_name"].to_list() == ["gradients_2/mm_grad/Mul"]
    assert comparison.only_baseline.is_empty()
    assert comparison.only_candidate.is_empty()


def test_a_forward_op_that_moved_is_collateral():
    """Colocation can move more than gradients, and that is shown."""
    moves = compare_runs(run(op("mm", on="CPU:1")), run(op("mm", on="CPU:2"))).moves

    assert moves["kind"].to_list() == ["collateral"]


def test_a_gradient_still_away_is_residual_and_a_new_one_broken():
    """A move that helps nobody is no fix."""
    before = run(FORWARD, op("gradients/mm_grad/A", on="CPU:0"), op("x", on="CPU:2"))
    after = run(FORWARD, op("gradients/mm_grad/A", on="CPU:2"), op("x", on="CPU:2"))

    assert compare_runs(before, after).moves["kind"].to_list() == ["residual"]

    home = run(FORWARD, op("gradients/mm_grad/A", on="CPU:1"), op("x", on="CPU:2"))

    assert compare_runs(home, after).moves["kind"].to_list() == ["broken"]


def test_ops_of_only_one_run_are_listed():
    """Longest first, each on its side."""
    before = run(op("a"), op("b", duration_us=1), op("c", duration_us=9))
    after = run(op("a"), op("d"))

    comparison = compare_runs(before, after)

    assert comparison.only_baseline["name"].to_list() == ["c", "b"]
    assert comparison.only_candidate["name"].to_list() == ["d"]
    assert comparison.matched_ops == 1


def test_a_run_against_itself_shows_no_difference():
    """Repeated names (loops) are matched in order."""
    same = run(
        FORWARD,
        op("loop", on="CPU:0", start_us=1),
        op("loop", on="CPU:1", start_us=2),
        op("gradients/mm_grad/Mul"),
    )

    comparison = compare_runs(same, same)

    assert comparison.moves.is_empty()
    assert comparison.only_baseline.is_empty()
    assert comparison.only_candidate.is_empty()
    assert comparison.matched_ops == 4


op_specs = st.lists(
    st.tuples(
        st.sampled_from(["mm", "gradients/mm_grad/A", "gradients/mm_grad/B", "x", "y"]),
        st.sampled_from(["CPU:0", "CPU:1", "CPU:2"]),
        st.integers(0, 50),
    ),
    min_size=1,
    max_size=8,
)


def of(specs):
    """Return a run of ops given by name, device and duration, in that order."""
    return run(
        *(
            op(name, on=on, start_us=number, duration_us=us)
            for number, (name, on, us) in enumerate(specs)
        )
    )


@given(op_specs, op_specs)
def test_every_op_is_paired_or_new_or_gone(before, after):
    """Nothing is counted twice, and the kinds of change add up in ops and in time."""
    comparison = compare_runs(of(before), of(after))
    pairs, changes = comparison.pairs, {c.kind: c for c in comparison.changes}

    assert tuple(changes) == CHANGES
    for side, specs, only in (
        ("baseline", before, "gone"),
        ("candidate", after, "new"),
    ):
        assert pairs[f"{side}_op"].n_unique() == pairs.height
        assert pairs.height + changes[only].ops == len(specs)
    moved = [changes[kind] for kind in CHANGES if kind not in {"gone", "new"}]
    assert sum(change.ops for change in moved) == comparison.moves.height
    assert sum(c.baseline_us for c in moved) == comparison.moves["baseline_us"].sum()
    assert sum(c.candidate_us for c in moved) == comparison.moves["candidate_us"].sum()


@given(op_specs)
def test_no_run_differs_from_itself(specs):
    """Every op is paired with itself, and the sentence says that nothing changed."""
    comparison = compare_runs(of(specs), of(specs))

    assert all(change.ops == 0 for change in comparison.changes)
    assert comparison.pairs["baseline_op"].equals(
        comparison.pairs["candidate_op"].rename("baseline_op")
    )
    assert comparison_headline(comparison).startswith("No op moved, none is new and")
