#!/usr/bin/env python3
"""A gpt that was trained here is Hugging Face's GPT2LMHeadModel, by the lines that the documentation has, and comes back.

  gpt2.py LOCKSTEP LOGITS NETWORKS.MD      the two programs of a build; docs/networks.md, whose lines are run

BOUND is that of interop.py: logits of size 1 to 10 are the end of sums of a few hundred terms in float32, in two orders.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
import transformers

BOUND = 1e-5
CONTEXT, SAMPLES = 24, 16
CONFIG = f"""data: {{text: text.txt, level: char, context: {CONTEXT}, cache: none}}
model: {{name: gpt, depth: 3, heads: 4, width: 32, activation: gelu_tanh, dropout: 0.1}}
train: {{batch_size: 16, replicas: 4, seed: 5}}
optimizer: {{name: adamw, lr: 0.01}}
"""


def check(good, text):
    if not good:
        sys.exit(f"gpt2: {text}")


def run(*words):
    result = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    check(result.returncode == 0, f"{words} ended with {result.returncode}:\n{result.stdout}{result.stderr}")


def documented(path):
    """The lines between ```python and ```."""
    blocks = [block.split("```")[0] for block in path.read_text().split("```python\n")[1:]]
    found = [block for block in blocks if "GPT2LMHeadModel" in block]
    check(len(found) == 1, f"{path} has {len(found)} blocks about GPT2LMHeadModel, expected one")
    return found[0]


def own_logits(weights, tokens, vocabulary):
    run(LOGITS, "c.yaml", weights, "tokens", "out.f32", CONTEXT, vocabulary)
    return torch.from_numpy(np.fromfile("out.f32", dtype="<f4").reshape(*tokens.shape, vocabulary).copy())


def main():
    torch.set_num_threads(1)
    Path("c.yaml").write_text(CONFIG)
    words = "the quick brown fox jumps over a lazy dog while seven wizards box".split()
    Path("text.txt").write_text("\n".join(
        " ".join(words[(i * i + k * (i % 5 + 1)) % len(words)] for k in range(8)) for i in range(300)))
    run(LOCKSTEP, "train", "c.yaml", "--steps", 30, "--save-model", "--quiet")

    given = {"safetensors": safetensors, "transformers": transformers}
    exec(documented(NETWORKS), given)  # pylint: disable=exec-used
    model = given["model"].eval()
    wrong = model.load_state_dict(given["state"], strict=False)
    check(not wrong.unexpected_keys and wrong.missing_keys in ([], ["lm_head.weight"]), f"names: {wrong}")
    check(model.lm_head.weight is model.transformer.wte.weight, "the head has a weight of its own")

    vocabulary = given["vocabulary"]
    i = np.arange(SAMPLES * CONTEXT, dtype=np.uint64)
    tokens = ((i * np.uint64(2654435761) + np.uint64(12345)) >> np.uint64(13)) % np.uint64(vocabulary)
    tokens = tokens.astype("<i4").reshape(SAMPLES, CONTEXT)
    tokens.tofile("tokens")
    with torch.no_grad():
        theirs = model(torch.from_numpy(tokens.astype(np.int64))).logits
    # Its own file is read as it is.
    for weights in ("gpt.safetensors", "gpt2/model.safetensors"):
        error = float((theirs - own_logits(weights, tokens, vocabulary)).abs().max())
        print(f"{weights}: logits of size {float(theirs.abs().max()):.1f} differ by {error:.1e} at most")
        check(error <= BOUND, f"more than {BOUND}")
    check(float(theirs.std()) > 0.1, "the logits are all alike: the comparison says nothing")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    LOCKSTEP, LOGITS, NETWORKS = (Path(p).resolve() for p in sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
