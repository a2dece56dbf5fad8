#!/usr/bin/env python3
"""A network of networks.py in PyTorch: how fast it trains (SGD with Nesterov's momentum, or Adam). Pictures
lie in memory, normalised, before the clock starts. Prints one JSON line.
  networks_torch.py --network airbench --variant eager
"""

import argparse
import json
import os
import time

import torch
import torch.nn.functional as F

import networks

VARIANTS = ("eager", "channels_last", "compile", "compile_channels_last")


def make(name):
    kind = networks.pictures(name)
    nn, side, channels, made = torch.nn, kind["side"], kind["channels"], []
    for kind, *values in networks.NETWORKS[name]:
        if kind == "conv":
            filters, kernel, padding, bias = values
            made.append(nn.Conv2d(channels, filters, kernel, padding=padding, bias=bias))
            side, channels = side + 2 * padding - kernel + 1, filters
        elif kind == "pool":
            made.append(nn.MaxPool2d(values[0]))
            side //= values[0]
        elif kind == "norm":
            made.append(nn.BatchNorm2d(channels))
        elif kind == "dense":
            made.append(nn.Linear(side * side * channels, values[0]))
            side, channels = 1, values[0]
        else:
            made.append({"gelu": nn.GELU, "relu": nn.ReLU, "flatten": nn.Flatten}[kind]())
    return nn.Sequential(*made)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=networks.NETWORKS, required=True)
    parser.add_argument("--variant", choices=VARIANTS, default="eager")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--data")
    args = parser.parse_args()
    batch = args.batch or networks.BATCH[args.network]
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    net = make(args.network)
    pixels, labels = networks.arrays(args.network, args.data, max(4 * batch, 10000))
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    if args.variant.endswith("channels_last"):
        net = net.to(memory_format=torch.channels_last)
    else:
        x = x.contiguous()
    y = torch.from_numpy(labels)
    if args.network in networks.ADAM:
        optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
    else:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    forward = torch.compile(net) if args.variant.startswith("compile") else net

    def step(i):
        at = i * batch % (len(x) - batch + 1)
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(x[at:at + batch]), y[at:at + batch])
        loss.backward()
        optimizer.step()

    step(0)
    step(1)
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < args.seconds:
        step(steps)
        steps += 1
    seconds = time.perf_counter() - begin
    print(json.dumps({"peer": "PyTorch " + torch.__version__.split("+")[0], "variant": args.variant,
                      "images_per_second": steps * batch / seconds}))


if __name__ == "__main__":
    main()
