"""The engine against TensorFlow itself: every model, built plain and colocated."""

import pytest

from placement_viz import analyze_run, parse_run

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def recorded():
    """Return the sample of each model and the run file of its colocated step."""
    pytest.importorskip("tensorflow")
    from tests.oracle.models import MODELS
    from tests.oracle.recording import record_pair

    return [record_pair(name, model) for name, model in MODELS.items()]


@pytest.fixture(scope="module")
def totals(recorded):
    """Return input to the total score over all models of the oracle."""
    from tests.oracle.scoring import LIMITS, add_scores, score

    return {
        given: add_scores(score(sample, given) for sample, _ in recorded)
        for given in LIMITS
    }


def test_a_run_file_tells_where_every_gradient_belongs(totals):
    """With the graph the limits for right and wrong answers are kept."""
    from tests.oracle.scoring import LIMITS

    assert totals["run file"].keeps(LIMITS["run file"])


def test_a_timeline_alone_is_not_made_to_say_what_it_cannot_know(totals):
    """Without the graph hardly an answer is wrong; what is open stays open."""
    from tests.oracle.scoring import LIMITS, Mark

    assert totals["timeline"].share(Mark.WRONG) <= LIMITS["timeline"].wrong
    assert totals["timeline"].share(Mark.RIGHT) >= 0.95


@pytest.fixture(scope="module")
def unseen():
    """Return the samples of models that no rule was made after."""
    pytest.importorskip("tensorflow")
    from tests.oracle.models import UNSEEN
    from tests.oracle.recording import record_sample

    return [record_sample(name, model) for name, model in UNSEEN.items()]


def test_the_rules_for_timelines_hold_for_models_they_were_not_made_after(unseen):
    """What is read from names and devices is no habit of the oracle's own models."""
    from tests.oracle.scoring import LIMITS, Mark, add_scores, score

    total = add_scores(score(sample, "timeline") for sample in unseen)

    assert total.share(Mark.WRONG) <= LIMITS["timeline"].wrong
    assert total.share(Mark.RIGHT) >= 0.97


def test_the_replay_holds_for_models_that_it_was_not_made_after(unseen):
    """With the graph the limits are kept for them too."""
    from tests.oracle.scoring import LIMITS, add_scores, score

    total = add_scores(score(sample, "run file") for sample in unseen)

    assert total.keeps(LIMITS["run file"])


def test_a_colocated_run_has_nothing_to_fix(recorded):
    """Whatever the model, no gradient op of its colocated step is misplaced."""
    misplaced = {
        sample.name: found["name"].to_list()
        for sample, run_file in recorded
        if not (
            found := analyze_run(
                parse_run(run_file, source=sample.name)
            ).colocation.misplaced
        ).is_empty()
    }

    assert misplaced == {}
