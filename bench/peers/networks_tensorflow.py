#!/usr/bin/env python3
"""A network of networks.py in TensorFlow (Keras layers, channels last, one tf.function a step): how fast it
trains (SGD with Nesterov's momentum, or Adam). Pictures lie in memory, normalised, before the clock starts. Prints one
JSON line.
  networks_tensorflow.py --network airbench --variant function
"""

import os

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
    args = networks.arguments(__doc__, VARIANTS)
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.random.set_seed(0)
    net = make(args.network)
    if args.network in networks.ADAM:
        optimizer = tf.keras.optimizers.Adam(learning_rate=0.001)
    else:
        optimizer = tf.keras.optimizers.SGD(learning_rate=0.01, momentum=0.9, nesterov=True)
    optimizer.build(net.trainable_variables)
    pixels, labels = networks.arrays(args.network, args.data, max(4 * args.batch, 10000))
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
        at = i * args.batch % (len(x) - args.batch + 1)
        return float(train(x[at:at + args.batch], y[at:at + args.batch]))

    networks.measure("TensorFlow " + tf.__version__, args, step)


if __name__ == "__main__":
    main()
