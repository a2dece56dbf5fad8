#!/usr/bin/env python3
"""Makes tests/model/golden/gated_net.json: the losses of 20 steps of SGD with momentum on a small network
of activations, gates and branches, as PyTorch computes them in float64, and how far its own float32
runs are from that. Needs torch and numpy; prints the file to stdout.

The network is written below and, in the same order, in tests/model/test_gated_net.c. Values come from
integers: element i of stream t is hash(i, t) of formula.py.

  parameters  parameter p (in the order below, from 0) has t = p: (hash >> 8) * 2^-23 - 1, which
              float32 holds exactly, times float32(1/sqrt(fan_in))
  samples     element i (row, column, channel of sample after sample): (hash(i, 1001) >> 8) * 2^-22 - 2
  labels      sample s: hash(s, 1000) % 5

Step k (from 0) takes samples [12 * (k % 3), 12 * (k % 3) + 12). A test allows FACTOR times the largest
distance from float64 so far that float32 shows in several orders (threads, channels_last, PyTorch's
own loops instead of oneDNN's).
"""

import json
import sys

import numpy as np
import torch
import torch.nn.functional as F

from formula import hashes, units, variants

SAMPLES, BATCH, STEPS, SIZE, CHANNELS, CLASSES, FACTOR = 36, 12, 20, 8, 3, 5, 4
SHAPES = {
    "conv1.weight": (6, 3, 3, 3), "conv1.bias": (6,),
    "conv2.weight": (6, 6, 3, 3), "conv2.bias": (6,),
    "squeeze.weight": (4, 6), "squeeze.bias": (4,),
    "excite.weight": (6, 4), "excite.bias": (6,),
    "conv3.weight": (6, 6, 3, 3), "conv3.bias": (6,),
    "out.weight": (5, 6), "out.bias": (5,),
}
FAN_IN = {"conv1": 27, "conv2": 54, "squeeze": 6, "excite": 4, "conv3": 54, "out": 6}


def make_parameters():
    result = {}
    for stream, (name, shape) in enumerate(SHAPES.items()):
        bound = np.float32(1 / np.sqrt(float(FAN_IN[name.split(".")[0]])))
        result[name] = torch.from_numpy(units(shape, stream) * bound)
    return result


def make_samples():
    x = (hashes(SAMPLES * SIZE * SIZE * CHANNELS, 1001) >> np.uint32(8)) * 2.0 ** -22 - 2
    x = torch.from_numpy(x.reshape(SAMPLES, SIZE, SIZE, CHANNELS)).permute(0, 3, 1, 2)
    return x, torch.from_numpy((hashes(SAMPLES, 1000) % np.uint32(CLASSES)).astype(np.int64))


def forward(w, x):
    def conv(name, v):
        return F.conv2d(v, w[f"{name}.weight"], w[f"{name}.bias"], padding=1)

    def dense(name, v):
        return F.linear(v, w[f"{name}.weight"], w[f"{name}.bias"])

    a = F.gelu(conv("conv1", x))
    b = F.gelu(conv("conv2", a), approximate="tanh")
    gate = torch.sigmoid(dense("excite", F.silu(dense("squeeze", b.mean((2, 3))))))
    c = a + 0.5 * (b * gate[:, :, None, None])
    d = torch.tanh(conv("conv3", c)) * F.leaky_relu(c, 0.25)
    e = F.silu(d + d.mean((2, 3))[:, :, None, None])
    return dense("out", e.mean((2, 3)))


def run(dtype, channels_last=False):
    layout = torch.channels_last if channels_last else torch.contiguous_format
    x, labels = make_samples()
    x = x.to(dtype).contiguous(memory_format=layout)
    w = {k: v.to(dtype).requires_grad_() for k, v in make_parameters().items()}
    optimizer = torch.optim.SGD(w.values(), lr=0.25, momentum=0.875)
    losses = []
    for step in range(STEPS):
        part = slice(step % 3 * BATCH, step % 3 * BATCH + BATCH)
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(w, x[part]), labels[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def main():
    losses = run(torch.float64)
    others = list(variants(lambda last: run(torch.float32, last)))
    errors = np.maximum.accumulate(np.max([np.abs(other - losses) for other in others], axis=0))
    print("losses", losses.round(4), "errors", errors, file=sys.stderr)
    json.dump({
        "made_by": f"tools/goldens/gated_net.py, PyTorch {torch.__version__.split('+')[0]}",
        "factor": FACTOR, "losses": losses.tolist(), "f32_loss_errors": errors.tolist(),
    }, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
