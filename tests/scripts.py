"""Pieces of scripts that are captured, and what they print."""

#: Opens every script: TensorFlow 1 graph mode with its log off.
HEAD = """
import os
import sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
"""

#: A matrix product on CPU:1 whose gradients nothing constrains.
TWO_DEVICES = """
x = tf.placeholder(tf.float32, [4, 4], name="x")
with tf.device("/cpu:1"):
    w = tf.get_variable("w", [4, 4], initializer=tf.ones_initializer())
    product = tf.tanh(tf.matmul(x, w, name="product"), name="active")
with tf.device("/cpu:0"):
    loss = tf.reduce_mean(product * product, name="loss")
gradients = tf.gradients(loss, [product, x])
train = tf.train.AdamOptimizer().minimize(loss)
config = tf.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
session = tf.Session(config=config)
session.run(tf.global_variables_initializer())
ONES = [[1.0] * 4] * 4
"""

#: Opens a script of TensorFlow 2 with two logical devices.
EAGER = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
[cpu] = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
tf.random.set_seed(1)
ONES = tf.ones([4, 4])
"""

#: A function that trains a variable on the second device with a tape.
TAPE_STEP = """
with tf.device("/cpu:1"):
    w = tf.Variable(tf.random.normal([4, 4], seed=2), name="w")

@tf.function
def train_step(x):
    with tf.GradientTape() as tape, tf.device("/cpu:1"):
        hidden = tf.nn.dropout(tf.tanh(x @ w), 0.3)
        loss = tf.reduce_mean(tf.square(hidden))
    gradient = tape.gradient(loss, w)
    w.assign_sub(0.1 * gradient)
    return loss
"""


def last_line(result):
    """Return the last line of a process's standard error."""
    return result.stderr.rstrip().rpartition("\n")[2]
