"""Networks for CIFAR-10 that bench/networks measures, and pictures for them: what all sides have in common."""

import gzip
import pathlib
import random

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
SIZE = 32 * 32 * 3


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
}
BATCH = {"airbench": 1024, "vgg11": 128, "vgg11_bn": 128}


def multiply_adds(layers):
    """Of a sample in a training step, directly: forward, gradients of the input (but for the first layer) and
    of the weights."""
    side, channels, total, passes = 32, 3, 0, 2
    for kind, *values in layers:
        if kind == "conv":
            filters, kernel, padding, _ = values
            side += 2 * padding - kernel + 1
            total += passes * side * side * kernel * kernel * channels * filters
            channels, passes = filters, 3
        elif kind == "pool":
            side //= values[0]
        elif kind == "dense":
            total += passes * side * side * channels * values[0]
    return total


def load(folder, samples):
    """Bytes of pictures [samples][32][32][3], and of labels: those of the first of CIFAR-10's binary files in
    the folder, or drawn at random where there is none."""
    if folder is None:
        draw = random.Random(0)
        return draw.randbytes(samples * SIZE), bytes(draw.randrange(10) for _ in range(samples))
    paths = sorted(pathlib.Path(folder).glob("data_batch_*.bin*"))[:1 + (samples - 1) // 10000]
    raw = b"".join((gzip.open(p) if p.suffix == ".gz" else p.open("rb")).read() for p in paths)
    pixels, labels = bytearray(samples * SIZE), bytearray(samples)
    for i in range(samples):
        record = raw[i * (SIZE + 1):(i + 1) * (SIZE + 1)]
        labels[i] = record[0]
        for c in range(3):
            pixels[i * SIZE + c:(i + 1) * SIZE:3] = record[1 + c * SIZE // 3:1 + (c + 1) * SIZE // 3]
    return bytes(pixels), bytes(labels)


def arrays(folder, samples):
    """The same for a peer: normalised float32 [samples][32][32][3], and int64."""
    import numpy as np
    pixels, labels = load(folder, samples)
    x = np.frombuffer(pixels, np.uint8).reshape(samples, 32, 32, 3).astype(np.float32) / 255
    return (x - np.float32(MEAN)) / np.float32(STD), np.frombuffer(labels, np.uint8).astype(np.int64)
