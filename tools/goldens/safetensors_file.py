#!/usr/bin/env python3
"""A small file written by the safetensors package through PyTorch, for tests/train.

Usage: safetensors_file.py tests/checkpoint/golden/from_pytorch.safetensors   (needs torch, safetensors)
       safetensors_file.py --check FILE

The first form writes tensors of each type that Lockstep reads, with values from an integer formula.
The second reads a file that Lockstep wrote (tests/train/test_weights.c says where) with the package
and prints names, shapes and sums.
"""
import sys

import torch
from safetensors.torch import load_file, save_file


def values(count, dtype):
    return (torch.arange(count) * 7 % 11 - 5 if dtype != torch.uint8
            else torch.arange(count) * 7 % 251).to(dtype)


if len(sys.argv) == 3 and sys.argv[1] == "--check":
    for name, tensor in load_file(sys.argv[2]).items():
        print(name, tensor.dtype, list(tensor.shape), float(tensor.double().sum()))
elif len(sys.argv) == 2:
    save_file({
        "fc1.weight": values(15, torch.float32).reshape(5, 3) / 4,
        "fc1.bias": values(5, torch.float32),
        "bn.num_batches_tracked": torch.tensor(1234567890123, dtype=torch.int64),
        "labels": values(7, torch.int32),
        "pixels": values(6, torch.uint8).reshape(2, 3, 1),
        "nothing": torch.zeros(0, 4),
    }, sys.argv[1], metadata={"format": "pt", "note": "made for tests"})
else:
    sys.exit(__doc__)
