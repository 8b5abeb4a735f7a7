"""What ``group_by_values`` needs besides the decorator: keys that tell rows apart, and a padder for their outputs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from .exceptions import PyTritonRuntimeError

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]


def row_key(value: Any) -> Any:
    """What tells whether two rows are equal, and orders them as PyTriton does: the bytes of an array."""
    if not isinstance(value, np.ndarray):
        return value  # of an input without dimensions but the batch
    if value.dtype.kind in "OS":
        items = [item if isinstance(item, bytes) else str(item).encode() for item in value.ravel().tolist()]
        return b"".join(struct.pack("<I", len(item)) + item for item in items)
    return value.tobytes()


def groups(keys: Sequence[Array], rows: int) -> list[list[int]]:
    """The rows with equal values of ``keys``, in the order of those."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for row in range(rows):
        found.setdefault(tuple(row_key(values[row]) for values in keys), []).append(row)
    try:
        return [found[key] for key in sorted(found)]
    except TypeError:  # values that have no order
        return list(found.values())


class ConstantPadder:
    """Brings the arrays of several batches to one shape, filled with a constant."""

    def __init__(self, pad_value: Any = 0) -> None:
        """``pad_value`` fills what is added; a number is no text, for which empty ones do."""
        self.pad_value = pad_value

    def __call__(self, batches_list: Union[list[Arrays], tuple[Arrays, ...]]) -> list[Arrays]:
        """Pads each array to the greatest size of its name, in every dimension but the first."""
        padded: list[Arrays] = [{} for _ in batches_list]
        for name in dict.fromkeys(name for item in batches_list for name in item):
            places = [place for place, item in enumerate(batches_list) if name in item]
            arrays = [batches_list[place][name] for place in places]
            dtype = _common_dtype(arrays)
            sizes = np.max([array.shape[1:] for array in arrays], axis=0)
            fill = self.pad_value
            if dtype.kind in "SUO" and not isinstance(fill, (bytes, str)):
                fill = "" if dtype.kind == "U" else b""
            for place, array in zip(places, arrays):
                out = np.full((array.shape[0], *(int(size) for size in sizes)), fill, dtype=dtype)
                out[tuple(slice(size) for size in array.shape)] = array
                padded[place][name] = out
        return padded


def _common_dtype(arrays: Sequence[Array]) -> np.dtype[Any]:
    kinds = {a.dtype.kind if a.dtype.kind in "SU" else a.dtype for a in arrays}
    if len(kinds) > 1:
        raise PyTritonRuntimeError("All input arrays for given input name must have the same dtype.")
    return max((a.dtype for a in arrays), key=lambda dtype: dtype.itemsize)
