#!/usr/bin/env python3
"""What PyTorch computes for attention over some blocks of positions, for tests/sequence/test_attention.c.

Usage: attention.py > tests/sequence/golden/attention.json   (needs torch)

Inputs and output gradients follow from the formula of ops.py, whose attention this is. Of the output and of the
input's gradient every STRIDE-th number is kept, in float64.
"""
import contextlib
import io
import json

with contextlib.redirect_stdout(io.StringIO()):
    import ops

STRIDE = 397
CASES = [
    {"count": 1, "in": [64, 24], "heads": 1},
    {"count": 1, "in": [65, 48], "heads": 1, "causal": True},
    {"count": 2, "in": [130, 144], "heads": 3, "spread": 4},
    {"count": 1, "in": [130, 180], "heads": 3, "causal": True, "rotary": 10000},
    {"count": 2, "in": [1, 192], "heads": 1, "causal": True},
    {"count": 1, "in": [65, 576], "heads": 3, "causal": True, "spread": 2},
    {"count": 1, "in": [130, 320], "heads": 3, "kv_heads": 1, "rotary": 500000},
    {"count": 2, "in": [130, 48], "heads": 4, "kv_heads": 1, "vocabulary": 3, "padding": 2,
     "causal": True},
    {"count": 1, "in": [200, 60], "heads": 1, "vocabulary": 2, "padding": 1, "rotary": 100},
]


def entry(case):
    result = ops.run(dict(case, op="attention"))
    return dict(case, **{name: result[name][::STRIDE] for name in ("out", "d_in")})


print("{")
print(f'"made_with": "torch {ops.torch.__version__}",')
print(f'"stride": {STRIDE},')
print('"cases": [')
print(",\n".join(json.dumps(entry(case), separators=(",", ":")) for case in CASES))
print("]")
print("}")
