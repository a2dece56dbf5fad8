#!/usr/bin/env python3
"""Random networks that PyTorch and Lockstep train alike, for bench/parity (a hundred of them) and for
tests/cli/test_parity.c (fourteen, with what PyTorch computes).

Usage: parity.py > tests/cli/golden/parity.json   (needs torch; adamp from PyPI for AdamP)

A network is a configuration of the program, data and initial values. All follow from a number: layers
of all operations that a configuration has (but dropout, whose mask is each side's own), every
optimizer (LARS and LAMB as large_batch.py has them), schedule and option of the update with hyperparameters over their
whole range. Data and values come from formula.py's integer formula, which the test has too.
"""
import json
import math
import random
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch.optim import lr_scheduler

from accuracy import from_torch, to_torch
from formula import hashes
from large_batch import Lamb, Lars

STEPS = 20
# Together they have every layer, optimizer, schedule and option, and none is chaotic: PyTorch's own
# float32 stays within 6e-7.
FROZEN = [0, 1, 11, 13, 16, 28, 29, 38, 41, 44, 56, 62, 110, 122]
LARGE_BATCH = {4: "lars", 9: "lamb"}  # networks with this last digit have them, whatever is drawn
PIXELS, LABELS, FIRST_VALUE, STREAMS = 0, 1, 2, 100  # streams of numbers; so many for one network
CURVES = ("relu", "leaky_relu", "gelu", "silu", "tanh", "sigmoid", "softplus")


class Builder:
    """Layers one by one, with the shape that each leaves."""

    def __init__(self, dice, shape, batch, whole):
        self.dice, self.shape, self.batch = dice, tuple(shape), batch
        self.whole = whole  # one replica, so that batch norm is PyTorch's
        self.layers, self.tensors, self.count = [], [], 0

    def add(self, op, shape=None, **options):
        self.count += 1
        name = options.setdefault("name", f"{op}{self.count}")
        self.layers.append({op: options})
        self.shape = tuple(shape or self.shape)
        return name

    def parameter(self, name, shape, scale, offset=0.0):
        self.tensors.append({"name": name, "shape": list(shape), "scale": scale, "offset": offset})

    def weights(self, name, shape, outputs, bias):
        fan_in = math.prod(shape[1:])
        self.parameter(f"{name}.weight", shape, round(self.dice.uniform(1, 2.4) / fan_in**0.5, 4))
        if bias:
            self.parameter(f"{name}.bias", [outputs], 0.1)

    def conv2d(self, filters=None, kernel=None, stride=None, padding=None):
        height, width, channels = self.shape
        groups = self.dice.choice([g for g in (1, 1, 1, 2, 3, channels) if channels % g == 0])
        filters = filters or groups * self.dice.randint(1, max(1, 12 // groups))
        if filters % groups:
            groups = 1
        kernel = kernel or [self.dice.choice([1, 2, 3, 3, 5]) for _ in range(2)]
        padding = padding or [self.dice.randint(0, k // 2) for k in kernel]
        dilation = [self.dice.choice([1, 1, 2]) if stride is None and k > 1 else 1 for k in kernel]
        stride = stride or [self.dice.choice([1, 1, 2]) for _ in range(2)]
        size = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in
                zip((height, width), padding, dilation, kernel, stride)]
        if min(size) < 1:
            return
        bias = self.dice.random() < 0.7
        name = self.add("conv2d", (*size, filters), filters=filters, kernel=kernel, stride=stride,
                        padding=padding, dilation=dilation, groups=groups, bias=bias)
        self.weights(name, [filters, channels // groups, *kernel], filters, bias)

    def dense(self, units):
        inputs, bias = self.shape[0], self.dice.random() < 0.8
        name = self.add("dense", (units,), units=units, bias=bias)
        self.weights(name, [units, inputs], units, bias)

    def norm(self):
        values = math.prod(self.shape[:-1]) * self.batch
        if self.whole and self.dice.random() < 0.5 and values >= 8:
            name = self.add("batch_norm", epsilon=self.dice.choice([1e-5, 1e-3]),
                            momentum=self.dice.choice([0.1, 0.01]))
            shape, affine = [self.shape[-1]], True
        elif self.shape[-1] >= 4:
            dims = self.dice.choice([1, len(self.shape)])
            affine = self.dice.random() < 0.7
            name = self.add("layer_norm", dims=dims, affine=affine,
                            epsilon=self.dice.choice([1e-5, 1e-3]))
            shape = [self.shape[2], *self.shape[:2]] if dims == 3 else [self.shape[-1]]
        else:
            return
        if affine:
            self.parameter(f"{name}.weight", shape, 0.5, 1.0)
            self.parameter(f"{name}.bias", shape, 0.2)

    def curve(self):
        op = self.dice.choice(CURVES)
        options = {}
        if op == "leaky_relu":
            options["slope"] = self.dice.choice([0.01, 0.2])
        if op == "gelu":
            options["form"] = self.dice.choice(["erf", "tanh"])
        return self.add(op, **options)

    def pool(self):
        height, width, channels = self.shape
        op = self.dice.choice(["max_pool", "avg_pool"])
        kernel = [min(n, self.dice.choice([2, 3])) for n in (height, width)]
        stride = [self.dice.choice([1, 2, 2]) for _ in kernel]
        padding = [self.dice.randint(0, k // 2) for k in kernel]
        size = [(n + 2 * p - k) // s + 1
                for n, p, k, s in zip((height, width), padding, kernel, stride)]
        options = {"exclude_padding": self.dice.random() < 0.5} if op == "avg_pool" else {}
        self.add(op, (*size, channels), kernel=kernel, stride=stride, padding=padding, **options)

    def join(self):
        """A branch beside what is there: skip connection, product, more channels, or a gate."""
        trunk, shape = self.curve(), self.shape
        how = self.dice.choice(["add", "mul", "concat", "gate"])
        if how == "gate" and len(shape) == 3:
            self.add("global_avg_pool", (shape[2],))
            self.dense(shape[2])
            self.add("sigmoid")
            how = self.dice.choice(["add", "mul"])
            self.add(how, shape, **{"with": trunk})
            return
        how = "add" if how == "gate" else how
        if len(shape) == 3:
            self.conv2d(filters=shape[2], kernel=[3, 3], stride=[1, 1], padding=[1, 1])
        else:
            self.dense(shape[0])
        if how == "concat":
            self.add("concat", (*shape[:-1], self.shape[-1] + shape[-1]), **{"with": trunk})
        else:
            self.add(how, **{"with": trunk})

    def network(self, classes):
        if len(self.shape) == 3:
            for _ in range(self.dice.randint(1, 4)):
                self.conv2d()
                self.dice.choice([self.norm, self.curve, self.curve, self.join, self.pool])()
                self.curve()
                if self.dice.random() < 0.3:
                    self.add("scale", factor=self.dice.choice([0.7, 1.3, -0.9]))
            if self.dice.random() < 0.5:
                self.add("global_avg_pool", (self.shape[2],))
            else:
                self.add("flatten", (math.prod(self.shape),))
        for _ in range(self.dice.randint(0, 2)):
            self.dense(self.dice.randint(3, 32))
            self.dice.choice([self.norm, self.curve, self.join])()
            self.curve()
        self.dense(classes)
        if self.dice.random() < 0.25:
            self.add("log_softmax")
            return {}
        return {"loss": {"name": "cross_entropy",
                         "label_smoothing": self.dice.choice([0, 0, 0.1])}}


def draw_optimizer(dice, number):
    def log(low, high):
        return float(f"{10 ** dice.uniform(math.log10(low), math.log10(high)):.3g}")

    name = dice.choice(["sgd", "sgd", "adam", "adamw", "adadelta", "rmsprop", "rmsprop", "adamp"])
    name = LARGE_BATCH.get(number % 10, name)
    o = {"name": name, "weight_decay": dice.choice([0, 0, 1e-4, 0.01])}
    moments = {"betas": dice.choice([[0.9, 0.999], [0.8, 0.99], [0.95, 0.9999], [0.0, 0.9]]),
               "eps": dice.choice([1e-8, 1e-6, 1e-3])}
    if name == "sgd":
        o |= {"lr": log(0.005, 0.2), "momentum": dice.choice([0, 0.5, 0.9, 0.99])}
        if o["momentum"] and dice.random() < 0.4:
            o["nesterov"] = True
        elif o["momentum"]:
            o["dampening"] = dice.choice([0, 0, 0.3])
    elif name == "lars":
        o |= {"lr": log(0.05, 1), "momentum": dice.choice([0, 0.5, 0.9]),
              "trust": dice.choice([0.001, 0.02, 0.1]), "eps": moments["eps"]}
    elif name == "adadelta":
        o |= {"lr": log(0.1, 1), "rho": dice.choice([0.9, 0.99, 0.999]),
              "eps": dice.choice([1e-6, 1e-3])}
    elif name == "rmsprop":
        o |= {"lr": log(1e-4, 1e-2), "alpha": dice.choice([0.9, 0.99, 0.999, 0.9999]),
              "momentum": dice.choice([0, 0, 0.9]), "centered": dice.random() < 0.4,
              "eps": moments["eps"]}
    elif name == "adamp":
        o |= moments | {"lr": log(1e-4, 1e-2), "delta": dice.choice([0.1, 1.0]),
                        "wd_ratio": dice.choice([0.1, 0.5]), "nesterov": dice.random() < 0.4}
    else:
        o |= moments | {"lr": log(1e-4, 1e-2)}
    if dice.random() < 0.25:
        o["clip_norm"] = dice.choice([0.1, 1.0])
    if dice.random() < 0.15:
        o["clip_value"] = dice.choice([0.01, 0.1])
    if dice.random() < 0.25:
        o["groups"] = [{"match": "*.bias", "weight_decay": 0, "lr_factor": 0.3}]
    return o


def draw_schedule(dice):
    name = dice.choice(["constant", "constant", "step", "multi_step", "exponential", "linear",
                        "polynomial", "cosine", "one_cycle"])
    s = {"name": name, "warmup_steps": dice.choice([0, 0, 3, 7])}
    if name == "constant":
        return s
    s["per_step"] = dice.random() < 0.7
    if name == "step":
        s |= {"step_size": dice.randint(1, 5), "gamma": dice.choice([0.1, 0.7])}
    elif name == "multi_step":
        s |= {"milestones": sorted(dice.sample(range(1, 20), 3)), "gamma": dice.choice([0.3, 0.7])}
    elif name == "exponential":
        s |= {"gamma": dice.choice([0.7, 0.97])}
    else:
        s |= {"length": dice.randint(10, 40)}
        if name in ("linear", "cosine"):
            s["final_lr"] = dice.choice([0, 1e-5])
        if name == "cosine":  # Lockstep's ends there, PyTorch's rises again
            s["length"] += STEPS
        if name == "polynomial":
            s["power"] = dice.choice([0.5, 1, 2, 3.5])
        if name == "one_cycle":
            s |= {"rise": dice.choice([0.2, 0.3, 0.5]), "start_div": dice.choice([10, 25]),
                  "final_div": dice.choice([100, 10000]), "length": dice.randint(21, 40)}
    return s


def make_network(number):
    """The same for the same number, on every machine."""
    dice = random.Random(number)
    whole = dice.random() < 0.6
    batch = dice.randint(4, 32)
    shape = [dice.randint(6, 14), dice.randint(6, 14), dice.choice([1, 1, 3])]
    if dice.random() < 0.2:
        shape = [dice.randint(5, 40)]
    classes = dice.randint(2, 12)
    builder = Builder(dice, shape, batch, whole)
    config = builder.network(classes)
    config |= {
        "data": {"path": "data", "name": "parity", "shuffle": False, "mean": 0.4, "std": 0.3,
                 "classes": classes},
        "model": {"name": "parity", "layers": builder.layers},
        "train": {"steps": STEPS, "batch_size": batch,
                  "replicas": 1 if whole else dice.randint(1, 5)},
        "optimizer": draw_optimizer(dice, number),
        "schedule": draw_schedule(dice),
    }
    if not any(t["name"].endswith(".bias") for t in builder.tensors):
        config["optimizer"].pop("groups", None)  # matches nothing, which is an error
    # The last batch of an epoch may be short.
    samples = dice.randint(2, 6) * batch + dice.choice([0, 0, batch // 2])
    return {"number": number, "config": config, "shape": shape, "classes": classes,
            "samples": samples, "tensors": builder.tensors}


def pixels(network):
    """Bytes, [samples, shape]."""
    count = network["samples"] * math.prod(network["shape"])
    bits = hashes(count, network["number"] * STREAMS + PIXELS)
    return (bits >> np.uint32(24)).astype(np.uint8).reshape(network["samples"], *network["shape"])


def labels(network):
    bits = hashes(network["samples"], network["number"] * STREAMS + LABELS)
    return (bits % np.uint32(network["classes"])).astype(np.uint8)


def initial(network):
    """float32: (number in [-1, 1)) * scale + offset."""
    found = {}
    for i, t in enumerate(network["tensors"]):
        bits = hashes(math.prod(t["shape"]), network["number"] * STREAMS + FIRST_VALUE + i)
        v = (bits >> np.uint32(8)).astype(np.float32) * np.float32(2**-23) - np.float32(1)
        v = v * np.float32(t["scale"]) + np.float32(t["offset"])
        found[t["name"]] = torch.from_numpy(v.reshape(t["shape"]))
    return found


def layer_norm(o, x, w, b):
    if x.dim() == 4 and o["dims"] == 1:
        y = from_torch(x)
        return F.layer_norm(y, y.shape[-1:], w, b, o["epsilon"]).permute(0, 3, 1, 2)
    return F.layer_norm(x, x.shape[-o["dims"]:], w, b, o["epsilon"])


def pair(x, y):
    """A vector of channels stands at every pixel."""
    if x.dim() == y.dim():
        return x, y
    return (x, y[:, :, None, None]) if x.dim() == 4 else (x[:, :, None, None], y)


def apply_layer(op, o, x, w, b, named):
    if op == "conv2d":
        return F.conv2d(x, w, b, o["stride"], o["padding"], o["dilation"], o["groups"])
    if op == "dense":
        return F.linear(x, w, b)
    if op == "batch_norm":
        return F.batch_norm(x, None, None, w, b, True, eps=o["epsilon"])
    if op == "layer_norm":
        return layer_norm(o, x, w, b)
    if op == "max_pool":
        return F.max_pool2d(x, o["kernel"], o["stride"], o["padding"])
    if op == "avg_pool":
        return F.avg_pool2d(x, o["kernel"], o["stride"], o["padding"],
                            count_include_pad=not o["exclude_padding"])
    if op == "add":
        return torch.add(*pair(x, named[o["with"]]))
    if op == "mul":
        return torch.mul(*pair(x, named[o["with"]]))
    if op == "concat":
        return torch.cat([x, named[o["with"]]], 1)
    if op == "gelu":
        return F.gelu(x, approximate="tanh" if o["form"] == "tanh" else "none")
    if op == "leaky_relu":
        return F.leaky_relu(x, o["slope"])
    return {"relu": F.relu, "silu": F.silu, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
            "softplus": lambda v: F.softplus(v, threshold=1000),
            "scale": lambda v: v * o["factor"], "flatten": lambda v: v.flatten(1),
            "global_avg_pool": lambda v: v.mean((2, 3)),
            "log_softmax": lambda v: F.log_softmax(v, 1)}[op](x)


def loss_of(network, parameters, x, y, _):
    config, named, op = network["config"], {}, None
    for layer in config["model"]["layers"]:
        (op, o), = layer.items()
        w, b = (parameters.get(f"{o['name']}.{what}") for what in ("weight", "bias"))
        x = named[o["name"]] = apply_layer(op, o, x, w, b, named)
    if op == "log_softmax":
        return F.nll_loss(x, y)
    return F.cross_entropy(x, y, label_smoothing=config["loss"]["label_smoothing"])


def make_optimizer(network, parameters):
    o = network["config"]["optimizer"]
    same = ("lr", "momentum", "dampening", "nesterov", "rho", "alpha", "centered", "eps", "delta",
            "wd_ratio", "weight_decay", "trust")
    settings = {k: o[k] for k in same if k in o}
    if "betas" in o:
        settings["betas"] = tuple(o["betas"])
    groups = []
    for name, p in parameters.items():
        group = {"params": [p], "factor": 1.0}
        if "groups" in o and name.endswith(".bias"):
            group |= {"weight_decay": 0, "factor": o["groups"][0]["lr_factor"]}
        groups.append(group)
    if o["name"] == "adamp":
        import adamp
        return adamp.AdamP(groups, **settings)
    if o["name"] in ("lars", "lamb"):
        return {"lars": Lars, "lamb": Lamb}[o["name"]](groups, **settings)
    kind = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW", "adadelta": "Adadelta",
            "rmsprop": "RMSprop"}[o["name"]]
    return getattr(torch.optim, kind)(groups, **settings)


def make_scheduler(s, optimizer, lr):
    name, length = s["name"], s.get("length")
    if name == "step":
        return lr_scheduler.StepLR(optimizer, s["step_size"], s["gamma"])
    if name == "multi_step":
        return lr_scheduler.MultiStepLR(optimizer, s["milestones"], s["gamma"])
    if name == "exponential":
        return lr_scheduler.ExponentialLR(optimizer, s["gamma"])
    if name == "linear":
        return lr_scheduler.LinearLR(optimizer, 1.0, s["final_lr"] / lr, length)
    if name == "polynomial":
        return lr_scheduler.PolynomialLR(optimizer, length, s["power"])
    if name == "cosine":
        return lr_scheduler.CosineAnnealingLR(optimizer, length, s["final_lr"])
    if name == "one_cycle":
        return lr_scheduler.OneCycleLR(optimizer, lr, total_steps=length, pct_start=s["rise"],
                                       div_factor=s["start_div"], final_div_factor=s["final_div"],
                                       cycle_momentum=False)
    return lr_scheduler.ConstantLR(optimizer, 1.0)


def rate_at(scheduler, t):
    """By the closed form, where PyTorch has one: its step() multiplies what was there before by a
    factor, and so gathers a rounding error in each step."""
    scheduler.last_epoch = t
    scheduler._get_lr_called_within_step = True  # else it warns
    if hasattr(scheduler, "_get_closed_form_lr"):
        return float(scheduler._get_closed_form_lr()[0])
    return float(scheduler.get_lr()[0])


def rates(network):
    """The learning rate of every step, in float64."""
    config = network["config"]
    s, lr = config["schedule"], config["optimizer"]["lr"]
    batches = -(-network["samples"] // config["train"]["batch_size"])
    per_step = s.get("per_step", s["name"] == "one_cycle")
    scheduler = make_scheduler(s, torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr), lr)
    warmup = s["warmup_steps"]
    factor = lr_scheduler.LinearLR(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0),
                                   1 / (warmup + 1), 1.0, max(warmup, 1))
    found = []
    for step in range(STEPS):
        rate = rate_at(scheduler, step if per_step else step // batches)
        found.append(rate * (rate_at(factor, step) if step < warmup else 1.0))
    return found


def samples(network, dtype):
    config = network["config"]
    x = torch.from_numpy(pixels(network)).to(dtype) / 255
    x = to_torch((x - config["data"]["mean"]) / config["data"]["std"])
    return x, torch.from_numpy(labels(network).astype(np.int64))


def train(network, dtype, samples_of, loss):
    """The loss of every step's batch, before the step; what recurrent layers carry from batch to batch of an epoch is
    the loss's last argument."""
    config, start = network["config"], initial(network)
    parameters = {name: p.to(dtype).requires_grad_() for name, p in start.items()}
    optimizer, o = make_optimizer(network, parameters), config["optimizer"]
    x, y = samples_of(network, dtype)
    batch = config["train"]["batch_size"]
    batches = -(-network["samples"] // batch)
    losses, carried = [], {}
    for step, rate in enumerate(rates(network)):
        part = slice(step % batches * batch, (step % batches + 1) * batch)
        if step % batches == 0:
            carried = {}
        optimizer.zero_grad()
        found = loss(network, parameters, x[part], y[part], carried)
        found.backward()
        losses.append(found.item())
        if "clip_value" in o:
            torch.nn.utils.clip_grad_value_(parameters.values(), o["clip_value"])
        if "clip_norm" in o:
            torch.nn.utils.clip_grad_norm_(parameters.values(), o["clip_norm"])
        for group in optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        optimizer.step()
    return losses


def is_sound(losses):
    """A run that grows without bound measures nothing."""
    return all(math.isfinite(v) for v in losses) and max(losses) < 10 * losses[0] + 10


def measured(network, samples_of=samples, loss=loss_of):
    """With PyTorch's losses in float64 and float32, and the learning rates; None: does not train."""
    exact = train(network, torch.float64, samples_of, loss)
    if not is_sound(exact):
        print(f"network {network['number']} does not train: {exact[-1]}", file=sys.stderr)
        return None
    return network | {"loss": exact, "float32": train(network, torch.float32, samples_of, loss),
                      "lr": rates(network)}


def networks(count, make=make_network, samples_of=samples, loss=loss_of):
    """The first `count` networks that train."""
    number = 0
    while count > 0:
        network = measured(make(number), samples_of, loss)
        number += 1
        if network:
            count -= 1
            yield network


def main():
    torch.set_num_threads(1)
    cases = [measured(make_network(number)) for number in FROZEN]
    print("{")
    print(f'"made_with": "torch {torch.__version__}, adamp 0.3.0",')
    print('"networks": [')
    print(",\n".join(json.dumps(case, separators=(",", ":")) for case in cases))
    print("]")
    print("}")


if __name__ == "__main__":
    main()
