"""Responses, and how they are read from the library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import numpy as np

from . import _library
from ._enums import DataType, MemoryType, ParameterType
from ._errors import TritonError
from ._memory import MemoryBuffer, of_array
from ._running import Addressed
from ._tensor import Tensor

# Gives the memory that lies at an address; None where it is not known.
MemoryAt = Callable[[Optional[int]], Optional[np.ndarray[Any, Any]]]


@dataclass(eq=False)
class InferenceResponse:
    """A response. Its outputs are its own: they outlive the request and the server."""

    #: The model that answered, with its version.
    model: Addressed
    #: The id of the request, "" where it had none.
    request_id: Optional[str] = None
    #: By name: str, int, bool or float.
    parameters: dict[str, Union[str, int, bool, float]] = field(default_factory=dict)
    #: By name. Empty in a response that only says that it is the final one.
    outputs: dict[str, Tensor] = field(default_factory=dict)
    #: Why the request failed; None when it did not. The iterators raise it unless they were asked not to.
    error: Optional[TritonError] = None
    #: Always None: classification is part of the protocols of the network.
    classification_label: Optional[str] = None
    #: Whether no response follows.
    final: bool = False


def read(pointer: int, into: InferenceResponse, memory_at: MemoryAt) -> None:
    """Fills a response with what the library says."""
    error = _library.value("InferenceResponseError", pointer)
    if error:
        into.error = _library.error_of(error)
        into.error.args += (into,)
    text, version = ctypes.c_char_p(), ctypes.c_int64()
    _library.call("InferenceResponseModel", pointer, ctypes.byref(text), ctypes.byref(version))
    asked = into.model
    into.model = type(asked)(asked._running, _text(text), version.value)
    _library.call("InferenceResponseId", pointer, ctypes.byref(text))
    into.request_id = _text(text)
    count = ctypes.c_uint32()
    _library.call("InferenceResponseParameterCount", pointer, ctypes.byref(count))
    for index in range(count.value):
        name, value = _parameter(pointer, index)
        into.parameters[name] = value
    if error:
        return
    _library.call("InferenceResponseOutputCount", pointer, ctypes.byref(count))
    for index in range(count.value):
        name, tensor = _output(pointer, index, memory_at)
        into.outputs[name] = tensor


def _text(pointed: ctypes.c_char_p) -> str:
    return (pointed.value or b"").decode(errors="replace")


def _parameter(pointer: int, index: int) -> tuple[str, Any]:
    name, kind, value = ctypes.c_char_p(), ctypes.c_int(), ctypes.c_void_p()
    _library.call(
        "InferenceResponseParameter", pointer, index, ctypes.byref(name), ctypes.byref(kind), ctypes.byref(value)
    )
    at = value.value or 0
    if kind.value == ParameterType.STRING:
        return _text(name), ctypes.string_at(at).decode(errors="replace")
    if kind.value == ParameterType.BOOL:
        return _text(name), ctypes.c_bool.from_address(at).value
    if kind.value == ParameterType.DOUBLE:
        return _text(name), ctypes.c_double.from_address(at).value
    return _text(name), ctypes.c_int64.from_address(at).value


def _output(pointer: int, index: int, memory_at: MemoryAt) -> tuple[str, Tensor]:
    name, data_type, shape = ctypes.c_char_p(), ctypes.c_int(), ctypes.POINTER(ctypes.c_int64)()
    dims, base, size = ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_size_t()
    kind, device, user = ctypes.c_int(), ctypes.c_int64(), ctypes.c_void_p()
    places = (name, data_type, shape, dims, base, size, kind, device, user)
    _library.call("InferenceResponseOutput", pointer, index, *map(ctypes.byref, places))
    memory = memory_at(base.value)
    if memory is None:  # what has no bytes may lie nowhere
        buffer = of_array(np.empty(0, np.uint8))
    else:
        buffer = MemoryBuffer(base.value or 0, MemoryType.CPU, 0, size.value, memory)
    sizes = tuple(shape[axis] for axis in range(dims.value))
    return _text(name), Tensor(DataType(data_type.value), sizes, buffer)
