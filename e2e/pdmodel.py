"""A program of PaddlePaddle, which is too large to install for one file."""

from __future__ import annotations


def varint(n):
    made = b""
    while n > 127:
        made, n = made + bytes([n & 127 | 128]), n >> 7
    return made + bytes([n])


def field(number, value):
    """A field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value % (1 << 64))
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def write(path):
    """y = relu(x) of rows of four numbers, without weights."""
    fp32, dense, feed, fetch = 5, 7, 9, 10
    rows = field(1, dense) + field(3, field(1, field(1, fp32) + field(2, -1) + field(2, 4)))

    def variable(name, kind):
        return field(3, field(1, name) + field(2, kind))

    def operator(kind, x, out):
        places = [field(n, field(1, name) + field(2, of)) for n, name, of in ((1, "X", x), (2, "Out", out))]
        column = field(4, field(1, "col") + field(2, 0) + field(3, 0)) if kind != "relu" else b""
        return field(4, b"".join(places) + field(3, kind) + column)

    block = field(1, 0) + field(2, -1)
    block += variable("feed", field(1, feed)) + variable("fetch", field(1, fetch)) + variable("x", rows) + variable("y", rows)  # fmt: skip
    block += operator("feed", "feed", "x") + operator("relu", "x", "y") + operator("fetch", "y", "fetch")
    path.write_bytes(field(1, block) + field(4, field(1, 2004000)))
