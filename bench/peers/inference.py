#!/usr/bin/env python3
"""Predictions of the MNIST CNN, of Needle's ResNet9 or of a ResNet-18 for images of 32 x 32 by PyTorch or ONNX Runtime,
samples in memory: latency of a call and samples a second, as JSON, one line for each batch. ONNX Runtime's network is
PyTorch's, exported.
  inference.py --network resnet18 --variant eager|channels_last|compile|onnxruntime --batch 1,256 --seconds 3
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "zoo"))
from mnist_torch import Net  # noqa: E402
from zoo_torch import make  # noqa: E402


def runtime(net, x, threads):
    """ONNX Runtime's function of a batch like x, which it takes as NumPy's."""
    import onnxruntime
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "net.onnx")
        torch.onnx.export(net, (x,), path, input_names=["x"], output_names=["y"], dynamo=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    values = x.numpy()
    return onnxruntime.__version__, lambda: session.run(None, {"x": values})


def call_of(args, batch):
    shape = (batch, 1, 28, 28) if args.network == "mnist" else (batch, 3, 32, 32)
    net = (Net() if args.network == "mnist" else make(args.network, 32, 10)).eval()
    x = torch.rand(shape) * 2 - 1
    if args.variant == "onnxruntime":
        return "ONNX Runtime", *runtime(net, x, args.threads)
    if args.variant == "channels_last":
        net, x = (v.to(memory_format=torch.channels_last) for v in (net, x))
    if args.variant == "compile":
        net = torch.compile(net)
    return "PyTorch", torch.__version__.split("+")[0], lambda: net(x)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", choices=("mnist", "resnet9", "resnet18"), required=True)
    parser.add_argument("--variant", required=True)
    parser.add_argument("--batch", type=lambda s: [int(n) for n in s.split(",")], default=[1, 256])
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with torch.inference_mode():
        for batch in args.batch:
            peer, version, call = call_of(args, batch)
            took, start = [], None
            warm = None
            while start is None or time.perf_counter() - start < args.seconds:
                begin = time.perf_counter()
                call()
                end = time.perf_counter()
                warm = warm or end + args.seconds / 5  # the first call may compile
                if start is not None:
                    took.append(end - begin)
                elif end >= warm:
                    start = end
            print(json.dumps({"peer": peer, "version": version, "batch": batch,
                              "samples_per_second": len(took) * batch / sum(took),
                              "milliseconds": 1e3 * statistics.median(took)}), flush=True)


if __name__ == "__main__":
    main()
