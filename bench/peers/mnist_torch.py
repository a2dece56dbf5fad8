#!/usr/bin/env python3
"""The MNIST CNN in PyTorch: training speed of its variants, or a whole training.

Data lie in memory, normalised, before the clock starts. Every result is one JSON line on stdout;
a line with "event" says when the first step is done.
  mnist_torch.py --batch 128 --variants eager,channels_last,compile
  mnist_torch.py --data DIR --train 14 --batch 64 --variants eager --seed 1
"""

import argparse
import json
import os
import resource
import time

import torch
import torch.nn.functional as F

import mnist_data

VARIANTS = ("eager", "foreach", "channels_last", "compile", "compile_channels_last")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 32, 3)
        self.conv2 = torch.nn.Conv2d(32, 64, 3)
        self.dropout1 = torch.nn.Dropout(0.25)
        self.dropout2 = torch.nn.Dropout(0.5)
        self.fc1 = torch.nn.Linear(9216, 128)
        self.fc2 = torch.nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = self.dropout1(F.max_pool2d(x, 2))
        x = self.dropout2(F.relu(self.fc1(torch.flatten(x, 1))))
        return F.log_softmax(self.fc2(x), dim=1)


class Training:
    """A network, its optimizer, and how a batch goes through them in one variant."""

    def __init__(self, variant, lr):
        self.net = Net()
        self.channels_last = "channels_last" in variant
        if self.channels_last:
            self.net = self.net.to(memory_format=torch.channels_last)
        foreach = True if variant == "foreach" else None
        self.optimizer = torch.optim.Adadelta(self.net.parameters(), lr=lr, foreach=foreach)
        self.forward = torch.compile(self.net) if variant.startswith("compile") else self.net

    def images(self, pixels):
        x = torch.from_numpy(pixels)[:, None]
        return x.contiguous(memory_format=torch.channels_last) if self.channels_last else x

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.nll_loss(self.forward(x), y)
        loss.backward()
        self.optimizer.step()
        return loss


def emit(args, variant, **values):
    head = {"peer": "PyTorch", "version": torch.__version__, "variant": variant,
            "batch": args.batch, "threads": torch.get_num_threads()}
    print(json.dumps({**head, **values}), flush=True)


def measure(args, variant, pixels, labels):
    """Images per second of whole training steps, after a warm-up."""
    training = Training(variant, args.lr)
    x, y = training.images(pixels), torch.from_numpy(labels)
    batches = len(x) // args.batch
    training.net.train()

    def run(steps, start):
        for i in range(start, start + steps):
            at = i % batches * args.batch
            training.step(x[at:at + args.batch], y[at:at + args.batch])

    run(1, 0)
    emit(args, variant, event="first_step")
    run(args.warmup, 1)
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < args.seconds:
        run(5, 1 + args.warmup + steps)
        steps += 5
    seconds = time.perf_counter() - begin
    emit(args, variant, images_per_second=round(steps * args.batch / seconds, 1), steps=steps)


def train(args, variant):
    """A whole training as PyTorch's MNIST example does it; one line per epoch."""
    torch.manual_seed(args.seed)
    training = Training(variant, args.lr)
    pixels, labels = mnist_data.load(args.data, "train")
    x, y = training.images(pixels), torch.from_numpy(labels)
    pixels, labels = mnist_data.load(args.data, "t10k")
    test_x, test_y = training.images(pixels), torch.from_numpy(labels)
    schedule = torch.optim.lr_scheduler.StepLR(training.optimizer, 1, args.gamma)
    total = 0.0
    for epoch in range(1, args.train + 1):
        begin = time.perf_counter()
        training.net.train()
        for ids in torch.randperm(len(x)).split(args.batch):
            training.step(x[ids], y[ids])
        total += time.perf_counter() - begin
        training.net.eval()
        with torch.no_grad():
            correct = sum(int((training.forward(a).argmax(1) == b).sum())
                          for a, b in zip(test_x.split(1000), test_y.split(1000)))
        schedule.step()
        emit(args, variant, seed=args.seed, epoch=epoch, test_correct=correct,
             test_samples=len(test_y), train_seconds=round(total, 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", default="eager,channels_last,compile",
                        help=f"of {', '.join(VARIANTS)}")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=5, help="measured, per variant")
    parser.add_argument("--warmup", type=int, default=10, help="steps before the clock starts")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", help="folder of the IDX files; default: random bytes")
    parser.add_argument("--train", type=int, metavar="EPOCHS", help="train, instead of measuring")
    args = parser.parse_args()
    if args.train and not args.data:
        parser.error("--train needs --data")
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(args.seed)
    if not args.train:
        pixels, labels = (mnist_data.load(args.data, "train") if args.data
                          else mnist_data.synthetic(100 * args.batch))
    for variant in args.variants.split(","):
        if variant not in VARIANTS:
            parser.error(f"no variant '{variant}'")
        if args.train:
            train(args, variant)
        else:
            measure(args, variant, pixels, labels)
    emit(args, "process", peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


if __name__ == "__main__":
    main()
