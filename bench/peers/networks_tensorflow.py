#!/usr/bin/env python3
"""A network of networks.py in TensorFlow (Keras layers, channels last, one tf.function a step): how fast it
trains (SGD with Nesterov's momentum, or Adam). Pictures lie in memory, normalised, before the clock starts. Prints one
JSON line.
  networks_tensorflow.py --network airbench --variant function
"""

import argparse
import json
import os
import time

import networks

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # read when it is imported

import tensorflow as tf  # noqa: E402

VARIANTS = ("function", "xla")


def make(name):
    layers, pictures = tf.keras.layers, networks.pictures(name)
    made = [layers.Input((pictures["side"], pictures["side"], pictures["channels"]))]
    for kind, *values in networks.NETWORKS[name]:
        if kind == "conv":
            filters, kernel, padding, bias = values
            made.append(layers.Conv2D(filters, kernel, padding="same" if padding else "valid", use_bias=bias))
        elif kind == "pool":
            made.append(layers.MaxPooling2D(values[0]))
        elif kind == "norm":
            made.append(layers.BatchNormalization(momentum=0.9, epsilon=1e-5))
        elif kind == "flatten":
            made.append(layers.Flatten())
        elif kind == "dense":
            made.append(layers.Dense(values[0]))
        else:
            made.append(layers.Activation(kind if kind == "relu" else lambda x: tf.nn.gelu(x)))
    return tf.keras.Sequential(made)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=networks.NETWORKS, required=True)
    parser.add_argument("--variant", choices=VARIANTS, default="function")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--data")
    args = parser.parse_args()
    batch = args.batch or networks.BATCH[args.network]
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.random.set_seed(0)
    net = make(args.network)
    if args.network in networks.ADAM:
        optimizer = tf.keras.optimizers.Adam(learning_rate=0.001)
    else:
        optimizer = tf.keras.optimizers.SGD(learning_rate=0.01, momentum=0.9, nesterov=True)
    optimizer.build(net.trainable_variables)
    pixels, labels = networks.arrays(args.network, args.data, max(4 * batch, 10000))
    x, y = tf.constant(pixels), tf.constant(labels)

    @tf.function(jit_compile=args.variant == "xla")
    def train(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x, training=True)))
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables))
        return loss

    def step(i):
        at = i * batch % (len(x) - batch + 1)
        return float(train(x[at:at + batch], y[at:at + batch]))

    step(0)
    step(1)
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < args.seconds:
        step(steps)
        steps += 1
    seconds = time.perf_counter() - begin
    print(json.dumps({"peer": "TensorFlow " + tf.__version__, "variant": args.variant,
                      "images_per_second": steps * batch / seconds}))


if __name__ == "__main__":
    main()
