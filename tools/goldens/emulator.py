#!/usr/bin/env python3
"""Makes tests/table/golden/emulator.json: 50 steps of AdamP on the radiation emulator's network (normalize, 4128-100-100-100-552,
SiLU, MSE), as PyTorch computes them in float64, and how far its own float32 is from that. Needs torch, and adamp from PyPI.

  tools/goldens/emulator.py tests/table/golden

Element i of the inputs, in 64 rows, is units() of formula.py in stream 11, times 1 + column % 7, plus column % 5; targets are those of
stream 12 plus the row's input of the same number. Both are standardised with the mean and the deviation (of all rows) of their
columns in float64, then rounded to float32. Parameters are units(), streams 1 to 8, times 1/64 in the first layer and 1/8 in the
others. Step k takes rows [16 * (k % 4), 16 * (k % 4) + 16). AdamP's usual delta, 0.1, projects nothing in these steps, so that they are
Adam's; a second run, with 100, projects in every one.
"""

import json
import sys
from pathlib import Path

import adamp
import numpy as np
import torch

from formula import mse_losses, units

STEPS, BATCH, ROWS, RATE = 50, 16, 64, 1e-4
DELTAS = [0.1, 100]
UNITS = [4128, 100, 100, 100, 552]


def network(dtype):
    layers = []
    for inputs, outputs in zip(UNITS, UNITS[1:]):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.SiLU()]
    net = torch.nn.Sequential(*layers[:-1]).to(dtype)
    with torch.no_grad():
        for stream, p in enumerate(net.parameters(), 1):
            p.copy_(torch.from_numpy(units(tuple(p.shape), stream)).to(dtype) / (64 if stream < 3 else 8))
    return net


def losses(x, y, delta, dtype):
    net = network(dtype)
    return mse_losses(net, adamp.AdamP(net.parameters(), lr=RATE, delta=delta), x, y, STEPS, BATCH, 4)


def standardised(table):
    return torch.from_numpy(((table - table.mean(axis=0)) / table.std(axis=0)).astype(np.float32))


def main():
    column = np.arange(UNITS[0])
    x = units((ROWS, UNITS[0]), 11).astype(np.float64) * (1 + column % 7) + column % 5
    y = units((ROWS, UNITS[-1]), 12).astype(np.float64) + x[:, :UNITS[-1]]
    x, y = standardised(x), standardised(y)
    runs = []
    for delta in DELTAS:
        wide, narrow = losses(x, y, delta, torch.float64), losses(x, y, delta, torch.float32)
        runs.append({"delta": delta, "losses": wide, "f32_loss_errors": [abs(a - b) for a, b in zip(wide, narrow)]})
    golden = {"made_by": f"PyTorch {torch.__version__}, adamp 0.3.0", "rate": RATE, "batch": BATCH, "rows": ROWS,
              "parameters": [sum(p.numel() for p in layer.parameters()) for layer in network(torch.float32)][::2],
              "runs": runs}
    (Path(sys.argv[1]) / "emulator.json").write_text(json.dumps(golden, indent=1) + "\n")


main()
