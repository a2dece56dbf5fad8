"""Tokens a second of PyTorch with a cache, one text: generate() of transformers, and a loop with keys and values in memory that is
there from the beginning; or, with `prompt`, seconds from so many tokens to the one behind them, the least of five.
usage: torch_sample.py gpt2|char|middle|lstm TOKENS generate|loop|prompt [THREADS]"""
import json
import sys
import time

import torch
import torch.nn.functional as F

SIZES = {"gpt2": (12, 12, 768, 1024, 50257), "char": (4, 4, 128, 256, 65), "middle": (6, 6, 384, 512, 65)}


def gpt(name):
    from transformers import GPT2Config, GPT2LMHeadModel
    depth, heads, width, context, vocabulary = SIZES[name]
    return GPT2LMHeadModel(GPT2Config(n_layer=depth, n_head=heads, n_embd=width, n_positions=context, vocab_size=vocabulary,
                                      bos_token_id=None, eos_token_id=None)).eval()


def generate(name, count):
    model = gpt(name)
    start = torch.zeros(1, 1, dtype=torch.long)
    options = dict(do_sample=False, use_cache=True, attention_mask=torch.ones_like(start), pad_token_id=0)
    model.generate(start, max_new_tokens=2, **options)
    begin = time.monotonic()
    model.generate(start, max_new_tokens=count, min_new_tokens=count, **options)
    return count / (time.monotonic() - begin)


class Loop:
    """Positions of GPT-2: weights are nn.Linear's, as F.linear is the faster product of a vector."""

    def __init__(self, name):
        self.depth, self.heads, self.width, context, self.vocabulary = SIZES[name]
        w = self.width
        self.cache = torch.zeros(self.depth, 2, self.heads, context, w // self.heads)
        self.embedding, self.position = torch.randn(self.vocabulary, w) * 0.02, torch.randn(context, w) * 0.02
        one = lambda out, n: (torch.randn(out, n) * 0.02, torch.zeros(out))
        self.layer = [[one(3 * w, w), one(w, w), one(4 * w, w), one(w, 4 * w)] for _ in range(self.depth)]
        self.norm = (torch.ones(w), torch.zeros(w))

    def __call__(self, token, at):
        return self.read(token, at, 1)

    def read(self, tokens, at, n):
        """Many tokens, of a list, are the first ones."""
        w, h = self.width, self.heads
        x = (self.embedding[tokens] + self.position[at:at + n]).view(n, w)
        for l, (qkv, out, up, down) in enumerate(self.layer):
            q, k, v = F.linear(F.layer_norm(x, (w,), *self.norm), *qkv).view(n, 3, h, w // h).permute(1, 2, 0, 3)
            cache = self.cache[l]
            cache[0, :, at:at + n], cache[1, :, at:at + n] = k, v
            y = F.scaled_dot_product_attention(q[None], cache[None, 0, :, :at + n], cache[None, 1, :, :at + n], is_causal=n > 1)
            x = x + F.linear(y[0].transpose(0, 1).reshape(n, w), *out)
            x = x + F.linear(F.gelu(F.linear(F.layer_norm(x, (w,), *self.norm), *up), approximate="tanh"), *down)
        return int(F.linear(F.layer_norm(x[-1:], (w,), *self.norm), self.embedding).argmax())


class Lstm:
    def __init__(self):
        self.embedding = torch.nn.Embedding(10000, 650)
        self.lstm = torch.nn.LSTM(650, 650, 2, batch_first=True)
        self.head = torch.nn.Linear(650, 10000)
        self.state = None

    def __call__(self, token, at):
        y, self.state = self.lstm(self.embedding.weight[token].view(1, 1, 650), self.state)
        return int(self.head(y[0, 0]).argmax())

    def read(self, tokens, at, n):
        y, self.state = self.lstm(self.embedding.weight[tokens][None])
        return int(self.head(y[0, -1]).argmax())


def loop(name, count):
    step = Lstm() if name == "lstm" else Loop(name)
    token = step(0, 0)
    begin = time.monotonic()
    for i in range(count):
        token = step(token, i + 1)
    return count / (time.monotonic() - begin)


def prompt(name, count):
    step, least = Lstm() if name == "lstm" else Loop(name), 1e9
    for _ in range(5):
        begin = time.monotonic()
        step.read([0] * count, 0, count)
        least = min(least, time.monotonic() - begin)
    return least


def main():
    name, count, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(int(sys.argv[4]) if len(sys.argv) > 4 else 2)
    torch.manual_seed(0)
    with torch.inference_mode():
        result = {"generate": generate, "loop": loop, "prompt": prompt}[how](name, count)
    what = {"prompt": count, "seconds": round(result, 4)} if how == "prompt" else {"tokens": count, "per_second": round(result, 1)}
    print(json.dumps({"who": "torch " + how, "network": name, **what}))


main()
