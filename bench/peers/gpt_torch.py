#!/usr/bin/env python3
"""configs/shakespeare_char.yaml's training by PyTorch: a transformer of characters with nanoGPT's sizes, loop and numbers, on all of
a text but its last tenth. Prints steps, seconds of training and the loss of the last tenth, cut in windows, as JSON.
  gpt_torch.py --text input.txt --threads 2 --steps 2000 [--compile]
"""
import argparse
import json
import math
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        parts = [p.unflatten(2, (self.heads, -1)).transpose(1, 2) for p in self.qkv(self.norm1(x)).chunk(3, 2)]
        x = x + self.out(F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Net(nn.Module):
    def __init__(self, words, depth=4, heads=4, width=128, context=64):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, bias=False)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, 0, 0.02 / math.sqrt(2 * depth) if residual else 0.02)

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight[:tokens.shape[1]]
        return self.norm(self.blocks(x)) @ self.words.weight.t()


def rate(step, steps, top=1e-3, low=1e-4, warmup=100):
    if step < warmup:
        return top * (step + 1) / (warmup + 1)
    return low + 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) * (top - low)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    with open(args.text, encoding="utf-8") as file:
        text = file.read()
    letters = sorted(set(text))
    number = {c: i for i, c in enumerate(letters)}
    tokens = torch.tensor([number[c] for c in text])
    cut, context, batch = int(0.9 * len(tokens)), 64, 12
    train, valid = tokens[:cut], tokens[cut:]
    net = Net(len(letters))
    groups = [{"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in net.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)
    forward = torch.compile(net) if args.compile else net

    def step(k):
        at = torch.randint(len(train) - context, (batch,))
        x = torch.stack([train[i:i + context] for i in at])
        y = torch.stack([train[i + 1:i + 1 + context] for i in at])
        for group in optimizer.param_groups:
            group["lr"] = rate(k, args.steps)
        loss = F.cross_entropy(forward(x).flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    begin = time.perf_counter()
    for k in range(args.steps):
        step(k)
    seconds = time.perf_counter() - begin
    with torch.no_grad():
        whole = (len(valid) - 1) // context * context
        x, y = valid[:whole].reshape(-1, context), valid[1:whole + 1].reshape(-1, context)
        losses = [F.cross_entropy(net(a).flatten(0, 1), b.flatten(), reduction="sum") for a, b in zip(x.split(256), y.split(256))]
    print(json.dumps({"torch": torch.__version__, "threads": args.threads, "steps": args.steps, "seconds": round(seconds, 2),
                      "tokens_per_second": round(args.steps * batch * context / seconds),
                      "valid_loss": round(float(sum(losses)) / whole, 4)}))


if __name__ == "__main__":
    main()
