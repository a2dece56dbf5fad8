#!/usr/bin/env python3
"""Packs pictures by the program and compares with Pillow: every byte within 1 of what it makes of the same files. Ends
with 77, skipped, where Pillow is not there.

  pillow.py PROGRAM [jpeg]     jpeg: the program reads that, too
  pillow.py --jpeg             prints the JPEG file of test_pictures.c as a list for C
"""
import io
import math
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    from PIL import Image, ImageOps, features
except ImportError:
    print("Pillow is not here: skipped")
    sys.exit(77)


def draw(mode, width, height, seed):
    """Waves and noise in every channel, by formula."""
    image = Image.new(mode, (width, height))
    bands = len(image.getbands())
    state, data = seed * 2654435761 % 2**32, bytearray()
    for y in range(height):
        for x in range(width):
            for c in range(bands):
                state = (state * 1664525 + 1013904223) % 2**32
                data.append(int(127 + 90 * math.sin((x * (c + 1) + y * seed) / 9) + (state >> 24) / 8))
    return Image.frombytes(mode, (width, height), bytes(data))


def packed(path):
    data = path.read_bytes()
    _, height, width, channels, _, first, second, names, _, _ = struct.unpack_from("<8s4I5Q", data)
    count = first + second
    at = (64 + names + 7) // 8 * 8
    at = (at + 4 * count + 7) // 8 * 8 + 8 * count
    at = (at + 63) // 64 * 64
    size = height * width * channels
    return [data[at + i * size:at + (i + 1) * size] for i in range(count)]


def make(folder, jpeg):
    files = []
    for number, (mode, name, options) in enumerate([
            ("RGB", "a.png", {}), ("L", "b.png", {}), ("RGBA", "c.png", {}), ("LA", "d.png", {}),
            ("P", "e.png", {}), ("RGB", "f.png", {"interlace": 1})] + [
            ("RGB", "g.jpg", {"quality": 90}), ("L", "h.jpg", {"quality": 75}),
            ("RGB", "i.jpg", {"quality": 60, "subsampling": 0, "progressive": True}),
            ("RGB", "j.jpg", {"quality": 85, "subsampling": 1}),
            ("CMYK", "k.jpg", {"quality": 90})] * jpeg):
        image = draw("RGB" if mode == "P" else mode, 90 + 31 * number, 300 - 17 * number, number + 1)
        if mode == "P":
            image = image.quantize(40)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        image.save(folder / name, **options)
        files.append(folder / name)
    for orientation in range(1, 9 * jpeg):
        exif = Image.Exif()
        exif[274] = orientation
        name = folder / f"turned{orientation}.jpg"
        draw("RGB", 50 + orientation, 31, orientation).save(name, quality=90, exif=exif)
        files.append(name)
    return files


def compare(program, home, jpeg):
    worst = 0
    files = sorted(make(home / "p" / "one", jpeg)) + sorted(make(home / "p" / "two", False))
    for width, height in ((64, 64), (17, 200), (400, 3), (1, 1)):
        out = home / f"{width}x{height}"
        subprocess.run([program, "data", "pack", home / "p", "--size", f"{width}x{height}", "--out", out],
                       check=True, stdout=subprocess.DEVNULL)
        for file, found in zip(files, packed(out / "pictures.packed"), strict=True):
            image = ImageOps.exif_transpose(Image.open(file)).convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
            most = max(abs(a - b) for a, b in zip(image.tobytes(), found, strict=True))
            if most > 1:
                sys.exit(f"{file.name} as {width}x{height}: a byte is {most} from Pillow's")
            worst = max(worst, most)
    print(f"{len(files)} pictures in four sizes: at most {worst} from Pillow's")


if sys.argv[1] == "--jpeg":
    stream = io.BytesIO()
    draw("RGB", 21, 19, 5).save(stream, "JPEG", quality=80)
    data = stream.getvalue()
    for at in range(0, len(data), 18):
        print(" ".join(f"{byte}," for byte in data[at:at + 18]))
else:
    with tempfile.TemporaryDirectory() as folder:
        compare(sys.argv[1], Path(folder), "jpeg" in sys.argv[2:] and features.check("jpg"))
