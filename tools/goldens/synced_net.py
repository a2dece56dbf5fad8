#!/usr/bin/env python3
"""Makes tests/model/golden/synced_net.json: 20 steps of SGD with momentum on a small residual network with
batch norm, over whole batches, as PyTorch computes them in one process in float64, and how far its own float32
runs are from that. Needs torch and numpy; prints the file to stdout.

The network is written below and, in the same order, in tests/model/test_synced_net.c. Values come from
integers: element i of stream t is hash(i, t) of formula.py.

  parameters  parameter p (in the order below, from 0) has t = p: (hash >> 8) * 2^-23 - 1, which
              float32 holds exactly, times float32(1/sqrt(fan_in)); of a batch norm half of that, and 1
              more for its weight
  samples     element i (row, column, channel of sample after sample): (hash(i, 1001) >> 8) * 2^-22 - 2,
              plus (sample % 8) / 4
  labels      sample s: hash(s, 1000) % 5

Step k (from 0) takes samples [13 * (k % 3), 13 * (k % 3) + 13). A test allows FACTOR times the largest
distance from float64 so far that float32 shows in several orders (threads, channels_last, PyTorch's
own loops instead of oneDNN's).
"""

import json
import sys

import numpy as np
import torch
import torch.nn.functional as F

from formula import hashes, units, variants

SAMPLES, BATCH, STEPS, SIZE, CHANNELS, CLASSES, FACTOR = 39, 13, 20, 8, 3, 5, 4
SHAPES = {
    "conv1.weight": (6, 3, 3, 3), "bn1.weight": (6,), "bn1.bias": (6,),
    "conv2.weight": (6, 6, 3, 3), "bn2.weight": (6,), "bn2.bias": (6,),
    "hidden.weight": (9, 6), "hidden.bias": (9,), "bn3.weight": (9,), "bn3.bias": (9,),
    "out.weight": (5, 9), "out.bias": (5,),
}
FAN_IN = {"conv1": 27, "conv2": 54, "hidden": 6, "out": 9}
NORMS = {"bn1": 6, "bn2": 6, "bn3": 9}


def make_parameters():
    result = {}
    for stream, (name, shape) in enumerate(SHAPES.items()):
        layer, kind = name.split(".")
        bound = np.float32(0.5 if layer in NORMS else 1 / np.sqrt(float(FAN_IN[layer])))
        value = units(shape, stream) * bound
        if layer in NORMS and kind == "weight":
            value = value + np.float32(1)
        result[name] = torch.from_numpy(value)
    return result


def make_samples():
    x = (hashes(SAMPLES * SIZE * SIZE * CHANNELS, 1001) >> np.uint32(8)) * 2.0 ** -22 - 2
    x = x.reshape(SAMPLES, SIZE, SIZE, CHANNELS) + (np.arange(SAMPLES) % 8 / 4)[:, None, None, None]
    labels = (hashes(SAMPLES, 1000) % np.uint32(CLASSES)).astype(np.int64)
    return torch.from_numpy(x).permute(0, 3, 1, 2), torch.from_numpy(labels)


def forward(w, running, x):
    def conv(name, v):
        return F.conv2d(v, w[f"{name}.weight"], padding=1)

    def norm(name, v):
        return F.batch_norm(v, running[f"{name}.running_mean"], running[f"{name}.running_var"],
                            w[f"{name}.weight"], w[f"{name}.bias"], True, 0.125, 1e-5)

    def dense(name, v):
        return F.linear(v, w[f"{name}.weight"], w[f"{name}.bias"])

    a = F.relu(norm("bn1", conv("conv1", x)))
    b = F.relu(norm("bn2", conv("conv2", a)) + a)
    c = torch.tanh(norm("bn3", dense("hidden", b.mean((2, 3)))))
    return dense("out", c)


def run(dtype, channels_last=False):
    layout = torch.channels_last if channels_last else torch.contiguous_format
    x, labels = make_samples()
    x = x.to(dtype).contiguous(memory_format=layout)
    w = {k: v.to(dtype).requires_grad_() for k, v in make_parameters().items()}
    running = {}
    for name, channels in NORMS.items():
        running[f"{name}.running_mean"] = torch.zeros(channels, dtype=dtype)
        running[f"{name}.running_var"] = torch.ones(channels, dtype=dtype)
    optimizer = torch.optim.SGD(w.values(), lr=0.03125, momentum=0.875)
    losses = []
    for step in range(STEPS):
        part = slice(step % 3 * BATCH, step % 3 * BATCH + BATCH)
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(w, running, x[part]), labels[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses), {k: v.double().numpy() for k, v in running.items()}


def main():
    losses, running = run(torch.float64)
    others = list(variants(lambda last: run(torch.float32, last)))
    errors = np.maximum.accumulate(np.max([np.abs(other - losses) for other, _ in others], axis=0))
    print("losses", losses.round(4), "errors", errors, file=sys.stderr)
    json.dump({
        "made_by": f"tools/goldens/synced_net.py, PyTorch {torch.__version__.split('+')[0]}",
        "factor": FACTOR, "losses": losses.tolist(), "f32_loss_errors": errors.tolist(),
        "running": {k: {"values": v.tolist(),
                        "f32_error": float(max(np.abs(other[k] - v).max() for _, other in others))}
                    for k, v in running.items()},
    }, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
