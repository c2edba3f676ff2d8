"""Programs that a timeline cannot tell apart, though their gradients belong elsewhere.

They are why the engine leaves some devices open when it has no graph, and what the
graph of a run file is good for.
"""

import contextlib
import re

import pytest

from tests.oracle.scoring import Mark, score

pytestmark = pytest.mark.tensorflow

# Graph partitioning numbers its copies over the whole graph, also those not recorded.
_COPY = re.compile(r"/_\d+(?=(?::\d+)?$)")


def loss_on(place):
    """Return a model with one layer on CPU:3 and the loss in ``place``."""
    import tensorflow as tf

    from tests.oracle.models.steps import Step, dense, noise, on

    def build(colocate):
        with on(3):
            y = dense(noise(8, 12), 6, "layer", tf.nn.tanh)
        with place():
            loss = tf.compat.v1.reduce_mean(tf.square(y))
        variables = tf.compat.v1.trainable_variables()
        gradients = tf.compat.v1.gradients
        return Step(gradients(loss, variables, colocate_gradients_with_ops=colocate))

    return build


def product_on(place):
    """Return a model with layers on two devices, multiplied in ``place``."""
    import tensorflow as tf

    from tests.oracle.models.steps import Step, dense, noise, on

    def build(colocate):
        parts = []
        for i in (1, 2):
            with on(i):
                parts.append(dense(noise(8, 12), 6, f"part{i}", tf.nn.tanh))
        with place():
            loss = tf.compat.v1.reduce_mean(parts[0] * parts[1])
        variables = tf.compat.v1.trainable_variables()
        gradients = tf.compat.v1.gradients
        return Step(gradients(loss, variables, colocate_gradients_with_ops=colocate))

    return build


def loops_with_variable_on(place):
    """Return a model with a loop on each of two devices; weights made in ``place``."""
    import tensorflow as tf

    from tests.oracle.models.steps import Step, noise, on

    def build(colocate):
        with place():
            shared = tf.compat.v1.get_variable("shared", [10, 10])
        losses = []
        for i in (1, 2):
            with on(i), tf.name_scope(f"tower{i}"):
                _, y = tf.compat.v1.while_loop(
                    lambda t, _: t < 4,
                    lambda t, y: (t + 1, tf.tanh(tf.matmul(y, shared))),
                    [0, noise(6, 10)],
                )
                losses.append(tf.compat.v1.reduce_mean(y))
        loss = tf.compat.v1.add_n(losses)
        gradients = tf.compat.v1.gradients
        return Step(gradients(loss, [shared], colocate_gradients_with_ops=colocate))

    return build


def rows(sample):
    """Return what a timeline says, but for times and the numbers of copies."""
    columns = ("name", "op_type", "device", "inputs")
    return {
        (_COPY.sub("", name), op_type, device, *(_COPY.sub("", i) for i in inputs))
        for name, op_type, device, inputs in (
            sample.timeline_run().trace.executed.select(columns).iter_rows()
        )
    }


@pytest.mark.parametrize(
    ("model", "place", "control_flow_v2"),
    [
        (loss_on, 3, False),
        (product_on, 1, False),
        (loops_with_variable_on, 0, False),
        (loops_with_variable_on, 1, True),
    ],
)
def test_two_programs_with_one_timeline(model, place, control_flow_v2):
    """Only a graph tells what the program asks for and what TensorFlow chose.

    What belongs on different devices in the two is left open for both, and with the
    run file it is right for both.
    """
    pytest.importorskip("tensorflow")
    from tests.oracle.models.steps import Model, on
    from tests.oracle.recording import record_sample

    one, other = (
        record_sample("model", Model(model(where), control_flow_v2=control_flow_v2))
        for where in (contextlib.nullcontext, lambda: on(place))
    )
    truth = one.truth.by_name, other.truth.by_name
    answers = {each.node: each for each in score(one, "timeline").answers}
    differ = [name for name in answers if truth[0][name] != truth[1].get(name)]

    assert rows(one) == rows(other)
    assert differ
    assert {answers[name].mark for name in differ} == {Mark.UNKNOWN}
    for sample in (one, other):
        assert score(sample, "run file").share(Mark.RIGHT) == 1.0
