#!/usr/bin/env python3
"""The toy network of network_config.txt by PyTorch, without biases and with no relu between dense layers: milliseconds of
forward, gradients of activations, and gradients of parameters (which in autograd pass through those of activations
again), from ones at the output, as JSON.
  toy_torch.py --threads 1 --seconds 3
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F


def timed(call, seconds):
    for _ in range(50):
        call()
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for _ in range(10):
            call()
        count += 10
    return 1e3 * (time.perf_counter() - begin) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3, help="of all three")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    convs = [torch.nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in ((1, 16), (16, 32), (32, 64))]
    denses = [torch.nn.Linear(a, b, bias=False) for a, b in ((576, 512), (512, 128), (128, 3))]
    parameters = [layer.weight for layer in convs + denses]
    board = torch.tensor([[[[1.0, 0, 1], [0, 1, 0], [1, 0, 1]]]])
    ones = torch.ones(1, 3)

    def forward(x):
        for layer in convs:
            x = F.relu(layer(x))
        x = x.flatten(1)
        for layer in denses:
            x = layer(x)
        return x

    each = args.seconds / 3
    result = {"peer": "PyTorch", "version": torch.__version__.split("+")[0],
              "forward_ms": timed(lambda: forward(board), each)}
    x = board.clone().requires_grad_(True)
    y = forward(x)
    result["backward_input_ms"] = timed(
        lambda: torch.autograd.grad(y, [x], ones, retain_graph=True), each)
    z = forward(board)
    result["backward_params_ms"] = timed(
        lambda: torch.autograd.grad(z, parameters, ones, retain_graph=True), each)
    result["total_ms"] = sum(value for key, value in result.items() if key.endswith("_ms"))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
