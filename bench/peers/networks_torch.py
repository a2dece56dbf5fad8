#!/usr/bin/env python3
"""A network of networks.py in PyTorch: how fast it trains (SGD with Nesterov's momentum, or Adam). Pictures
lie in memory, normalised, before the clock starts. Prints one JSON line.
  networks_torch.py --network airbench --variant eager
"""

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
    args = networks.arguments(__doc__, VARIANTS)
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    net = make(args.network)
    pixels, labels = networks.arrays(args.network, args.data, max(4 * args.batch, 10000))
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
        at = i * args.batch % (len(x) - args.batch + 1)
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(x[at:at + args.batch]), y[at:at + args.batch])
        loss.backward()
        optimizer.step()

    networks.measure("PyTorch " + torch.__version__.split("+")[0], args, step)


if __name__ == "__main__":
    main()
