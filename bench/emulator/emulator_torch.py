#!/usr/bin/env python3
"""Steps of a multilayer perceptron by PyTorch on numbers in memory, with SiLU, MSE and Adam: rows a second, as JSON.
  emulator_torch.py --units 4128,100,100,100,552 --batch 1024 --threads 1 --seconds 3
"""

import argparse
import json
import time

import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=lambda s: [int(n) for n in s.split(",")], required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    layers = []
    for inputs, outputs in zip(args.units, args.units[1:]):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.SiLU()]
    net = torch.nn.Sequential(*layers[:-1])
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    rows = max(4 * args.batch, 2048)
    x, y = torch.randn(rows, args.units[0]), torch.randn(rows, args.units[-1])

    def step(k):
        first = k * args.batch % rows
        part = slice(first, first + args.batch)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x[part]), y[part]).backward()
        optimizer.step()

    for k in range(10):
        step(k)
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < args.seconds:
        step(steps)
        steps += 1
    rate = steps * args.batch / (time.perf_counter() - begin)
    print(json.dumps({"peer": "PyTorch", "version": torch.__version__.split("+")[0], "rows_per_second": rate}))


main()
