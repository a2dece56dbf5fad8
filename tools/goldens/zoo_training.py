#!/usr/bin/env python3
"""Makes tests/models/golden/zoo_training.json: 20 steps of SGD with momentum on networks of torchvision in their forms
for small images (zoo.py), as PyTorch computes them in float64, and how far its own float32 and bfloat16 (autocast)
are from that. Needs torch and torchvision; prints the file to stdout.

Parameters are those of zoo.py, but for norms: 1/16 is the bound of their weights and biases, around 1 and 0, and of the last
norm of a ResNet's block all is a quarter of that, so that gradients do not grow from block to block. Running statistics begin with 0 and 1. Step k
(from 0) takes samples [8 * (k % 3), 8 * (k % 3) + 8): element i (row, column, channel of sample after sample) is units(.., 1001) of
formula.py, plus (sample % 10) / 5 - 1 in channel sample % 3, and the label of a sample is its number mod 10.

No step draws anything (dropout 0), and rates are small: where training is chaotic, as at large rates, roundings grow from step to step, and 20 losses
say nothing of who computes better. These are the rates at which float32, in three orders of its sums, stays within about 1e-4 of float64 while the loss falls.
"""

import json
import sys

import numpy as np
import torch
import torch.nn.functional as F
import torchvision

from formula import units
from zoo import fill, small

RATES = {"resnet18": 2e-3, "resnet50": 2e-4, "mobilenet_v2": 1.5e-6, "vgg11_bn": 4e-6}
LAST_NORM = {"resnet18": ".bn2.", "resnet50": ".bn3."}
SAMPLES, BATCH, STEPS, SIDE, MOMENTUM = 24, 8, 20, 32, 0.9


def make_samples():
    x = units((SAMPLES, SIDE, SIDE, 3), 1001)
    for s in range(SAMPLES):
        x[s, :, :, s % 3] += np.float32(s % 10) / np.float32(5) - np.float32(1)
    return torch.from_numpy(x).permute(0, 3, 1, 2), torch.arange(SAMPLES) % 10


def make_network(name, dtype):
    options = {"dropout": 0.0} if name == "mobilenet_v2" else {}
    net = small(name, torchvision.models.get_model(name, num_classes=10, **options))
    fill(net)
    state = net.state_dict()
    for p, tensor in enumerate(n for n in state if not n.endswith("num_batches_tracked")):
        module = net.get_submodule(tensor.rpartition(".")[0])
        if not isinstance(module, torch.nn.BatchNorm2d) or "running" in tensor:
            continue
        part = np.float32(0.25 if LAST_NORM.get(name, "-") in tensor else 1)
        more = part if tensor.endswith("weight") else np.float32(0)
        state[tensor].copy_(torch.from_numpy(units(tuple(state[tensor].shape), p) * part * np.float32(1 / 16) + more))
        module.reset_running_stats()
    return net.to(dtype).train()


def run(name, dtype, channels_last=False, bf16=False):
    layout = torch.channels_last if channels_last else torch.contiguous_format
    net = make_network(name, dtype).to(memory_format=layout)
    x, labels = make_samples()
    x = x.to(dtype).contiguous(memory_format=layout)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATES[name], momentum=MOMENTUM)
    losses = []
    for step in range(STEPS):
        part = slice(step % 3 * BATCH, step % 3 * BATCH + BATCH)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = net(x[part])
        loss = F.cross_entropy(logits.to(dtype), labels[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def worst(runs, losses):
    """How far any of the runs has been, at most, until each step, relatively."""
    return np.maximum.accumulate(np.max([np.abs(r - losses) / losses for r in runs], axis=0))


def main():
    entries = []
    for name in sys.argv[1:] or RATES:
        losses = run(name, torch.float64)
        f32 = [run(name, torch.float32, last) for last in (False, True)]
        with torch.backends.mkldnn.flags(enabled=False):
            f32.append(run(name, torch.float32))
        f32 = worst(f32, losses)
        bf16 = worst([run(name, torch.float32, last, True) for last in (False, True)], losses)
        print(name, losses.round(4), f32, bf16, file=sys.stderr)
        entries.append(json.dumps({"network": name, "rate": RATES[name], "losses": losses.tolist(), "f32_errors": [float(f"{e:.2g}") for e in f32],
                                   "bf16_errors": [float(f"{e:.2g}") for e in bf16]}))
    version = torchvision.__version__.split("+")[0]
    print('{"made_by":"tools/goldens/zoo_training.py, torchvision ' + version + '",\n"networks":[')
    print(",\n".join(entries))
    print("]}")


if __name__ == "__main__":
    main()
