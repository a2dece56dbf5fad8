"""Shards of what h5py writes have the numbers that h5py reads.
Usage: hdf5.py LOCKSTEP"""

import os
import subprocess
import sys
import tempfile

import h5py
import numpy as np

lockstep = sys.argv[1]
ROWS, EACH = 100, 16


def shard(x, y, out):
    return subprocess.run([lockstep, "data", "shard", x, y, "--out", out, "--rows", str(EACH), "--threads", "2"],
                          capture_output=True, text=True)


def rows_of(out, array):
    folder = f"{out}/data/processed/flattened-1000/{array}"
    return np.concatenate([np.load(f"{folder}/{i}.npy") for i in range(len(os.listdir(folder)))])


os.chdir(tempfile.mkdtemp())
draw = np.random.default_rng(5)
number = 0
for kind in ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]:
    for order in "<>":
        how = [{}, {"chunks": (7, 2, 3), "compression": "gzip"}, {"chunks": True, "shuffle": True, "fletcher32": True},
               {"chunks": (100, 3, 5), "compression": "gzip", "compression_opts": 9}][number % 4]
        x = (draw.normal(size=(ROWS, 3, 5)) * 50).astype(order + kind)
        with h5py.File(f"{number}.h5", "w", libver=("earliest", ["v108", "v110"][number % 2])) as file:
            file.create_dataset("run/x", data=x, **how)
            file["y"] = np.arange(ROWS)
        done = shard(f"{number}.h5:/run/x", f"{number}.h5:/y", f"o{number}")
        assert done.returncode == 0, done.stderr
        assert np.array_equal(rows_of(f"o{number}", "x"), x.reshape(ROWS, 15).astype("f4")), (kind, order)
        assert np.array_equal(rows_of(f"o{number}", "y")[:, 0], np.arange(ROWS))
        number += 1
with h5py.File("bad.h5", "w") as file:
    file["table"] = np.zeros(3, [("a", "f4"), ("b", "i4")])
    file["truth"] = np.zeros((3, 2), bool)
    file["text"] = ["a", "b", "c"]
    file.create_dataset("lzf", data=np.ones((ROWS, 2)), compression="lzf")
for name, says in [("table", "records of several fields"), ("truth", "words out of a list"), ("text", "has text"),
                   ("lzf", "required filter 'lzf'"), ("none", "no dataset '/none'; it has /lzf, /table, /text, /truth")]:
    done = shard(f"bad.h5:/{name}", f"{number - 1}.h5:/y", "bad")
    assert done.returncode == 4 and says in done.stderr, (name, done.stderr)
print(number, "files")
