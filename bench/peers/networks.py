"""Networks for CIFAR-10 and MNIST that bench/networks measures, and pictures for them: what all sides have in common."""

import argparse
import gzip
import json
import os
import pathlib
import random
import time

SIZE = 32 * 32 * 3  # of a picture of CIFAR-10
CIFAR = {"side": 32, "channels": 3, "mean": (0.4914, 0.4822, 0.4465), "std": (0.2470, 0.2435, 0.2616)}
MNIST = {"side": 28, "channels": 1, "mean": (0.1307,), "std": (0.3081,)}


def conv(filters, kernel=3, padding=1, bias=False):
    return ("conv", filters, kernel, padding, bias)


def _group(width):
    """What fast networks for CIFAR are made of: the pool comes before the first norm."""
    return [conv(width), ("pool", 2), ("norm",), ("gelu",), conv(width), ("norm",), ("gelu",)]


def _vgg(norm):
    layers = []
    for width in (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"):
        if width == "M":
            layers.append(("pool", 2))
        else:
            layers += [conv(width, bias=not norm), *([("norm",)] if norm else []), ("relu",)]
    return [*layers, ("flatten",), ("dense", 10)]


NETWORKS = {
    "airbench": [conv(24, 2, 0, True), ("gelu",), *_group(64), *_group(256), *_group(256),
                 ("pool", 3), ("flatten",), ("dense", 10)],
    "vgg11": _vgg(False),
    "vgg11_bn": _vgg(True),
    "lenet": [conv(6, 5, 2, True), ("relu",), ("pool", 2), conv(16, 5, 0, True), ("relu",), ("pool", 2),
              ("flatten",), ("dense", 120), ("relu",), ("dense", 84), ("relu",), ("dense", 10)],
}
BATCH = {"airbench": 1024, "vgg11": 128, "vgg11_bn": 128, "lenet": 100}
PICTURES = {"lenet": MNIST}  # the others: CIFAR
ADAM = ("lenet",)  # the others: SGD with Nesterov's momentum


def pictures(name):
    return PICTURES.get(name, CIFAR)


def multiply_adds(name):
    """Of a sample in a training step, directly: forward, gradients of the input (but for the first layer) and
    of the weights."""
    side, channels, total, passes = pictures(name)["side"], pictures(name)["channels"], 0, 2
    for kind, *values in NETWORKS[name]:
        if kind == "conv":
            filters, kernel, padding, _ = values
            side += 2 * padding - kernel + 1
            total += passes * side * side * kernel * kernel * channels * filters
            channels, passes = filters, 3
        elif kind == "pool":
            side //= values[0]
        elif kind == "dense":
            total += passes * side * side * channels * values[0]
            side, channels = 1, values[0]
    return total


def _open(path):
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _drawn(samples, size):
    draw = random.Random(0)
    return draw.randbytes(samples * size), bytes(draw.randrange(10) for _ in range(samples))


def _mnist(folder, samples):
    def values(stem, header, count):
        path = next(p for p in (pathlib.Path(folder) / stem, pathlib.Path(folder) / (stem + ".gz")) if p.exists())
        with _open(path) as file:
            return file.read(header + count)[header:]
    return values("train-images-idx3-ubyte", 16, samples * 28 * 28), values("train-labels-idx1-ubyte", 8, samples)


def _cifar(folder, samples):
    paths = sorted(pathlib.Path(folder).glob("data_batch_*.bin*"))[:1 + (samples - 1) // 10000]
    raw = b"".join(_open(p).read() for p in paths)
    pixels, labels = bytearray(samples * SIZE), bytearray(samples)
    for i in range(samples):
        record = raw[i * (SIZE + 1):(i + 1) * (SIZE + 1)]
        labels[i] = record[0]
        for c in range(3):
            pixels[i * SIZE + c:(i + 1) * SIZE:3] = record[1 + c * SIZE // 3:1 + (c + 1) * SIZE // 3]
    return bytes(pixels), bytes(labels)


def load(name, folder, samples):
    """Bytes of pictures [samples][side][side][channels], and of labels: those of the first of CIFAR-10's binary
    files, or of MNIST's, in the folder, or drawn at random where there is none."""
    kind = pictures(name)
    if folder is None:
        return _drawn(samples, kind["side"] ** 2 * kind["channels"])
    return _mnist(folder, samples) if kind is MNIST else _cifar(folder, samples)


def arrays(name, folder, samples):
    """The same for a peer: normalised float32, and int64."""
    import numpy as np
    kind = pictures(name)
    pixels, labels = load(name, folder, samples)
    x = np.frombuffer(pixels, np.uint8).reshape(samples, kind["side"], kind["side"], -1).astype(np.float32) / 255
    return (x - np.float32(kind["mean"])) / np.float32(kind["std"]), np.frombuffer(labels, np.uint8).astype(np.int64)


def arguments(description, variants):
    """Of a peer's command line; the first variant is the default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=NETWORKS, required=True)
    parser.add_argument("--variant", choices=variants, default=variants[0])
    parser.add_argument("--batch", type=int)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--data")
    args = parser.parse_args()
    args.batch = args.batch or BATCH[args.network]
    return args


def measure(peer, args, step):
    """Prints how fast step(i) is, behind two that warm up."""
    step(0)
    step(1)
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < args.seconds:
        step(steps)
        steps += 1
    seconds = time.perf_counter() - begin
    print(json.dumps({"peer": peer, "variant": args.variant, "images_per_second": steps * args.batch / seconds}))
