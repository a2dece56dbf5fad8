"""What the other files here share: values that come from integers, and PyTorch's own float32 in several orders.

Element i of stream t is

  hash(i, t): h = i + t * 0x9E3779B9;  h ^= h >> 16;  h *= 0x85EBCA6B;  h ^= h >> 13;
              h *= 0xC2B2AE35;  h ^= h >> 16            (all modulo 2^32; MurmurHash3's finalizer)
"""

import numpy as np
import torch


def hashes(count, stream):
    h = np.arange(count, dtype=np.uint32) + np.uint32(stream * 0x9E3779B9 & 0xFFFFFFFF)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h ^= h >> np.uint32(shift)
        h *= np.uint32(factor)
    return h ^ (h >> np.uint32(16))


def units(shape, stream):
    """(hash >> 8) * 2^-23 - 1, which float32 holds exactly."""
    values = (hashes(np.prod(shape), stream) >> np.uint32(8)).astype(np.float32)
    return (values * np.float32(2.0 ** -23) - np.float32(1)).reshape(shape)


def mse_losses(net, optimizer, x, y, steps, batch, batches):
    """Losses of `steps` steps, in the type of the network: step k takes batch k % batches."""
    dtype = next(net.parameters()).dtype
    result = []
    for k in range(steps):
        rows = slice(batch * (k % batches), batch * (k % batches) + batch)
        loss = torch.nn.functional.mse_loss(net(x[rows].to(dtype)), y[rows].to(dtype))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        result.append(float(loss.detach()))
    return result


def variants(run):
    """run(channels_last) with one thread and two, with oneDNN's loops and PyTorch's own."""
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for onednn in (True, False):
            with torch.backends.mkldnn.flags(enabled=onednn):
                for channels_last in (False, True):
                    yield run(channels_last)
