#!/usr/bin/env python3
"""Writes src/data/text/bpe/classes_table.c: which code points are letters, numbers and white space.

  unicode_classes.py src/data/text/bpe/classes_table.c

Letters and numbers are the general categories L* and N* of Unicode 16.0, which the package tokenizers 0.23 has; white
space is the property White_Space, whose 25 characters have not changed since Unicode 6.3. Needs unicodedata2 16.0.0.
"""

import sys

import unicodedata2

VERSION = "16.0.0"
PAGE = 128  # code points
SPACES = [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
OTHER, LETTER, NUMBER, SPACE = range(4)


def class_of(code):
    if code in SPACES:
        return SPACE
    return {"L": LETTER, "N": NUMBER}.get(unicodedata2.category(chr(code))[0], OTHER)


def rows(values, width, form):
    for i in range(0, len(values), width):
        yield "    " + ", ".join(form % v for v in values[i:i + width]) + ","


def main():
    assert unicodedata2.unidata_version == VERSION, unicodedata2.unidata_version
    classes = [class_of(code) for code in range(0x110000)]
    end = max(i for i, c in enumerate(classes) if c != OTHER) // PAGE + 1
    pages, page_of = {}, []
    for i in range(end):
        part = classes[i * PAGE:(i + 1) * PAGE]
        packed = bytes(sum(c << 2 * k for k, c in enumerate(part[j:j + 4])) for j in range(0, PAGE, 4))
        page_of.append(pages.setdefault(packed, len(pages)))
    assert len(pages) <= 256
    lines = [
        f"/* Made by tools/goldens/unicode_classes.py from Unicode {VERSION}. */",
        '#include "data/text/bpe/classes.h"', "", "/* clang-format off */",
        f"const uint8_t lki_class_page[LKI_CLASS_PAGES] = {{", *rows(page_of, 24, "%d"), "};", "",
        f"const uint8_t lki_class_of[{len(pages)}][LKI_CLASS_PAGE / 4] = {{",
        *("    {" + ", ".join("%d" % b for b in page) + "}," for page in pages), "};",
    ]
    with open(sys.argv[1], "w") as file:
        file.write("\n".join(lines) + "\n")
    print(f"{len(pages)} pages, {end} of {PAGE} code points")


main()
