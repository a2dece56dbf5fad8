#!/usr/bin/env python3
"""The MNIST CNN in PyTorch with DistributedDataParallel over gloo: training speed of N processes on this host,
each with one thread on a core of its own. Data lie in memory, normalised, before the clock starts. One
JSON line on stdout.
  mnist_ddp.py --batch 128 --cores 0,1 --steps 100 [--channels-last]
"""

import argparse
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import mnist_data
from mnist_torch import Net


def work(rank, args, port):
    os.sched_setaffinity(0, {args.cores[rank]})
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(args.seed)
    ranks = len(args.cores)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    pixels, labels = (mnist_data.load(args.data, "train") if args.data
                      else mnist_data.synthetic(100 * args.batch))
    x, y = torch.from_numpy(pixels)[:, None], torch.from_numpy(labels)
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    x = x.contiguous(memory_format=layout)
    net = DistributedDataParallel(Net().to(memory_format=layout))
    optimizer = torch.optim.Adadelta(net.parameters(), lr=args.lr)
    share = args.batch // ranks
    batches = len(x) // args.batch
    net.train()

    def run(steps, start):
        for i in range(start, start + steps):
            at = i % batches * args.batch + rank * share
            optimizer.zero_grad()
            F.nll_loss(net(x[at:at + share]), y[at:at + share]).backward()
            optimizer.step()

    run(args.warmup, 0)
    dist.barrier()
    begin = time.perf_counter()
    run(args.steps, args.warmup)
    dist.barrier()
    seconds = time.perf_counter() - begin
    if rank == 0:
        print(json.dumps({"peer": "PyTorch DDP", "version": torch.__version__, "ranks": ranks,
                          "batch": args.batch, "steps": args.steps,
                          "images_per_second": round(args.steps * share * ranks / seconds, 1)}),
              flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--cores", type=lambda s: [int(n) for n in s.split(",")], default=[0, 1],
                        help="one for each process; default 0,1")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=10, help="steps before the clock starts")
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=29541)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--data", help="folder of the IDX files; default: random bytes")
    args = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    context = torch.multiprocessing.get_context("spawn")
    ranks = [context.Process(target=work, args=(r, args, args.port)) for r in range(len(args.cores))]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    sys.exit(any(process.exitcode for process in ranks))


if __name__ == "__main__":
    main()
