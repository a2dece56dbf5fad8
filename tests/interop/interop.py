#!/usr/bin/env python3
"""safetensors files between Lockstep, the Python package safetensors and PyTorch, both ways.

  interop.py LOCKSTEP LOGITS      the two programs of a build (tests/interop/logits.c is the second)

Both sides compute in float32, in orders of their own, so outputs differ by rounding: a logit here is
the end of sums of up to 9,216 terms of size about 0.1, whose rounding errors of 2^-24 each add up to
a few 1e-7 times their size (measured: 4e-7 to 3e-6 for logits of 1 to 6). BOUND is the distance that is promised; another weight order, a
transposed kernel or a wrong epsilon are 1e-2 and more.
"""
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

BOUND = 1e-5
SAMPLES = 96
DATA = "data: {name: digits, samples: 256, test_samples: 64, mean: 0.1307, std: 0.3081}\n"
TRAIN = ("train: {batch_size: 32, replicas: 4, seed: 5}\n"
         "optimizer: {name: adam, lr: 0.003}\n")

CNN = DATA + TRAIN + """model:
  name: cnn
  layers:
    - conv2d: {filters: 32, kernel: 3, name: conv1}
    - relu
    - conv2d: {filters: 64, kernel: 3, name: conv2}
    - relu
    - max_pool: 2
    - dropout: 0.25
    - flatten
    - dense: {units: 128, name: fc1}
    - relu
    - dropout: 0.5
    - dense: {units: 10, name: fc2}
"""

BLOCK = DATA + TRAIN + """model:
  name: block
  layers:
    - conv2d: {filters: 8, kernel: 3, padding: 1, bias: false, name: stem}
    - batch_norm: {name: norm}
    - relu: {name: trunk}
    - conv2d: {filters: 8, kernel: [3, 5], padding: [1, 2], groups: 4, name: inner}
    - add: {with: trunk}
    - relu
    - avg_pool: {kernel: 3, stride: 2}
    - conv2d: {filters: 12, kernel: 3, dilation: 2, stride: [2, 1], name: outer}
    - batch_norm: {name: norm2, epsilon: 1.0e-3}
    - relu
    - global_avg_pool
    - dense: {units: 10, name: head}
"""


class Cnn(nn.Module):
    """The network of PyTorch's MNIST example, without its last log_softmax."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.inner = nn.Conv2d(8, 8, (3, 5), padding=(1, 2), groups=4)
        self.outer = nn.Conv2d(8, 12, 3, dilation=2, stride=(2, 1))
        self.norm2, self.head = nn.BatchNorm2d(12, eps=1e-3), nn.Linear(12, 10)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)))
        x = F.avg_pool2d(F.relu(self.inner(x) + x), 3, 2)
        return self.head(F.relu(self.norm2(self.outer(x))).mean((2, 3)))


def check(good, text):
    if not good:
        sys.exit(f"interop: {text}")


class Case:
    """One network on both sides, in a folder of its own."""

    def __init__(self, folder, name, config, module):
        self.folder, self.name, self.module = folder, name, module
        self.config = folder / f"{name}.yaml"
        self.config.write_text(config)
        i = np.arange(SAMPLES * 784, dtype=np.uint64)
        pixels = (i * np.uint64(2654435761) + np.uint64(12345)) >> np.uint64(13)
        # Noise, and a bright square in one of 16 places.
        row, column, sample = i // 28 % 28, i % 28, i // 784
        bright = (row // 7 == sample % 4) & (column // 7 == sample // 4 % 4)
        pixels = (pixels % np.uint64(64) + 160 * bright.astype(np.uint64)).astype(np.uint8)
        self.images = folder / "images"
        self.images.write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, SAMPLES, 28, 28) + pixels.tobytes())
        x = torch.from_numpy(pixels.reshape(SAMPLES, 1, 28, 28)).float() / 255
        self.x = (x - 0.1307) / 0.3081

    def run(self, *words, code=0):
        result = subprocess.run([str(w) for w in words], cwd=self.folder, capture_output=True,
                                text=True, check=False)
        check(result.returncode == code,
              f"{words} ended with {result.returncode}, not {code}:\n{result.stdout}{result.stderr}")
        return result

    def torch_logits(self, state):
        self.module.load_state_dict(state, strict=True)
        self.module.eval()
        with torch.no_grad():
            return self.module(self.x)

    def own_logits(self, weights):
        out = self.folder / "out.f32"
        self.run(LOGITS, self.config, weights, self.images, out)
        return torch.from_numpy(np.fromfile(out, dtype="<f4").reshape(SAMPLES, 10).copy())

    def compare(self, what, weights, state):
        theirs, ours = self.torch_logits(state), self.own_logits(weights)
        error = float((theirs - ours).abs().max())
        print(f"{self.name}, {what}: logits of size {float(theirs.abs().max()):.1f} differ by "
              f"{error:.1e} at most")
        check(error <= BOUND, f"more than {BOUND}")
        check(float(theirs.std()) > 0.01, "the logits are all alike: the comparison says nothing")
        return theirs


def check_names(path, module):
    """The package reads names, shapes and types, and they are the module's."""
    wanted = {name: (list(t.shape), t.dtype) for name, t in module.state_dict().items()}
    with safe_open(path, framework="pt") as file:
        check(file.metadata() == {"format": "pt"}, f"the metadata is {file.metadata()}")
        found = {name: (list(file.get_tensor(name).shape), file.get_tensor(name).dtype)
                 for name in file.keys()}
    check(found == wanted, f"{path.name} has\n{found}, expected\n{wanted}")


def ours_to_theirs(case):
    case.run(LOCKSTEP, "train", case.config, "--steps", 40, "--save-model", "--quiet", "--out",
             f"{case.name}-run")
    path = case.folder / f"{case.name}.safetensors"
    check_names(path, case.module)
    state = load_file(path)
    case.compare("from Lockstep", path, state)
    # A checkpoint is such a file too, with what the optimizer keeps beside the weights.
    checkpoint = load_file(case.folder / f"{case.name}-run/step-00000040.safetensors")
    check(all(torch.equal(checkpoint[name], tensor) for name, tensor in state.items()) and
          len(checkpoint) > len(state), "the checkpoint has other weights")


def theirs_to_ours(case):
    torch.manual_seed(11)
    for layer in case.module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_(0, 0.2)
            layer.running_var.uniform_(0.5, 2)
            layer.num_batches_tracked.fill_(7)
        elif hasattr(layer, "reset_parameters"):
            layer.reset_parameters()
            layer.weight.data *= 2  # so that logits are of size 1 and more
    state = {name: tensor.clone() for name, tensor in case.module.state_dict().items()}
    path = case.folder / f"{case.name}-torch.safetensors"
    # Lockstep takes what it needs by name; the rest, and metadata, may be there.
    save_file({**state, "a.byte": torch.zeros(3, dtype=torch.uint8)}, path, metadata={"by": "torch"})
    logits = case.compare("from PyTorch", path, state)

    lines = case.run(LOCKSTEP, "predict", case.config, "--init", path, "--images", case.images,
                     "--set", "log.format=json").stdout.splitlines()
    answers = [json.loads(line) for line in lines]
    shares = torch.softmax(logits.double(), 1)
    best = shares.max(1)
    check(len(answers) == SAMPLES, f"{len(answers)} answers for {SAMPLES} images")
    for answer, share, index, row in zip(answers, best.values, best.indices, shares):
        close = abs(answer["probability"] - float(share)) <= BOUND
        tie = float(share - row[answer["class"]]) <= BOUND
        check(close and (answer["class"] == int(index) or tie), f"PyTorch says {share}, not {answer}")

    half = case.folder / "half.safetensors"
    save_file({name: t.half() if t.is_floating_point() else t for name, t in state.items()}, half)
    result = case.run(LOCKSTEP, "predict", case.config, "--init", half, "--images", case.images, code=4)
    check("type 'F16'" in result.stderr, f"of a file in half precision it says {result.stderr}")


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for name, config, module in (("cnn", CNN, Cnn()), ("block", BLOCK, Block())):
            case = Case(Path(folder), name, config, module)
            ours_to_theirs(case)
            theirs_to_ours(case)
        # The known network has the same names, and ends with log_softmax.
        case = Case(Path(folder), "mnist_cnn", DATA + TRAIN + "model: {name: mnist_cnn}\n", Cnn())
        case.run(LOCKSTEP, "train", case.config, "--steps", 40, "--save-model", "--quiet")
        path = case.folder / "mnist_cnn.safetensors"
        check_names(path, case.module)
        theirs = F.log_softmax(case.torch_logits(load_file(path)), 1)
        error = float((theirs - case.own_logits(path)).abs().max())
        print(f"mnist_cnn: log-probabilities differ by {error:.1e} at most")
        check(error <= BOUND, f"more than {BOUND}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    LOCKSTEP, LOGITS = (Path(p).resolve() for p in sys.argv[1:])
    main()
