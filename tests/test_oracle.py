"""The engine against TensorFlow itself: every model, built plain and colocated."""

import pytest

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def totals():
    """Return input to the total score over all models of the oracle."""
    pytest.importorskip("tensorflow")
    from tests.oracle.models import MODELS
    from tests.oracle.recording import record_sample
    from tests.oracle.scoring import LIMITS, add_scores, score

    samples = [record_sample(name, model) for name, model in MODELS.items()]
    return {
        given: add_scores(score(sample, given) for sample in samples)
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
    assert totals["timeline"].share(Mark.RIGHT) >= 0.9
