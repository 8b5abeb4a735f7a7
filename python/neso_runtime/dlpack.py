"""DLPack without a third-party module: capsules made and read through ctypes.

numpy's own export refuses read-only arrays and knows no bfloat16, and its
import knows no capsules, so that one small exporter and importer serve all.
"""

from __future__ import annotations

import ctypes
from typing import Any, Union

import numpy as np

from .datatypes import BF16, BOOL, DTYPES
from .errors import TritonModelException
from .gpu import cuda

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6
_KINDS = {"i": _INT, "u": _UINT, "f": _FLOAT, "b": _BOOL}


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


def _api(name: str, result: Any, *arguments: Any) -> Any:
    # Prototypes of our own: ctypes.pythonapi's functions are shared with every other module of the process.
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new = _api("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_is_valid = _api("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_set_name = _api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)

# A capsule keeps the pointer of its name, not a copy.
_NAME, _USED = b"dltensor", b"used_dltensor"
_VNAME, _VUSED = b"dltensor_versioned", b"used_dltensor_versioned"

# What lives as long as an exported capsule's consumer, by the address of its managed tensor.
_exported: dict[int, Any] = {}


def _release(address: int) -> None:
    _exported.pop(address, None)


def _drop(capsule: int) -> None:
    """The capsule dies; if nobody took its tensor, so does that."""
    if _is_valid(capsule, _NAME):
        _release(_pointer(capsule, _NAME))


_release_callback = _Deleter(_release)
_drop_callback = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_drop)


def export(array: np.ndarray, number: int) -> Any:
    """A capsule over a contiguous array; number is its datatype (BF16 comes as uint16)."""
    return export_memory(array.ctypes.data, CPU, 0, array.shape, number, array)


def export_device(memory: cuda.Memory, shape: tuple[int, ...], number: int) -> Any:
    """A capsule over memory of a GPU."""
    return export_memory(memory.address, memory.kind, memory.device, shape, number, memory)


def export_memory(address: int, kind: int, device: int, sizes: tuple[int, ...], number: int, owner: Any) -> Any:
    """A capsule over memory in C order on a device of that kind; owner lives as long as the memory is used."""
    dtype: Any = np.dtype(np.uint16) if number == BF16 else DTYPES[number]
    ndim = len(sizes)
    code = _BFLOAT if number == BF16 else _KINDS[dtype.kind]
    shape = (ctypes.c_int64 * max(ndim, 1))(*sizes)
    strides = (ctypes.c_int64 * max(ndim, 1))()
    step = 1
    for axis in range(ndim - 1, -1, -1):
        strides[axis] = step
        step *= sizes[axis]
    managed = _Managed()
    tensor = managed.tensor
    tensor.data = address
    tensor.device = _Device(kind, device)
    tensor.ndim = ndim
    tensor.dtype = _DType(code, dtype.itemsize * 8, 1)
    # Not by ctypes.cast, which leaves a circle for the garbage collector.
    tensor.shape = shape
    tensor.strides = strides
    managed.deleter = ctypes.cast(_release_callback, ctypes.c_void_p)
    at = ctypes.addressof(managed)
    _exported[at] = (managed, shape, strides, owner)
    return _new(at, _NAME, ctypes.cast(_drop_callback, ctypes.c_void_p))


class _Owner:
    """Calls the producer's deleter when the last view is gone."""

    def __init__(self, address: int, deleter: Any) -> None:
        self._address, self._deleter = address, deleter

    def __del__(self) -> None:
        if self._deleter:
            _Deleter(self._deleter)(self._address)


def _is_capsule(value: Any) -> bool:
    return type(value).__name__ == "PyCapsule"


# What a capsule holds: an array over host memory, or memory of a GPU and its shape; and the datatype.
Loaded = tuple[Union[np.ndarray, tuple[cuda.Memory, tuple[int, ...]]], int]


def load(source: Any) -> Loaded:
    """What a capsule, or an object that gives capsules, holds. The memory is shared."""
    if not _is_capsule(source):
        if not (hasattr(source, "__dlpack__") and hasattr(source, "__dlpack_device__")):
            raise TritonModelException(
                "Provided tensor is not supported. Tensor must be a DLPack capsule or have `__dlpack__` and "
                "`__dlpack_device__` attributes"
            )
        device = int(source.__dlpack_device__()[0])
        if device not in (CPU, CUDA, CUDA_HOST, CUDA_MANAGED):
            raise TritonModelException(f"DLDevice type {device} is not support by Python backend.")
        # On a GPU the data is asked for in the order of the legacy default stream, which is 1.
        source = source.__dlpack__() if device in (CPU, CUDA_HOST) else source.__dlpack__(stream=1)
    return _load_capsule(source)


def _load_capsule(capsule: Any) -> Loaded:
    identity = id(capsule)
    if _is_valid(identity, _NAME):
        address = _pointer(identity, _NAME)
        managed: Any = _Managed.from_address(address)
        used = _USED
    elif _is_valid(identity, _VNAME):
        address = _pointer(identity, _VNAME)
        managed = _Versioned.from_address(address)
        used = _VUSED
        if managed.major != 1:
            raise TritonModelException(f"DLPack version {managed.major}.{managed.minor} is not supported.")
    else:
        raise TritonModelException("The DLPack capsule holds no tensor, or it was already used.")
    tensor = managed.tensor
    number = _check(tensor)
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    count = 1
    for size in shape:
        count *= size
    dtype: Any = np.dtype(np.uint16) if number == BF16 else DTYPES[number]
    start = (tensor.data or 0) + tensor.byte_offset
    _set_name(capsule, used)
    owner = _Owner(address, managed.deleter)
    if tensor.device.type in (CUDA, CUDA_MANAGED):
        size = count * dtype.itemsize
        return (cuda.Memory(start, size, tensor.device.type, tensor.device.id, owner), shape), number
    if count == 0:
        return np.empty(shape, dtype), number
    memory: Any = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(start)
    memory.owner = owner
    return np.ndarray(shape, dtype, memory), number


def _check(tensor: Any) -> int:
    """The datatype of a tensor in C order and with one lane; an exception for any other."""
    if tensor.device.type not in (CPU, CUDA, CUDA_HOST, CUDA_MANAGED):
        raise TritonModelException(f"DLDevice type {tensor.device.type} is not support by Python backend.")
    if tensor.strides:
        expected = 1
        for axis in range(tensor.ndim - 1, -1, -1):
            size = tensor.shape[axis]
            if size == 0:
                break
            if size != 1 and tensor.strides[axis] != expected:
                raise TritonModelException(
                    "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are "
                    "supported."
                )
            expected *= size
    code, bits, lanes = tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes
    if lanes == 1:
        if code == _BFLOAT and bits == 16:
            return BF16
        if code == _BOOL and bits == 8:
            return BOOL
        for number, dtype in enumerate(DTYPES):
            if dtype is not None and dtype.kind in "iuf" and _KINDS[dtype.kind] == code and dtype.itemsize * 8 == bits:
                return number
    raise TritonModelException(f"DLPack datatype (code {code}, {bits} bits, {lanes} lanes) is not supported.")
