#!/usr/bin/env python3
"""What PyTorch computes for operations and optimizers, for tests/op/test_goldens.c.

Usage: ops.py > tests/op/golden/ops.json   (needs torch)

Inputs, parameters and output gradients follow from an integer formula that the test has too, so
only results are kept. They are computed in float64 from values that are exact in f32. Images are
height, width, channels in the file and in the formula's order.
"""
import json

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)

IN, WEIGHT, BIAS, D_OUT, TARGET, LABEL, MEAN, VARIANCE = range(8)  # salts of the formula


def hashed(i, salt):
    return (i * 2654435761 + salt * 40503 * 65537) % 2**32


def values(shape, salt):
    """In [-1, 1), multiples of 2^-23."""
    count = torch.Size(shape).numel()
    return torch.tensor([(hashed(i, salt) >> 8) / 2**23 - 1 for i in range(count)]).reshape(shape)


def f32(x):
    """The value that a float in C has."""
    return torch.tensor(x, dtype=torch.float32).double().item()


def to_torch(x):
    return x.permute(0, 3, 1, 2) if x.dim() == 4 else x


def from_torch(x):
    return x.permute(0, 2, 3, 1) if x.dim() == 4 else x


def numbers(x):
    return [float(f"{v:.10g}") for v in x.detach().reshape(-1).tolist()]


def conv2d(case, x, w, b):
    return F.conv2d(x, w, b, case.get("stride", [1, 1]), case.get("padding", [0, 0]),
                    case.get("dilation", [1, 1]), case.get("groups", 1))


def conv2d_shapes(case):
    return ([case["filters"], case["in"][2] // case.get("groups", 1), *case["kernel"]],
            [case["filters"]])


def batch_norm(case, x, w, b):
    mean, variance = running(case)
    return F.batch_norm(x, mean, variance, w, b, not case.get("eval", False),
                        f32(case.get("momentum", 0.1)), f32(case.get("epsilon", 1e-5)))


def layer_norm(case, x, w=None, b=None):
    """Over a whole image in PyTorch's own layout, over fewer dimensions channels last."""
    dims = case.get("dims", 1)
    last = x.dim() == 4 and dims < 3
    y = from_torch(x) if last else x
    y = F.layer_norm(y, y.shape[-dims:], w, b, f32(case.get("epsilon", 1e-5)))
    return to_torch(y) if last else y


def rms_norm(case, x, w=None):
    y = F.rms_norm(from_torch(x), x.shape[1:2] if x.dim() == 4 else x.shape[-1:], w, f32(case.get("epsilon", 2**-23)))
    return to_torch(y)


def position(case, x, w=None):
    if case.get("class_token"):
        x = F.pad(x, (0, 0, 1, 0))
    if w is not None:
        return x + w
    rows, channels = case["in"]
    angle = torch.arange(rows)[:, None] / 10000 ** (2 * (torch.arange(channels) // 2) / channels)
    return x + torch.where(torch.arange(channels) % 2 == 0, angle.sin(), angle.cos()).float().double()


def layer_norm_shapes(case):
    if case.get("no_affine"):
        return []
    dims, shape = case.get("dims", 1), case["in"]
    return [[shape[2], *shape[:2]] if dims == len(shape) == 3 else shape[-dims:]] * 2


def running(case):
    channels = [case["in"][-1]]
    return values(channels, MEAN), values(channels, VARIANCE) / 2 + 0.75


def pool_arguments(case):
    return case["kernel"], case.get("stride", case["kernel"]), case.get("padding", [0, 0])


def avg_pool(case, x):
    return F.avg_pool2d(x, *pool_arguments(case),
                        count_include_pad=not case.get("exclude_padding", False))


def per_pixel(x, y):
    """y as an operand of x: a vector of channels stands at every pixel."""
    return y[:, :, None, None] if x.dim() == 4 and y.dim() == 2 else y


def labels(case):
    return torch.tensor([hashed(i, LABEL) % case["in"][0] for i in range(case["count"])])


def shares(case):
    """Of each sample's class what is left of 1, of another the weight: mixup, as probabilities."""
    weight = [(hashed(i, MEAN) >> 8) / 2**24 if case.get("mix") else 0.0 for i in range(case["count"])]
    other = [hashed(i, VARIANCE) % case["in"][0] for i in range(case["count"])]
    wanted = torch.zeros(case["count"], case["in"][0])
    for i, own in enumerate(labels(case)):
        wanted[i, own] += 1 - weight[i]
        wanted[i, other[i]] += weight[i]
    return wanted


def cross_entropy(case, x):
    target = shares(case) if case.get("mix") else labels(case)
    return F.cross_entropy(x, target, reduction="none", label_smoothing=f32(case.get("label_smoothing", 0.0)))


def nll(case, x):
    return -(shares(case) * x).sum(1) if case.get("mix") else F.nll_loss(x, labels(case), reduction="none")


def mse(case, x):
    target = to_torch(values([case["count"], *case["in"]], TARGET))
    return ((x - target) ** 2).flatten(1).mean(1)


def distances(case, x):
    target = to_torch(values([case["count"], *case["in"]], TARGET))
    if case["op"] == "l1":
        each = F.l1_loss(x, target, reduction="none")
    else:
        each = F.huber_loss(x, target, reduction="none", delta=f32(case.get("delta", 1.0)))
    return each.flatten(1).mean(1)


def recurrent(case, x, *parameters):
    """torch.nn's module of one layer; the other direction is the layer on what is turned round."""
    kind = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[case["op"]]
    more = {"nonlinearity": case["nonlinearity"]} if "nonlinearity" in case else {}
    module = kind(case["in"][1], case["hidden"], batch_first=True, **more)
    names = [name for name, _ in module.named_parameters()]
    x = x.flip(1) if case.get("reverse") else x
    y = torch.func.functional_call(module, dict(zip(names, parameters)), (x,))[0]
    return y.flip(1) if case.get("reverse") else y


def recurrent_shapes(case):
    rows = {"rnn": 1, "lstm": 4, "gru": 3}[case["op"]] * case["hidden"]
    return [rows, case["in"][1]], [rows, case["hidden"]], [rows], [rows]


def turned(x, base):
    """x: ..., positions, head width. Llama's rotary positions, cosines and sines rounded to float32."""
    positions, width = x.shape[-2:]
    frequency = base ** (-torch.arange(0, width, 2) / width)
    angle = torch.outer(torch.arange(positions).double(), frequency).repeat(1, 2)
    half = torch.cat([-x[..., width // 2:], x[..., :width // 2]], -1)
    return x * angle.cos().float().double() + half * angle.sin().float().double()


def attention(case, x):
    """Where a row sees no key, softmax of nothing: 0, and so are its gradients."""
    heads, kv_heads = case["heads"], case.get("kv_heads", case["heads"])
    samples, positions, channels = x.shape
    width = channels // (heads + 2 * kv_heads)
    parts = x.reshape(samples, positions, heads + 2 * kv_heads, width).transpose(1, 2)
    q, k, v = parts.split([heads, kv_heads, kv_heads], 1)
    if "rotary" in case:
        q, k = turned(q, case["rotary"]), turned(k, case["rotary"])
    k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
    sees = torch.ones(samples, 1, positions, positions, dtype=torch.bool)
    if case.get("causal"):
        sees = sees.tril()
    if "vocabulary" in case:
        tokens = torch.tensor([hashed(i, LABEL) % case["vocabulary"] for i in range(samples * positions)])
        sees = sees & (tokens.reshape(samples, 1, 1, positions) != case.get("padding", 0))
    scale = f32(width ** -0.5)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=sees, scale=scale).nan_to_num()
    return y.transpose(1, 2).reshape(samples, positions, heads * width)


OPERATIONS = {
    "conv2d": conv2d,
    "dense": lambda case, x, w, b: F.linear(x, w, b),
    "batch_norm": batch_norm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "position": position,
    "max_pool": lambda case, x: F.max_pool2d(x, *pool_arguments(case)),
    "avg_pool": avg_pool,
    "global_avg_pool": lambda case, x: x.mean(1) if x.dim() == 3 else F.adaptive_avg_pool2d(x, 1).flatten(1),
    "relu": lambda case, x: F.relu(x),
    "relu6": lambda case, x: F.relu6(x),
    "leaky_relu": lambda case, x: F.leaky_relu(x, f32(case.get("slope", 0.01))),
    "gelu": lambda case, x: F.gelu(x, approximate=case.get("form", "none")),
    "silu": lambda case, x: F.silu(x),
    "tanh": lambda case, x: torch.tanh(x),
    "sigmoid": lambda case, x: torch.sigmoid(x),
    "softplus": lambda case, x: F.softplus(x),
    "scale": lambda case, x: x * f32(case["factor"]),
    "add": lambda case, x, y: x + per_pixel(x, y),
    "mul": lambda case, x, y: x * per_pixel(x, y),
    "concat": lambda case, x, y: torch.cat([x, y], 1),
    "flatten": lambda case, x: x.flatten(1),
    "sequence": lambda case, x: x.flatten(2).transpose(1, 2),
    "select": lambda case, x: x.select(1, case["position"]),
    "log_softmax": lambda case, x: F.log_softmax(x, 1),
    "cross_entropy": cross_entropy,
    "nll": nll,
    "mse": mse,
    "l1": distances,
    "huber": distances,
    "rnn": recurrent,
    "lstm": recurrent,
    "gru": recurrent,
    "attention": attention,
}

SHAPES = {  # of parameters
    "conv2d": conv2d_shapes,
    "dense": lambda case: ([case["units"], case["in"][0]], [case["units"]]),
    "batch_norm": lambda case: ([case["in"][-1]], [case["in"][-1]]),
    "layer_norm": layer_norm_shapes,
    "rms_norm": lambda case: [] if case.get("no_affine") else [case["in"][-1:]],
    "position": lambda case: [] if case.get("form") else [[case["in"][0] + case.get("class_token", False), *case["in"][1:]]],
    "rnn": recurrent_shapes,
    "lstm": recurrent_shapes,
    "gru": recurrent_shapes,
}

SECOND = {  # of the second input
    "add": lambda case: case["with"],
    "mul": lambda case: case["with"],
    "concat": lambda case: [*case["in"][:-1], case["channels"]],
}

CASES = [
    {"op": "conv2d", "count": 2, "in": [6, 5, 3], "filters": 4, "kernel": [3, 3]},
    {"op": "conv2d", "count": 1, "in": [7, 8, 2], "filters": 3, "kernel": [3, 2],
     "stride": [2, 3], "padding": [1, 1]},
    {"op": "conv2d", "count": 2, "in": [7, 7, 2], "filters": 2, "kernel": [3, 3],
     "padding": [2, 1], "dilation": [2, 3]},
    {"op": "conv2d", "count": 2, "in": [5, 5, 4], "filters": 6, "kernel": [3, 3],
     "padding": [1, 1], "groups": 2},
    {"op": "conv2d", "count": 1, "in": [6, 6, 3], "filters": 6, "kernel": [3, 3], "groups": 3,
     "stride": [2, 1]},
    {"op": "conv2d", "count": 3, "in": [3, 4, 2], "filters": 2, "kernel": [3, 4],
     "no_bias": True},
    {"op": "conv2d", "count": 2, "in": [1, 1, 5], "filters": 2, "kernel": [3, 3],
     "padding": [1, 1]},
    {"op": "dense", "count": 4, "in": [13], "units": 7},
    {"op": "dense", "count": 1, "in": [1], "units": 2, "no_bias": True},
    {"op": "batch_norm", "count": 3, "in": [3, 2, 4]},
    {"op": "batch_norm", "count": 5, "in": [6], "momentum": 0.3, "epsilon": 0.01},
    {"op": "batch_norm", "count": 2, "in": [2, 3, 4], "eval": True},
    {"op": "layer_norm", "count": 3, "in": [7]},
    {"op": "layer_norm", "count": 2, "in": [3, 2, 4], "epsilon": 0.01},
    {"op": "layer_norm", "count": 2, "in": [2, 3, 4], "dims": 2},
    {"op": "layer_norm", "count": 2, "in": [3, 2, 4], "dims": 3},
    {"op": "layer_norm", "count": 2, "in": [2, 3, 5], "dims": 3, "no_affine": True},
    {"op": "layer_norm", "count": 1, "in": [3, 5], "no_bias": True},
    {"op": "layer_norm", "count": 1, "in": [2, 3, 2], "dims": 3, "no_bias": True},
    {"op": "rms_norm", "count": 3, "in": [7]},
    {"op": "rms_norm", "count": 2, "in": [2, 2, 3], "epsilon": 0.01},
    {"op": "rms_norm", "count": 1, "in": [5, 3], "no_affine": True},
    {"op": "position", "count": 2, "in": [3, 2]},
    {"op": "position", "count": 2, "in": [2, 1], "class_token": True},
    {"op": "position", "count": 1, "in": [13, 4], "form": "sinusoidal"},
    {"op": "position", "count": 1, "in": [3, 5], "form": "sinusoidal"},
    {"op": "max_pool", "count": 2, "in": [6, 5, 3], "kernel": [2, 2]},
    {"op": "max_pool", "count": 1, "in": [7, 7, 2], "kernel": [3, 3], "stride": [2, 1],
     "padding": [1, 0]},
    {"op": "avg_pool", "count": 2, "in": [6, 5, 3], "kernel": [2, 2]},
    {"op": "avg_pool", "count": 1, "in": [7, 7, 2], "kernel": [3, 2], "stride": [2, 1],
     "padding": [1, 1]},
    {"op": "avg_pool", "count": 1, "in": [7, 6, 2], "kernel": [3, 2], "stride": [2, 1],
     "padding": [1, 1], "exclude_padding": True},
    {"op": "global_avg_pool", "count": 2, "in": [3, 5, 4]},
    {"op": "global_avg_pool", "count": 2, "in": [5, 4]},
    {"op": "relu", "count": 2, "in": [17]},
    {"op": "relu6", "count": 2, "in": [21], "spread": 16},
    {"op": "leaky_relu", "count": 2, "in": [17]},
    {"op": "leaky_relu", "count": 2, "in": [9], "slope": 0.3, "spread": 4},
    {"op": "gelu", "count": 2, "in": [21], "spread": 8},
    {"op": "gelu", "count": 2, "in": [21], "spread": 8, "form": "tanh"},
    {"op": "silu", "count": 2, "in": [21], "spread": 16},
    {"op": "softplus", "count": 2, "in": [21], "spread": 32},
    {"op": "tanh", "count": 2, "in": [21], "spread": 4},
    {"op": "sigmoid", "count": 2, "in": [21], "spread": 16},
    {"op": "scale", "count": 2, "in": [5], "factor": -0.7},
    {"op": "add", "count": 2, "in": [3, 2, 4], "with": [3, 2, 4]},
    {"op": "add", "count": 2, "in": [3, 2, 4], "with": [4]},
    {"op": "mul", "count": 2, "in": [3, 2, 4], "with": [3, 2, 4]},
    {"op": "mul", "count": 2, "in": [3, 2, 4], "with": [4]},
    {"op": "mul", "count": 3, "in": [5], "with": [5]},
    {"op": "concat", "count": 2, "in": [3, 2, 4], "channels": 3},
    {"op": "concat", "count": 3, "in": [5], "channels": 9},
    {"op": "flatten", "count": 2, "in": [3, 2, 4]},
    {"op": "sequence", "count": 1, "in": [3, 2, 4]},
    {"op": "select", "count": 2, "in": [4, 3], "position": -2},
    {"op": "select", "count": 2, "in": [4, 3], "position": 0},
    {"op": "log_softmax", "count": 3, "in": [10]},
    {"op": "cross_entropy", "count": 4, "in": [10]},
    {"op": "cross_entropy", "count": 4, "in": [7], "label_smoothing": 0.1},
    {"op": "cross_entropy", "count": 5, "in": [7], "mix": True},
    {"op": "cross_entropy", "count": 5, "in": [10], "label_smoothing": 0.1, "mix": True},
    {"op": "nll", "count": 4, "in": [6]},
    {"op": "nll", "count": 5, "in": [6], "mix": True},
    {"op": "mse", "count": 3, "in": [2, 3, 2]},
    {"op": "l1", "count": 3, "in": [2, 3, 2]},
    {"op": "l1", "count": 2, "in": [11]},
    {"op": "huber", "count": 3, "in": [2, 3, 2], "spread": 3},
    {"op": "huber", "count": 3, "in": [11], "delta": 0.4},
    {"op": "rnn", "count": 3, "in": [4, 3], "hidden": 5},
    {"op": "rnn", "count": 2, "in": [3, 2], "hidden": 4, "nonlinearity": "relu"},
    {"op": "lstm", "count": 3, "in": [5, 3], "hidden": 4},
    {"op": "lstm", "count": 2, "in": [4, 7], "hidden": 17, "reverse": True},
    {"op": "lstm", "count": 1, "in": [1, 1], "hidden": 1},
    {"op": "gru", "count": 3, "in": [5, 3], "hidden": 4},
    {"op": "gru", "count": 2, "in": [3, 2], "hidden": 6, "reverse": True},
    {"op": "attention", "count": 2, "in": [5, 24], "heads": 1},
    {"op": "attention", "count": 2, "in": [5, 36], "heads": 3, "causal": True, "spread": 3},
    {"op": "attention", "count": 2, "in": [6, 40], "heads": 6, "kv_heads": 2, "causal": True},
    {"op": "attention", "count": 3, "in": [1, 12], "heads": 2},
    {"op": "attention", "count": 2, "in": [7, 24], "heads": 2, "rotary": 100},
    {"op": "attention", "count": 3, "in": [6, 18], "heads": 3, "vocabulary": 3, "padding": 1},
    {"op": "attention", "count": 4, "in": [4, 24], "heads": 2, "kv_heads": 1, "vocabulary": 2,
     "causal": True, "rotary": 10000},
]


def run(case):
    """`spread` widens the range of x, [-1, 1)."""
    x = (values([case["count"], *case["in"]], IN) * case.get("spread", 1)).requires_grad_()
    parameters = []
    if case["op"] in SHAPES:
        parameters = [values(shape, salt).requires_grad_()
                      for shape, salt in zip(SHAPES[case["op"]](case),
                                              (WEIGHT, BIAS, MEAN, VARIANCE))]
    if case.get("no_bias"):
        parameters.pop()
    given = parameters + [None] if case.get("no_bias") else parameters
    others = []
    if case["op"] in SECOND:
        others.append(values([case["count"], *SECOND[case["op"]](case)], TARGET).requires_grad_())
    out = from_torch(OPERATIONS[case["op"]](case, *map(to_torch, [x, *others]), *given))
    result = dict(case, out=numbers(out))
    if case.get("eval"):
        return result
    out.backward(values(out.shape, D_OUT))
    result["d_in"] = numbers(x.grad)
    if others:
        result["d_in_1"] = numbers(others[0].grad)
    result["d_param"] = [numbers(p.grad) for p in parameters]
    if case["op"] == "batch_norm":
        mean, variance = running(case)
        F.batch_norm(to_torch(x), mean, variance, None, None, True, f32(case.get("momentum", 0.1)))
        result["running"] = [numbers(mean), numbers(variance)]
    return result


OPTIMIZERS = [
    {"kind": "SGD", "lr": 0.1},
    {"kind": "SGD", "lr": 0.1, "weight_decay": 0.05},
    {"kind": "SGD", "lr": 0.1, "momentum": 0.9},
    {"kind": "SGD", "lr": 0.1, "momentum": 0.9, "dampening": 0.25, "weight_decay": 0.01},
    {"kind": "SGD", "lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    {"kind": "Adam", "lr": 0.05},
    {"kind": "Adam", "lr": 0.05, "weight_decay": 0.05, "betas": [0.8, 0.99], "eps": 1e-3},
    {"kind": "Adadelta", "lr": 1.0},
    {"kind": "Adadelta", "lr": 2.0, "rho": 0.8, "eps": 1e-3, "weight_decay": 0.05},
    {"kind": "AdamW", "lr": 0.05, "weight_decay": 0.0},
    {"kind": "AdamW", "lr": 0.05, "weight_decay": 0.3, "betas": [0.8, 0.99], "eps": 1e-3},
    {"kind": "RMSprop", "lr": 0.02},
    {"kind": "RMSprop", "lr": 0.02, "alpha": 0.9, "eps": 1e-3, "weight_decay": 0.05},
    {"kind": "RMSprop", "lr": 0.02, "momentum": 0.8, "weight_decay": 0.05},
    {"kind": "RMSprop", "lr": 0.005, "alpha": 0.9, "eps": 0.01, "centered": True},
    {"kind": "RMSprop", "lr": 0.005, "alpha": 0.9, "eps": 0.01, "centered": True, "momentum": 0.8},
]
STEPS, WEIGHTS = 20, 6


def descend(case, dtype):
    """w after each step on sum of (1 + c) (w - t)^2 / 2, with c and t from the formula."""
    curvature = values([WEIGHTS], WEIGHT).abs().to(dtype) + 1
    target = values([WEIGHTS], TARGET).to(dtype)
    w = values([WEIGHTS], IN).to(dtype).requires_grad_()
    settings = {k: v for k, v in case.items() if k != "kind"}
    for key, value in settings.items():
        if isinstance(value, list):
            settings[key] = tuple(f32(v) for v in value)
        elif not isinstance(value, bool):
            settings[key] = f32(value)
    optimizer = getattr(torch.optim, case["kind"])([w], **settings)
    steps = []
    for _ in range(STEPS):
        w.grad = (curvature * (w - target)).detach()
        optimizer.step()
        steps.append(w.detach().double().clone())
    return torch.stack(steps)


def optimizer(case):
    """Also how far PyTorch in float32 is from PyTorch in float64, at most: the test's measure."""
    exact, single = descend(case, torch.float64), descend(case, torch.float32)
    return dict(case, w=numbers(exact), float32=float(f"{(exact - single).abs().max():.3g}"))


print("{")
print(f'"made_with": "torch {torch.__version__}",')
print('"operations": [')
print(",\n".join(json.dumps(run(case), separators=(",", ":")) for case in CASES))
print("],")
print('"optimizers": [')
print(",\n".join(json.dumps(optimizer(case), separators=(",", ":")) for case in OPTIMIZERS))
print("]")
print("}")
