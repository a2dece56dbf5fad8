#!/usr/bin/env python3
"""Weights that PyTorch saved, and what it answers with them, for tests/interop/test_samples.c.

Usage: interop.py tests/interop/samples   (needs torch, safetensors)

The networks are those of tests/interop/interop.py, the first one smaller, with running statistics and
weights that are not fresh. The images follow from formula.py's formula, which the test has too.
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

from formula import hashes

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tests/interop"))
from interop import BLOCK, CNN, Block  # noqa: E402

SAMPLES, STREAM = 24, 1000
SMALL_CNN = CNN.replace("filters: 32", "filters: 4").replace("filters: 64", "filters: 6").replace(
    "units: 128", "units: 12")


class SmallCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 6, 3)
        self.fc1, self.fc2 = nn.Linear(864, 12), nn.Linear(12, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


def images():
    """Noise, and a bright square in one of 16 places."""
    i = np.arange(SAMPLES * 784)
    row, column, sample = i // 28 % 28, i % 28, i // 784
    bright = (row // 7 == sample % 4) & (column // 7 == sample // 4 % 4)
    return (hashes(SAMPLES * 784, STREAM) >> np.uint32(26)).astype(np.uint8) + 160 * bright


def age(module):
    """What training would have changed."""
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_(0, 0.2)
            layer.running_var.uniform_(0.5, 2)
            layer.num_batches_tracked.fill_(7)
            layer.weight.data.uniform_(0.5, 1.5)
            layer.bias.data.normal_(0, 0.2)
        elif hasattr(layer, "reset_parameters"):
            layer.weight.data *= 2  # so that logits are of size 1 and more


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(3)
    torch.set_num_threads(1)
    x = torch.from_numpy(images().reshape(SAMPLES, 1, 28, 28)).double() / 255
    result = []
    for name, config, module in (("cnn", SMALL_CNN, SmallCnn()), ("block", BLOCK, Block())):
        age(module)
        state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
        # Lockstep takes what it needs by name; the rest, and metadata, may be there.
        save_file(state | {"a.byte": torch.zeros(3, dtype=torch.uint8)},
                  folder / f"{name}.safetensors", metadata={"by": "torch"})
        module.eval()
        with torch.no_grad():
            logits = module.double()((x - 0.1307) / 0.3081)
        result.append({"name": name, "config": config,
                       "state": {n: [str(t.dtype), list(t.shape)] for n, t in state.items()},
                       "logits": [[float(f"{v:.9g}") for v in row] for row in logits.tolist()]})
    half = {name: t.half() if t.is_floating_point() else t for name, t in state.items()}
    save_file(half, folder / "block-half.safetensors")
    (folder / "samples.json").write_text(
        "{\n" + f'"made_with": "torch {torch.__version__}",\n"networks": [\n'
        + ",\n".join(json.dumps(network, separators=(",", ":")) for network in result) + "\n]\n}\n")


if __name__ == "__main__":
    main()
