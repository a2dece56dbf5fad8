"""The zoo's networks that torchvision does not have, as plain torch modules with the names of docs/networks.md.

Sources: mnist_cnn, PyTorch's MNIST example (without its dropout, which inference has not); lenet5, LeCun et al., 1998,
with relu and max-pooling; resnet9, Needle's (dlsyscourse.org); wrn28_10, Zagoruyko and Komodakis, 2016, with names as in
xternalz/WideResNet-pytorch; airbench, airbench94's (Jordan, 2024). Each has 10 outputs.
"""

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn

HIDDEN = (48, 32)  # of mlp


class MnistCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = nn.Linear(64 * 12 * 12, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(self.conv2(self.conv1(x).relu()).relu(), 2)
        return self.fc2(self.fc1(x.flatten(1)).relu()).log_softmax(1)


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(16 * 5 * 5, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        for conv in self.conv1, self.conv2:
            x = F.max_pool2d(conv(x).relu(), 2)
        return self.fc3(self.fc2(self.fc1(x.flatten(1)).relu()).relu())


class ResNet9(nn.Module):
    # Window, stride, inputs and outputs of its convolutions; those of SAME are added to what goes into them, in pairs.
    CONVS = ((7, 4, 3, 16), (3, 2, 16, 32), (3, 1, 32, 32), (3, 1, 32, 32), (3, 2, 32, 64), (3, 2, 64, 128),
             (3, 1, 128, 128), (3, 1, 128, 128))
    SAME = (3, 7)

    def __init__(self, classes=10):
        super().__init__()
        for i, (kernel, stride, inputs, outputs) in enumerate(self.CONVS, 1):
            self.add_module(f"conv{i}", nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2))
            self.add_module(f"bn{i}", nn.BatchNorm2d(outputs))
        self.fc1, self.fc2 = nn.Linear(128, 128), nn.Linear(128, classes)

    def forward(self, x):
        for i in range(1, 1 + len(self.CONVS)):
            before = x if i in self.SAME else None if i - 1 not in self.SAME else before
            x = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x)).relu()
            x = x + before if i - 1 in self.SAME else x
        return self.fc2(self.fc1(x.flatten(1)).relu())


class WideBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(outputs), nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.convShortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None

    def forward(self, x):
        y = self.bn1(x).relu()
        side = self.convShortcut(y) if self.convShortcut else x
        return side + self.conv2(self.bn2(self.conv1(y)).relu())


class WideStage(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.layer = nn.Sequential(WideBlock(inputs, outputs, stride), *(WideBlock(outputs, outputs, 1) for _ in range(3)))

    def forward(self, x):
        return self.layer(x)


class Wrn28(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.block1, self.block2, self.block3 = WideStage(16, 160, 1), WideStage(160, 320, 2), WideStage(320, 640, 2)
        self.bn1, self.fc = nn.BatchNorm2d(640), nn.Linear(640, 10)

    def forward(self, x):
        x = self.bn1(self.block3(self.block2(self.block1(self.conv1(x))))).relu()
        return self.fc(x.mean((2, 3)))


class Times(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


def airbench():
    def group(inputs, outputs):
        def conv(channels):
            return nn.Conv2d(channels, outputs, 3, padding=1, bias=False)

        def norm():
            return nn.BatchNorm2d(outputs, eps=1e-12, momentum=0.4)

        return nn.Sequential(OrderedDict(
            conv1=conv(inputs), pool=nn.MaxPool2d(2), norm1=norm(), gelu1=nn.GELU(),
            conv2=conv(outputs), norm2=norm(), gelu2=nn.GELU()))

    return nn.Sequential(nn.Conv2d(3, 24, 2), nn.GELU(), group(24, 64), group(64, 256), group(256, 256),
                         nn.MaxPool2d(3), nn.Flatten(), nn.Linear(256, 10, bias=False), Times(1 / 9))


def mlp():
    widths, net = (28 * 28, *HIDDEN, 10), OrderedDict(flatten=nn.Flatten())
    for i in range(1, len(widths)):
        net[f"fc{i}"] = nn.Linear(widths[i - 1], widths[i])
        if i < len(widths) - 1:
            net[f"relu{i}"] = nn.ReLU()
    return nn.Sequential(net)


# How each is made, and the images that it takes: side and channels.
NETWORKS = {"mnist_cnn": (MnistCnn, 28, 1), "mlp": (mlp, 28, 1), "lenet5": (LeNet5, 28, 1), "resnet9": (ResNet9, 32, 3),
            "wrn28_10": (Wrn28, 32, 3), "airbench": (airbench, 32, 3)}
