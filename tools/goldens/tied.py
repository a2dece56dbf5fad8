#!/usr/bin/env python3
"""What PyTorch computes where an embedding and the last layer have one weight, for tests/sequence/test_tied.c.

Usage: tied.py > tests/sequence/golden/tied.json   (needs torch)

A module with word embeddings, learned positions, tanh, and a linear layer whose weight is that of the embeddings, with a bias of
its own: 20 steps of AdamW whose gradients are clipped by their norm. Parameters are units(.., p) of formula.py for p = 0, 1, 2.
Token t of sample i is (5 i + 3 t t) mod 11, and its class (token + t) mod 11. In float64: losses, the weight's gradient in
the first step and the weight behind the last one; and how far those of float32 are from them at most.
"""
import json
import warnings

import numpy as np
import torch

from formula import units

SAMPLES, POSITIONS, WORDS, UNITS, STEPS = 9, 7, 11, 6, 20


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, UNITS)
        self.place = torch.nn.Parameter(torch.zeros(POSITIONS, UNITS))
        self.head = torch.nn.Linear(UNITS, WORDS)
        self.head.weight = self.words.weight

    def forward(self, tokens):
        return self.head(torch.tanh(self.words(tokens) + self.place))


def run(dtype):
    net = Net()
    tensors = [net.words.weight, net.place, net.head.bias]
    assert len(list(net.parameters())) == 3
    with torch.no_grad():
        for p, tensor in enumerate(tensors):
            tensor.copy_(torch.from_numpy(units(tuple(tensor.shape), p)))
    net.to(dtype)
    tokens = torch.tensor([[(5 * i + 3 * t * t) % WORDS for t in range(POSITIONS)] for i in range(SAMPLES)])
    wanted = (tokens + torch.arange(POSITIONS)) % WORDS
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.02, betas=(0.9, 0.99), weight_decay=0.1)
    losses, gradient = [], None
    for _ in range(STEPS):
        loss = torch.nn.functional.cross_entropy(net(tokens).reshape(-1, WORDS), wanted.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        gradient = net.words.weight.grad.clone() if gradient is None else gradient
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        optimizer.step()
        losses.append(loss.item())
    return {"losses": np.array(losses), "gradient": gradient.reshape(-1).double().numpy(),
            "weight": net.words.weight.detach().reshape(-1).double().numpy()}


warnings.simplefilter("ignore")
exact, single = run(torch.float64), run(torch.float32)
print(json.dumps({"made_with": f"torch {torch.__version__}", **{
    name: {"values": [float(f"{v:.10g}") for v in values], "float32": float(f"{abs(values - single[name]).max():.3g}")}
    for name, values in exact.items()}}, separators=(",", ":")).replace('},"', '},\n"'))
