#!/usr/bin/env python3
"""Augmented images as Pillow makes them, which torchvision's transforms of pictures call: tests/augment/golden/pillow.json.

    pip install pillow && python3 tools/goldens/augment.py

Hues are turned by Python's colorsys in double, as Pillow's are bytes. "most" is the largest difference of a byte:
  0  rotation by the nearest pixel, which Pillow computes in the same fixed numbers
  1  bilinear: our weights are cut to 2^-11 on two axes, 2 * 255 / 2048 < 0.25, coordinates differ by less than
     12 * 2^-16 pixels, 0.05 of a value on each axis, we round by 0.5 and Pillow by up to 1: below 2, so at most 1.
     Enlarging: the same, with Pillow's bytes between its two passes rounded once more, 0.5
  1  colours: Pillow cuts what we round; of hues both round, within 2^-8 of each other
"""

import colorsys
import json
from pathlib import Path

import PIL
from PIL import Image, ImageEnhance

ROWS, COLUMNS = 11, 14


def value(r, c, k):
    """The same in tests/augment/test_pillow.c."""
    return (r * 37 + c * 91 + k * 53 + r * c * 7) % 256


PIXELS = bytes(value(r, c, k) for r in range(ROWS) for c in range(COLUMNS) for k in range(3))
IMAGE = Image.frombytes("RGB", (COLUMNS, ROWS), PIXELS)


def turn(pixel, hue):
    h, s, v = colorsys.rgb_to_hsv(*(x / 255 for x in pixel))
    return [int(x * 255 + 0.5) for x in colorsys.hsv_to_rgb((h + hue) % 1, s, v)]


cases = []


def case(what, numbers, most, image):
    cases.append({"what": what, "numbers": numbers, "most": most, "out": bytes(image).hex()})


for degrees in (15, -15, 7.25, -0.5, 33, -120.75, 179):
    case("nearest", [degrees], 0, IMAGE.rotate(degrees, Image.Resampling.NEAREST).tobytes())
    case("bilinear", [degrees], 1, IMAGE.rotate(degrees, Image.Resampling.BILINEAR).tobytes())
for top, left, rows, columns in ((0, 0, 11, 14), (2, 3, 5, 7), (0, 1, 4, 13), (7, 0, 4, 14), (5, 5, 1, 1)):
    box = (left, top, left + columns, top + rows)
    part = IMAGE.crop(box).resize((COLUMNS, ROWS), Image.Resampling.BILINEAR)
    case("resize", [top, left, rows, columns], 1, part.tobytes())
for factor in (0.2, 0.7, 1.3, 1.9):
    for what, enhance in (("brightness", ImageEnhance.Brightness), ("contrast", ImageEnhance.Contrast),
                          ("saturation", ImageEnhance.Color)):
        case(what, [factor], 1, enhance(IMAGE).enhance(factor).tobytes())
for hue in (-0.5, -0.1, 0.03, 0.25, 0.5):
    pixels = [PIXELS[i:i + 3] for i in range(0, len(PIXELS), 3)]
    case("hue", [hue], 1, [x for pixel in pixels for x in turn(pixel, hue)])

lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
path = Path(__file__).parents[2] / "tests" / "augment" / "golden" / "pillow.json"
path.parent.mkdir(exist_ok=True)
path.write_text('{"pillow":"%s","cases":[\n%s\n]}\n' % (PIL.__version__, lines), encoding="utf-8")
