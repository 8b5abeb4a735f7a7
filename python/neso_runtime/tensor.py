"""Tensor: a name, a datatype, a shape and data that is touched only when asked for."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from . import dlpack
from .datatypes import BF16, BYTES, DTYPES, NAMES, masked, number_of, object_array, pack_elements, unpack_elements
from .errors import TritonModelException, as_text
from .gpu import cuda

_ndarray = np.ndarray


class Tensor:
    """One tensor of a request or a response.

    A received one refers to bytes of a frame or of a shared segment
    (``_source``, from ``_start`` on) until ``as_numpy``; one that a model made
    holds its array. Arrays of received tensors may be written to; nobody else
    sees it.
    """

    __slots__ = ("_array", "_name", "_number", "_shape", "_size", "_source", "_start")

    # Of a received one.
    _size: int
    _start: int

    def __init__(self, name: str, data: np.ndarray) -> None:
        if type(name) is not str:
            name = as_text("Tensor name", name)
        try:
            dtype = data.dtype
            number = DTYPE_NUMBERS.get(dtype)
            if data.__class__ is not _ndarray:
                fault = masked(f"Tensor '{name}'", data)
                if fault:
                    raise TritonModelException(fault)
            if not data.flags.c_contiguous:
                data = np.ascontiguousarray(data) if data.ndim else data.copy()
        except (AttributeError, TypeError):
            raise TypeError(f"Tensor data must be a numpy.ndarray, found type '{type(data)}'") from None
        if not name:
            raise TritonModelException("Tensor name cannot be an empty string.")
        if number is None:
            number = number_of(dtype)
            if not number:
                raise TritonModelException(f"NumPy dtype is not supported: tensor '{name}' has dtype '{dtype}'.")
            if number not in (BYTES, BF16):  # the other byte order
                data = data.astype(DTYPES[number])
        if not isinstance(data, _ndarray):  # a numpy scalar
            data = np.asarray(data)
        self._name = name
        self._number = number
        self._shape = data.shape
        self._array: Optional[np.ndarray] = data
        self._source: Any = None

    def name(self) -> str:
        """The name."""
        return self._name

    def shape(self) -> list[int]:
        """The shape."""
        return list(self._shape)

    def triton_dtype(self) -> int:
        """The datatype's number, that of the model configuration's data_type."""
        return self._number

    def is_cpu(self) -> bool:
        """Whether the data lies in host memory; that of a received tensor lies elsewhere only if its model says so."""
        return True

    def as_numpy(self) -> np.ndarray:
        """The data as an array: a view where elements have a fixed size, an object array of bytes for BYTES."""
        array = self._array
        if array is not None and self._number != BF16:
            return array
        number = self._number
        if number == BF16:
            if array is not None and array.dtype != np.uint16:
                return array  # made of a bfloat16 array
            raise TritonModelException(
                "Tensor dtype is BF16 and cannot be converted to NumPy. Use to_dlpack() and from_dlpack() instead."
            )
        start, size, shape = self._start, self._size, self._shape
        if number == BYTES:
            array = object_array(unpack_elements(self._source[start : start + size]), shape)
        else:
            array = self._fixed(DTYPES[number])
        self._array = array
        return array

    def _fixed(self, dtype: Any) -> np.ndarray:
        """What was received as an array of elements of a fixed size."""
        source, start, size, shape = self._source, self._start, self._size, self._shape
        try:
            if type(source) is not _ndarray:
                array: _ndarray = _ndarray(shape, dtype, bytearray(source[start : start + size]))
            else:
                array = _ndarray(shape, dtype, source)
            if array.nbytes == size:
                return array
        except TypeError:  # less than the shape wants
            pass
        raise TritonModelException(
            f"Tensor '{self._name}' of shape {list(shape)} and datatype {NAMES[self._number]} has {size} bytes."
        )

    def _raw(self) -> np.ndarray:
        """The data as an array of fixed-size elements: BF16 as uint16. Not for BYTES."""
        array = self._array
        if self._number != BF16:
            return self.as_numpy()
        if array is None:
            self._array = array = self._fixed(np.uint16)
        return array.view(np.uint16)

    def _payload(self) -> Any:
        """The data as it travels: bytes, or an array of the bytes of a block in shared memory, to be copied."""
        if self._array is None:  # as received: nothing need be made of it
            part = self._source[self._start : self._start + self._size]
            return part if type(part) is _ndarray else bytes(part)
        return pack_elements(self._array) if self._number == BYTES else self._raw().tobytes()

    def to_dlpack(self) -> Any:
        """A DLPack capsule."""
        return self.__dlpack__()

    def __dlpack__(self, stream: Any = None, **_options: Any) -> Any:
        if self._number == BYTES:
            raise TritonModelException("DLPack does not have support for string tensors.")
        array = self._raw()
        if not array.flags.writeable:
            # A consumer may write, and read-only memory would end the process.
            array = array.copy()
        return dlpack.export(array, self._number)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (dlpack.CPU, 0)

    @staticmethod
    def from_dlpack(name: str, tensor: Any) -> Tensor:
        """A tensor of a DLPack capsule, or of anything that gives one. The memory is shared."""
        if isinstance(tensor, Tensor):
            return _alias(name, tensor)
        if isinstance(tensor, _ndarray):
            return Tensor(name, tensor)
        name = as_text("Tensor name", name)
        if not name:
            raise TritonModelException("Tensor name cannot be an empty string.")
        held, number = dlpack.load(tensor)
        if isinstance(held, tuple):
            return DeviceTensor(name, *held, number)
        made = Tensor(name, held)
        made._number = number
        return made

    def __repr__(self) -> str:
        return f"<Tensor {self._name!r} {NAMES[self._number]} {list(self._shape)}>"


class DeviceTensor(Tensor):
    """A tensor whose data lies on a GPU: received there, or made of a DLPack capsule."""

    __slots__ = ("_memory",)

    def __init__(self, name: str, memory: cuda.Memory, shape: tuple[int, ...], number: int) -> None:
        self._name, self._number, self._shape = name, number, shape
        self._array = self._source = None
        self._memory = memory
        self._size = memory.size

    def is_cpu(self) -> bool:
        return False

    def as_numpy(self) -> np.ndarray:
        raise TritonModelException("Tensor is stored in GPU and cannot be converted to NumPy.")

    def _raw(self) -> np.ndarray:
        dtype = np.dtype(np.uint16) if self._number == BF16 else DTYPES[self._number]
        return np.frombuffer(self._memory.to_host(), dtype).reshape(self._shape)

    def _payload(self) -> bytes:
        return bytes(self._memory.to_host())

    def __dlpack__(self, stream: Any = None, **_options: Any) -> Any:
        return dlpack.export_device(self._memory, self._shape, self._number)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self._memory.kind, self._memory.device)


def device_fault(name: str, number: int, shape: Any, size: int) -> str:
    """What is wrong with a received tensor on a GPU, which is used without another look; an empty text for nothing."""
    dtype = np.dtype(np.uint16) if number == BF16 else DTYPES[number]
    if number == BYTES or dtype is None:
        return "A tensor of strings cannot lie on a GPU."
    count = 1
    for dimension in shape:
        count *= dimension
    if min(shape, default=0) < 0 or count * dtype.itemsize != size:
        return f"Tensor '{name}' of shape {list(shape)} and datatype {NAMES[number]} has {size} bytes."
    return ""


def _alias(name: str, other: Tensor) -> Tensor:
    """Another name for the same data."""
    if isinstance(other, DeviceTensor):
        return DeviceTensor(name, other._memory, other._shape, other._number)
    if other._number == BYTES:
        return Tensor(name, other.as_numpy())
    made = Tensor(name, other._raw())
    made._number = other._number
    return made


# Looked up with an array's dtype before the slower number_of.
DTYPE_NUMBERS: dict[Any, int] = {dtype: number for number, dtype in enumerate(DTYPES) if dtype is not None}
DTYPE_NUMBERS[np.dtype(np.object_)] = BYTES
