#!/usr/bin/env python3
"""What PyTorch computes for stacks of recurrent layers, for tests/sequence/test_recurrent.c.

Usage: recurrent.py > tests/sequence/golden/recurrent.json   (needs torch)

Input, target and parameters follow from the formula of ops.py; parameter number i of a module has salt i + 2. Of
the loss, the mean of squares, the gradients of all parameters are kept, in float64, and how far those of float32 are
from them at most. With `lengths` the samples end early, as packed sequences: x are rows 1, 2, ... of words.weight
(salt 0), in that order; row 0 is the padding. Behind its end a sample's output is, of the direction that goes
forward, h_n, that of its last position, and of the other, which begins there, zero.
"""
import json

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

SAMPLES, POSITIONS, CHANNELS = 3, 5, 4
CASES = [
    {"op": "lstm", "hidden": 6, "layers": 2, "bidirectional": True},
    {"op": "gru", "hidden": 5, "layers": 3},
    {"op": "rnn", "hidden": 7, "layers": 2, "bidirectional": True},
    {"op": "gru", "hidden": 17, "layers": 1, "bidirectional": True},
    {"op": "lstm", "hidden": 6, "layers": 2, "bidirectional": True, "lengths": [5, 2, 1]},
    {"op": "gru", "hidden": 5, "layers": 2, "bidirectional": True, "lengths": [3, 5, 2]},
    {"op": "rnn", "hidden": 7, "layers": 2, "bidirectional": True, "lengths": [1, 4, 5]},
    {"op": "gru", "hidden": 3, "layers": 3, "lengths": [2, 4, 3]},
]


def values(shape, salt):
    """In [-1, 1), multiples of 2^-23."""
    count = torch.Size(shape).numel()
    hashed = [(i * 2654435761 + salt * 40503 * 65537) % 2**32 for i in range(count)]
    return torch.tensor([(h >> 8) / 2**23 - 1 for h in hashed], dtype=torch.float64).reshape(shape)


def packed(module, x, lengths):
    """The output of all positions, behind a sample's end that which its last position has left."""
    out, state = module(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    out = pad_packed_sequence(out, batch_first=True, total_length=POSITIONS)[0]
    hidden = module.hidden_size
    position = torch.minimum(torch.arange(POSITIONS)[None], torch.tensor(lengths)[:, None] - 1)
    forward = out[..., :hidden].gather(1, position[..., None].expand(-1, -1, hidden))
    h_n = state[0] if isinstance(state, tuple) else state
    assert torch.equal(forward[:, -1], h_n[-2 if module.bidirectional else -1])
    return torch.cat([forward, out[..., hidden:]], 2)


def run(case, dtype):
    kind = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[case["op"]]
    both = case.get("bidirectional", False)
    module = kind(CHANNELS, case["hidden"], case["layers"], batch_first=True,
                  bidirectional=both).to(dtype)
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(values(p.shape, i + 2))
    named = dict(module.named_parameters())
    if "lengths" in case:
        words = values([1 + SAMPLES * POSITIONS, CHANNELS], 0).to(dtype).requires_grad_()
        named["words.weight"] = words
        out = packed(module, words[1:].view(SAMPLES, POSITIONS, CHANNELS), case["lengths"])
    else:
        out = module(values([SAMPLES, POSITIONS, CHANNELS], 0).to(dtype))[0]
    target = values(out.shape, 1).to(dtype)
    torch.nn.functional.mse_loss(out, target).backward()
    return {"out": out.detach().double(),
            **{name: p.grad.double() for name, p in named.items()}}


def entry(case):
    exact, single = run(case, torch.float64), run(case, torch.float32)
    return dict(case, tensors={
        name: {"values": [float(f"{v:.10g}") for v in t.reshape(-1).tolist()],
               "float32": float(f"{(t - single[name]).abs().max():.3g}")}
        for name, t in exact.items()})


print("{")
print(f'"made_with": "torch {torch.__version__}",')
print('"cases": [')
print(",\n".join(json.dumps(entry(case), separators=(",", ":")) for case in CASES))
print("]")
print("}")
