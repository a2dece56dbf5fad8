#!/usr/bin/env python3
"""State dicts of torch's networks into Lockstep and back; prints a line for each network.

    tools/goldens/state_dicts.py LOCKSTEP [NETWORK...]      (needs torch, torchvision, safetensors)

The networks are torchvision's and, as plain torch modules, those of networks.py: the whole zoo.
In: a network with 10 outputs and the values of formula.py (zoo.py says which) is saved by the safetensors package and
given to `lockstep predict --init`; outputs for 2 images are compared with torch's. Back: `lockstep train --init` takes
one step, which changes weights and running statistics, and saves; torch loads that file with strict=True, and the
outputs of both are compared once more. "in" and "back" are the largest differences as a share of the largest output.
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

import networks
import zoo

SAMPLES, CLASSES, MOST = 2, 10, 1e-5


def images(shape):
    return (np.arange(SAMPLES * np.prod(shape), dtype=np.uint64) * 2654435761 >> 7 & 255).astype(np.uint8)


def make(name):
    """A network in torch, what its images are, and what a configuration has to say of it beside its name."""
    if name in networks.NETWORKS:
        kind, side, channels = networks.NETWORKS[name]
        return kind(), (side, side, channels), f", hidden: {list(networks.HIDDEN)}" if name == "mlp" else ""
    side = 224 if name.startswith(("alexnet", "vgg")) else 64
    stem = "" if name == "alexnet" else ", stem: imagenet"
    return torchvision.models.get_model(name, num_classes=CLASSES), (side, side, 3), stem


def run(program, folder, *words):
    done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def ours(program, folder, file):
    lines = run(program, folder, "predict", "c.yaml", "--init", file, "--images", "x", "--outputs", "--format", "json")
    return np.array([json.loads(line)["outputs"] for line in lines.splitlines() if '"outputs"' in line])


def theirs(net, shape):
    x = torch.from_numpy(images(shape).reshape(SAMPLES, *shape).astype(np.float64) / 255).permute(0, 3, 1, 2)
    with torch.no_grad():
        return net.double().eval()(x).numpy()


def difference(a, b):
    return float(np.abs(a - b).max() / max(1.0, np.abs(b).max()))


def check(program, name):
    net, shape, more = make(name)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "x").write_bytes(struct.pack(">BBBB4I", 0, 0, 8, 4, SAMPLES, *shape) + images(shape).tobytes())
        (path / "c.yaml").write_text(
            f"data: {{name: dummy, shape: {list(shape)}, classes: {CLASSES}, samples: 4, test_samples: 2}}\n"
            f"model: {{name: {name}{more}}}\ntrain: {{batch_size: 4, replicas: 1, steps: 1}}\n"
            "optimizer: {lr: 1.0e-4}\n")
        net = zoo.fill(net).float()
        save_file(net.state_dict(), path / "in.safetensors")
        there = difference(ours(program, folder, "in.safetensors"), theirs(net, shape))
        run(program, folder, "train", "c.yaml", "--init", "in.safetensors", "--save-model", "--quiet")
        back = make(name)[0]
        trained = load_file(path / f"{name}.safetensors")
        back.load_state_dict(trained, strict=True)
        changed = sum(not torch.equal(v.float(), net.state_dict()[k].float()) for k, v in trained.items())
        again = difference(ours(program, folder, f"{name}.safetensors"), theirs(back, shape))
    good = there <= MOST and again <= MOST and changed > 0
    print(f"{name:18} {len(trained):4} tensors, {changed:4} changed   in {there:.1e}   back {again:.1e}   "
          f"{'ok' if good else 'DIFFERENT'}", flush=True)
    return good


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = str(pathlib.Path(sys.argv[1]).resolve())
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}")
    sys.exit(0 if all([check(program, name) for name in sys.argv[2:] or (*zoo.NAMES, *networks.NETWORKS)]) else 1)


if __name__ == "__main__":
    main()
