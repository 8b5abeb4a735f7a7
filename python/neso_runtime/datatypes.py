"""Datatypes: numbers of the model configuration, numpy dtypes, names, BYTES elements."""

from __future__ import annotations

from struct import Struct, error
from typing import Any, Optional

import numpy as np

BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, FP32, FP64, BYTES, BF16 = range(1, 15)

# NAMES[n] without TYPE_; the model configuration calls BYTES TYPE_STRING.
NAMES = (
    "INVALID", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
    "FP16", "FP32", "FP64", "STRING", "BF16",
)  # fmt: skip

SIZES = (0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 0, 2)

_TYPES: tuple[Any, ...] = (
    None, np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64,
    np.float16, np.float32, np.float64, np.object_, None,
)  # fmt: skip

# DTYPES[n] is the dtype of datatype n, None for BYTES and BF16, whose bytes are no numpy elements. The hosts this runs
# on are little-endian, as the protocol is; numpy's own objects make the dictionary below hit by identity.
DTYPES = tuple(None if kind in (None, np.object_) else np.dtype(kind) for kind in _TYPES)

TRITON_STRING_TO_NUMPY = {f"TYPE_{name}": kind for name, kind in zip(NAMES, _TYPES) if kind is not None}
TRITON_STRING_TO_NUMPY["TYPE_BOOL"] = bool

_TYPE_OF_NUMBER: dict[Any, Any] = dict(enumerate(_TYPES))
_NUMBER_OF_TYPE = {kind: number for number, kind in enumerate(_TYPES) if kind is not None}
_NUMBER_OF_TYPE[np.bytes_] = BYTES
# numpy has several C types of one width (intc, int_, longlong); dtypes compare equal, scalar types may not.
_NUMBER_OF_DTYPE = {dtype: number for number, dtype in enumerate(DTYPES) if dtype is not None}
_NUMBER_OF_DTYPE[np.dtype(np.object_)] = BYTES

_LENGTH = Struct("<I")


class DatatypeError(ValueError, error):
    """Bytes that are no BYTES elements: struct.error is what Triton raises."""


def number_of(dtype: np.dtype) -> int:
    """The number of an array's datatype, 0 when it has none."""
    number = _NUMBER_OF_DTYPE.get(dtype)
    if number is not None:
        return number
    if dtype.kind in "SU":
        return BYTES
    if dtype.name == "bfloat16" and dtype.itemsize == 2:  # ml_dtypes
        return BF16
    return _NUMBER_OF_DTYPE.get(dtype.newbyteorder("="), 0)  # big-endian arrays


def triton_to_numpy_type(data_type: int) -> Any:
    """The numpy type of a datatype's number, None for an unknown one."""
    return _TYPE_OF_NUMBER.get(data_type)


def numpy_to_triton_type(data_type: Any) -> Optional[int]:
    """The number of a numpy type or dtype, None for an unknown one."""
    if data_type is None:  # numpy's default
        return None
    try:
        number = _NUMBER_OF_TYPE.get(data_type)
    except TypeError:  # not hashable
        return None
    if number is not None:
        return number
    try:
        dtype = np.dtype(data_type)
    except TypeError:
        return None
    return number_of(dtype) or None


def triton_string_to_numpy(triton_type_string: str) -> Any:
    """The numpy type of a configuration name such as TYPE_FP32."""
    return TRITON_STRING_TO_NUMPY[triton_type_string]


def element_bytes(item: Any) -> bytes:
    """One element of a BYTES tensor as bytes: texts in UTF-8, anything else by its str."""
    if type(item) is bytes:
        return item
    if isinstance(item, str):
        return item.encode("utf-8")
    if isinstance(item, (bytes, bytearray, memoryview)):
        return bytes(item)
    return str(item).encode("utf-8")


def pack_elements(array: np.ndarray) -> bytes:
    """A BYTES tensor's data: each element after its length, in C order."""
    pack = _LENGTH.pack
    parts: list[bytes] = []
    add = parts.append
    for item in array.ravel().tolist():
        if type(item) is not bytes:
            item = element_bytes(item)
        add(pack(len(item)))
        add(item)
    return b"".join(parts)


def unpack_elements(data: Any) -> list[bytes]:
    """The elements of a BYTES tensor's data, which they must fill exactly."""
    if type(data) is not bytes:
        # A snapshot: the other side can still write to shared memory.
        data = bytes(data)
    items: list[bytes] = []
    add = items.append
    unpack = _LENGTH.unpack_from
    pos, end = 0, len(data)
    try:
        while pos < end:
            start = pos + 4
            pos = start + unpack(data, pos)[0]
            add(data[start:pos])
    except error:  # less than a length is left
        pass
    if pos > end:
        raise DatatypeError(
            f"BYTES element {len(items) - 1} of {pos - end + len(items[-1])} bytes ends behind the data"
        )
    if pos < end:
        raise DatatypeError(f"{end - pos} bytes after the last of {len(items)} BYTES elements")
    return items


def masked(what: str, array: Any) -> Optional[str]:
    """What to say of an array with masked elements, which have no value to send; None of any other."""
    if not isinstance(array, np.ma.MaskedArray) or not np.ma.is_masked(array):
        return None
    return f"{what} is a masked array, whose masked elements have no value: fill them first, with `array.filled(x)`."


def object_array(items: list[bytes], shape: tuple[int, ...]) -> np.ndarray:
    """An object array of bytes."""
    return np.array(items, dtype=np.object_).reshape(shape)


def serialize_byte_tensor(input_tensor: np.ndarray) -> Any:
    """An array of bytes or texts as a BYTES tensor's data; () when empty, None for another dtype."""
    if input_tensor.size == 0:
        return ()
    if input_tensor.dtype.kind not in "OSU":
        return None
    return pack_elements(input_tensor)


def deserialize_bytes_tensor(encoded_tensor: Any) -> np.ndarray:
    """A flat object array of the elements of a BYTES tensor's data."""
    if isinstance(encoded_tensor, (int, str)):  # which bytes takes, or asks for an encoding
        raise TypeError(f"a bytes-like object is required, not '{type(encoded_tensor).__name__}'")
    items = unpack_elements(encoded_tensor)
    return object_array(items, (len(items),))
