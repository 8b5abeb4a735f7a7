"""Writes bcryptprimitives.dll for a Wine that has none: ProcessPrng is forwarded to the generator of advapi32.

Both take a buffer and its length, and return something that is not 0. A forward is text in the table of exports: the library needs no code,
and no compiler.
"""

import struct
import sys

BASE, ALIGN, FILE_ALIGN = 0x180000000, 0x1000, 0x200
NAME, EXPORT, TARGET = b"bcryptprimitives.dll\0", b"ProcessPrng\0", b"advapi32.SystemFunction036\0"


def section() -> bytes:
    """The directory of exports at the address ALIGN, the texts behind it."""
    functions = ALIGN + 40
    names, ordinals, texts = functions + 4, functions + 8, functions + 12
    name, export, target = texts, texts + len(NAME), texts + len(NAME) + len(EXPORT)
    directory = struct.pack("<IIHHIIIIIII", 0, 0, 0, 0, name, 1, 1, 1, functions, names, ordinals)
    return directory + struct.pack("<IIHxx", target, export, 0) + NAME + EXPORT + TARGET


def library() -> bytes:
    body = section()
    size = (len(body) + FILE_ALIGN - 1) // FILE_ALIGN * FILE_ALIGN
    dos = b"MZ" + bytes(58) + struct.pack("<I", 64)
    file = b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, 240, 0x2022)  # a library for 64 bits
    optional = struct.pack("<HBBIIIII", 0x20B, 14, 0, 0, size, 0, 0, ALIGN)
    optional += struct.pack(
        "<QIIHHHHHHIIIIHH", BASE, ALIGN, FILE_ALIGN, 6, 0, 0, 0, 6, 0, 0, 2 * ALIGN, FILE_ALIGN, 0, 3, 0x160
    )
    optional += struct.pack("<QQQQII", 1 << 20, 4096, 1 << 20, 4096, 0, 16)
    optional += struct.pack("<II", ALIGN, len(body)) + bytes(15 * 8)
    header = struct.pack("<8sIIIIIIHHI", b".rdata", len(body), ALIGN, size, FILE_ALIGN, 0, 0, 0, 0, 0x40000040)
    head = dos + file + optional + header
    return head.ljust(FILE_ALIGN, b"\0") + body.ljust(size, b"\0")


if __name__ == "__main__":
    with open(sys.argv[1], "wb") as f:
        f.write(library())
