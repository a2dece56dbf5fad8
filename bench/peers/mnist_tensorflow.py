#!/usr/bin/env python3
"""The MNIST CNN in TensorFlow (Keras layers, channels last, one tf.function per step): training
speed without and with XLA.

Data lie in memory, normalised, before the clock starts. Every result is one JSON line on stdout;
a line with "event" says when the first step is done.
  mnist_tensorflow.py --batch 128 --variants function,xla
"""

import argparse
import json
import os
import resource
import sys
import time

import mnist_data

# TensorFlow reads these when it is imported. By itself it uses oneDNN on some CPUs only.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0" if "--no-onednn" in sys.argv else "1"

import tensorflow as tf  # noqa: E402

VARIANTS = ("function", "xla")


def make_net():
    layers = tf.keras.layers
    return tf.keras.Sequential([
        layers.Input((28, 28, 1)),
        layers.Conv2D(32, 3, activation="relu"),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Dropout(0.25),
        layers.Flatten(),
        layers.Dense(128, activation="relu"),
        layers.Dropout(0.5),
        layers.Dense(10),
    ])


def make_step(net, lr, xla):
    optimizer = tf.keras.optimizers.Adadelta(learning_rate=lr, rho=0.9, epsilon=1e-6)
    optimizer.build(net.trainable_variables)

    @tf.function(jit_compile=xla)
    def step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x, training=True))
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables))
        return loss

    return step


def emit(args, variant, **values):
    head = {"peer": "TensorFlow", "version": tf.__version__,
            "variant": variant + ("" if args.no_onednn else "+onednn"),
            "batch": args.batch, "threads": args.threads}
    print(json.dumps({**head, **values}), flush=True)


def measure(args, variant, pixels, labels):
    """Images per second of whole training steps, after a warm-up."""
    step = make_step(make_net(), args.lr, variant == "xla")
    x = [tf.constant(pixels[i:i + args.batch, :, :, None])
         for i in range(0, len(pixels) - args.batch + 1, args.batch)]
    y = [tf.constant(labels[i:i + args.batch])
         for i in range(0, len(labels) - args.batch + 1, args.batch)]

    def run(steps, start):
        for i in range(start, start + steps):
            loss = step(x[i % len(x)], y[i % len(x)])
        return float(loss)

    run(1, 0)
    emit(args, variant, event="first_step")
    run(args.warmup, 1)
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < args.seconds:
        run(5, 1 + args.warmup + steps)
        steps += 5
    seconds = time.perf_counter() - begin
    emit(args, variant, images_per_second=round(steps * args.batch / seconds, 1), steps=steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", default="function,xla", help=f"of {', '.join(VARIANTS)}")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=5, help="measured, per variant")
    parser.add_argument("--warmup", type=int, default=10, help="steps before the clock starts")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--no-onednn", action="store_true", help="Eigen's kernels instead")
    parser.add_argument("--data", help="folder of the IDX files; default: random bytes")
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.random.set_seed(1)
    pixels, labels = (mnist_data.load(args.data, "train") if args.data
                      else mnist_data.synthetic(100 * args.batch))
    for variant in args.variants.split(","):
        if variant not in VARIANTS:
            parser.error(f"no variant '{variant}'")
        measure(args, variant, pixels, labels)
    emit(args, "process", peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


if __name__ == "__main__":
    main()
