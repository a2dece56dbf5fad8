"""Arrays of NumPy and archives of them, good and bad."""

import io
import struct
import zipfile


def npy(descr, shape, data, fortran=False, version=1):
    head = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    return (b"\x93NUMPY" + bytes([version, 0]) + len(head).to_bytes(2 if version == 1 else 4, "little") + head + data)


def npz(method, **arrays):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in arrays.items():
            with archive.open(zipfile.ZipInfo(name + ".npy"), "w", force_zip64=method == 0) as member:
                member.write(data)
    return out.getvalue()


def write_all(write):
    pixels, classes = npy("|u1", (3, 2, 2), bytes(range(12))), npy("<i8", (3,), struct.pack("<3q", 0, 2, 1))
    for name, descr, size in [("u1", "|u1", 1), ("i2", ">i2", 2), ("f4", "<f4", 4), ("f8", ">f8", 8), ("f2", "<f2", 2), ("b1", "|b1", 1)]:
        write("npy", name, b"\0" + npy(descr, (2, 3), bytes(range(6 * size)), version=1 + size % 3))
        write("npy", "fortran_" + name, b"\1" + npz(zipfile.ZIP_STORED, x=npy(descr, (2, 3, 5, 6), bytes(180 * size), fortran=True), y=npy("|i1", (2, 1), b"\0\1")))
    write("npy", "number", b"\0" + npy("<f8", (), bytes(8)))
    write("npy", "empty", b"\0" + npy("<i4", (0, 7), b""))
    write("npy", "records", b"\0" + npy("<i4", (1,), bytes(4)).replace(b"'<i4'", b"[('a', '<i4')]"))
    write("npy", "huge", b"\0" + npy("<f8", (2**40, 2**40), bytes(8)))
    write("npy", "stored", b"\1" + npz(zipfile.ZIP_STORED, x=pixels, y=classes))
    write("npy", "deflated", b"\1" + npz(zipfile.ZIP_DEFLATED, x_train=pixels, y_train=classes, x_test=pixels, y_test=classes))
    write("npy", "method", b"\1" + npz(zipfile.ZIP_BZIP2, x=pixels, y=classes))
    write("npy", "counts", b"\1" + npz(zipfile.ZIP_STORED, x=pixels, y=npy("<i8", (2,), bytes(16))))
    frames = npy("<f4", (2, 3, 2), bytes(range(48)))
    write("npy", "frames", b"\1" + npz(zipfile.ZIP_STORED, x=frames, y=npy("<i8", (2, 3), struct.pack("<6q", 0, 1, -1, 2, -9, -9)),
                                       lengths=npy("<i4", (2,), struct.pack("<2i", 3, 1))))
    write("npy", "frames_too_long", b"\1" + npz(zipfile.ZIP_STORED, x=frames, y=npy("|i1", (2,), b"\0\1"),
                                                lengths=npy("|u1", (2, 1), b"\3\4")))
    write("npy", "half", b"\1" + npz(zipfile.ZIP_STORED, x=pixels))
    write("npy", "truncated", b"\1" + npz(zipfile.ZIP_STORED, x=pixels, y=classes)[:-30])
