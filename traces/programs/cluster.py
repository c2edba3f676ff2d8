"""Where does a training step run that is shared by the processes of a cluster?

The program is a worker, and starts on this machine a second worker and a parameter
server, which keeps the variables. Each worker computes the loss of a copy of the
network, a tower, and its gradients; the parameter server applies their mean.

Every process runs one op at a time, on its CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator

# Read when TensorFlow is imported. Whatever fails still raises.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

Cluster = dict[str, list[str]]

N_WORKERS = 2
PARAMETER_SERVER = "/job:ps/task:0/cpu:0"
N_FEATURES = 256
N_CLASSES = 10
LAYERS = (512, 512, N_CLASSES)

#: For each other process to start.
TIMEOUT_S = 60

ONE_OP_AT_A_TIME = tf1.ConfigProto(
    intra_op_parallelism_threads=1, inter_op_parallelism_threads=1
)


def free_addresses(n: int) -> list[str]:
    """Return ``n`` addresses of this machine that nothing listens on."""
    # All are open at once, so that they differ.
    sockets = [socket.create_server(("localhost", 0)) for _ in range(n)]
    addresses = [f"localhost:{opened.getsockname()[1]}" for opened in sockets]
    for opened in sockets:
        opened.close()
    return addresses


@contextlib.contextmanager
def other_process(cluster: Cluster, job: str, task: int) -> Iterator[None]:
    """Run this program as another task of the cluster, from when it serves."""
    command = [sys.executable, __file__, "--serve", json.dumps(cluster), job, str(task)]
    pipe = subprocess.PIPE
    with (
        # TensorFlow says more there than what fails.
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors) as process,  # noqa: S603 - this file
    ):
        try:
            serves, _, _ = select.select([process.stdout], [], [], TIMEOUT_S)
            if not serves or not process.stdout.readline():
                errors.seek(0)
                raise ChildProcessError(f"{job} {task} did not start: {errors.read()}")
            yield
        finally:
            process.kill()


def serve(cluster: Cluster, job: str, task: int) -> None:
    """Be a task of the cluster until the process that started this one ends."""
    _server = tf.distribute.Server(cluster, job, task, config=ONE_OP_AT_A_TIME)
    print("serving", flush=True)
    # The pipe closes however that process ends.
    sys.stdin.read()


def tower_loss(features: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Return the mean cross entropy of the network's answers for one batch."""
    values = features
    for i, n_units in enumerate(LAYERS):
        weights = tf1.get_variable(f"weights_{i}", [values.shape[-1], n_units])
        logits = tf.matmul(values, weights, name=f"dense_{i}")
        values = tf.nn.relu(logits)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return tf.reduce_mean(losses, name="loss")


def build() -> tuple[list[tuple[tf.Tensor, tf.Tensor]], tf.Tensor, tf.Operation]:
    """Return each tower's (features, labels) inputs, the mean loss and the train op."""
    inputs, losses, by_tower = [], [], []
    optimizer = tf1.train.MomentumOptimizer(learning_rate=0.01, momentum=0.9)
    for i in range(N_WORKERS):
        worker = f"/job:worker/task:{i}/cpu:0"
        placement = tf1.train.replica_device_setter(1, PARAMETER_SERVER, worker)
        with (
            tf1.device(placement),
            tf1.variable_scope("", reuse=tf1.AUTO_REUSE),
            tf.name_scope(f"tower_{i}"),
        ):
            features = tf1.placeholder(tf.float32, [None, N_FEATURES], name="features")
            labels = tf1.placeholder(tf.int32, [None], name="labels")
            inputs.append((features, labels))
            losses.append(tower_loss(features, labels))
            by_tower.append(optimizer.compute_gradients(losses[-1]))
    with tf1.device(PARAMETER_SERVER):
        gradients = [
            (tf.add_n([gradient for gradient, _ in pairs]) / N_WORKERS, pairs[0][1])
            for pairs in zip(*by_tower, strict=True)
        ]
        loss = tf.reduce_mean(tf.stack(losses), name="mean_loss")
        return inputs, loss, optimizer.apply_gradients(gradients)


def batches(n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield random batches of ``n`` features and labels, the same ones in every run."""
    generator = np.random.default_rng(seed=0)
    centers = generator.normal(size=(N_CLASSES, N_FEATURES))
    while True:
        labels = generator.integers(N_CLASSES, size=n)
        yield centers[labels] + generator.normal(scale=4, size=(n, N_FEATURES)), labels


def train(target: str, arguments: argparse.Namespace) -> None:
    """Train for some steps and print the loss of each."""
    data = batches(arguments.batch)
    with tf.Graph().as_default():
        tf1.set_random_seed(0)
        inputs, loss, update = build()
        with tf1.train.MonitoredTrainingSession(
            target, config=ONE_OP_AT_A_TIME
        ) as session:
            for step in range(1, arguments.steps + 1):
                feeds = {}
                for features, labels in inputs:
                    feeds[features], feeds[labels] = next(data)
                value, _ = session.run([loss, update], feeds)
                print(f"step {step}: loss {value:.4f}")


def main() -> None:
    """Start the other processes and train with them, or be one of them."""
    arguments = parse_arguments()
    if arguments.serve is not None:
        cluster, job, task = arguments.serve
        serve(json.loads(cluster), job, int(task))
        return
    parameters, *workers = free_addresses(1 + N_WORKERS)
    cluster = {"ps": [parameters], "worker": workers}
    with other_process(cluster, "ps", 0), other_process(cluster, "worker", 1):
        server = tf.distribute.Server(cluster, "worker", 0, config=ONE_OP_AT_A_TIME)
        train(server.target, arguments)


def parse_arguments() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=64,
        metavar="N",
        help="samples per worker and step (default: %(default)s)",
    )
    parser.add_argument(
        "--steps", type=int, default=14, metavar="N", help="default: %(default)s"
    )
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
