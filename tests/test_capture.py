"""Steps of sessions, captured from real scripts."""

import json
import re

import pytest

from placement_viz import names
from tests.scripts import HEAD, TWO_DEVICES, last_line

pytestmark = pytest.mark.tensorflow


#: Loops of many ops, as TensorFlow 1 builds them.
LOOPS = "tf.disable_control_flow_v2()\n"

SEEDED = """
print("tensorflow" in sys.modules, sys.argv)
tf.set_random_seed(1)
i, state = tf.constant(0), tf.nn.dropout(tf.matmul(x, w) + tf.random.normal([4]), 0.5)
_, state = tf.while_loop(
    lambda i, s: i < 3, lambda i, s: (i + 1, tf.tanh(tf.matmul(s, w))), [i, state]
)
loss = tf.reduce_mean(state * state)
train = tf.train.AdamOptimizer(0.1).minimize(loss)
session.run(tf.global_variables_initializer())
for step in range(5):
    print(session.run({"loss": [loss], "ops": (train, "active:0")}, {x: ONES}))
"""


def test_training_is_unchanged(script, python, capture, section):
    """A seeded training with dropout and a loop prints the same numbers."""
    name = script(HEAD, LOOPS, TWO_DEVICES, SEEDED)
    plain = python(name, "--out", "x")

    result = capture(name, "--out", "x")

    assert result.returncode == 0
    assert result.stdout == plain.stdout
    assert re.fullmatch(
        r"captured run 3 of the training step \(5 runs\): timeline.json, "
        r"\d+ ops on 2 devices; \S+ .?s traced, \S+ .?s untraced",
        last_line(result),
    )
    step = section()
    assert step.step == 3
    assert step.command == (name, "--out", "x")
    assert step.fetches[0].startswith("Mean")
    assert step.fetches[2] == "active:0"
    assert step.feeds == ("x:0",)
    assert step.soft_placement
    assert [d.name[-5:] for d in step.devices] == ["CPU:0", "CPU:1"]
    assert len(step.step_times_us) == 2
    assert step.traced_step_us > 0


def test_tensorflow_is_imported_by_the_script(script, capture):
    """What a script does before it imports TensorFlow still comes first."""
    name = script(
        'import sys; print("tensorflow" in sys.modules)\n',
        HEAD,
        TWO_DEVICES,
        "session.run(train, {x: ONES})",
    )

    assert capture(name).stdout == "False\n"


def test_events_are_those_of_tensorflows_timeline(script, capture, tmp_path):
    """The trace is TensorFlow's own rendering of the very same step stats."""
    result = capture(
        script(
            HEAD,
            TWO_DEVICES,
            """
            from tensorflow.python.client import timeline
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            for step in range(3):
                metadata = tf.RunMetadata()
                session.run(train, {x: ONES}, options, metadata)
            trace = timeline.Timeline(metadata.step_stats)
            print(trace.generate_chrome_trace_format())
            """,
        )
    )
    written = json.loads((tmp_path / "timeline.json").read_text())

    assert written["traceEvents"] == json.loads(result.stdout)["traceEvents"]
    assert not list(tmp_path.glob(".*"))


def test_nodes_are_those_of_the_graph_def(script, capture, section):
    """Names, types, devices, inputs and groups are what TensorFlow would export."""
    result = capture(
        script(
            HEAD,
            LOOPS,
            TWO_DEVICES,
            SEEDED,
            """
            import json
            print(json.dumps([
                [n.name, n.op, n.device, list(n.input),
                 [c.decode()[5:] for c in n.attr["_class"].list.s]]
                for n in tf.get_default_graph().as_graph_def().node
            ]))
            """,
        )
    )
    last = result.stdout.splitlines()[-1]
    expected = [
        [name, op, device, inputs, [] if groups == [name] else groups]
        for name, op, device, inputs, groups in json.loads(last)
    ]

    assert expected == [
        [n.name, n.op, n.device, list(n.inputs), list(n.colocate)]
        for n in section().nodes
    ]


def test_a_gradient_op_names_its_forward_op(script, capture, section):
    """Sums and seeds of gradients belong to a forward op too, and nothing else does."""
    result = capture(
        script(
            HEAD,
            """
            x = tf.placeholder(tf.float32, [2], name="x")
            with tf.device("/cpu:0"):
                a = tf.identity(x, name="a")
                b = [tf.exp(a, name="b0"), tf.exp(a, name="b1")]
            with tf.device("/cpu:1"):
                c = [tf.exp(a, name="c0"), tf.exp(a, name="c1")]
            loss = tf.add_n(b + c, name="loss")
            d, = tf.gradients(loss, x, colocate_gradients_with_ops=True)
            config = tf.ConfigProto(device_count={"CPU": 2})
            tf.Session(config=config).run(d, {x: [1, 2]})
            """,
        )
    )
    forward = {n.name: n.forward for n in section().nodes}

    assert result.returncode == 0
    assert forward["gradients/grad_ys_0"] == "loss"
    assert forward["gradients/b0_grad/mul"] == "b0"
    # One partial sum on each device and then their sum, all for the gradient of a.
    assert {forward[f"gradients/AddN{n}"] for n in ("", "_1", "_2")} == {"a"}
    assert {n for n, f in forward.items() if f and not n.startswith("gradients/")} == (
        set()
    )


def test_colocation_brings_gradients_home(script, capture, section):
    """Left alone they gather on the first device; colocated they follow their op."""
    name = script(HEAD, TWO_DEVICES, "session.run(gradients, {x: ONES})")
    capture("--out", "auto", name)
    capture("--out", "colocated", "--placement", "colocated", name)
    gradient = "gradients/active_grad/TanhGrad"

    def devices(folder):
        placed = section(folder).placed.items()
        return {node: names.short_device(d) for d, nodes in placed for node in nodes}

    assert devices("auto")["active"] == "CPU:1"
    assert devices("auto")[gradient] == "CPU:0"
    assert devices("colocated")[gradient] == "CPU:1"
    assert section("auto").placement == "as-is"
    assert section("colocated").placement == "colocated"


def test_both_compares(script, capture, tmp_path):
    """One command captures the script as it is and colocated, and compares."""
    name = script(HEAD, TWO_DEVICES, "print(session.run(gradients, {x: ONES})[0][0])")

    result = capture("--placement", "both", "--out", "runs", name)

    assert result.returncode == 0
    assert result.stderr.count("captured run 1 of the training step") == 2
    assert (tmp_path / "runs/auto/timeline.json").exists()
    assert (tmp_path / "runs/colocated/timeline.json").exists()
    printed = result.stdout.splitlines()
    assert printed[0] == printed[1]
    assert len(printed) > 2


def test_bytes_and_sources_are_recorded(script, capture, section):
    """A tensor has its size, and an op the script's line that made it."""
    name = script(HEAD, TWO_DEVICES, "session.run(gradients, {x: ONES})")
    capture(name)
    step = section()
    nodes = {node.name: node for node in step.nodes}
    lines = (HEAD + TWO_DEVICES).splitlines()

    def line(node):
        file, _, number = step.sources[nodes[node].source].partition(":")
        assert file == name
        return lines[int(number) - 1]

    assert step.tensor_bytes["product:0"] == 64
    (taken,) = {
        each.n_bytes
        for allocators in step.allocations.values()
        for allocations in allocators.values()
        for each in allocations
        if each.op == "product" and each.freed_us is not None
    }
    assert taken >= 64
    assert "tf.matmul" in line("product")
    assert "tf.gradients" in line("gradients/active_grad/TanhGrad")
    assert "minimize" in line("Adam/update_w/ResourceApplyAdam")
    assert nodes["product"].dtype == "float32"


def test_a_short_training_is_captured(script, capture, section):
    """A script with fewer runs than asked for has its last one traced."""
    name = script(HEAD, TWO_DEVICES, "for i in '12': session.run(train, {x: ONES})")

    result = capture("--step", "5", name)

    assert result.returncode == 0
    assert "run 2 of the training step (2 runs; --step asked for 5)" in result.stderr
    assert section().step == 2


def test_the_first_step_to_reach_its_number_is_traced(script, capture, section):
    """Runs are counted for each set of fetches, and those without gradients not."""
    name = script(
        HEAD,
        TWO_DEVICES,
        """
        for step in range(3):
            session.run(loss, {x: ONES})
            session.run([loss, gradients], {x: ONES})
            session.run(train, {x: ONES})
            session.run("Adam", {"x:0": ONES})
        """,
    )

    capture("--step", "3", name)

    assert section().fetches == ("Adam",)
    assert section().step == 3


def test_the_file_is_there_before_the_script_ends(script, capture, section):
    """A long training can be looked at, and be killed, once its step is complete."""
    name = script(
        HEAD,
        TWO_DEVICES,
        "os.chdir('/')\n",
        "for step in range(11): session.run(train, {x: ONES})\nos._exit(9)",
    )

    result = capture("--step", "1", name)

    assert result.returncode == 9
    assert len(section().step_times_us) == 10


def test_a_failing_script_fails_as_ever(script, python, capture, section):
    """Its traceback has no frame of ours, and the step before it is kept."""
    name = script(
        HEAD,
        TWO_DEVICES,
        """
        session.run(train, {x: ONES})
        session.run(train, {x: [1, 2]})
        """,
    )
    traceback = re.compile(r"^Traceback.*?^ValueError[^\n]*", re.DOTALL | re.MULTILINE)

    result = capture(name)

    assert result.returncode == 1
    assert traceback.findall(result.stderr) == traceback.findall(python(name).stderr)
    assert section().step == 1


def test_a_monitored_session_is_captured(script, capture):
    """A training that ends with its data is traced and ends just there."""
    name = script(
        HEAD,
        """
        data = tf.data.Dataset.range(4).map(lambda v: tf.cast(v, tf.float32))
        value = tf.data.make_one_shot_iterator(data).get_next()
        w = tf.get_variable("w", [], initializer=tf.ones_initializer())
        loss = (w * value - 2) ** 2
        count = tf.train.get_or_create_global_step()
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, count)
        hooks = [tf.train.StopAtStepHook(99)]
        with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
            while not session.should_stop():
                print(session.run([train, loss]))
        """,
    )

    result = capture("--step", "9", name)

    assert result.returncode == 0
    assert result.stdout.count("\n") == 4
    assert "captured run 4" in last_line(result)


def test_own_run_metadata_is_filled_as_asked(script, python, capture):
    """A script that traces or wants partition graphs gets these and no more."""
    name = script(
        HEAD,
        TWO_DEVICES,
        """
        for level in (tf.RunOptions.NO_TRACE, tf.RunOptions.FULL_TRACE):
            for graphs in (False, True):
                options = tf.RunOptions(trace_level=level, timeout_in_ms=9999)
                options.output_partition_graphs = graphs
                metadata = tf.RunMetadata()
                session.run(train, {x: ONES}, options, metadata)
                stats = metadata.step_stats.dev_stats
                print(sorted(s.device for s in stats), len(metadata.partition_graphs))
        metadata = tf.RunMetadata()
        session.run(train, {x: ONES}, run_metadata=metadata)
        print(metadata)
        """,
    )

    result = capture("--step", "9", name)

    assert result.returncode == 0
    assert result.stdout == python(name).stdout


def test_fetches_may_have_any_structure(script, capture, section):
    """Names, variables, tuples, sparse gradients and empty lists are understood."""
    name = script(
        HEAD,
        """
        import collections
        table = tf.get_variable("table", [4, 2], initializer=tf.ones_initializer())
        rows = tf.gather(table, [1, 2], name="rows")
        sparse, = tf.gradients(rows, table)
        Pair = collections.namedtuple("Pair", "left right")
        session = tf.Session()
        session.run(tf.global_variables_initializer())
        print(session.run({"p": Pair(sparse, ["rows:0", []]), 3: table, None: ()}))
        """,
    )

    result = capture(name)

    assert result.returncode == 0
    assert "'p': Pair(left=IndexedSlicesValue(" in result.stdout
    assert any(fetch.startswith("gradients/") for fetch in section().fetches)


def test_an_imported_graph_is_known_by_names(script, capture, section):
    """Nothing was noted of a graph that was loaded; its scopes still tell."""
    name = script(
        HEAD,
        """
        with tf.Graph().as_default() as first:
            x = tf.placeholder(tf.float32, [2], name="x")
            tf.gradients(x * x, x)
        with tf.Graph().as_default() as second, tf.Session() as session:
            tf.import_graph_def(first.as_graph_def(), name="old")
            session.run("old/gradients/AddN:0", {"old/x:0": [1, 2]})
        """,
    )

    result = capture(name)

    assert result.returncode == 0
    assert section().fetches == ("old/gradients/AddN:0",)
    assert not any(node.forward for node in section().nodes)


def test_training_goes_on_when_tracing_fails(script, capture):
    """The step is run plainly, and the reason is said in one line."""
    name = script(
        HEAD,
        """
        from tensorflow.python.client import session as sessions
        plain = sessions.BaseSession._run
        def run(self, handle, fetches, feed_dict, options, run_metadata):
            if options is not None:
                raise tf.errors.InternalError(None, None, "no tracer\\nhere")
            return plain(self, handle, fetches, feed_dict, options, run_metadata)
        sessions.BaseSession._run = run
        """,
        TWO_DEVICES,
        "for step in range(4): print(session.run([loss, train], {x: ONES}))",
    )

    result = capture(name)

    assert result.stdout.count("\n") == 4
    assert result.returncode == 1
    assert last_line(result).endswith("ran it untraced: InternalError: no tracer here")


def test_a_script_without_gradients_says_so(script, capture, tmp_path):
    """The error counts the calls that were seen and writes no file."""
    result = capture(script(HEAD, TWO_DEVICES, "session.run(loss, {x: ONES})"))

    assert result.returncode == 1
    assert "found 2 calls of sessions and functions and none" in last_line(result)
    assert not (tmp_path / "timeline.json").exists()


def test_eager_code_is_told_what_can_be_captured(script, capture):
    """A tape outside a tf.function leaves no graph, and the error says what to do."""
    result = capture(
        script(
            """
            import tensorflow as tf
            with tf.GradientTape() as tape:
                x = tf.Variable(1.0)
                loss = x * x
            tape.gradient(loss, x)
            """
        )
    )

    assert result.returncode == 1
    assert "found no Session.run call and no call of a tf.function" in last_line(result)
    assert "put the step, the gradients with it, into a tf.function" in result.stderr
