#!/usr/bin/env python3
"""Makes tests/models/golden/zoo.json: names and shapes of torchvision's networks, and logits of some.
Needs torch and torchvision; prints the file to stdout. With --table NAME it prints one network's state dict.

tables   of a state dict as torchvision has it (1000 outputs), in its order, a line "name dxdxd" each: how many
         lines, how many parameters, and the 64-bit FNV-1a hash of the lines
logits   in inference, of 2 images, for networks with 10 outputs. Values are those of formula.py: tensor p of the
         state dict (without num_batches_tracked) is units(shape, p) times a bound, plus more:
           weights of convolutions and dense layers  sqrt(6 / fan_in), 0
           weights of norms, running_var             0.25, 1
           biases, running_mean                      0.1, 0
         and pixel (row * side + column) * 3 + channel of the images, one after the other, is units(.., 1001).
         "cifar" networks are torchvision's with what is usual for small images: conv1 3x3 of stride 1 and no
         max-pooling; VGG's classifier one dense layer; MobileNetV2's first two strides of 2 are 1.
"""

import json
import sys

import numpy as np
import torch
import torchvision

from formula import units

NAMES = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "wide_resnet50_2", "wide_resnet101_2",
         "alexnet", "vgg11", "vgg13", "vgg16", "vgg19", "vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn",
         "mobilenet_v2")
LOGITS = (("resnet18", "cifar", 32), ("resnet18", "imagenet", 80), ("resnet50", "cifar", 32), ("vgg11_bn", "cifar", 32),
          ("mobilenet_v2", "cifar", 32), ("mobilenet_v2", "imagenet", 80))
SAMPLES = 2


def table(net):
    return [f"{name} {'x'.join(map(str, value.shape))}" for name, value in net.state_dict().items()]


def fnv(lines):
    h = 0xcbf29ce484222325
    for byte in "".join(line + "\n" for line in lines).encode():
        h = (h ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return f"{h:016x}"


def small(name, net):
    nn = torch.nn
    if name.startswith("resnet"):
        net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    elif name.startswith("vgg"):
        net.avgpool, net.classifier = nn.Identity(), nn.Linear(512, 10)
    elif name.startswith("mobilenet"):
        net.features[0][0].stride = net.features[2].conv[1][0].stride = (1, 1)
    return net


def fill(net):
    state = net.state_dict()
    for p, name in enumerate(n for n in state if not n.endswith("num_batches_tracked")):
        shape = tuple(state[name].shape)
        bound, more = 0.1, 0.0
        if name.endswith("running_var") or name.endswith("weight") and len(shape) == 1:
            bound, more = 0.25, 1.0
        elif name.endswith("weight"):
            bound = np.sqrt(6 / np.prod(shape[1:]))
        state[name].copy_(torch.from_numpy(units(shape, p) * np.float32(bound) + np.float32(more)))
    return net.double().eval()


def logits(name, stem, side):
    net = torchvision.models.get_model(name, num_classes=10)
    net = fill(small(name, net) if stem == "cifar" else net)
    x = torch.from_numpy(units((SAMPLES, side, side, 3), 1001)).permute(0, 3, 1, 2).double()
    with torch.no_grad():
        return {"network": name, "stem": stem, "side": side,
                "logits": [round(v, 7) for v in net(x).flatten().tolist()]}


def main():
    if len(sys.argv) == 3:
        print("\n".join(table(torchvision.models.get_model(sys.argv[2]))))
        return
    tables = []
    for name in NAMES:
        net = torchvision.models.get_model(name)
        tables.append({"network": name, "tensors": len(table(net)),
                       "parameters": sum(p.numel() for p in net.parameters()), "hash": fnv(table(net))})
    print('{"made_by":"tools/goldens/zoo.py, torchvision ' + torchvision.__version__.split("+")[0] + '",\n"tables":[')
    print(",\n".join(json.dumps(t) for t in tables))
    print('],\n"logits":[')
    print(",\n".join(json.dumps(logits(*case)) for case in LOGITS))
    print("]}")


if __name__ == "__main__":
    main()
