"""Memory of tensors, and the names of the places where it may lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from neso_runtime import dlpack
from neso_runtime.errors import TritonModelException

from ._enums import DataType, DLDeviceType, MemoryType
from ._errors import InvalidArgumentError

# A place for memory: "cpu", "gpu", "gpu:1", a MemoryType, or one of the pairs with the number of a device.
DeviceOrMemoryType = Union[tuple[MemoryType, int], MemoryType, tuple[DLDeviceType, int], str]


@dataclass(eq=False)
class MemoryBuffer:
    """Memory of a tensor. It lives as long as ``owner``."""

    #: The address of the first byte.
    data_ptr: int
    memory_type: MemoryType
    #: The number of the GPU, 0 for memory of the machine.
    memory_type_id: int
    #: In bytes.
    size: int
    owner: Any

    @staticmethod
    def from_dlpack(owner: Any) -> MemoryBuffer:
        """The memory of an object with ``__dlpack__``, shared with it.

        Raises InvalidArgumentError when it has none, is not contiguous, or lies on another device than a CPU or an
        NVIDIA GPU.
        """
        return taken(owner)[0]


def taken(source: Any) -> tuple[MemoryBuffer, DataType, tuple[int, ...]]:
    """Memory, datatype and shape of what an object exports over DLPack."""
    try:
        held, number = dlpack.load(source)
    except (TritonModelException, BufferError, TypeError, RuntimeError, ValueError) as e:
        raise InvalidArgumentError(f"Object does not support DLPack protocol: {e}") from None
    if isinstance(held, tuple):
        memory, shape = held
        buffer = MemoryBuffer(memory.address, MemoryType.GPU, memory.device, memory.size, memory)
        return buffer, DataType(number), shape
    return of_array(held), DataType(number), held.shape


def of_array(array: np.ndarray[Any, Any]) -> MemoryBuffer:
    """The memory of a contiguous array."""
    return MemoryBuffer(array.ctypes.data, MemoryType.CPU, 0, array.nbytes, array)


def place(given: DeviceOrMemoryType) -> tuple[MemoryType, int]:
    """The kind of memory and the number of the device. Raises InvalidArgumentError for what is no place."""
    if isinstance(given, tuple) and len(given) == 2:
        kind, device = given
        if isinstance(kind, MemoryType):
            return kind, device
        if kind in (DLDeviceType.kDLCPU, DLDeviceType.kDLCUDA):
            return (MemoryType.GPU if kind == DLDeviceType.kDLCUDA else MemoryType.CPU), device
    elif isinstance(given, MemoryType):
        return given, 0
    elif isinstance(given, str):
        name, _, number = given.partition(":")
        if name.upper() in MemoryType.__members__ and (number.isdecimal() or ":" not in given):
            return MemoryType[name.upper()], int(number or 0)
    raise InvalidArgumentError(f"Invalid memory type {given!r}")
