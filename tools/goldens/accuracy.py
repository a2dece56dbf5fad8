#!/usr/bin/env python3
"""How far PyTorch in float32 is from itself in float64, operation by operation, forward and each
gradient, for tests/op/test_accuracy.c: Lockstep may not be farther.

Usage: accuracy.py > tests/op/golden/accuracy.json   (needs torch; a minute)

Inputs, parameters and output gradients follow from an integer formula that the test has too, so that
only the errors are kept. They are values of float32, zero-mean in [-1, 1) or positive in [0, 1), times
`spread` for the first input; so both precisions compute the same function of the same numbers.

Kept is, for every tensor, the relative error ||f32 - f64|| / ||f64|| over all seeds together, the
smaller one of one thread and of two, which sum in different orders; then its standard error, from how
far the seeds' own errors scatter; for functions of one element also the bias: the mean error in units
in the last place, each limited to +-1 (where a derivative passes through zero, one would hide the rest).
"""
import json
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

from formula import hashes

IN, WEIGHT, BIAS, D_OUT, TARGET, LABEL = range(6)  # the tensor that a stream of numbers fills
STREAMS = 8  # of one seed
MANY, FEW, LARGE = 64, 8, 30000  # seeds; FEW for tensors of more elements than LARGE

KERNEL3 = {"kernel": [3, 3], "padding": [1, 1]}
CURVES = ("gelu", "silu", "tanh", "sigmoid", "softplus")

# Sums: what is small, and what sums as many terms as real networks do.
SUMS = [
    {"op": "conv2d", "count": 3, "in": [9, 7, 3], "filters": 5, **KERNEL3},
    {"op": "conv2d", "count": 2, "in": [12, 12, 4], "filters": 6, "kernel": [3, 3], "stride": [2, 2],
     "groups": 2},
    {"op": "conv2d", "count": 2, "in": [14, 14, 32], "filters": 16, **KERNEL3},
    {"op": "conv2d", "count": 1, "in": [7, 7, 512], "filters": 8, **KERNEL3},
    {"op": "conv2d", "count": 4, "in": [7, 7, 512], "filters": 8, "kernel": [7, 7]},
    {"op": "conv2d", "count": 1, "in": [5, 5, 8], "filters": 512, **KERNEL3},
    {"op": "conv2d", "count": 1, "in": [224, 224, 4], "filters": 4, "kernel": [1, 1]},
    {"op": "conv2d", "count": 16, "in": [56, 56, 4], "filters": 4, "kernel": [1, 1]},
    {"op": "conv2d", "count": 1, "in": [112, 112, 3], "filters": 4, **KERNEL3, "stride": [2, 2]},
    {"op": "conv2d", "count": 2, "in": [12, 12, 16], "filters": 16, "groups": 16, **KERNEL3},
    {"op": "conv2d", "count": 1, "in": [112, 112, 8], "filters": 8, "groups": 8, **KERNEL3},
    {"op": "dense", "count": 5, "in": [13], "units": 7},
    {"op": "dense", "count": 8, "in": [256], "units": 16},
    {"op": "dense", "count": 8, "in": [288], "units": 16},
    {"op": "dense", "count": 8, "in": [1024], "units": 16},
    {"op": "dense", "count": 8, "in": [4096], "units": 8},
    {"op": "dense", "count": 4, "in": [9216], "units": 8},
    {"op": "dense", "count": 4, "in": [50176], "units": 8},
    {"op": "dense", "count": 4, "in": [8], "units": 4096},
    {"op": "dense", "count": 4096, "in": [8], "units": 8},
    {"op": "dense", "count": 32, "in": [64], "units": 10},
    {"op": "dense", "count": 64, "in": [128], "units": 10},
    {"op": "dense", "count": 64, "in": [512], "units": 64},
    {"op": "max_pool", "count": 2, "in": [13, 13, 8], "kernel": [3, 3], "stride": [1, 1]},
    {"op": "avg_pool", "count": 2, "in": [12, 12, 8], "kernel": [2, 2]},
    {"op": "avg_pool", "count": 2, "in": [13, 13, 8], "kernel": [3, 3], "stride": [1, 1],
     "padding": [1, 1]},
    {"op": "avg_pool", "count": 2, "in": [13, 13, 8], "kernel": [3, 3], "stride": [2, 2],
     "padding": [1, 1], "exclude_padding": True},
    {"op": "avg_pool", "count": 2, "in": [224, 224, 4], "kernel": [224, 224]},
    {"op": "avg_pool", "count": 2, "in": [56, 56, 8], "kernel": [28, 28]},
    {"op": "global_avg_pool", "count": 4, "in": [7, 7, 16]},
    {"op": "global_avg_pool", "count": 2, "in": [56, 56, 8]},
    {"op": "global_avg_pool", "count": 4, "in": [224, 224, 4]},
    {"op": "batch_norm", "count": 4, "in": [4, 4, 8]},
    {"op": "batch_norm", "count": 64, "in": [32]},
    {"op": "batch_norm", "count": 16, "in": [56, 56, 4]},
    {"op": "layer_norm", "count": 16, "in": [10]},
    {"op": "layer_norm", "count": 16, "in": [1024]},
    {"op": "layer_norm", "count": 2, "in": [50176]},
    {"op": "layer_norm", "count": 2048, "in": [16]},
    {"op": "layer_norm", "count": 2, "in": [28, 28, 32]},
    {"op": "layer_norm", "count": 2, "in": [14, 14, 32], "dims": 3},
    {"op": "rms_norm", "count": 16, "in": [10]},
    {"op": "rms_norm", "count": 16, "in": [1024]},
    {"op": "rms_norm", "count": 2, "in": [50176]},
    {"op": "rms_norm", "count": 2048, "in": [16]},
    {"op": "attention", "count": 2, "in": [16, 96], "heads": 4, "causal": True},
    {"op": "attention", "count": 2, "in": [64, 96], "heads": 2},
    {"op": "attention", "count": 2, "in": [65, 48], "heads": 2, "causal": True, "spread": 4},
    {"op": "attention", "count": 1, "in": [300, 96], "heads": 1, "causal": True},
    {"op": "attention", "count": 2, "in": [40, 96], "heads": 4, "kv_heads": 2, "causal": True, "rotary": 10000},
    {"op": "log_softmax", "count": 64, "in": [10]},
    {"op": "log_softmax", "count": 64, "in": [10], "spread": 10},
    {"op": "log_softmax", "count": 16, "in": [1000]},
    {"op": "log_softmax", "count": 16, "in": [1000], "spread": 10},
    {"op": "cross_entropy", "count": 64, "in": [10]},
    {"op": "cross_entropy", "count": 64, "in": [10], "spread": 10},
    {"op": "cross_entropy", "count": 64, "in": [10], "label_smoothing": 0.1},
    {"op": "cross_entropy", "count": 16, "in": [1000]},
    {"op": "cross_entropy", "count": 16, "in": [1000], "spread": 10},
    {"op": "nll", "count": 64, "in": [10]},
    {"op": "mse", "count": 64, "in": [10]},
    {"op": "mse", "count": 4, "in": [50176]},
    {"op": "add", "count": 2, "in": [14, 14, 8], "with": [14, 14, 8]},
    {"op": "add", "count": 2, "in": [14, 14, 8], "with": [8]},
    {"op": "add", "count": 2, "in": [224, 224, 4], "with": [4]},
    {"op": "mul", "count": 2, "in": [14, 14, 8], "with": [14, 14, 8]},
    {"op": "mul", "count": 2, "in": [14, 14, 8], "with": [8]},
    {"op": "mul", "count": 2, "in": [224, 224, 4], "with": [4]},
]

# Functions of one element. Positive numbers are a half of the zero-mean ones: they have only these.
ELEMENTS = [{"op": op, "count": 2, "in": [2048], **form, "spread": spread}
            for op, form in [(op, {}) for op in CURVES] + [("gelu", {"form": "tanh"})]
            for spread in (10, 1, 2**-10)] + [
    {"op": "relu", "count": 2, "in": [2048]},
    {"op": "leaky_relu", "count": 2, "in": [2048]},
    {"op": "leaky_relu", "count": 2, "in": [2048], "slope": 0.3},
    {"op": "scale", "count": 2, "in": [2048], "factor": 0.3},
    {"op": "scale", "count": 2, "in": [2048], "factor": -1.7},
    {"op": "dropout", "count": 2, "in": [2048], "probability": 0.25},
]


def values(shape, stream, positive):
    """float32: multiples of 2^-24 in [0, 1), or of 2^-23 in [-1, 1)."""
    h = (hashes(math.prod(shape), stream) >> np.uint32(8)).astype(np.float32)
    v = h * np.float32(2**-24) if positive else h * np.float32(2**-23) - np.float32(1)
    return torch.from_numpy(v.reshape(shape))


def to_torch(x):
    return x.permute(0, 3, 1, 2).contiguous() if x.dim() == 4 else x


def from_torch(x):
    return x.permute(0, 2, 3, 1) if x.dim() == 4 else x


def conv2d(case, x, w, b):
    return F.conv2d(x, w, b, case.get("stride", [1, 1]), case.get("padding", [0, 0]), 1,
                    case.get("groups", 1))


def layer_norm(case, x, w, b):
    """Over a whole image in PyTorch's own layout, over channels with these last."""
    dims = case.get("dims", 1)
    last = x.dim() == 4 and dims < 3
    y = from_torch(x).contiguous() if last else x
    y = F.layer_norm(y, y.shape[-dims:], w, b)
    return to_torch(y) if last else y


def turned(x, base):
    """Llama's rotary positions, with cosines and sines of float32."""
    positions, width = x.shape[-2:]
    frequency = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.outer(torch.arange(positions, dtype=torch.float64), frequency).repeat(1, 2)
    half = torch.cat([-x[..., width // 2:], x[..., :width // 2]], -1)
    return x * angle.cos().float().to(x.dtype) + half * angle.sin().float().to(x.dtype)


def attention(case, x):
    heads, kv_heads = case["heads"], case.get("kv_heads", case["heads"])
    samples, positions, channels = x.shape
    width = channels // (heads + 2 * kv_heads)
    parts = x.reshape(samples, positions, heads + 2 * kv_heads, width).transpose(1, 2)
    q, k, v = parts.split([heads, kv_heads, kv_heads], 1)
    if "rotary" in case:
        q, k = turned(q, case["rotary"]), turned(k, case["rotary"])
    k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=case.get("causal", False),
                                       scale=float(np.float32(width ** -0.5)))
    return y.transpose(1, 2).reshape(samples, positions, heads * width)


def avg_pool(case, x):
    return F.avg_pool2d(x, case["kernel"], case.get("stride", case["kernel"]),
                        case.get("padding", [0, 0]),
                        count_include_pad=not case.get("exclude_padding", False))


def per_pixel(x, y):
    return y[:, :, None, None] if x.dim() == 4 and y.dim() == 2 else y


def cross_entropy(case, x, target):
    return F.cross_entropy(x, target, reduction="none",
                           label_smoothing=case.get("label_smoothing", 0.0))


OPERATIONS = {
    "conv2d": conv2d,
    "dense": lambda case, x, w, b: F.linear(x, w, b),
    "batch_norm": lambda case, x, w, b: F.batch_norm(x, None, None, w, b, True),
    "layer_norm": layer_norm,
    "rms_norm": lambda case, x, w: F.rms_norm(x, x.shape[-1:], w, 2.0**-23),
    "attention": attention,
    "max_pool": lambda case, x: F.max_pool2d(x, case["kernel"], case["stride"]),
    "avg_pool": avg_pool,
    "global_avg_pool": lambda case, x: F.adaptive_avg_pool2d(x, 1).flatten(1),
    "relu": lambda case, x: F.relu(x),
    "leaky_relu": lambda case, x: F.leaky_relu(x, case.get("slope", 0.01)),
    "gelu": lambda case, x: F.gelu(x, approximate=case.get("form", "none")),
    "silu": lambda case, x: F.silu(x),
    "tanh": lambda case, x: torch.tanh(x),
    "sigmoid": lambda case, x: torch.sigmoid(x),
    "softplus": lambda case, x: F.softplus(x, threshold=1000),
    "scale": lambda case, x: x * case["factor"],
    "dropout": lambda case, x: F.dropout(x, case["probability"]),
    "add": lambda case, x, y: x + per_pixel(x, y),
    "mul": lambda case, x, y: x * per_pixel(x, y),
    "log_softmax": lambda case, x: F.log_softmax(x, 1),
    "cross_entropy": cross_entropy,
    "nll": lambda case, x, target: F.nll_loss(x, target, reduction="none"),
    "mse": lambda case, x, target: F.mse_loss(x, target, reduction="none").flatten(1).mean(1),
}


def parameter_shapes(case):
    op, shape = case["op"], case["in"]
    if op == "conv2d":
        return [[case["filters"], shape[2] // case.get("groups", 1), *case["kernel"]],
                [case["filters"]]]
    if op == "dense":
        return [[case["units"], shape[0]], [case["units"]]]
    if op == "batch_norm":
        return [shape[-1:]] * 2
    if op == "rms_norm":
        return [shape[-1:]]
    if op == "layer_norm":
        return [[shape[2], *shape[:2]] if case.get("dims", 1) == 3 else shape[-1:]] * 2
    return []


def tensors(case, seed):
    """What the operation is given, all in float32: in PyTorch's order, and the output's gradient."""
    positive, first = case.get("positive", False), seed * STREAMS

    def draw(shape, which):
        return values([case["count"], *shape], first + which, positive)

    given = {"in": draw(case["in"], IN) * case.get("spread", 1)}
    if "with" in case:
        given["in_1"] = draw(case["with"], TARGET)
    if case["op"] == "mse":
        given["target"] = draw(case["in"], TARGET)
    if case["op"] in ("cross_entropy", "nll"):
        labels = hashes(case["count"], first + LABEL) % case["in"][0]
        given["target"] = torch.from_numpy(labels.astype(np.int64))
    given = {name: to_torch(x) for name, x in given.items()}
    for which, shape in zip((WEIGHT, BIAS), parameter_shapes(case)):
        given["weight" if which == WEIGHT else "bias"] = values(shape, first + which, positive)
    return given


def run(case, seed, dtype):
    """The output and all gradients, in float64."""
    given = {name: x.to(dtype) if x.is_floating_point() else x
             for name, x in tensors(case, seed).items()}
    wanted = [name for name in given if name != "target"]
    for name in wanted:
        given[name].requires_grad_()
    torch.manual_seed(seed)
    out = OPERATIONS[case["op"]](case, *given.values())
    shape = from_torch(out).shape
    d_out = to_torch(values(shape, seed * STREAMS + D_OUT, case.get("positive", False)))
    out.backward(d_out.to(dtype))
    found = {"out": out.detach().double()}
    for name in wanted:
        found[{"in": "d_in", "in_1": "d_in_1"}.get(name, "d_" + name)] = given[name].grad.double()
    return found


def ulps(error, exact):
    """Errors in units in the last place of float32 at the exact value, normal numbers'."""
    _, exponent = torch.frexp(exact.abs().clamp_min(2.0**-126))
    return error / torch.exp2(exponent.double() - 24)


def seeds(case):
    """Small tensors are drawn more often, so that all errors are known to a few percent."""
    given = tensors(case, 0).values()
    return FEW if sum(x.numel() for x in given) > LARGE else MANY


def measure(case):
    sums, single, bias = {}, {}, {}
    for seed in range(case["seeds"]):
        exact, found = run(case, seed, torch.float64), run(case, seed, torch.float32)
        for name, value in exact.items():
            if case["op"] == "dropout":  # masks differ by precision
                given = tensors(case, seed)["in"].double()
                value = torch.where(found["out"] == 0, 0.0, given / (1 - case["probability"]))
                if name == "d_in":
                    d_out = values(given.shape, seed * STREAMS + D_OUT, case.get("positive", False))
                    value = torch.where(found["d_in"] == 0, 0.0,
                                        d_out.double() / (1 - case["probability"]))
            error = found[name] - value
            squares = (float((error**2).sum()), float((value**2).sum()))
            sums[name] = [a + b for a, b in zip(sums.get(name, (0, 0)), squares)]
            single.setdefault(name, []).append(math.sqrt(squares[0] / squares[1]))
            bias.setdefault(name, []).append(float(ulps(error, value).clamp(-1, 1).mean()))
    result = {}
    for name, (error, norm) in sums.items():
        deviation = float(np.std(single[name], ddof=1)) / case["seeds"] ** 0.5
        result[name] = [math.sqrt(error / norm), deviation]
        if case["op"] in CURVES:
            result[name].append(float(np.mean(bias[name])))
    return result


def best(case):
    """The smaller error of one and two threads."""
    found, case = [], case | {"seeds": seeds(case)}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found.append(measure(case))
    result = dict(case)
    for name in found[0]:
        least = min((f[name] for f in found), key=lambda numbers: numbers[0])
        result[name] = [float(f"{number:.3g}") for number in least]
    return result


def main():
    torch.use_deterministic_algorithms(True)
    cases = [case | {"positive": True} if positive else case
             for case in SUMS + ELEMENTS for positive in (False, True)
             if not (positive and case in ELEMENTS)]
    lines = []
    for case in cases:
        lines.append(json.dumps(best(case), separators=(",", ":")))
        print(lines[-1], file=sys.stderr)
    print("{")
    print(f'"made_with": "torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}",')
    print('"cases": [')
    print(",\n".join(lines))
    print("]")
    print("}")


if __name__ == "__main__":
    main()
