"""Datatypes of the model configuration and their numpy types."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

# Datatype of the model configuration without TYPE_, and numpy type.
NUMPY: dict[str, Any] = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "STRING": np.bytes_,
}
_BY_DTYPE = {np.dtype(v): k for k, v in NUMPY.items() if k != "STRING"}


def triton_type(dtype: Any) -> Optional[str]:
    """TYPE_… of a numpy type, dtype or Python type; None when there is none."""
    try:
        found = np.dtype(dtype) if dtype is not None else None
    except TypeError:
        return None
    if found is None:
        return None
    if found.kind == "O" and isinstance(dtype, type) and dtype not in (object, np.object_):
        return None  # numpy takes any class for objects: np.ndarray, list
    if found.kind in "OSUT":
        return "TYPE_STRING"
    if found.name == "bfloat16":
        return "TYPE_BF16"
    name = _BY_DTYPE.get(found)
    return f"TYPE_{name}" if name else None
