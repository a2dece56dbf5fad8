#!/usr/bin/env python3
"""Learning rates of PyTorch's schedulers, for tests/train/test_schedule.c.

Usage: schedules.py > tests/train/golden/schedules.json   (needs torch)

Every case is a schedule as lks_schedule has it, and the learning rate of each of the first steps.
Warm-up is torch.optim.lr_scheduler.LinearLR from 1/(w+1) to 1 in w steps, chained: its factor
multiplies what the other schedule gives. Per epoch schedules advance every STEPS_PER_EPOCH steps.
"""
import json
import math

import torch
from torch.optim import lr_scheduler

STEPS = 48
STEPS_PER_EPOCH = 2

CASES = [
    {"name": "constant", "kind": "constant", "lr": 0.1},
    {"name": "step", "kind": "step", "lr": 1.0, "step_size": 1, "gamma": 0.7},
    {"name": "step of three", "kind": "step", "lr": 0.05, "step_size": 3, "gamma": 0.1},
    {"name": "step per step", "kind": "step", "lr": 0.3, "step_size": 5, "gamma": 0.5,
     "per_step": True},
    {"name": "cosine", "kind": "cosine", "lr": 0.1, "length": 24},
    {"name": "cosine to a floor, per step", "kind": "cosine", "lr": 0.2, "length": 48,
     "final_lr": 0.003, "per_step": True},
    {"name": "warm-up", "kind": "constant", "lr": 0.1, "warmup_steps": 5},
    {"name": "warm-up and step", "kind": "step", "lr": 1.0, "step_size": 2, "gamma": 0.7,
     "warmup_steps": 7},
    {"name": "warm-up and cosine", "kind": "cosine", "lr": 0.4, "length": 48, "warmup_steps": 10,
     "per_step": True},
]


def make(case):
    """An optimizer, the schedule as a scheduler of its own, and the warm-up."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=case["lr"])
    if case["kind"] == "step":
        return optimizer, lr_scheduler.StepLR(optimizer, case["step_size"], case["gamma"])
    if case["kind"] == "cosine":
        return optimizer, lr_scheduler.CosineAnnealingLR(
            optimizer, T_max=case["length"], eta_min=case.get("final_lr", 0.0))
    return optimizer, lr_scheduler.ConstantLR(optimizer, factor=1.0)


def rates(case):
    optimizer, schedule = make(case)
    warmup = case.get("warmup_steps", 0)
    factor_optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    factor = None
    if warmup:
        factor = lr_scheduler.LinearLR(factor_optimizer, 1.0 / (warmup + 1), 1.0, warmup)
    result = []
    for step in range(STEPS):
        rate = optimizer.param_groups[0]["lr"]
        result.append(rate * factor_optimizer.param_groups[0]["lr"])
        optimizer.step()
        factor_optimizer.step()
        if factor:
            factor.step()
        if case.get("per_step") or (step + 1) % STEPS_PER_EPOCH == 0:
            schedule.step()
    assert all(math.isfinite(rate) for rate in result)
    return result


print("{")
print(f'"made_with": "torch {torch.__version__}",')
print(f'"steps_per_epoch": {STEPS_PER_EPOCH},')
print('"cases": [')
print(",\n".join(json.dumps(dict(case, rates=rates(case))) for case in CASES))
print("]")
print("}")
