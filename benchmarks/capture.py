"""What capture costs a training outside its traced steps."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["bench_capture"]

_ROUNDS = 9

#: The steps after those that are traced or timed for the record.
_MEASURE = """
for step in range(30):
    train()
seconds = []
for step in range(200):
    start = time.perf_counter()
    train()
    seconds.append(time.perf_counter() - start)
print(statistics.median(seconds))
"""

_SESSION = """
import os, statistics, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
w = tf.get_variable("w", [300, 300])
loss = tf.reduce_sum(tf.tanh(tf.matmul(w, w)))
update = tf.train.GradientDescentOptimizer(1e-6).minimize(loss)
session = tf.Session()
session.run(tf.global_variables_initializer())
train = lambda: session.run(update)
"""

_FUNCTION = """
import os, statistics, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
w = tf.Variable(tf.random.normal([300, 300]))

@tf.function
def train():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.tanh(w @ w))
    w.assign_sub(1e-6 * tape.gradient(loss, w))
"""


def bench_capture() -> None:
    """Print the ratio of captured to plain step times, in interleaved runs."""
    for kind, script in (("Session.run", _SESSION), ("tf.function", _FUNCTION)):
        plain, captured = [], []
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "train.py"
            path.write_text(script + _MEASURE, encoding="utf-8")
            for _ in range(_ROUNDS):
                plain.append(_step_seconds([str(path)]))
                capture = ["-m", "placement_viz.capture", "--out", folder, str(path)]
                captured.append(_step_seconds(capture))
        # A process is slowed down by its neighbours, and never made faster.
        ratio = min(captured) / min(plain)
        pairs = zip(captured, plain, strict=True)
        ratios = sorted(after / before for after, before in pairs)
        print(
            f"{kind}: 200 untraced steps captured / plain: {ratio:.3f}, the best of "
            f"each (pairs from {ratios[0]:.3f} to {ratios[-1]:.3f}; a step takes "
            f"{min(plain) * 1e6:.0f} µs)",
            flush=True,
        )


def _step_seconds(command: list[str]) -> float:
    """Run a script and return the median step time that it prints."""
    process = subprocess.run(
        [sys.executable, *command], stdout=subprocess.PIPE, text=True, check=True
    )
    return float(process.stdout)


if __name__ == "__main__":
    bench_capture()
