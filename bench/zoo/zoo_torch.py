#!/usr/bin/env python3
"""A network of torchvision's, or Needle's ResNet9, in PyTorch: how fast it trains (SGD with momentum) on random
pictures in memory. "cifar" networks are changed as tools/goldens/zoo.py does. Prints one JSON line.
  zoo_torch.py --network resnet50 --side 32 --classes 10 --variant channels_last,bf16
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
import torchvision

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tools" / "goldens"))
import networks  # noqa: E402
import zoo  # noqa: E402


def make(name, side, classes):
    if name == "resnet9":
        return networks.ResNet9(classes)
    net = torchvision.models.get_model(name, num_classes=classes)
    return zoo.small(name, net) if side <= 64 else net


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", required=True)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--variant", default="channels_last", help="words of eager, channels_last, bf16")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    net, x = make(args.network, args.side, args.classes), torch.rand(args.batch, 3, args.side, args.side)
    y = torch.randint(args.classes, (args.batch,))
    if "channels_last" in args.variant:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled="bf16" in args.variant):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()

    step()
    step()
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < args.seconds:
        step()
        steps += 1
    print(json.dumps({"peer": "PyTorch " + torch.__version__.split("+")[0],
                      "samples_per_second": steps * args.batch / (time.perf_counter() - begin)}))


if __name__ == "__main__":
    main()
