#!/usr/bin/env python3
"""Learning rates of PyTorch's schedulers, for tests/train/test_schedule.c.

Usage: schedules.py > tests/optim/golden/schedules.json   (needs torch)

Every case is a schedule as lks_schedule has it, and the learning rate of each of the first steps.
Warm-up is torch.optim.lr_scheduler.LinearLR from 1/(w+1) to 1 in w steps, chained: its factor
multiplies what the other schedule gives; with "begin" the other one begins behind so many steps (SequentialLR) or
epochs. Per epoch schedules advance every STEPS_PER_EPOCH steps.
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
    {"name": "multi-step", "kind": "multi_step", "lr": 0.5, "milestones": [1, 7, 8, 20],
     "gamma": 0.3},
    {"name": "warm-up, then cosine", "kind": "cosine", "lr": 0.4, "length": 38, "warmup_steps": 10,
     "begin": 10, "per_step": True, "final_lr": 0.01},
    {"name": "warm-up of two epochs, then step", "kind": "step", "lr": 1.0, "step_size": 2, "gamma": 0.7,
     "warmup_steps": 2 * STEPS_PER_EPOCH, "begin": 2},
    {"name": "multi-step per step, warm-up", "kind": "multi_step", "lr": 0.5,
     "milestones": [10, 30], "gamma": 0.1, "per_step": True, "warmup_steps": 12},
    {"name": "exponential", "kind": "exponential", "lr": 0.3, "gamma": 0.9, "per_step": True},
    {"name": "linear", "kind": "linear", "lr": 0.4, "length": 24},
    {"name": "linear to a floor", "kind": "linear", "lr": 0.4, "length": 15, "final_lr": 0.1},
    {"name": "polynomial", "kind": "polynomial", "lr": 0.4, "length": 24, "power": 2.0},
    {"name": "polynomial, no integer", "kind": "polynomial", "lr": 0.4, "length": 40,
     "power": 0.9, "per_step": True},
    {"name": "one cycle", "kind": "one_cycle", "lr": 0.4, "length": 48, "per_step": True},
    {"name": "one cycle, other shape", "kind": "one_cycle", "lr": 0.4, "length": 48,
     "per_step": True, "rise": 0.45, "start_div": 10.0, "final_div": 100.0},
    {"name": "one cycle per epoch", "kind": "one_cycle", "lr": 0.1, "length": 24, "rise": 0.25},
]

# Losses: falling, in jumps, one that is hardly better, then noise; the rate behind each.
PLATEAUS = [
    {"name": "defaults", "lr": 0.1},
    {"name": "as SC20's", "lr": 0.1, "factor": 0.2, "patience": 3},
    {"name": "impatient", "lr": 0.1, "factor": 0.5, "patience": 0, "min_lr": 0.001},
    {"name": "coarse", "lr": 0.1, "factor": 0.5, "patience": 2, "threshold": 0.05},
    {"name": "down to the smallest change", "lr": 1e-6, "factor": 0.1, "patience": 0},
]
LOSSES = [round(2.0 / (1 + i // 3) + (i * 7 % 5) * 0.01 - (1e-5 if i == 20 else 0), 6)
          for i in range(40)] + [0.15 + (i * 11 % 7) * 0.001 for i in range(40)]


def make(case):
    """An optimizer, the schedule as a scheduler of its own, and the warm-up."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=case["lr"])
    if case["kind"] == "step":
        return optimizer, lr_scheduler.StepLR(optimizer, case["step_size"], case["gamma"])
    if case["kind"] == "cosine":
        return optimizer, lr_scheduler.CosineAnnealingLR(
            optimizer, T_max=case["length"], eta_min=case.get("final_lr", 0.0))
    if case["kind"] == "multi_step":
        return optimizer, lr_scheduler.MultiStepLR(optimizer, case["milestones"], case["gamma"])
    if case["kind"] == "exponential":
        return optimizer, lr_scheduler.ExponentialLR(optimizer, case["gamma"])
    if case["kind"] == "linear":
        return optimizer, lr_scheduler.LinearLR(
            optimizer, 1.0, case.get("final_lr", 0.0) / case["lr"], case["length"])
    if case["kind"] == "polynomial":
        return optimizer, lr_scheduler.PolynomialLR(optimizer, case["length"], case["power"])
    if case["kind"] == "one_cycle":
        return optimizer, lr_scheduler.OneCycleLR(
            optimizer, case["lr"], total_steps=case["length"], pct_start=case.get("rise", 0.3),
            div_factor=case.get("start_div", 25.0), final_div_factor=case.get("final_div", 1e4),
            cycle_momentum=False)
    return optimizer, lr_scheduler.ConstantLR(optimizer, factor=1.0)


def rates(case):
    if case.get("begin") and case.get("per_step"):
        return one_behind_the_other(case)
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
        if "begin" in case and (step + 1) // STEPS_PER_EPOCH <= case["begin"]:
            continue
        last = case["kind"] == "one_cycle" and schedule.last_epoch + 1 == case["length"]
        if last:  # PyTorch's refuses to go on
            continue
        if case.get("per_step") or (step + 1) % STEPS_PER_EPOCH == 0:
            schedule.step()
    assert all(math.isfinite(rate) for rate in result)
    return result


def one_behind_the_other(case):
    optimizer, schedule = make(case)
    warmup = case["warmup_steps"]
    both = lr_scheduler.SequentialLR(
        optimizer, [lr_scheduler.LinearLR(optimizer, 1.0 / (warmup + 1), 1.0, warmup), schedule], [case["begin"]])
    result = []
    for _ in range(STEPS):
        result.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        both.step()
    return result


def plateau(case):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=case["lr"])
    schedule = lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=case.get("factor", 0.1), patience=case.get("patience", 10),
        threshold=case.get("threshold", 1e-4), min_lr=case.get("min_lr", 0.0))
    result = []
    for loss in LOSSES:
        schedule.step(loss)
        result.append(optimizer.param_groups[0]["lr"])
    return result


print("{")
print(f'"made_with": "torch {torch.__version__}",')
print(f'"steps_per_epoch": {STEPS_PER_EPOCH},')
print('"cases": [')
print(",\n".join(json.dumps(dict(case, rates=rates(case))) for case in CASES))
print("],")
print(f'"losses": {json.dumps(LOSSES)},')
print('"plateaus": [')
print(",\n".join(json.dumps(dict(case, rates=plateau(case))) for case in PLATEAUS))
print("]")
print("}")
