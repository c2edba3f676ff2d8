from placement_viz import compare_runs
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
