"""Data in one shard, good and bad."""

import struct


def npy(kind, shape, values):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head + values


def write_all(write):
    good = ('{"1": {"flattened": {"dtype": "float32", "dataset_len": 3, "num_shards": 1, '
            '"x_shape": [3, 2], "y_shape": [3, 1]}}}')
    x = npy("<f4", "(3, 2)", struct.pack("<6f", 1, 2, 3, 4, 5, 6))
    y = npy("<f4", "(3, 1)", struct.pack("<3f", 1, 2, 3))
    nan = npy("<f4", "(3, 1)", struct.pack("<3f", 1, float("nan"), 3))
    for name, meta, config, first, second in [
            ("good", good, "timestep: 1", x, y), ("read", good, "loading_mode: controlled", x, y), ("nan", good, "", x, nan),
            ("swapped", good, "", y, x), ("truncated", good, "", x[:-3], y), ("many", good.replace(": 3,", ": 900000000000,"), "", x, y),
            ("wide", good.replace("[3, 2]", "[3, 9223372036854775807]"), "", x, y), ("none", "{}", "", x, y),
            ("other_step", good, "timestep: 2", x, y), ("negative", good.replace("3", "-3"), "", x, y), ("lists", "[[1]]", "[1]", x, y),
            ("double", good.replace("float32", "float64"), "", npy("<f8", "(3, 2)", struct.pack("<6d", 1, 2, 1e300, 4, 5, 6)),
             npy(">f8", "(3, 1)", struct.pack(">3d", 1, 2, 3)))]:
        parts = [meta.encode(), config.encode(), first]
        write("shards", name, b"".join(struct.pack("<H", len(p)) + p for p in parts) + second)
