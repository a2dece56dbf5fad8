#!/usr/bin/env python3
"""Writes the first inputs of the fuzz targets, one folder for each, into a folder.

  make_corpus.py tests/fuzz/corpus

What fuzzing found later lies beside them: files that this script does not know stay.
"""
import gzip
import json
import struct
import sys
from pathlib import Path

from inputs import arrays, pictures, ranks, shards, tables, vocabularies

ROOT = Path(__file__).resolve().parent.parent.parent
folder = Path(sys.argv[1])


def write(target, name, data):
    path = folder / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def idx(dims, kind=8):
    count = 1
    for d in dims:
        count *= d
    return (struct.pack(">BBBB", 0, 0, kind, len(dims)) + struct.pack(f">{len(dims)}I", *dims)
            + bytes(i * 7 % 10 for i in range(count)))


def pair(classes, labels, images):
    return bytes([classes, labels is not None, len(labels or b"")]) + (labels or b"") + images


write("idx", "labelled", pair(10, idx([3]), idx([3, 2, 2])))
write("idx", "counted", pair(0, idx([3]), idx([3, 2, 2])))
write("idx", "unlabelled", pair(10, None, idx([2, 3, 4])))
write("idx", "channels", pair(10, idx([2]), idx([2, 2, 3, 3])))
write("idx", "rows", pair(10, idx([4]), idx([4, 5])))
write("idx", "other_count", pair(10, idx([4]), idx([3, 2, 2])))
write("idx", "label_too_large", pair(2, idx([3]), idx([3, 2, 2])))
write("idx", "packed", pair(10, gzip.compress(idx([3]), mtime=0), gzip.compress(idx([3, 2, 2]), mtime=0)))
write("idx", "floats", pair(10, idx([3]), idx([3, 2], kind=13)))
write("idx", "truncated", pair(10, idx([3]), idx([3, 2, 2])[:-3]))
write("idx", "huge", pair(10, None, struct.pack(">BBBBIII", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1)))


def idx_folder(classes, absent, style, files):
    return bytes([classes, 2 | absent << 4, style]) + bytes(len(f) for f in files[:3]) + b"".join(files)


SPLITS = [idx([12]), idx([12, 2, 2]), idx([3]), idx([3, 2, 2])]
for style in range(0, 256, 37):
    write("idx", f"folder_{style}", idx_folder(0 if style % 2 else 10, 0, style, SPLITS))
for absent in (1, 2, 4, 8, 3, 12, 15):
    write("idx", f"folder_without_{absent}", idx_folder(0, absent, 3, SPLITS))
write("idx", "folder_few_classes", idx_folder(0, 0, 0, [idx([3]), idx([3, 2, 2]), idx([9]), idx([9, 2, 2])]))
write("idx", "folder_many_classes", idx_folder(0, 0, 66, [idx([1])[:-1] + b"\xff", gzip.compress(idx([1, 2]), mtime=0), idx([1]), idx([1, 2])]))
write("idx", "folder_damaged", idx_folder(0, 0, 0, [idx([3])[:-1], idx([3, 2, 2]), idx([9]), idx([9, 2, 2])]))

def pickled(labels, data=b"\1\2\3\4\5\6", kind=b"u1", shape=b"K\3K\2\x86"):
    """As Python 2 with NumPy wrote CIFAR's batches."""
    return (b"\x80\2}q\1(U\6labelsq\4](" + labels + b"eU\4dataq\5cnumpy.core.multiarray\n_reconstruct\nq\6cnumpy\n"
            b"ndarray\nq\7K\0\x85q\10U\1b\x87q\11Rq\12(K\1" + shape + b"q\13cnumpy\ndtype\nq\14U\2" + kind +
            b"K\0K\1\x87Rq\16(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89U" + bytes([len(data)]) + data + b"tbu.")

def tar(name, size, data, kind=b"0"):
    head = bytearray(512)
    head[:len(name)], head[124:136], head[148:156], head[156:157] = name, b"%011o\0" % size, b" " * 8, kind
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + data + bytes(-len(data) % 512)

LABELS = b"K\1K\2M\3\0"
PY3 = (b"\x80\4\x95\0\0\0\0\0\0\0\0}\x94(C\6labels\x94](K\1K\2K\3eC\4data\x94\x8c\x16numpy._core.multiarray\x94"
       b"\x8c\x0c_reconstruct\x94\x93\x94\x8c\5numpy\x94\x8c\7ndarray\x94\x93\x94K\0\x85C\1b\x87R(K\1K\3K\2\x86"
       b"h\7\x8c\5dtype\x93\x8c\2u1\x89\x88\x87R\x89C\6abcdeftbu.")
write("cifar", "pickle", b"\0" + pickled(LABELS))
write("cifar", "pickle_3", b"\0" + PY3)
write("cifar", "pickle_short", b"\0" + pickled(LABELS)[:-9])
write("cifar", "pickle_behind", b"\0" + pickled(LABELS) + b".")
write("cifar", "pickle_floats", b"\0" + pickled(LABELS, kind=b"f4"))
write("cifar", "pickle_shape", b"\0" + pickled(LABELS, shape=b"K\4K\2\x86"))
write("cifar", "pickle_label", b"\0" + pickled(b"K\1NJ\xff\xff\xff\xff"))
write("cifar", "pickle_runs", b"\0" + b"cos\nsystem\n(S'true'\ntR.")
write("cifar", "pickle_memo", b"\0" + b"}r\xff\xff\xff\x7f.")
write("cifar", "pickle_itself", b"\0" + b"}q\0(h\0h\0u.")
write("cifar", "pickle_long", b"\0" + b"\x8e\xff\xff\xff\xff\xff\xff\xff\xff.")
write("cifar", "pickle_bare", b"\0" + b"(tRbaesu.")
write("cifar", "tar", b"\1" + tar(b"a/", 0, b"", b"5") + tar(b"a/no_batch", 3, b"abc") + tar(b"a/batch", 3, b"abc") + bytes(1024))
write("cifar", "tar_short", b"\1" + tar(b"batch", 600, b"abc"))
write("cifar", "tar_size", b"\1" + tar(b"batch", 8**11 - 1, b"abc"))
write("cifar", "tar_none", b"\1" + tar(b"x", 3, b"abc") + bytes(512))
write("cifar", "tar_sum", b"\1" + b"x" + tar(b"batch", 3, b"abc")[1:])

for part in (arrays, tables, ranks, shards, vocabularies):
    part.write_all(write)
pictures.write_all(write, (ROOT / "tests/data/small_jpeg.h").read_text())

PACKED = gzip.compress(b"some text, some text, some other text", mtime=0)
write("gzip", "one", b"\0" + PACKED)
write("gzip", "two", b"\0" + PACKED + PACKED)
write("gzip", "followed", b"\0" + PACKED + b"rest")
write("gzip", "truncated", b"\0" + PACKED[:-5])
write("gzip", "damaged", b"\0" + PACKED[:15] + b"\xff" + PACKED[16:])
write("gzip", "empty", b"\0" + gzip.compress(b"", mtime=0))
write("gzip", "stored", b"\0" + gzip.compress(bytes(range(64)), 0, mtime=0))
write("gzip", "named", b"\0" + PACKED[:3] + b"\x08" + PACKED[4:10] + b"name\0" + PACKED[10:])
write("gzip", "back_1", b"\1" + b"to be packed, to be packed")
write("gzip", "back_3", b"\2" + bytes(range(256)))


def tensors(header, data):
    text = header if isinstance(header, str) else json.dumps(header, separators=(",", ":"))
    return struct.pack("<Q", len(text)) + text.encode() + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


write("tensor_file", "one", tensors({"a": tensor("F32", [2], 0, 8)}, bytes(8)))
write("tensor_file", "types", tensors(
    {"__metadata__": {"format": "pt"}, "n": tensor("I64", [], 0, 8), "w": tensor("F32", [2, 1], 8, 16),
     "i": tensor("I32", [1], 16, 20), "b": tensor("U8", [3], 20, 23)}, bytes(range(23))))
write("tensor_file", "not_aligned", tensors(
    {"b": tensor("F32", [2], 1, 9), "a": tensor("U8", [1], 0, 1)}, bytes(9)))
write("tensor_file", "none", tensors("{}", b""))
write("tensor_file", "empty_tensor", tensors({"e": tensor("F32", [0, 7], 0, 0)}, b""))
write("tensor_file", "overlap", tensors(
    {"a": tensor("U8", [3], 0, 3), "b": tensor("U8", [3], 2, 5)}, bytes(5)))
write("tensor_file", "hole", tensors({"a": tensor("U8", [3], 1, 4)}, bytes(4)))
write("tensor_file", "half", tensors({"a": tensor("F16", [2], 0, 4)}, bytes(4)))
write("tensor_file", "claim", struct.pack("<Q", 2**63) + b"{}")
write("tensor_file", "overflow", tensors({"a": tensor("U8", [2**62, 2**62], 0, 0)}, b""))

METRICS = {"samples": 60, "correct": 51, "not_finite": 0,
           "loss_sum": ["0000000000000011", "8000000000000000"]}
RECORD = {
    "lockstep_checkpoint": 1, "version": "0.1.0", "build": "", "step": 8,
    "link": "0123456789abcdef", "seed": "0000000000000003", "global_batch": 15, "replicas": 3,
    "hash_every": 4, "data_hash": "00000000000000ff", "fingerprint": "avx2", "config": "{}",
    "so_far": METRICS, "so_far_seconds": 0.25, "best_loss": None, "best_step": -1, "bad_epochs": 0,
    "finished": True,
    "history": [{"epoch": 1, "train": METRICS, "valid": METRICS, "test": METRICS,
                 "learning_rate": 0.01, "seconds": 1.5}],
    "tensors": {"file": "step-00000008.safetensors", "bytes": 100, "checksum": "00000000000000aa"},
}


def record(**changes):
    return b"\1" + json.dumps({**RECORD, **changes}, separators=(",", ":")).encode()[:-1]


write("run", "whole", record())
write("run", "no_config", record(config=None))
write("run", "no_history", record(history=[]))
write("run", "negative", record(step=-1))
write("run", "newer", record(lockstep_checkpoint=2, version="9.0"))
write("run", "large", record(step=2**63 - 1, best_loss=1e308, so_far_seconds=5e-324))
write("run", "not_hex", record(link="0123456789ABCDEF"))
write("run", "plateau", record(numerics=2, skipped_steps=3, test_hash="0000000000000abc", best_loss=0.25, best_step=6, bad_epochs=2,
                              plateau={"lr": 0.01, "best": None, "bad": 4}))
write("run", "no_plateau", record(plateau=None, skipped_steps=0, test_hash="0000000000000000"))
write("run", "bad_plateau", record(plateau={"lr": 0.0, "best": 0.5, "bad": 1073741824}))
write("run", "skipped_more", record(skipped_steps=9))
write("run", "bad_epochs", record(bad_epochs=1073741825))
write("run", "unsealed", b"\0" + json.dumps(RECORD).encode())
write("run", "not_json", b"\1{\"lockstep_checkpoint\": 1, \"step\"")

for path in sorted((ROOT / "configs").glob("*.yaml")):
    write("config", path.stem, path.read_bytes())
write("config", "layers", """model:
  name: net
  layers:
    - normalize: {mean: 0.5, std: [0.25]}
    - conv2d: {filters: 8, kernel: [3, 3], stride: 2, padding: 1, groups: 1, bias: false, name: c}
    - batch_norm: {momentum: 0.2, epsilon: 1.0e-3}
    - relu: {name: r}
    - conv2d: {filters: 8, kernel: 1, weight_init: kaiming_normal, weight_fan_out: true}
    - add: {with: r}
    - max_pool: 2
    - avg_pool: {kernel: 2, stride: 1, padding: 1}
    - dropout: 0.5
    - global_avg_pool
    - flatten
    - dense: {units: 10, bias_init: uniform, bias_scale: 0.1}
    - log_softmax
""")
write("config", "huge", "model: {layers: [{conv2d: {filters: 9223372036854775807, kernel: 3}}, flatten, "
      "{dense: 4611686018427387904}]}\n")
write("config", "anchors", "x-a: &a {batch_size: 32, seed: 1}\ntrain: {<<: *a, epochs: 2}\nmodel.name: mlp\n")
write("config", "wrong", "model: {name: mlp}\noptimiser: {lr: 0.1}\n")
write("config", "every", """data: {name: digits, classes: 10, samples: 9, test_samples: 9, seed: 1, mean: [1, 2], std: 3,
  shuffle: no, drop_last: yes, augment: [crop: 3, {crop: {padding: 2, fill: reflect}}, flip, {flip: alternating}, rotate: 5, translate: [1, 2], resized_crop: {scale: 0.5, ratio: 2}, cutout: 3, jitter: {brightness: 0.1}], mixup: 0.5, threads: 0, ahead: 1}
model: {name: mlp, hidden: [3, 2], dropout: 0.5, init: a.safetensors, save: true}
loss: {name: cross_entropy, label_smoothing: 0.1}
train: {epochs: 2, batch_size: 6, test_batch_size: 7, replicas: 3, accumulate: 2, workers: 1, seed: 4,
  device: ref, hash_every: 5, dry_run: true}
optimizer: {name: adam, lr: 0.1, betas: [0.9, 0.99], eps: 1e-8, weight_decay: 0.1}
schedule: {name: cosine, warmup_steps: 3, begin: 3, final_lr: 0.01, length: 4, per_step: true}
validation: {fraction: 0.1, patience: 2, every_epochs: 1}
checkpoint: {path: out, every_steps: 1, every_epochs: 0, keep: 1, resume: true}
log: {interval: 1, format: json, quiet: true, record: run.json}
""")

write("config", "more_layers", """data: {name: shapes, path: /data/shapes, classes: 300}
model:
  layers:
    - conv2d: {filters: 4, kernel: 3, padding: 1, bias: false, weight_init: xavier_uniform, weight_gain: 1.4, name: a}
    - gelu: {form: tanh}
    - concat: {with: a}
    - conv2d: {filters: 16, kernel: [1, 3], groups: 8, dilation: [1, 2], name: b}
    - leaky_relu: {slope: 0.2}
    - silu
    - mul: {with: b}
    - tanh: {from: a}
    - scale: {factor: 0.5}
    - sigmoid
    - softplus
    - avg_pool: {kernel: 2, exclude_padding: true}
    - layer_norm: {dims: 3, affine: false}
    - flatten
    - dense: {units: 1, weight_init: identity, bias_init: constant, bias_value: -1}
loss: {name: mse}
""")
write("config", "blocks", """data: {name: dummy, shape: [8, 8, 3]}
model:
  blocks:
    conv: [conv2d: {name: conv, filters: $n, kernel: [$k, 3], padding: 1}, $then]
    two: [{block: conv, name: a.0, repeat: 2, with: {n: $n, k: 3, then: relu}}, add: {with: a.0.conv}, add: {with: input}]
  layers: [{block: two, name: x, with: {n: 3}}, flatten, dense: 1000]
""")
write("config", "every_other", """data: {mean: 0.5, seed: 18446744073709551615}
model: {name: mlp, hidden: 5, save: false}
train: {steps: 9, ema: 0.99, ema_evaluate: false, not_finite: skip}
optimizer: {name: adamp, lr: 1.2e-38, decay_of: weights, nesterov: true, delta: 0.2, wd_ratio: 0.3, clip_value: 1, clip_norm: 2.5,
  groups: [{match: "*.bias", lr: 0.1, weight_decay: 0}]}
schedule: {name: reduce_on_plateau, factor: 0.5, patience: 3, threshold: 1e-3, min_lr: 1e-6}
validation: {samples: 10, shuffle: true, patience: 1000000, restore_best: false, every_epochs: 2, flip: true}
checkpoint: {path: out, resume: true, accept_changes: true}
log: {format: csv, verbose: true, record: run.json}
""")
write("config", "too_small", "model: {name: mlp}\noptimizer: {name: rmsprop, alpha: 0.9, centered: true, eps: 1e-39}\n")
write("config", "one_cycle", "model: {name: mnist_cnn}\noptimizer: {name: adadelta, rho: 0.8}\n"
      "schedule: {name: one_cycle, rise: 0.2, start_div: 10, final_div: 1e4, warmup_steps: 2}\n")
write("config", "multi_step", "model: {name: mlp}\noptimizer: {momentum: 0.9, dampening: 0.1}\n"
      "schedule: {name: multi_step, milestones: [1, 3], gamma: 0.3}\n")

write("config", "deep", "model.layers: " + "[" * 31 + "]" * 31 + "\n")
write("config", "less_deep", "model.layers: " + "[" * 30 + "]" * 30 + "\n")

write("config", "nulls", "data: {name: ~}\nmodel: {name: mlp}\ntrain: {batch_size: }\n"
      "optimizer:\n  name:\nschedule: {name: null}\n")

write("yaml", "flow", "{a: [1, 2.5, true, null, 'text', \"q\\n\"], b: {c: ~}}")
write("yaml", "block", "a:\n  - 1\n  - - 2\n    - 3\nb: |\n  lines\n  of text\nc: >-\n  folded\n  text\n")
write("yaml", "merge", "x: &x {a: 1}\ny: &y {b: 2}\nz: {<<: [*x, *y], a: 3}\n")
write("yaml", "alias", "- &a [1, 2]\n- *a\n- *a\n")
write("yaml", "bomb", "- &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"- &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdef", "bcdefg")))
write("yaml", "deep", "[" * 40)
write("yaml", "deep_by_aliases", "- &a0 [1]\n" + "".join(f"- &a{i} [*a{i - 1}]\n" for i in range(1, 40)))
write("yaml", "deepest", "[" * 32 + "]" * 32)
write("yaml", "tags", "a: !!str 1\nb: !!int 2\nc: !other 3\n")
write("yaml", "twice", "a: 1\na: 2\n")
write("yaml", "documents", "a: 1\n---\nb: 2\n")
write("yaml", "empty", "")
write("yaml", "wide", "\ufeffa: \u00fc\n".encode("utf-16"))
write("yaml", "bad_bytes", b"a: \xff\xfe\n")

for name, words in {
    "train": ["train", "c.yaml", "--lr", "0.1", "--epochs=3", "--workers", "2", "--resume", "--out", "a b"],
    "set": ["train", "--set", "optimizer.lr=0.1", "c.yaml", "--set", "model.layers=[flatten, dense: 10]"],
    "verify": ["verify", "c.yaml", "--workers", "1,2,3"],
    "predict": ["predict", "c.yaml", "--init", "w.safetensors", "--images", "x", "--count", "3"],
    "help": ["help", "train"], "help_option": ["info", "--help"], "nothing": [""],
    "data": ["data", "digits", "--out", "it's", "--seed", "1"],
    "compare": ["compare", "a", "b"], "version": ["--version"], "unknown": ["trian", "c.yaml"],
    "unknown_option": ["train", "c.yaml", "--epoch", "1"], "no_value": ["train", "c.yaml", "--lr"],
    "ambiguous": ["train", "--s", "1"], "value": ["train", "c.yaml", "--resume=yes"],
    "end": ["compare", "--", "--a", "-b"],
    "accept": ["train", "c.yaml", "--out", "a", "--resume", "--accept-changes", "--verbose", "--format", "csv"],
    "table": ["predict", "c.yaml", "--out", "a", "--best", "--probabilities", "--outputs", "--format=csv"],
    "last": ["eval", "c.yaml", "--out", "a", "--last", "--format", "json"], "empty": ["train", "c.yaml", "--out", ""],
    "record": ["train", "c.yaml", "--record", "r.json", "--save-model", "--dry-run", "--set", "validation.patience=3"],
    "report": ["report", "a.json", "b.json", "--out", "c.html"], "manual": ["--help-as", "man"], "op": ["op", "relu in=2x3", "--workers", "2"],
    "bench": ["bench", "c.yaml", "--steps", "3"], "doctor": ["doctor", "--format", "json", "--data", "d"],
}.items():
    write("options", name, "\n".join(words))

for name, line in {
    "conv": "conv2d filters=32 kernel=3x3 stride=2 padding=1 no_bias in=8x28x28x1",
    "dense": "dense units=10 weight_init=uniform:0.5 in=64x784", "bytes": "normalize mean=0.1 std=0.2 in=2x3x3x1:u8",
    "add": "add in=4x5x5x3 with=5x5x3", "pool": "max_pool kernel=2 in=1x4x4x2", "relu": "relu in=2x3",
    "fan": "conv2d filters=2 kernel=1 weight_init=kaiming_normal:fan_out in=1x2x2x1", "drop": "dropout probability=0.5 in=2x9",
    "nothing": "", "no_in": "dense units=3", "loss": "cross_entropy label_smoothing=0.1 in=4x10",
    "layer_norm": "layer_norm dims=2 affine=false in=2x3x4", "gelu": "gelu form=tanh in=2x3", "leaky": "leaky_relu slope=0.2 in=2x3",
    "scale": "scale factor=-1.5e-3 in=2x3", "mul": "mul in=4x5x5x3 with=3", "concat": "concat in=4x5x5x3 with=5x5x2",
    "mse": "mse in=4x10", "depthwise": "conv2d filters=6 kernel=3x1 groups=3 dilation=2x1 padding=2x0 weight_init=xavier_normal:0.5 in=1x9x9x3",
    "average": "avg_pool kernel=3 stride=2 padding=1 exclude_padding in=1x8x8x2", "identity": "dense units=3 weight_init=identity bias_init=constant:0.25 in=2x3",
    "norm": "batch_norm epsilon=1e-3 in=2x3x3x4", "wrong": "dense units=0 in=1x1", "huge": "dense units=9223372036854775807 in=2147483647x2147483647",
}.items():
    write("line", name, line)

for name, text in {
    "seed": "# toy\nNUM_ITERATIONS=300\nBATCH_SIZE=1\nNUM_CLASSES=3\nCONV=16,3,1,1\nCONV=32,3,1,1\nFC=512 # units\nFC=-1\n",
    "json": '{"network": {"num_classes": 3, "bias": true}, "conv_layers": [{"out_channels": 4, "kernel_size": 3}], "fc_layers": [{"out_features": -1}]}',
    "twice": "FC=-1\nBIAS=1\nBIAS=0\n", "short": "CONV=1,2\nFC=-1", "long": "CONV=1,2,3,4,5\n", "no_value": "FC=\n", "no_key": "=3\n", "nothing": "",
    "large": "NUM_ITERATIONS=99999999999999999999\nFC=9\n", "nested": '{"network": {"num_classes": {}}, "fc_layers": {}}',
}.items():
    write("yaml", f"network_{name}", text)

EPOCH = {"epoch": 1, "train_loss": 0.5, "test_loss": 0.25, "test_correct": 9, "test_samples": 10, "train_samples": 60,
         "seconds": 0.1}
RUN = {"version": "0.1.0", "device": "cpu", "workers": 2, "replicas": 4, "global_batch": 15, "finished": True,
       "seconds": 2.5, "config": {"data": {"name": "digits", "samples": 60}, "optimizer": {"name": "sgd", "lr": 0.1}},
       "epochs": [EPOCH, {**EPOCH, "epoch": 2, "train_loss": 1e-9}], "hash": "0123456789abcdef"}
RUNS = [json.dumps({**RUN, **change}) for change in (
    {}, {"config": {"optimizer": {"name": "<script>alert('&\"')</script>", "lr": 1}}, "hash": "<b>"},
    {"epochs": [{**EPOCH, "train_loss": None, "test_loss": 1e300}, {**EPOCH, "epoch": 3, "test_loss": -5}], "seconds": -1},
    {"epochs": [], "config": {}}, {"workers": "two", "epochs": [{}], "finished": None},
    {"numerics": 2, "steps": 8, "config": {"data": {"name": "shapes"}, "loss": {"name": "mse"}, "optimizer": {
        "name": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0, "eps": 1e-8, "groups": [{"match": "*.bias"}]}},
     "epochs": [{**EPOCH, "valid_loss": 0.5, "valid_correct": 3, "valid_samples": 6}]},
    {"steps": 8, "links": [{"step": 4, "link": "00000000000000aa"}, {"step": 8, "link": "00000000000000ab"}],
     "epochs": [{**EPOCH, "valid_loss": 0.5, "valid_correct": 3, "valid_samples": 6},
                {**EPOCH, "epoch": 2, "valid_loss": None, "valid_correct": 9, "valid_samples": 6}]})]
for i, text in enumerate(RUNS):
    write("report", f"one_{i}", text)
write("report", "three", "\x1e".join(RUNS[:3]))
write("report", "not_json", "{")

def two(kind, a, b):
    return bytes([kind]) + b"\x1e".join(t if isinstance(t, bytes) else t.encode() for t in (a, b))


LINKS = {"steps": 8, "links": [{"step": 4, "link": "00000000000000aa"}, {"step": 8, "link": "00000000000000ab"}]}
for name, other in {
    "same": {}, "hash": {"hash": "0123456789abcdee"}, "steps": {"steps": 9}, "setting": {"config": {"optimizer": {"lr": 0.2}, "x\x1b": {}}},
    "link": {"links": [{"step": 4, "link": "00000000000000ac"}]}, "facts": {"numerics": 2, "workers": 4, "version": "0.2.0\x1b[2J"},
    "epoch": {"epochs": [{**EPOCH, "valid_loss": 0.125, "train_loss": None}, {**EPOCH, "epoch": 2}]},
    "twice": {"epochs": [EPOCH, EPOCH]},
}.items():
    write("compare", f"record_{name}", two(0, json.dumps({**RUN, **LINKS}), json.dumps({**RUN, **LINKS, **other})))
write("compare", "record_none", two(0, "{}", json.dumps(RUN)))

CONFIGS = ["data: {name: digits}\nmodel: {name: mlp, hidden: [3]}\ntrain: {batch_size: 6, epochs: 2}\nschedule: {name: cosine}\n",
           json.dumps({"data": {"name": "digits", "mean": 0.1}, "model": {"name": "net", "layers": ["flatten", {"dense": 10}]},
                       "optimizer": {"name": "adam", "groups": [{"match": "*.bias", "lr": 0.1}]}})]
for name, other in {
    "same": {}, "config": {"config": json.dumps({"model": {"name": "mlp"}, "train": {"seed": 1}})}, "plateau": {"plateau": {"lr": 1.5, "best": 0.5, "bad": 1}},
    "best": {"best_loss": 0.5, "best_step": 4, "bad_epochs": 3}, "history": {"history": []}, "numerics": {"numerics": 2, "skipped_steps": 1},
    "circumstance": {"fingerprint": "neon\x1b", "build": "b", "so_far_seconds": 9, "finished": False}, "seed": {"seed": "00000000000000ff"},
}.items():
    base = record(config=json.dumps({"model": {"name": "mlp"}}))[1:]
    write("compare", f"checkpoint_{name}", two(1, base, record(**{"config": json.dumps({"model": {"name": "mlp"}}), **other})[1:]))
for name, (a, b) in {
    "same": (CONFIGS[0], CONFIGS[0]), "other": (CONFIGS[0], CONFIGS[1]), "accepted": (CONFIGS[1], CONFIGS[0] + "checkpoint.accept_changes: true\n"),
    "longer": (CONFIGS[0], CONFIGS[0].replace("epochs: 2", "epochs: 3")),
    "plateau": ("model.name: mlp\nschedule.name: reduce_on_plateau\n", "model.name: mlp\nschedule.name: reduce_on_plateau\noptimizer.lr: 0.5\n"),
    "long": ("model.name: mlp\n", f"model: {{name: mlp, init: {'ä' * 50}}}\ndata.path: /{'ä€' * 40}\n"),
    "wrong": ("model: {name: mlp}\noptimiser: {lr: 1}\n", "model.name: mlp\n"),
}.items():
    write("compare", f"config_{name}", two(2, a, b))

for name, number in {"half": 0.5, "tenth": 0.1, "third": 1 / 3, "zero": -0.0, "least": 5e-324, "denormal": 2.225073858507201e-308, "largest": 1.7976931348623157e308,
                     "whole": 60000.0, "nan": float("nan"), "infinite": float("-inf"), "e22": 1e22, "digits15": 123456789012345.0}.items():
    for state in (0, 5):
        write("text", f"double_{name}_{state}", bytes([0, state]) + struct.pack("<d", number))
for name, number in {"tenth": 0.1, "least": 1e-45, "denormal": 1.1754942e-38, "largest": 3.4028235e38, "nan": float("nan"), "nine": 16777217.5}.items():
    write("text", f"float_{name}", bytes([1, 6]) + struct.pack("<f", number))
for name, text in {"int": "-12", "plus": "+007", "largest": "9223372036854775807", "least": "-9223372036854775808", "over": "9223372036854775808",
                   "real": "1.5e-3", "point": ".5", "points": "1.2.3", "power": "1e+", "huge": "1e309", "tiny": "1e-400", "hex": "0x10", "inf": "inf",
                   "comma": "0,5", "space": " 1", "sign": "-", "end": "1.", "exact": "9007199254740993", "long": "0." + "3" * 60,
                   "halfway": "2.2250738585072011e-308"}.items():
    write("text", f"number_{name}", bytes([2, 0]) + text.encode())
for name, text in {"plain": b"some words, some more words", "utf8": "grün € 𝄞 ﷐ ￾".encode(), "wrong": b"a\xffb\xc3(\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf",
                   "control": b"a\x1b[2J\x7f\xc2\x9b\n", "bidi": "\u202eabc\u2066".encode(), "cut": "ä".encode()[:1], "gaps": b"  a   b  "}.items():
    for state in (4, 200):
        write("text", f"clean_{name}_{state}", bytes([3, state]) + text)

for name, numbers in {"plain": [0.5, -1, 2, 3, 0.1, 1e-5], "ties": [0], "large": [3e38, 3e38, -3e38, 3e38], "small": [1e-45, 1e-38, 1e-40],
                      "nan": [float("nan")], "far": [1000, 0, -1000, 0, 1e4]}.items():
    for logs in (0, 1):
        floats = [numbers[i % len(numbers)] for i in range(15)]
        write("predict", f"{name}_{logs}", bytes([len(numbers), 3, logs]) + struct.pack("<15f", *floats) + bytes([255, 0, 255, 255, 7, 100, 1, 2]))

write("png", "grey", bytes([1, 2, 0, 7]) + bytes(range(0, 240, 40)))
write("png", "colour", bytes([3, 3, 1, 9]) + bytes(range(48)))
write("png", "one", bytes([0, 0, 0, 0, 128]))
write("png", "wide", bytes([0, 31, 1, 255]) + bytes(range(96)))


def frame(kind, body, sealed=True, version=1):
    tag = 16 if sealed else 0
    return struct.pack(">2sBBI", b"LK", version, kind, len(body) + tag) + body


def text(words):
    return struct.pack(">H", len(words)) + words


def numbers(*values):
    return struct.pack(f">{len(values)}i", *values)


JOIN = text(b"456") + text(b"0.1.0") + text(b"node1") + text(b"openmpi") + numbers(-1, 2, 2, 77)
START = numbers(0) + text(b"orted") + struct.pack(">H", 3) + text(b"-mca") + text(b"") + text(b"env")
write("wire", "hello", frame(1, bytes(range(32)), sealed=False))
write("wire", "challenge", frame(2, bytes(64), sealed=False))
write("wire", "prove", frame(3, bytes(32), sealed=False))
write("wire", "join", frame(4, JOIN))
write("wire", "welcome", frame(5, numbers(1, 2, 2, 4)))
write("wire", "refuse", frame(6, b"\1" + text(b"another id")))
write("wire", "start", frame(7, START))
write("wire", "said", frame(8, numbers(0) + b"\2" + b"no such file\n"))
write("wire", "ended", frame(9, numbers(0, -9)))
write("wire", "stop", frame(10, numbers(0, 15)))
write("wire", "beat", frame(11, b""))
write("wire", "bye", frame(12, numbers(0)))
write("wire", "other_version", frame(1, bytes(32), sealed=False, version=2))
write("wire", "too_long", frame(7, START)[:4] + b"\xff\xff\xff\xff" + START)
write("wire", "control", frame(4, JOIN.replace(b"node1", b"no\0e1")))
write("wire", "many_words", frame(7, START.replace(b"\0\3", b"\xff\xff")))


def checksum(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)


def record(data):
    head = struct.pack("<Q", len(data))
    return head + checksum(head) + data + checksum(data)


VERSION = record(b"\x09" + bytes(8) + b"\x1a\x0dbrain.Event:2")
SCALAR = b"\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\x80\x3f"
STEPS = b"".join(record(b"\x09" + bytes(8) + bytes([0x10, n]) + SCALAR) for n in (1, 2, 3))
write("events", "steps", VERSION + STEPS)
write("events", "cut", (VERSION + STEPS)[:-3])
write("events", "version", VERSION)
write("events", "later", VERSION + record(b"\x10" + b"\xff" * 9 + b"\x01") + STEPS)
write("events", "no_message", VERSION + record(b"\x0b\x10\x02") + STEPS)
write("events", "other", record(b"\x09" + bytes(8)) + STEPS)
