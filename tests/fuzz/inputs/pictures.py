"""First inputs of the fuzz target `pictures`, for make_corpus.py."""
import re
import struct
import zlib


def png(width, height, depth, colour, rows, extra=b"", interlaced=0):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))
            + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def packed(counts=(2, 1), names=b"a\0b\0", labels=(0, 1, -1), size=2, magic=b"LKSPICT1", digest=1):
    data = struct.pack("<8s4I5Q", magic, size, size, 3, 2, *counts, len(names), digest, 0)
    data += names + bytes(-len(names) % 8)
    data += struct.pack(f"<{len(labels)}i", *labels) + bytes(-4 * len(labels) % 8)
    data += bytes(8 * sum(counts))
    return b"\1" + data + bytes(-len(data) % 64) + bytes(3 * size * size * sum(counts))


def write_all(write, small_jpeg):
    """`small_jpeg` is C, with the bytes of a file as numbers between braces."""
    jpeg = bytes(int(n) for n in re.findall(r"\d+", re.search(r"\{(.*?)\}", small_jpeg, re.S).group(1)))
    write("pictures", "jpeg", b"\0" + jpeg)
    write("pictures", "jpeg_short", b"\0" + jpeg[:-40])
    write("pictures", "jpeg_huge", b"\0" + jpeg.replace(b"\xff\xc0\0\x11\x08\0\x13\0\x15", b"\xff\xc0\0\x11\x08\xff\xdc\xff\xdc"))
    write("pictures", "jpeg_progressive", b"\0" + jpeg.replace(b"\xff\xc0", b"\xff\xc2"))
    write("pictures", "png_rgb", b"\0" + png(3, 2, 8, 2, b"\1abcdefghi\2abcdefghi"))
    write("pictures", "png_grey", b"\0" + png(9, 2, 1, 0, b"\0ab\0cd"))
    write("pictures", "png_palette", b"\0" + png(2, 1, 8, 3, b"\0\1\2"))
    write("pictures", "png_interlaced", b"\0" + png(2, 2, 16, 6, b"\0abcdefgh" * 3 + b"ijklmnop", interlaced=1))
    write("pictures", "png_huge", b"\0" + png(65000, 65000, 8, 0, b"\0"))
    write("pictures", "png_short", b"\0" + png(3, 2, 8, 2, b"\1abcdefghi"))
    write("pictures", "gif", b"\0GIF89a")
    write("pictures", "packed", packed())
    write("pictures", "packed_unfinished", packed(digest=0))
    write("pictures", "packed_label", packed(labels=(0, 2, 1)))
    write("pictures", "packed_names", packed(names=b"a\0b"))
    write("pictures", "packed_magic", packed(magic=b"LKSPICT0"))
    write("pictures", "packed_short", packed()[:-1])
    write("pictures", "packed_many", b"\1" + struct.pack("<8s4I5Q", b"LKSPICT1", 2048, 2048, 3, 1, 2**40, 2**40, 2**40, 1, 0))
    write("pictures", "table", b"\2file,class\na.png,x\r\nb.png,\"y, \"\"z\"\"\"\nc.png,10\nd.png,9,more")
    write("pictures", "table_empty", b"\2")
    write("pictures", "table_quote", b"\2a,\"b\nc,d")
    write("pictures", "table_column", b"\2a,b\nc\n")
    write("pictures", "table_zero", b"\2a,b\0\n")
    write("pictures", "table_tabs", b"\3val_0.JPEG\tn1\t0\t1\nval_1.JPEG\tn2\t0\t1\n")
