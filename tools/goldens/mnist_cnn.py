#!/usr/bin/env python3
"""Makes tests/model/golden/mnist_cnn.json: what PyTorch computes for the MNIST CNN without dropout, its
first gradient and the losses of 20 steps of Adadelta, in float64, and how far PyTorch's own float32
runs are from that. Needs torch and numpy; prints the file to stdout.

Inputs and weights come from integers, so that no big file is needed; hash(i, t) is that of formula.py.

  weights     parameter p (in the order below, from 0) has t = SALT + p:
              (hash >> 8) * 2^-23 - 1, which float32 holds exactly, times float32(1/sqrt(fan_in))
  labels      sample s: hash(s, 1000) % 10, for s in [0, SAMPLES)
  pixels      pixel j = row * 28 + column of sample s: hash(s * 784 + j, 1001) >> 26 (0..63), plus 160
              where row * 10 / 28 (integer division) is the label: one bright band, ten places
  normalised  (pixel / 255 - 0.1307) / 0.3081, in the arithmetic of the run

The gradient is that of the mean loss of the first 4 samples at the initial weights. Then come the
20 steps: step k (from 0) takes samples [32 * (k % 4), 32 * (k % 4) + 32).

Bounds. Another float32 implementation differs from float64 by the rounding of its own order of
sums, as PyTorch's do. So PyTorch runs in float32 in several orders (threads, channels_last, its own
loops instead of oneDNN's), and a test allows FACTOR times the largest distance from float64 that
these show: of a whole tensor's gradient in L2 norm, of its largest element error, and of the loss
of each step (the largest so far, as an error once made stays). SALT is the first for which no relu
and no maximum behind the gradient is so close to a tie that float32 could decide otherwise (its
largest error is below 9e-7 of a layer's largest value): a flipped one would be a difference of
another kind. For a batch of 32 there is hardly such a SALT, for 4 there is.
"""

import json
import sys

import numpy as np
import torch
import torch.nn.functional as F

from formula import hashes, units, variants

SAMPLES, BATCH, FIRST, STEPS, PICKS, FACTOR = 128, 32, 4, 20, 16, 4
SHAPES = {
    "conv1.weight": (32, 1, 3, 3), "conv1.bias": (32,),
    "conv2.weight": (64, 32, 3, 3), "conv2.bias": (64,),
    "fc1.weight": (128, 9216), "fc1.bias": (128,),
    "fc2.weight": (10, 128), "fc2.bias": (10,),
}
FAN_IN = {"conv1": 9, "conv2": 288, "fc1": 9216, "fc2": 128}
SAFE_MARGIN = 1.5e-6  # relative to the largest of a layer


def make_weights(salt):
    weights = {}
    for stream, (name, shape) in enumerate(SHAPES.items(), salt):
        bound = np.float32(1 / np.sqrt(float(FAN_IN[name.split(".")[0]])))
        weights[name] = torch.from_numpy(units(shape, stream) * bound)
    return weights


def make_data():
    labels = (hashes(SAMPLES, 1000) % np.uint32(10)).astype(np.int64)
    pixels = (hashes(SAMPLES * 784, 1001) >> np.uint32(26)).reshape(SAMPLES, 28, 28)
    band = np.arange(28) * 10 // 28
    pixels = pixels + 160 * (band[None, :, None] == labels[:, None, None])
    return pixels, torch.from_numpy(labels)


def forward(w, x):
    """Log-probabilities, and the layers before relu and maximum."""
    a = F.conv2d(x, w["conv1.weight"], w["conv1.bias"])
    b = F.conv2d(F.relu(a), w["conv2.weight"], w["conv2.bias"])
    h = torch.flatten(F.max_pool2d(F.relu(b), 2), 1)
    c = F.linear(h, w["fc1.weight"], w["fc1.bias"])
    y = F.log_softmax(F.linear(F.relu(c), w["fc2.weight"], w["fc2.bias"]), 1)
    return y, (a, b, c)


def margin(w, pixels):
    """The gradient's smallest distance to a tie, relative to the layer's largest value."""
    with torch.no_grad():
        _, layers = forward({k: v.double() for k, v in w.items()},
                            normalise(pixels[:FIRST], torch.float64))
    smallest = min(float(a.abs().min() / a.abs().max()) for a in layers)
    b = F.relu(layers[1])
    windows = b.unfold(2, 2, 2).unfold(3, 2, 2).reshape(-1, 4).sort(1).values
    gaps = (windows[:, 3] - windows[:, 2])[windows[:, 3] > 0]
    return min(smallest, float(gaps.min() / b.max()))


def normalise(pixels, dtype):
    x = torch.from_numpy(pixels.astype(np.float64)).to(dtype)[:, None]
    return (x / 255 - torch.tensor(0.1307, dtype=dtype)) / torch.tensor(0.3081, dtype=dtype)


def run(salt, pixels, labels, dtype, channels_last=False):
    """The first gradient and the losses, as float64 arrays."""
    w = {k: v.to(dtype) for k, v in make_weights(salt).items()}
    x = normalise(pixels, dtype)
    if channels_last:
        x = x.expand(-1, 1, -1, -1).contiguous(memory_format=torch.channels_last)
        w = {k: v.contiguous(memory_format=torch.channels_last) if v.ndim == 4 else v
             for k, v in w.items()}
    w = {k: v.clone().requires_grad_() for k, v in w.items()}
    optimizer = torch.optim.Adadelta(w.values(), lr=1.0, rho=0.9, eps=1e-6)
    F.nll_loss(forward(w, x[:FIRST])[0], labels[:FIRST]).backward()
    gradient = {k: v.grad.double().contiguous().numpy().ravel().copy() for k, v in w.items()}
    losses = []
    for step in range(STEPS):
        part = slice(step % 4 * BATCH, step % 4 * BATCH + BATCH)
        optimizer.zero_grad()
        loss = F.nll_loss(forward(w, x[part])[0], labels[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return gradient, np.array(losses)


def main():
    pixels, labels = make_data()
    salt = 0
    while margin(make_weights(salt), pixels) < SAFE_MARGIN:
        salt += 1
    print(f"salt {salt}, margin {margin(make_weights(salt), pixels):.1e}", file=sys.stderr)
    gradient, losses = run(salt, pixels, labels, torch.float64)
    runs = list(variants(lambda last: run(salt, pixels, labels, torch.float32, last)))
    tensors = []
    for name, truth in gradient.items():
        errors = [g[name] - truth for g, _ in runs]
        picks = [int((2 * k + 1) * len(truth) // (2 * PICKS)) for k in range(PICKS)]
        tensors.append({
            "name": name, "elements": len(truth), "sum": float(truth.sum()),
            "l2": float(np.linalg.norm(truth)),
            "f32_l2_error": float(max(np.linalg.norm(e) for e in errors)),
            "f32_largest_error": float(max(np.abs(e).max() for e in errors)),
            "picks": picks, "values": [float(truth[i]) for i in picks],
        })
        print(f"{name}: relative L2 error of float32 "
              f"{tensors[-1]['f32_l2_error'] / tensors[-1]['l2']:.1e}", file=sys.stderr)
    loss_errors = np.maximum.accumulate(np.max([np.abs(l - losses) for _, l in runs], axis=0))
    print("losses", losses.round(4), "errors", loss_errors, file=sys.stderr)
    json.dump({
        "made_by": f"tools/goldens/mnist_cnn.py, PyTorch {torch.__version__.split('+')[0]}",
        "salt": salt, "factor": FACTOR, "gradient": tensors,
        "losses": losses.tolist(), "f32_loss_errors": loss_errors.tolist(),
    }, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
