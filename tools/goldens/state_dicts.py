#!/usr/bin/env python3
"""State dicts of torchvision's networks into Lockstep and back; prints a line for each network.

    tools/goldens/state_dicts.py LOCKSTEP [NETWORK...]      (needs torch, torchvision, safetensors)

In: a network with 10 outputs and the values of formula.py (zoo.py says which) is saved by the safetensors package and
given to `lockstep predict --init`; logits of 2 images are compared with torch's. Back: `lockstep train --init` takes
one step, which changes weights and running statistics, and saves; torch loads that file with strict=True, and the
logits of both are compared once more. "in" and "back" are the largest differences as a share of the largest logit.
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torchvision
from safetensors.torch import load_file, save_file

import zoo

SAMPLES, CLASSES, MOST = 2, 10, 1e-4


def images(side):
    return (np.arange(SAMPLES * side * side * 3, dtype=np.uint64) * 2654435761 >> 7 & 255).astype(np.uint8)


def run(program, folder, *words):
    done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def ours(program, folder, file):
    lines = run(program, folder, "predict", "c.yaml", "--init", file, "--images", "x", "--outputs", "--format", "json")
    return np.array([json.loads(line)["outputs"] for line in lines.splitlines() if '"outputs"' in line])


def theirs(net, side):
    x = torch.from_numpy(images(side).reshape(SAMPLES, side, side, 3).astype(np.float64) / 255).permute(0, 3, 1, 2)
    with torch.no_grad():
        return net.double().eval()(x).numpy()


def difference(a, b):
    return float(np.abs(a - b).max() / max(1.0, np.abs(b).max()))


def check(program, name):
    side = 224 if name.startswith(("alexnet", "vgg")) else 64
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "x").write_bytes(struct.pack(">BBBB4I", 0, 0, 8, 4, SAMPLES, side, side, 3) + images(side).tobytes())
        stem = "" if name == "alexnet" else ", stem: imagenet"
        (path / "c.yaml").write_text(
            f"data: {{name: dummy, shape: [{side}, {side}, 3], classes: {CLASSES}, samples: 4, test_samples: 2}}\n"
            f"model: {{name: {name}{stem}}}\ntrain: {{batch_size: 4, replicas: 1, steps: 1}}\n"
            "optimizer: {lr: 1.0e-4}\n")
        net = zoo.fill(torchvision.models.get_model(name, num_classes=CLASSES)).float()
        save_file(net.state_dict(), path / "in.safetensors")
        there = difference(ours(program, folder, "in.safetensors"), theirs(net, side))
        run(program, folder, "train", "c.yaml", "--init", "in.safetensors", "--save-model", "--quiet")
        back = torchvision.models.get_model(name, num_classes=CLASSES)
        trained = load_file(path / f"{name}.safetensors")
        back.load_state_dict(trained, strict=True)
        changed = sum(not torch.equal(v.float(), net.state_dict()[k].float()) for k, v in trained.items())
        again = difference(ours(program, folder, f"{name}.safetensors"), theirs(back, side))
    good = there <= MOST and again <= MOST and changed > 0
    print(f"{name:18} {len(trained):4} tensors, {changed:4} changed   in {there:.1e}   back {again:.1e}   "
          f"{'ok' if good else 'DIFFERENT'}", flush=True)
    return good


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = str(pathlib.Path(sys.argv[1]).resolve())
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}")
    sys.exit(0 if all([check(program, name) for name in sys.argv[2:] or zoo.NAMES]) else 1)


if __name__ == "__main__":
    main()
