"""Prints the scalars of a folder of event files as TensorBoard's own package reads them: a line
"tag step value" for each, sorted. Ends with 77 where the package is not installed."""

import sys

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    sys.exit(77)

all_of_it = {"scalars": 0, "histograms": 0, "tensors": 0, "images": 0}
events = EventAccumulator(sys.argv[1], size_guidance=all_of_it)
events.Reload()
tags = events.Tags()
lines = [f"{tag} {e.step} {e.value:.9g}" for tag in tags["scalars"] for e in events.Scalars(tag)]
for tag in tags["histograms"]:
    for e in events.Histograms(tag):
        h = e.histogram_value
        assert sum(h.bucket) == h.num and len(h.bucket) == len(h.bucket_limit), tag
        lines.append(f"{tag} {e.step} {h.num:.9g} {h.min:.9g} {h.max:.9g}")
for tag in tags["images"]:
    for e in events.Images(tag):
        lines.append(f"{tag} {e.step} {e.height} {e.width} {sum(e.encoded_image_string)}")
config = events.Tensors("configuration")[0].tensor_proto.string_val[0].decode()
assert config.startswith("```yaml\n") and "hash_every: 4" in config
print("\n".join(sorted(lines)))
