"""Tensors of programs: flat lists of JSON values, to bytes and back. BYTES elements are text, a character a byte."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

DTYPES = {
    "BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
    "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "FP16": np.float16,
    "FP32": np.float32, "FP64": np.float64,
}  # fmt: skip


def to_bytes(datatype: str, data: list[Any]) -> bytes:
    if datatype == "BYTES":
        return b"".join(struct.pack("<I", len(v)) + v.encode("latin-1") for v in data)
    if datatype == "BF16":
        return (np.array(data, np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return np.array(data, DTYPES.get(datatype, np.float32)).tobytes()


def from_bytes(datatype: str, raw: bytes) -> list[Any]:
    if datatype == "BYTES":
        values = []
        at = 0
        while at + 4 <= len(raw):
            (size,) = struct.unpack_from("<I", raw, at)
            values.append(raw[at + 4 : at + 4 + size].decode("latin-1"))
            at += 4 + size
        return values
    if datatype == "BF16":
        return (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32).tolist()
    return np.frombuffer(raw, DTYPES[datatype]).tolist()
