#!/usr/bin/env python3
"""Random networks of tokens that PyTorch and Lockstep train alike, for bench/parity --words: embeddings, learned and
sinusoidal positions, recurrent layers in stacks and both directions, which may pass over padding or carry their state
from window to window of columns, attention in all its forms, norms, skip connections and tied weights, with parity.py's
optimizers, schedules and values."""
import math
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import parity
from formula import hashes

WORDS, FIRST, LETTERS = 256, 97, 29  # bytes, of which so many occur
CURVES = {"relu": F.relu, "silu": F.silu, "tanh": torch.tanh, "gelu": F.gelu}


class Builder:
    """Layers one by one, of `width` channels at each position."""

    def __init__(self, dice, width, tokens, columns):
        self.dice, self.width, self.tokens, self.columns = dice, width, tokens, columns
        self.layers, self.tensors = [], []
        masks = not columns and dice.random() < 0.5
        self.padding = FIRST + dice.randrange(LETTERS) if masks else None  # of recurrent layers

    def add(self, op, **options):
        name = options.setdefault("name", f"{op}{len(self.layers)}")
        self.layers.append({op: options})
        return name

    def parameter(self, name, shape, scale, offset=0.0):
        self.tensors.append({"name": name, "shape": list(shape), "scale": scale, "offset": offset})

    def dense(self, units):
        name = self.add("dense", units=units, bias=True)
        self.parameter(f"{name}.weight", [units, self.width], round(1.5 / self.width**0.5, 4))
        self.parameter(f"{name}.bias", [units], 0.1)
        self.width = units

    def recurrent(self):
        op, hidden = self.dice.choice(["rnn", "lstm", "gru"]), self.dice.randint(3, 17)
        layers, both = self.dice.choice([1, 1, 2, 3]), self.dice.random() < 0.3
        options = {"hidden": hidden, "layers": layers, "bidirectional": both}
        if self.columns and not both:
            options["carry_state"] = self.dice.random() < 0.7
        if op == "rnn":
            options["nonlinearity"] = self.dice.choice(["tanh", "relu"])
        if self.padding is not None:
            options.update(masked=True, padding=self.padding)
        name, gates = self.add(op, **options), {"rnn": 1, "lstm": 4, "gru": 3}[op]
        for layer in range(layers):
            for end in ("", "_reverse")[:1 + both]:
                inputs = self.width if layer == 0 else hidden * (1 + both)
                for what, shape in (("weight_ih", [gates * hidden, inputs]),
                                    ("weight_hh", [gates * hidden, hidden]),
                                    ("bias_ih", [gates * hidden]), ("bias_hh", [gates * hidden])):
                    self.parameter(f"{name}.{what}_l{layer}{end}", shape, round(hidden**-0.5, 4))
        self.width = hidden * (1 + both)

    def attention(self):
        heads = self.dice.choice([1, 2, 3, 4])
        kv = self.dice.choice([n for n in range(1, heads + 1) if heads % n == 0])
        head = 2 * self.dice.randint(1, 5)
        options = {"heads": heads, "kv_heads": kv, "causal": self.dice.random() < 0.6}
        if self.dice.random() < 0.4:
            options["rotary"] = 10000
        self.dense((heads + 2 * kv) * head)
        self.add("attention", **options)
        self.width = heads * head

    def norm(self):
        op = self.dice.choice(["layer_norm", "rms_norm"])
        name = self.add(op, epsilon=1e-5)
        self.parameter(f"{name}.weight", [self.width], 0.5, 1.0)
        if op == "layer_norm":
            self.parameter(f"{name}.bias", [self.width], 0.2)

    def curve(self):
        return self.add(self.dice.choice(list(CURVES)))

    def skip(self):
        trunk, width = self.curve(), self.width
        self.dice.choice([self.attention, self.norm])()
        self.dense(width)
        self.add("add", **{"with": trunk})

    def network(self):
        units, tied = self.width, self.dice.random() < 0.4
        name = self.add("embedding", units=units, name="words")
        self.parameter(f"{name}.weight", [WORDS, units], round(1 / units**0.5, 4))
        if self.dice.random() < 0.5:
            form = self.dice.choice(["learned", "sinusoidal"])
            name = self.add("position", form=form)
            if form == "learned":
                self.parameter(f"{name}.weight", [self.tokens, units], 0.3)
        for _ in range(self.dice.randint(1, 3)):
            self.dice.choice([self.recurrent, self.attention, self.skip, self.norm])()
        self.curve()
        if tied:
            self.dense(units)
            name = self.add("dense", units=WORDS, bias=True, weight_of="words")
            self.parameter(f"{name}.bias", [WORDS], 0.1)
        else:
            self.dense(WORDS)


def make_network(number):
    """The same for the same number, on every machine."""
    dice = random.Random(number)
    tokens, batch, columns = dice.randint(2, 13), dice.randint(2, 9), dice.random() < 0.4
    builder = Builder(dice, 2 * dice.randint(2, 9), tokens, columns)
    builder.network()
    config = {
        "data": {"text": "text", "level": "byte", "context": tokens, "cache": "none", "shuffle": False},
        "model": {"name": "parity", "layers": builder.layers},
        "train": {"steps": parity.STEPS, "batch_size": batch, "replicas": dice.randint(1, 5)},
        "optimizer": parity.draw_optimizer(dice, number),
        "schedule": parity.draw_schedule(dice),
    }
    samples = dice.randint(2, 6) * batch
    if columns:
        config["data"]["columns"] = batch
    else:
        samples += dice.choice([0, 0, batch // 2])
    return {"number": number, "config": config, "tokens": tokens, "samples": samples,
            "padding": builder.padding, "tensors": builder.tensors}


def text(network):
    """Bytes: those of all windows, and the last one's next; of columns each one's. Where there is padding, it is a
    quarter of them."""
    count = network["samples"] * network["tokens"] + network["config"]["data"].get("columns", 1)
    hashed = hashes(count, network["number"] * parity.STREAMS)
    letters = hashed % np.uint32(LETTERS) + FIRST
    if network["padding"] is not None:
        letters[hashed >> np.uint32(16) & np.uint32(3) == 0] = network["padding"]
    return letters.astype(np.uint8)


def attend(o, x):
    heads, kv = o["heads"], o["kv_heads"]
    head = x.shape[2] // (heads + 2 * kv)
    q, k, v = (part.unflatten(2, (-1, head)).transpose(1, 2)
               for part in x.split([heads * head, kv * head, kv * head], 2))
    if "rotary" in o:
        angle = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * \
            o["rotary"]**(-torch.arange(0, head, 2, dtype=torch.float64) / head)
        cos, sin = (f(angle).repeat(1, 2).to(x.dtype) for f in (torch.cos, torch.sin))
        q, k = (t * cos + torch.cat([-t[..., head // 2:], t[..., :head // 2]], -1) * sin for t in (q, k))
    k, v = (t.repeat_interleave(heads // kv, 1) for t in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=o["causal"]).transpose(1, 2).flatten(2)


def passing_over(module, own, x, word):
    """What the module gives for the words alone, one behind the other; at padding what it gives for the word before
    it, of the direction that goes backward for the one behind it, or zero."""
    length, hidden = word.sum(1), module.hidden_size
    words = torch.argsort(~word, dim=1, stable=True)[..., None].expand(-1, -1, x.shape[2])
    packed = pack_padded_sequence(x.gather(1, words), length.clamp(min=1), batch_first=True, enforce_sorted=False)
    out = torch.func.functional_call(module, own, (packed,))[0]
    out = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])[0]
    upto = word.cumsum(1)
    halves = []
    for half, at in zip(out.split(hidden, 2), (upto - 1, upto - word.long())):
        there = (at >= 0) & (at < length[:, None])
        at = torch.where(there, at, 0)[..., None].expand(-1, -1, hidden)
        halves.append(torch.where(there[..., None], half.gather(1, at), 0))
    return torch.cat(halves, 2)


def recur(op, o, x, own, tokens, carried):
    """The stack as PyTorch's module, with these parameters."""
    more = {"nonlinearity": o["nonlinearity"]} if op == "rnn" else {}
    module = getattr(torch.nn, op.upper())(x.shape[2], o["hidden"], o["layers"], batch_first=True,
                                           bidirectional=o["bidirectional"], dtype=x.dtype, **more)
    if o.get("masked"):
        return passing_over(module, own, x, tokens != o["padding"])
    y, state = torch.func.functional_call(module, own, (x, carried.get(o["name"])))
    if o.get("carry_state"):
        carried[o["name"]] = tuple(s.detach() for s in state) if op == "lstm" else state.detach()
    return y


def sinusoidal(x):
    positions, channels = x.shape[1:]
    rate = 10000**(-torch.arange(0, channels, 2, dtype=torch.float64) / channels)
    angle = torch.arange(positions, dtype=torch.float64)[:, None] * rate
    return torch.stack([torch.sin(angle), torch.cos(angle)], 2).flatten(1)[:, :channels].to(x.dtype)


def apply_layer(op, o, x, own, named, words, tokens, carried):
    w, b = own.get("weight"), own.get("bias")
    if op == "embedding":
        return F.embedding(x, w)
    if op == "position":
        return x + (w if w is not None else sinusoidal(x))
    if op == "dense":
        return F.linear(x, words if "weight_of" in o else w, b)
    if op == "layer_norm":
        return F.layer_norm(x, x.shape[-1:], w, b, o["epsilon"])
    if op == "rms_norm":
        return F.rms_norm(x, x.shape[-1:], w, o["epsilon"])
    if op == "attention":
        return attend(o, x)
    if op == "add":
        return x + named[o["with"]]
    return recur(op, o, x, own, tokens, carried) if op in ("rnn", "lstm", "gru") else CURVES[op](x)


def loss_of(network, parameters, x, y, carried):
    named, tokens = {}, x
    for layer in network["config"]["model"]["layers"]:
        (op, o), = layer.items()
        own = {name.split(".", 1)[1]: p for name, p in parameters.items()
               if name.split(".", 1)[0] == o["name"]}
        x = named[o["name"]] = apply_layer(op, o, x, own, named, parameters["words.weight"],
                                           tokens, carried)
    return F.cross_entropy(x.flatten(0, 1), y.flatten())


def samples(network, _):
    """Those of columns in the order of windows, each with all columns."""
    tokens = network["tokens"]
    found = torch.from_numpy(text(network).astype(np.int64))
    found = found.view(network["config"]["data"].get("columns", 1), -1)
    return (part.unflatten(1, (-1, tokens)).transpose(0, 1).reshape(-1, tokens)
            for part in (found[:, :-1], found[:, 1:]))


def networks(count):
    """The first `count` networks that train."""
    return parity.networks(count, make_network, samples, loss_of)
