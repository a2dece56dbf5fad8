#!/usr/bin/env python3
"""configs/cifar10_fast.yaml in PyTorch: the same network, initial values, batch, rates, augmentation and loss, for as
many epochs as are asked for; accuracy on CIFAR-10's test images, also with mirrored images. One JSON line
every four epochs and behind the last; seconds count from the first step and have the tests in them. With --seconds: how
fast it trains, from a few steps.

  cifar10_torch.py --data DIR --variant channels_last,bf16 --epochs 8
"""

import argparse
import gzip
import json
import os
import pathlib
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "goldens"))
import networks  # noqa: E402

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
BATCH = 1024


def read(folder, pattern):
    def open_any(path):
        return gzip.open(path) if path.suffix == ".gz" else path.open("rb")
    raw = b"".join(open_any(p).read() for p in sorted(pathlib.Path(folder).glob(pattern)))
    records = np.frombuffer(raw, np.uint8).reshape(-1, 1 + 3 * 32 * 32)
    x = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 255)
    x = (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    return x, torch.from_numpy(records[:, 0].astype(np.int64))


def network():
    net = networks.airbench()
    for m in net.modules():
        if isinstance(m, nn.Conv2d) and m.bias is None:  # begins as an identity, as far as it has channels for it
            nn.init.dirac_(m.weight[:m.in_channels].data)
    return net


def whiten(conv, x):
    """As airbench94: eigenvectors of the patches' moments, scaled, and their negatives; not trained."""
    patches = x.unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 12).double()
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    scaled = (vectors / torch.sqrt(values + 5e-4)).T.flip(0).reshape(12, 3, 2, 2)
    conv.weight.data[:] = torch.cat((scaled, -scaled))
    conv.weight.requires_grad_(False)


def optimizer(net):
    norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    of_norms = {id(p) for m in norms for p in m.parameters()}
    rest = [p for p in net.parameters() if id(p) not in of_norms and p.requires_grad]
    for m in norms:
        m.weight.requires_grad_(False)
    return torch.optim.SGD([{"params": rest, "weight_decay": 0.00133},
                            {"params": [m.bias for m in norms], "weight_decay": 0.00002, "lr": 64 * 1.5}],
                           lr=1.5, momentum=0.85, nesterov=True)


def schedule(optimizer, steps):
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, [1.5, 64 * 1.5], total_steps=steps, pct_start=0.23,
                                               div_factor=5, final_div_factor=3, cycle_momentum=False)


def augment(x, flipped):
    """x: a batch behind reflecting borders of 2. Each image is moved by its own pair of -2 .. 2."""
    out = torch.empty(len(x), 3, 32, 32)
    dy, dx = torch.randint(5, (len(x),)), torch.randint(5, (len(x),))
    for i in range(5):
        for j in range(5):
            some = (dy == i) & (dx == j)
            out[some] = x[some, :, i:i + 32, j:j + 32]
    return torch.where(flipped.view(-1, 1, 1, 1), out.flip(3), out)


def accuracy(forward, x, y, layout, amp, mirrored):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=amp):
        right = 0
        for a, b in zip(x.split(1000), y.split(1000)):
            logits = forward(a.to(memory_format=layout)).float()
            if mirrored:
                logits = logits + forward(a.flip(3).to(memory_format=layout)).float()
            right += int((logits.argmax(1) == b).sum())
        return right / len(y)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--variant", default="channels_last,bf16", help="words of eager, channels_last, compile, bf16")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="measure the speed only, for so long")
    parser.add_argument("--whiten", action="store_true", help="the first convolution from the data, as model.whiten")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(args.seed)
    amp = "bf16" in args.variant
    layout = torch.channels_last if "channels_last" in args.variant else torch.contiguous_format
    x, y = read(args.data, "data_batch_*.bin*")
    bordered = F.pad(x, (2, 2, 2, 2), "reflect")
    net = network()
    if args.whiten:
        whiten(net[0], x[:5000])
    net = net.to(memory_format=layout)
    forward = torch.compile(net) if "compile" in args.variant else net
    update = optimizer(net)
    steps = len(x) // BATCH
    rates = schedule(update, args.epochs * (steps + 1))
    first_flip = torch.rand(len(x)) < 0.5

    def step(ids, epoch):
        batch = augment(bordered[ids], first_flip[ids] ^ (epoch % 2 == 1)).to(memory_format=layout)
        with torch.autocast("cpu", torch.bfloat16, enabled=amp):
            loss = F.cross_entropy(forward(batch), y[ids], label_smoothing=0.2)
        update.zero_grad()
        loss.backward()
        update.step()

    if args.seconds:
        for _ in range(2):
            step(torch.randperm(len(x))[:BATCH], 0)
        begin, done = time.perf_counter(), 0
        while time.perf_counter() - begin < args.seconds:
            step(torch.randperm(len(x))[:BATCH], 0)
            done += 1
        print(json.dumps({"variant": args.variant, "images_per_second": done * BATCH / (time.perf_counter() - begin)}))
        return
    test = read(args.data, "test_batch.bin*")
    begin = time.perf_counter()
    for epoch in range(args.epochs):
        net.train()
        for ids in torch.randperm(len(x)).split(BATCH):
            step(ids, epoch)
            rates.step()
        if epoch % 4 != 3 and epoch + 1 < args.epochs:
            continue
        net.eval()
        print(json.dumps({"variant": args.variant, "epoch": epoch + 1, "seconds": round(time.perf_counter() - begin, 1),
                          "accuracy": accuracy(net, *test, layout, amp, False),
                          "mirrored": accuracy(net, *test, layout, amp, True)}), flush=True)


if __name__ == "__main__":
    main()
