#!/usr/bin/env python3
"""20 steps of truncated backpropagation in PyTorch, for tests/sequence/test_carried.c.

Usage: carried.py > tests/sequence/golden/carried.json   (needs torch)

A language model, with the names of word_language_model: encoder, two recurrent layers, decoder; tokens in columns, a window of each in a step, plain SGD.
The state of a window is that of the one before it, detached, and zero where an epoch begins, as at the evaluation behind
the steps. Tokens and weights follow from the formula of recurrent.py; weights are half of it. Kept are the loss of
each step and of the evaluation, and one parameter behind all of them, in float64, and how far those of float32 are from
them at most.
"""
import json

import torch
import torch.nn.functional as F

VOCABULARY, UNITS, HIDDEN, LAYERS = 11, 6, 9, 2
COLUMNS, POSITIONS, WINDOWS, STEPS, LR = 5, 4, 7, 20, 0.5
CASES = ["lstm", "gru", "rnn"]


def hashed(i, salt):
    return (i * 2654435761 + salt * 40503 * 65537) % 2**32


def values(shape, salt):
    """In [-1, 1), multiples of 2^-23."""
    count = torch.Size(shape).numel()
    return torch.tensor([(hashed(i, salt) >> 8) / 2**23 - 1 for i in range(count)],
                        dtype=torch.float64).reshape(shape)


def stream():
    """[column][token]: one more than windows have, the last target."""
    count = WINDOWS * POSITIONS + 1
    return torch.tensor([[(hashed(c * count + i, 1) >> 20) % VOCABULARY
                          for i in range(count)] for c in range(COLUMNS)])


class Net(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        kind = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[op]
        self.encoder = torch.nn.Embedding(VOCABULARY, UNITS)
        self.rnn = kind(UNITS, HIDDEN, LAYERS, batch_first=True)
        self.decoder = torch.nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, x, state):
        y, state = self.rnn(self.encoder(x), state)
        return self.decoder(y), state


def detach(state):
    return tuple(s.detach() for s in state) if isinstance(state, tuple) else state.detach()


def run(op, dtype):
    net, tokens = Net(op).to(dtype), stream()
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(values(p.shape, i + 2) / 2)
    losses, state = [], None

    def window(i):
        at = i % WINDOWS * POSITIONS
        return tokens[:, at:at + POSITIONS], tokens[:, at + 1:at + POSITIONS + 1]

    def loss_of(i, state):
        x, y = window(i)
        out, state = net(x, None if i % WINDOWS == 0 else state)
        return F.cross_entropy(out.reshape(-1, VOCABULARY), y.reshape(-1)), detach(state)

    for step in range(STEPS):
        net.zero_grad()
        loss, state = loss_of(step, state)
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            for p in net.parameters():
                p -= LR * p.grad
    total, state = 0.0, None
    with torch.no_grad():
        for i in range(WINDOWS):
            loss, state = loss_of(i, state)
            total += loss.item() / WINDOWS
    return {"losses": torch.tensor(losses, dtype=torch.float64),
            "evaluation": torch.tensor([total], dtype=torch.float64),
            "rnn.weight_hh_l1": net.rnn.weight_hh_l1.detach().double()}


def entry(op):
    exact, single = run(op, torch.float64), run(op, torch.float32)
    return {"op": op, "tensors": {
        name: {"values": [float(f"{v:.10g}") for v in t.reshape(-1).tolist()],
               "float32": float(f"{(t - single[name]).abs().max():.3g}")}
        for name, t in exact.items()}}


print("{")
print(f'"made_with": "torch {torch.__version__}",')
print('"cases": [')
print(",\n".join(json.dumps(entry(op), separators=(",", ":")) for op in CASES))
print("]")
print("}")
