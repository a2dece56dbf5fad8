#!/usr/bin/env python3
"""20 steps of PyTorch on a small network with every optimizer, and with clipping, parameter groups and
averaged weights, for tests/model/test_training.c.

Usage: training.py > tests/model/golden/training.json   (needs torch, and adamp: the program of AdamP's
authors, from PyPI)

x[7] -> dense fc1, 6 -> relu -> dense fc2, 3 -> cross entropy; batches of 8 of 32 samples. Inputs,
labels and weights follow from ops.py's integer formula, which the test has too. Kept are parameters
(or their averages) after some of the steps, in float64, and how far PyTorch in float32 is from them at
most until then: the test's measure.
"""
import json
import math
import sys

import torch
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import adamp

IN, LABEL, FIRST_WEIGHT = 0, 5, 10
SAMPLES, BATCH, STEPS, KEPT = 32, 8, 20, (1, 2, 5, 10, 20)
SHAPES = {"fc1.weight": (6, 7), "fc1.bias": (6,), "fc2.weight": (3, 6), "fc2.bias": (3,)}

CASES = [
    {"kind": "SGD", "lr": 0.5, "momentum": 0.9},
    {"kind": "Adam", "lr": 0.05},
    {"kind": "Adadelta", "lr": 1.0},
    {"kind": "AdamW", "lr": 0.05, "weight_decay": 0.1},
    {"kind": "RMSprop", "lr": 0.02, "momentum": 0.5, "centered": True},
    {"kind": "AdamP", "lr": 0.05},
    {"kind": "AdamP", "lr": 0.05, "delta": 1.0, "wd_ratio": 0.25, "weight_decay": 0.5},
    {"kind": "AdamP", "lr": 0.05, "delta": 0.75, "wd_ratio": 0.5, "weight_decay": 0.5,
     "nesterov": True, "betas": [0.8, 0.99]},
    {"kind": "AdamP", "lr": 0.05, "delta": 1.25, "weight_decay": 0.5, "clip_norm": 0.25},
    {"kind": "LARS", "lr": 0.5, "trust": 0.125},
    {"kind": "LARS", "lr": 0.25, "momentum": 0.9, "trust": 0.25, "weight_decay": 0.125},
    {"kind": "LARS", "lr": 0.25, "momentum": 0.5, "trust": 0.25, "weight_decay": 0.125,
     "clip_norm": 0.25, "groups": {"fc2.weight": {"weight_decay": 0.0}}},
    {"kind": "LAMB", "lr": 0.05},
    {"kind": "LAMB", "lr": 0.02, "weight_decay": 0.5, "betas": [0.8, 0.99],
     "groups": {"fc1.weight": {"weight_decay": 0.0}, "fc2.weight": {"lr_factor": 0.5}}},
    {"kind": "SGD", "lr": 0.5, "momentum": 0.9, "clip_norm": 0.25},
    {"kind": "SGD", "lr": 0.5, "momentum": 0.9, "clip_norm": 1000.0},
    {"kind": "Adadelta", "lr": 1.0, "clip_value": 0.0625},
    {"kind": "AdamW", "lr": 0.05, "clip_value": 0.125, "clip_norm": 0.25, "ema": 0.75},
    {"kind": "SGD", "lr": 0.5, "weight_decay": 0.125, "ema": 0.875,
     "groups": {"fc1.weight": {"lr_factor": 0.5}, "fc1.bias": {"lr_factor": 0.5, "weight_decay": 0.0},
                "fc2.bias": {"weight_decay": 0.0}}},
]
MARGIN = 1e-4  # of AdamP's comparisons, so that float32 decides as float64 does


def hashed(i, salt):
    return (i * 2654435761 + salt * 40503 * 65537) % 2**32


def values(shape, salt):
    count = torch.Size(shape).numel()
    return torch.tensor([(hashed(i, salt) >> 8) / 2**23 - 1 for i in range(count)],
                        dtype=torch.float64).reshape(shape)


def f32(x):
    return torch.tensor(x, dtype=torch.float32).double().item()


class Watched(adamp.AdamP):
    """Notes how near its comparisons are, and which projection follows."""

    def _projection(self, p, grad, perturb, delta, wd_ratio, eps):
        kind = "none"
        for name, view in (("row", self._channel_view), ("whole", self._layer_view)):
            bound = delta / math.sqrt(view(p.data).size(1))
            largest = float(self._cosine_similarity(grad, p.data, eps, view).max())
            assert abs(largest - bound) > MARGIN, (largest, bound)
            if largest < bound:
                kind = name
                break
        self.seen[kind] = self.seen.get(kind, 0) + 1
        return super()._projection(p, grad, perturb, delta, wd_ratio, eps)


class Large(torch.optim.Optimizer):
    """LARS and LAMB as their papers have them (You et al. 2017, algorithm 1; 2019, algorithm 2); tensors of
    one dimension are not adapted."""

    def __init__(self, groups, kind, lr, weight_decay=0.0, momentum=0.0, trust=0.001,
                 betas=(0.9, 0.999)):
        super().__init__(groups, dict(lr=lr, weight_decay=weight_decay, momentum=momentum,
                                      trust=trust, betas=betas))
        self.kind = kind

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                getattr(self, self.kind.lower())(w, w.grad, self.state[w], group)

    @staticmethod
    def lars(w, g, state, group):
        size, slope = torch.linalg.vector_norm(w), torch.linalg.vector_norm(g)
        ratio = 1.0
        if w.dim() > 1 and size > 0 and slope > 0:
            ratio = group["trust"] * size / (slope + group["weight_decay"] * size + 1e-8)
        v = state.setdefault("v", torch.zeros_like(w))
        v.mul_(group["momentum"]).add_(group["lr"] * ratio * (g + group["weight_decay"] * w))
        w.sub_(v)

    @staticmethod
    def lamb(w, g, state, group):
        b1, b2 = group["betas"]
        m, v = (state.setdefault(k, torch.zeros_like(w)) for k in "mv")
        t = state["t"] = state.get("t", 0) + 1
        m.mul_(b1).add_((1 - b1) * g)
        v.mul_(b2).add_((1 - b2) * g * g)
        step = m / (1 - b1**t) / ((v / (1 - b2**t)).sqrt() + 1e-6) + group["weight_decay"] * w
        size, length = torch.linalg.vector_norm(w), torch.linalg.vector_norm(step)
        ratio = size / length if w.dim() > 1 and size > 0 and length > 0 else 1.0
        w.sub_(group["lr"] * ratio * step)


class Network(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        for salt, (name, shape) in enumerate(SHAPES.items(), FIRST_WEIGHT):
            self.register_parameter(name.replace(".", "_"),
                                    torch.nn.Parameter((values(shape, salt) / 2).to(dtype)))

    def parameter(self, name):
        return getattr(self, name.replace(".", "_"))

    def forward(self, x):
        hidden = F.relu(F.linear(x, self.fc1_weight, self.fc1_bias))
        return F.linear(hidden, self.fc2_weight, self.fc2_bias)


def make_optimizer(case, network):
    names = ("kind", "clip_norm", "clip_value", "ema", "groups")
    settings = {k: v for k, v in case.items() if k not in names}
    for key, value in settings.items():
        if isinstance(value, list):
            settings[key] = tuple(f32(v) for v in value)
        elif not isinstance(value, bool):
            settings[key] = f32(value)
    groups = []
    for name in SHAPES:
        own = case.get("groups", {}).get(name, {})
        group = {"params": [network.parameter(name)], "lr": settings["lr"] * own.get("lr_factor", 1)}
        if "weight_decay" in own:
            group["weight_decay"] = own["weight_decay"]
        groups.append(group)
    if case["kind"] == "AdamP":
        optimizer = Watched(groups, **settings)
        optimizer.seen = {}
        return optimizer
    if case["kind"] in ("LARS", "LAMB"):
        return Large(groups, case["kind"], **settings)
    return getattr(torch.optim, case["kind"])(groups, **settings)


def train(case, dtype):
    """Parameters, averages and norms after every step, and AdamP's projections."""
    x = values((SAMPLES, 7), IN).to(dtype)
    labels = torch.tensor([hashed(i, LABEL) % 3 for i in range(SAMPLES)])
    network = Network(dtype)
    optimizer = make_optimizer(case, network)
    average = None
    if "ema" in case:
        average = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(f32(case["ema"])))
    kept, norms = [], []
    for step in range(STEPS):
        part = slice(step % 4 * BATCH, step % 4 * BATCH + BATCH)
        optimizer.zero_grad()
        F.cross_entropy(network(x[part]), labels[part]).backward()
        if "clip_value" in case:
            torch.nn.utils.clip_grad_value_(network.parameters(), case["clip_value"])
        if "clip_norm" in case:
            norms.append(float(torch.nn.utils.clip_grad_norm_(network.parameters(),
                                                              case["clip_norm"])))
        optimizer.step()
        source = network
        if average is not None:
            average.update_parameters(network)
            source = average.module
        kept.append(torch.cat([source.parameter(n).detach().double().reshape(-1) for n in SHAPES]))
    return torch.stack(kept), norms, getattr(optimizer, "seen", {})


def numbers(x):
    return [float(f"{v:.9g}") for v in x]


def run(case):
    exact, norms, seen = train(case, torch.float64)
    single, single_norms, _ = train(case, torch.float32)
    errors = (exact - single).abs().amax(1)
    print(case, "error", float(errors.max()), seen, file=sys.stderr)
    result = dict(case, steps=[
        {"step": k, "values": numbers(exact[k - 1].tolist()),
         "float32": float(f"{errors[:k].max():.3g}")} for k in KEPT])
    if norms:
        result["norms"] = numbers(norms)
        result["norm_float32"] = float(f"{max(abs(a - b) for a, b in zip(norms, single_norms)):.3g}")
    if seen:
        result["projections"] = seen
    return result


print("{")
print(f'"made_with": "torch {torch.__version__}, adamp 0.3.0",')
print('"cases": [')
print(",\n".join(json.dumps(run(case), separators=(",", ":")) for case in CASES))
print("]")
print("}")
