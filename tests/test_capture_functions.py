"""Steps that are calls of a ``tf.function``, captured from real scripts."""

import gzip
import re

import pytest

from placement_viz import analyze_run, names
from placement_viz.parser import load_run, parse_run
from tests.scripts import EAGER, TAPE_STEP, last_line

pytestmark = pytest.mark.tensorflow

#: Takes its batches from an iterator, and each of them by one of two ways.
ITERATOR = """
data = tf.data.Dataset.random(seed=3).map(lambda i: tf.cast(i % 7, tf.float32) * ONES)

names = iter(tf.data.Dataset.from_tensors("abc").repeat())

@tf.function
def from_iterator(iterator, names, unit):
    loss = train_step(next(iterator))
    for text in (next(names), unit):
        loss += tf.cast(tf.strings.length(text), tf.float32)
    for _ in tf.range(2):
        loss += train_step(next(iterator))
    return loss

iterator = iter(data.shuffle(9, seed=4).take(14))
for step in range(4):
    unit = tf.constant("metre")
    print(from_iterator(iterator, names, unit).numpy(), w.numpy().sum())
try:
    from_iterator(iterator, names, unit)
except tf.errors.OutOfRangeError:
    print("out of data")
"""

KERAS = """
import keras
import numpy as np

class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.second = keras.layers.Dense(4), keras.layers.Dropout(0.3)

    def call(self, x, training=False):
        with tf.device("/cpu:1"):
            return self.second(self.first(x), training=training)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}

keras.utils.set_random_seed(5)
x = np.random.default_rng(0).normal(size=(40, 4)).astype("float32")
"""

FIT = """
model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dropout(0.3)])
model.compile("adam", "mse")
print(model.fit(x, x, batch_size=8, epochs=2, verbose=0).history)
"""

OWN_TRAIN_STEP = """
model = Model()
model.compile("adam", "mse", steps_per_execution=2, jit_compile=False)
model.fit(x, x, batch_size=8, epochs=3, verbose=0)
print([weights.sum() for weights in model.get_weights()])
"""

MIRRORED = """
strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
with strategy.scope():
    v = tf.Variable(tf.ones([4, 1]), name="v")
    optimizer = tf.keras.optimizers.SGD(0.1)
data = tf.data.Dataset.from_tensor_slices(tf.random.normal([40, 4], seed=6))
data = strategy.experimental_distribute_dataset(data.batch(8))

def replica(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(x @ v - 1.0))
    optimizer.apply_gradients([(tape.gradient(loss, v), v)])
    return loss

@tf.function
def mirrored(iterator):
    losses = strategy.run(replica, args=(next(iterator),))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

iterator = iter(data)
for step in range(5):
    print(mirrored(iterator).numpy())
"""

CALLS = "for step in range(5): print(train_step(ONES).numpy())"


@pytest.mark.parametrize(
    ("parts", "function", "n_devices"),
    [
        ((TAPE_STEP, CALLS), "train_step", 2),
        ((TAPE_STEP, ITERATOR), "from_iterator", 2),
        ((KERAS, FIT), "multi_step_on_iterator", 1),
        ((KERAS, OWN_TRAIN_STEP), "multi_step_on_iterator", 2),
        ((MIRRORED,), "mirrored", 2),
    ],
    ids=["function", "iterator", "keras", "keras-own-step", "mirrored"],
)
def test_training_is_unchanged(  # noqa: PLR0913, PLR0917 - the fixtures
    parts, function, n_devices, script, python, capture, section
):
    """A seeded training prints the same numbers, and its third call is replayed."""
    name = script(EAGER, *parts)
    plain = python(name)

    result = capture(name)

    assert plain.returncode == result.returncode == 0
    assert result.stdout == plain.stdout
    assert f"captured run 3 of the tf.function {function}, replayed" in result.stderr
    step = section()
    assert (step.function, step.is_replayed, step.step) == (function, True, 3)
    # Also: the replay has every op where the program's own call had it.
    assert step.remarks == ()
    assert len(step.step_times_us) == 10
    assert step.traced_step_us > 0
    assert len(step.placed) == n_devices
    assert [names.short_device(d.name) for d in step.devices] == ["CPU:0", "CPU:1"]


def test_ops_are_timed_and_paired(script, capture, section, tmp_path):
    """Times come from the replay, and gradients of the tape name their forward op."""
    name = script(EAGER, TAPE_STEP, CALLS)
    lines = (EAGER + TAPE_STEP).splitlines()

    capture(name)

    run = load_run(str(tmp_path / "timeline.json"))
    assert run.trace.span_us > 0
    assert [notice.code for notice in run.trace.notices] == ["replayed"]
    nodes = {node.name: node for node in section().nodes}
    sources = section().sources
    assert nodes["w"].op == "VarHandleOp"
    assert nodes["gradient_tape/TanhGrad"].forward == "Tanh"
    assert nodes["gradient_tape/matmul/MatMul"].forward == "matmul"

    def line(position):
        return lines[int(sources[position].partition(":")[2]) - 1]

    # The op's own line, and for a gradient the line that asked for it.
    assert "tf.tanh(x @ w)" in line(nodes["matmul"].source)
    assert nodes["matmul"].call is None
    assert "tape.gradient" in line(nodes["gradient_tape/TanhGrad"].call)
    misplaced = analyze_run(run).colocation.misplaced
    assert "tape.gradient" in lines[int(misplaced["source"][0].split(":")[1]) - 1]


def test_called_functions_are_inlined(script, capture, section):
    """Ops of a called function have its name in front, and their own devices."""
    capture(
        script(
            EAGER,
            """
            with tf.device("/cpu:1"):
                w = tf.Variable(tf.ones([4, 4]), name="w")

            @tf.function
            def layer(x):
                with tf.device("/cpu:1"):
                    return tf.tanh(x @ w, name="active")

            @tf.function
            def train_step(x):
                with tf.GradientTape() as tape:
                    with tf.device("/cpu:0"):
                        loss = tf.reduce_sum(layer(layer(x)), name="loss")
                w.assign_sub(tape.gradient(loss, w))

            for step in range(3):
                train_step(ONES)
            """,
        )
    )
    step = section()
    nodes = {node.name: node for node in step.nodes}
    device = {node: d[-5:] for d, members in step.placed.items() for node in members}

    assert not any("PartitionedCall" in node.op for node in step.nodes)
    calls = ("StatefulPartitionedCall", "StatefulPartitionedCall_1")
    for call in calls:
        assert device[f"{call}/active"] == "CPU:1"
    # The backward pass of a call is another call, which starts from its output.
    backward = {
        node.forward: name for name, node in nodes.items() if node.op == "TanhGrad"
    }
    assert set(backward) == {f"{call}/active" for call in calls}
    for forward, name in backward.items():
        assert nodes[name].inputs[0] == f"{forward}"


CALLBACK = """
@tf.function
def with_python(x):
    x = tf.py_function(lambda y: y, [x], tf.float32, name="mine")
    return train_step(tf.ensure_shape(x, [4, 4]))

for step in range(4): with_python(ONES)
"""

EPOCH = """
data = tf.data.Dataset.from_tensors(ONES).repeat(3)

@tf.function
def epoch():
    for x in data:
        train_step(x)

for step in range(4): epoch()
"""

TABLE = """
table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 1.0)

@tf.function
def with_table(x):
    return train_step(x * table.lookup(tf.constant(3, tf.int64)))

for step in range(4): with_table(ONES)
"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (CALLBACK, "the op mine (EagerPyFunc) calls Python code"),
        (EPOCH, "(ScanDataset) uses what only eager code holds"),
        (TABLE, "(LookupTableFindV2) uses what only eager code holds"),
    ],
    ids=["python", "dataset", "table"],
)
def test_what_cannot_be_replayed_is_placed(body, reason, script, capture, tmp_path):
    """The op is named, and the placement of the program's own call is kept."""
    result = capture(script(EAGER, TAPE_STEP, body))

    assert result.returncode == 0
    assert last_line(result).startswith("note: this run has no times")
    assert reason in last_line(result)
    assert ", its placement alone (" in result.stderr
    analysis = analyze_run(load_run(str(tmp_path / "timeline.json")))
    assert reason in analysis.notices[0].message
    assert analysis.run.trace.span_us == 0
    assert len(analysis.run.trace.devices) == 2


def test_nothing_is_told_twice(script, capture):
    """Ops that print or log do so once a call, as if nothing had been replayed."""
    result = capture(
        script(
            EAGER,
            TAPE_STEP,
            """
            writer = tf.summary.create_file_writer("logs")

            @tf.function
            def telling(x, step):
                tf.print("hello", output_stream=sys.stdout)
                with writer.as_default(step):
                    tf.summary.write("loss", train_step(x))

            import sys
            for step in range(4): telling(ONES, tf.constant(step, tf.int64))
            writer.close()
            found = tf.compat.v1.train.summary_iterator(
                "logs/" + os.listdir("logs")[0])
            print(sum(len(event.summary.value) for event in found))
            """,
        )
    )

    assert result.stdout.splitlines() == ["hello"] * 4 + ["4"]
    assert "replayed" in result.stderr
    assert "1 PrintV2 op, 1 WriteSummary op" in result.stderr


def test_compiled_functions_run_op_by_op(script, capture, section):
    """What XLA would compile as a whole still has a placement, and that is said."""
    result = capture(
        script(
            EAGER,
            TAPE_STEP.replace("@tf.function", "@tf.function(jit_compile=True)").replace(
                'tf.device("/cpu:1")', 'tf.device("/cpu:0")'
            ),
            CALLS,
        )
    )

    assert result.returncode == 0
    assert any("XLA" in remark for remark in section().remarks)
    assert "gradient_tape/TanhGrad" in {node.name for node in section().nodes}


def test_a_tape_around_a_function_is_unharmed(script, python, capture):
    """A tape in eager code calls a backward pass, and that is what is captured."""
    name = script(
        EAGER,
        """
        w = tf.Variable(tf.random.normal([4, 4]), name="w")

        @tf.function
        def forward(x): return tf.reduce_mean(tf.tanh(x @ w))

        for step in range(5):
            with tf.GradientTape() as tape:
                loss = forward(ONES)
            w.assign_sub(tape.gradient(loss, w))
            print(loss.numpy())
        """,
    )
    plain = python(name)

    result = capture(name)

    assert (result.returncode, result.stdout) == (0, plain.stdout)
    assert "captured run 3 of the tf.function __backward_forward" in result.stderr
    assert "put the whole step" in last_line(result)


def test_colocated_tapes_are_captured(script, capture, tmp_path):
    """--placement both shows that the tape's gradients come home."""
    result = capture(
        "--placement", "both", "--out", "runs", script(EAGER, TAPE_STEP, CALLS)
    )
    auto, colocated = (
        analyze_run(load_run(str(tmp_path / f"runs/{name}/timeline.json")))
        for name in ("auto", "colocated")
    )

    assert result.returncode == 0
    assert set(auto.colocation.misplaced["cause"]) == {"tape-scope"}
    assert "colocated_gradients()" in auto.fixes[0].change
    assert colocated.colocation.misplaced.is_empty()
    assert colocated.colocation.summary.colocated_ops > 0
    assert re.search(r"misplaced gradient ops [1-9]\d* → 0", result.stdout)


def test_few_calls_are_captured_at_the_end(script, capture, section):
    """A script with fewer calls than asked for has its last one replayed."""
    name = script(EAGER, TAPE_STEP, "train_step(ONES); train_step(ONES)")

    result = capture(name)

    assert "run 2 of the tf.function train_step, replayed (2 runs; --step asked" in (
        result.stderr
    )
    assert section().step == 2


def test_the_step_can_be_named(script, capture, section):
    """--match takes the function with that name, whatever it computes."""
    name = script(
        EAGER,
        TAPE_STEP,
        """
        @tf.function
        def forward_only(x): return x @ w

        for step in range(3): train_step(ONES); forward_only(ONES)
        """,
    )

    assert capture("--match", "ward_on", name).returncode == 0
    assert section().function == "forward_only"
    missed = capture("--match", "nothing", name)
    assert missed.returncode == 1
    assert "'nothing' finds, found" in last_line(missed)


def test_several_calls_are_captured(script, capture, tmp_path):
    """--steps and --every choose the calls; each has a file, and its raw protos."""
    name = script(EAGER, TAPE_STEP, "for step in range(9): train_step(ONES)")
    options = ("--step", "2", "--steps", "3", "--every", "2", "--keep-raw")

    result = capture(*options, "--out", "runs/run.json.gz", name)

    assert result.returncode == 0
    files = sorted(path.name for path in (tmp_path / "runs").iterdir())
    numbers = ("000", "001", "002")
    assert files == sorted(
        [f"run-{n}.json.gz" for n in numbers]
        + [f"{kind}-{n}.pb" for kind in ("graph", "run_metadata") for n in numbers]
    )
    runs = [load_run(str(tmp_path / f"runs/run-{n}.json.gz")) for n in numbers]
    assert [run.section.step for run in runs] == [2, 4, 6]
    from tensorflow.core.protobuf import config_pb2

    raw = (tmp_path / "runs/run_metadata-000.pb").read_bytes()
    stats = config_pb2.RunMetadata.FromString(raw).step_stats.dev_stats
    n_ops = sum(len(device.node_stats) for device in stats)
    assert n_ops == runs[0].trace.ops.height
    # Read on their own they are the same run, in every form that they are kept in.
    metadata = config_pb2.RunMetadata.FromString(raw)
    for data in (
        raw,
        gzip.compress(raw),
        metadata.step_stats.SerializeToString(),
        str(metadata).encode(),
        str(metadata.step_stats).encode(),
    ):
        same = parse_run(data, source="raw")
        assert same.format == "tensorflow-step-stats"
        assert same.trace.ops.equals(runs[0].trace.ops)
