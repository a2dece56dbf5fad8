#!/usr/bin/env python3
"""ResNet-18 for CIFAR in PyTorch: how fast it trains (SGD with momentum), on random pictures in memory. Prints one JSON line.
  resnet18_torch.py --variant channels_last,bf16 --batch 128 --threads 2 --seconds 5
"""
import argparse
import json
import resource
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, channels, filters, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(filters)
        self.side = nn.Identity()
        if stride != 1:
            self.side = nn.Sequential(nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.side(x))


def resnet18():
    layers, channels = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for filters, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        layers.append(Block(channels, filters, stride))
        channels = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", default="channels_last")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    net, x = resnet18(), torch.rand(args.batch, 3, 32, 32)
    y = torch.randint(10, (args.batch,))
    if "channels_last" in args.variant:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled="bf16" in args.variant):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()

    for _ in range(2):
        step()
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < args.seconds:
        step()
        steps += 1
    print(json.dumps({"images_per_s": steps * args.batch / (time.perf_counter() - begin),
                      "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                      "version": torch.__version__}))


if __name__ == "__main__":
    main()
