"""Tensors: inputs made of arrays, outputs read as arrays."""

from __future__ import annotations

import ctypes
import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from neso_runtime import dlpack
from neso_runtime.datatypes import SIZES, DatatypeError, masked, number_of, object_array, pack_elements, unpack_elements
from neso_runtime.gpu import cuda

from ._enums import DataType, DLDeviceType, MemoryType
from ._errors import InvalidArgumentError, UnsupportedError
from ._memory import DeviceOrMemoryType, MemoryBuffer, of_array, place, taken


@dataclass(eq=False)
class Tensor:
    """A tensor in memory: ``numpy.from_dlpack(tensor)`` and ``torch.from_dlpack(tensor)`` share it."""

    data_type: DataType
    #: All dimensions, that of the batch included.
    shape: Sequence[int]
    #: The elements in C order; elements of BYTES each after its length, four bytes, least significant first.
    memory_buffer: MemoryBuffer

    @property
    def data_ptr(self) -> int:
        """The address of the first byte."""
        return self.memory_buffer.data_ptr

    @property
    def memory_type(self) -> MemoryType:
        """Where the memory lies."""
        return self.memory_buffer.memory_type

    @property
    def memory_type_id(self) -> int:
        """The number of the GPU, 0 for memory of the machine."""
        return self.memory_buffer.memory_type_id

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.memory_buffer.size

    @staticmethod
    def from_dlpack(obj: Any) -> Tensor:
        """A tensor over the memory of an object with ``__dlpack__``, which it shares.

        Raises InvalidArgumentError for memory that is not contiguous or is read-only, and for datatypes of none of
        Triton's.
        """
        buffer, data_type, shape = taken(obj)
        return Tensor(data_type, shape, buffer)

    @staticmethod
    def from_bytes_array(bytes_array: Union[list[Any], np.ndarray[Any, Any]]) -> Tensor:
        """A tensor of BYTES with the elements of a list or array of bytes or str, texts as UTF-8. They are copied.

        Raises InvalidArgumentError for elements of other types.
        """
        made = Tensor._from_object(bytes_array)
        if made.data_type != DataType.BYTES:
            raise InvalidArgumentError(f"Elements of {made.data_type.name} are no bytes nor texts")
        return made

    @staticmethod
    def from_string_array(string_array: Union[list[Any], np.ndarray[Any, Any]]) -> Tensor:
        """The same as ``from_bytes_array``."""
        return Tensor.from_bytes_array(string_array)

    @staticmethod
    def _from_object(obj: Any) -> Tensor:
        """A tensor of a list, an array, a number of numpy's, or anything with ``__dlpack__``."""
        if isinstance(obj, Tensor):
            return obj
        if isinstance(obj, (list, tuple)):
            try:
                return _of_array(np.array(obj))
            except (ValueError, InvalidArgumentError) as e:
                raise InvalidArgumentError(f"Conversion from {obj!r} to tensor not supported: {e}") from None
        if isinstance(obj, (np.ndarray, np.generic)):
            return _of_array(obj)
        if hasattr(obj, "__dlpack__"):
            return Tensor.from_dlpack(obj)
        raise InvalidArgumentError(
            f"Input type {type(obj)} not supported: it must be a list, an array of numpy's, or have __dlpack__"
        )

    def to_bytes_array(self) -> np.ndarray[Any, Any]:
        """The elements of a tensor of BYTES, as an array of ``bytes`` objects of the tensor's shape.

        Raises InvalidArgumentError for another datatype, and for data that are no such elements.
        """
        if self.data_type != DataType.BYTES:
            raise InvalidArgumentError(f"Tensor has data type {self.data_type.name} not BYTES")
        try:
            return object_array(unpack_elements(self._bytes()), tuple(self.shape))
        except (DatatypeError, ValueError) as e:
            raise InvalidArgumentError(f"The tensor's data are no elements of BYTES: {e}") from None

    def to_string_array(self) -> np.ndarray[Any, Any]:
        """The same as an array of texts. Raises UnicodeDecodeError for elements that are no UTF-8."""
        elements = self.to_bytes_array()
        texts = np.array([e.decode() for e in elements.ravel()], np.str_)
        shaped: np.ndarray[Any, Any] = texts.reshape(elements.shape)
        return shaped

    def to_host(self) -> Tensor:
        """The tensor in memory of the machine: itself, or a copy of memory of a GPU."""
        return self.to_device(MemoryType.CPU)

    def to_device(self, device: DeviceOrMemoryType) -> Tensor:
        """The tensor in memory of another kind: itself where it lies there already, else a copy.

        Raises InvalidArgumentError for what is no place, and UnsupportedError for a GPU without ``cupy``.
        """
        kind, number = place(device)
        on_host = self.memory_type != MemoryType.GPU
        if (kind, number) == (self.memory_type, self.memory_type_id) or (on_host and kind == MemoryType.CPU):
            return self
        if kind == MemoryType.CPU:
            return Tensor(self.data_type, self.shape, of_array(np.frombuffer(self._bytes(), np.uint8)))
        if kind == MemoryType.GPU:
            return self._on_gpu(number)
        raise UnsupportedError(f"Conversion from {self.memory_type.name} to {kind.name} not supported.")

    def _on_gpu(self, device: int) -> Tensor:
        try:
            cupy = importlib.import_module("cupy")
        except ImportError:
            raise UnsupportedError("Tensors are copied to a GPU by cupy, which is not installed.") from None
        with cupy.cuda.Device(device):
            buffer, _, _ = taken(cupy.asarray(np.frombuffer(self._bytes(), np.uint8)))
        return Tensor(self.data_type, self.shape, buffer)

    def _bytes(self) -> bytes:
        """A copy of the data."""
        if self.memory_type != MemoryType.GPU:
            return ctypes.string_at(self.data_ptr, self.size)
        memory = self.memory_buffer
        return bytes(cuda.Memory(memory.data_ptr, memory.size, dlpack.CUDA, memory.memory_type_id, memory).to_host())

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        """A capsule over the memory, which lives as long as it is used.

        Raises InvalidArgumentError for BYTES, UnsupportedError for a stream on the CPU.
        """
        if self.data_type in (DataType.BYTES, DataType.INVALID):
            raise InvalidArgumentError(f"DLPack has no elements like those of {self.data_type.name}")
        if self.memory_type != MemoryType.GPU and stream not in (None, 0, -1):
            raise UnsupportedError(f"There is no stream {stream!r} on the CPU")
        shape = tuple(int(size) for size in self.shape)
        if min(shape, default=0) < 0 or math.prod(shape) * SIZES[self.data_type] > self.size:
            raise InvalidArgumentError(f"The memory of {self.size} bytes is too small for shape {list(shape)}")
        owner = self.memory_buffer.owner
        # Who takes it may write, and memory that cannot be written to would end the process.
        fixed = isinstance(owner, np.ndarray) and not owner.flags.writeable
        if self.memory_type != MemoryType.GPU and (fixed or options.get("copy")):
            copy = np.array(np.frombuffer(self._bytes(), np.uint8))
            return dlpack.export_memory(copy.ctypes.data, dlpack.CPU, 0, shape, self.data_type, copy)
        return dlpack.export_memory(self.data_ptr, *self.__dlpack_device__(), shape, self.data_type, self)

    def __dlpack_device__(self) -> tuple[DLDeviceType, int]:
        """The device's type and number."""
        on_gpu = self.memory_type == MemoryType.GPU
        return (DLDeviceType.kDLCUDA if on_gpu else DLDeviceType.kDLCPU), self.memory_type_id


def _of_array(array: Union[np.ndarray[Any, Any], np.generic]) -> Tensor:
    """A tensor over an array's memory; over a copy where that is not contiguous or has another byte order."""
    refused = masked("The input", array)
    if refused:
        raise InvalidArgumentError(refused)
    values = np.asarray(array)
    number = number_of(values.dtype)
    if not number:
        raise InvalidArgumentError(
            f"Unsupported Numpy data type. Can't convert {values.dtype} to Triton server data type"
        )
    shape = values.shape
    if number == DataType.BYTES:
        values = np.frombuffer(pack_elements(values), np.uint8)
    else:
        values = np.asarray(values, values.dtype.newbyteorder("="), order="C")
    return Tensor(DataType(number), shape, of_array(values))
