#!/usr/bin/env python3
"""What PyTorch starts parameters with, for tests/model/test_initialise.c.

Usage: initialisers.py > tests/model/golden/initialisers.json   (needs torch)

Of random kinds the bound of uniform or the standard deviation of normal numbers (from PyTorch's
gains and fans, as torch.nn.init has them in its formulas), of eye_ and dirac_ the places of the ones.
"""
import json
import math

import torch
from torch.nn import init

SHAPES = [  # a layer's input, its weight, and groups
    {"in": [30], "weight": [50, 30]},
    {"in": [64], "weight": [8, 64]},
    {"in": [5, 6, 3], "weight": [7, 3, 3, 2]},
    {"in": [5, 6, 8], "weight": [12, 2, 2, 3], "groups": 4},
    {"in": [5, 6, 4], "weight": [4, 1, 5, 5], "groups": 4},
]
KINDS = [
    {"kind": "kaiming_uniform"},
    {"kind": "kaiming_uniform", "slope": 0.2},
    {"kind": "kaiming_uniform", "fan_out": True},
    {"kind": "kaiming_normal", "slope": 0.01, "fan_out": True},
    {"kind": "xavier_uniform"},
    {"kind": "xavier_uniform", "gain": 1.4},
    {"kind": "xavier_normal", "gain": 0.5},
    {"kind": "identity"},
]


def scale(case, weight):
    fans = init._calculate_fan_in_and_fan_out(weight)
    root = math.sqrt(3) if case["kind"].endswith("uniform") else 1.0
    if case["kind"].startswith("xavier"):
        return root * case.get("gain", 1.0) * math.sqrt(2.0 / sum(fans))
    gain = init.calculate_gain("leaky_relu", case.get("slope", 0.0))
    return root * gain / math.sqrt(fans[case.get("fan_out", False)])


def run(shape, kind):
    case = dict(shape, **kind)
    weight = torch.empty(shape["weight"])
    if kind["kind"] != "identity":
        return dict(case, scale=float(f"{scale(case, weight):.10g}"))
    if weight.dim() == 2:
        init.eye_(weight)
    else:
        init.dirac_(weight, shape.get("groups", 1))
    return dict(case, ones=weight.flatten().nonzero().flatten().tolist())


print("{")
print(f'"made_with": "torch {torch.__version__}",')
print('"cases": [')
print(",\n".join(json.dumps(run(shape, kind), separators=(",", ":"))
                 for shape in SHAPES for kind in KINDS))
print("]")
print("}")
