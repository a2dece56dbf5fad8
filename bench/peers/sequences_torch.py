#!/usr/bin/env python3
"""Training steps of a language model of LSTMs, or of a transformer of characters, on one batch of random tokens; prints the median
in milliseconds behind ten steps that warm up, as JSON. For bench/training/sequences.
  sequences_torch.py --threads 2 --sizes '{"net": "lstm", "width": 200, "context": 20, "batch": 20}' [--compile]
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

from gpt_torch import Net as Transformer

WORDS, LETTERS, WARMUP, SECONDS = 10000, 65, 10, 5


class Recurrent(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.encoder, self.decoder = nn.Embedding(WORDS, width), nn.Linear(width, WORDS)
        self.rnn = nn.LSTM(width, width, 2)

    def forward(self, tokens, state):
        out, state = self.rnn(self.encoder(tokens), state)
        return self.decoder(out), state


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--sizes", type=json.loads, required=True)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    sizes = args.sizes
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    recurrent = sizes["net"] == "lstm"
    if recurrent:
        net = Recurrent(sizes["width"])
        optimizer, limit = torch.optim.SGD(net.parameters(), lr=1.0), 0.25
    else:
        net = Transformer(LETTERS, sizes["depth"], sizes["heads"], sizes["width"], sizes["context"])
        optimizer, limit = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.99), fused=True), 1.0
    forward = torch.compile(net) if args.compile else net
    shape = (sizes["context"], sizes["batch"]) if recurrent else (sizes["batch"], sizes["context"])
    x, y = torch.randint(WORDS if recurrent else LETTERS, (2, *shape))
    state = None

    def step():
        nonlocal state
        if recurrent:
            out, state = forward(x, state)
            state = tuple(s.detach() for s in state)
        else:
            out = forward(x)
        F.cross_entropy(out.flatten(0, 1), y.flatten()).backward()
        nn.utils.clip_grad_norm_(net.parameters(), limit)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    times = []
    for _ in range(WARMUP):
        step()
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    print(json.dumps({"torch": torch.__version__, "median_ms": 1e3 * statistics.median(times)}))


if __name__ == "__main__":
    main()
