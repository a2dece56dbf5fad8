#!/usr/bin/env python3
"""Makes tests/table/golden/diabetes.csv and diabetes.json: 30 steps of SGD on scikit-learn's diabetes data (442 patients, ten
measurements in their own units, progression of the disease a year later; Efron, Hastie, Johnstone, Tibshirani: Least Angle
Regression, 2004), as PyTorch computes them in float64, and how far its own float32 is from that. Needs torch and scikit-learn.

  tools/goldens/diabetes.py tests/table/golden

Inputs and target are standardised with the mean and the deviation (of all rows, as StandardScaler does) in float64, then
rounded to float32. The net is 10-16-1 with relu, its parameters units() of formula.py, streams 1 to 4, times 1/4. Step k takes
rows [64 * (k % 6), 64 * (k % 6) + 64).
"""

import json
import sys
from pathlib import Path

import numpy as np
import sklearn
import torch
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from formula import mse_losses, units

STEPS, BATCH, RATE, HIDDEN = 30, 64, 0.05, 16


def losses(x, y, dtype):
    net = torch.nn.Sequential(torch.nn.Linear(10, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 1)).to(dtype)
    with torch.no_grad():
        for stream, p in enumerate(net.parameters(), 1):
            p.copy_(torch.from_numpy(units(tuple(p.shape), stream)).to(dtype) / 4)
    return mse_losses(net, torch.optim.SGD(net.parameters(), lr=RATE), x, y, STEPS, BATCH, 6)


def main():
    folder = Path(sys.argv[1])
    data = load_diabetes(as_frame=True, scaled=False)
    data.frame.to_csv(folder / "diabetes.csv", index=False)
    x, y = (torch.from_numpy(StandardScaler().fit_transform(part).astype(np.float32))
            for part in (data.data.to_numpy(), data.target.to_numpy()[:, None]))
    wide, narrow = losses(x, y, torch.float64), losses(x, y, torch.float32)
    golden = {"made_by": f"PyTorch {torch.__version__}, scikit-learn {sklearn.__version__}", "rate": RATE, "batch": BATCH,
              "losses": wide, "f32_loss_errors": [abs(a - b) for a, b in zip(wide, narrow)]}
    (folder / "diabetes.json").write_text(json.dumps(golden, indent=1) + "\n")


main()
