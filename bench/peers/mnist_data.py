"""MNIST for the peers: the IDX files of a folder, or bytes drawn at random where speed is all."""

import gzip
import pathlib

import numpy as np

MEAN, STD = 0.1307, 0.3081


def _read_idx(folder, stem):
    """The array in <folder>/<stem> or its .gz, also in torchvision's layout."""
    for base in (pathlib.Path(folder), pathlib.Path(folder) / "MNIST" / "raw"):
        for name in (stem, stem + ".gz"):
            path = base / name
            if path.exists():
                raw = gzip.open(path).read() if name.endswith(".gz") else path.read_bytes()
                ndim = raw[3]
                shape = np.frombuffer(raw, ">i4", ndim, 4)
                return np.frombuffer(raw, np.uint8, offset=4 + 4 * ndim).reshape(shape)
    raise FileNotFoundError(f"{folder} has neither {stem} nor {stem}.gz")


def load(folder, split):
    """Pixels as normalised float32 [n][28][28], labels as int64 [n]; split is "train" or "t10k"."""
    images = _read_idx(folder, f"{split}-images-idx3-ubyte")
    labels = _read_idx(folder, f"{split}-labels-idx1-ubyte")
    pixels = (images.astype(np.float32) / np.float32(255) - np.float32(MEAN)) / np.float32(STD)
    return pixels, labels.astype(np.int64)


def synthetic(samples):
    """As load() returns it, from a fixed seed."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (samples, 28, 28)).astype(np.float32) / np.float32(255)
    labels = rng.integers(0, 10, samples)
    return (pixels - np.float32(MEAN)) / np.float32(STD), labels.astype(np.int64)
