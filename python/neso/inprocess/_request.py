"""Requests, and how they are written for the library."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from . import _library
from ._enums import MemoryType
from ._errors import InvalidArgumentError, TritonError
from ._memory import DeviceOrMemoryType
from ._running import Addressed
from ._tensor import Tensor


@dataclass(eq=False)
class InferenceRequest:
    """A request to a model. It may be sent again, and changed meanwhile: what is sent is read when it is sent."""

    model: Addressed
    #: Comes back in the responses.
    request_id: Optional[str] = None
    #: ``RequestFlag.SEQUENCE_START``, ``SEQUENCE_END``, or both.
    flags: int = 0
    #: The sequence that the request belongs to: a number, or a text of at most 128 characters.
    correlation_id: Optional[Union[int, str]] = None
    #: 0 is the model's default; among the others 1 is the most urgent.
    priority: int = 0
    #: How long the request may wait in a queue, in microseconds; 0 is the model's default.
    timeout: int = 0
    #: By name: a Tensor, a list, an array of numpy's, or anything with ``__dlpack__``. Their memory is used as it
    #: is, and must not change before the last response has come.
    inputs: dict[str, Any] = field(default_factory=dict)
    #: By name: str, int, bool or float.
    parameters: dict[str, Any] = field(default_factory=dict)
    #: Where outputs shall lie; None is where they come, which is memory of the machine.
    output_memory_type: Optional[DeviceOrMemoryType] = None
    #: Gets every response too: for ``infer`` a ``queue.SimpleQueue``, for ``async_infer`` an ``asyncio.Queue``.
    response_queue: Optional[Union[Any, asyncio.Queue[Any]]] = None


def write(request: InferenceRequest) -> tuple[int, list[Tensor]]:
    """The request for the library, and the tensors whose memory it refers to.

    Raises InvalidArgumentError for inputs and parameters that cannot be sent, NotFoundError for an unknown model.
    """
    made = ctypes.c_void_p()
    _library.call("InferenceRequestNew", ctypes.byref(made), request.model._running.pointer, *request.model._named())
    pointer = made.value or 0
    try:
        _write_fields(pointer, request)
        for name, value in request.parameters.items():
            _write_parameter(pointer, name, value)
        return pointer, [_write_input(pointer, name, value) for name, value in request.inputs.items()]
    except BaseException:
        discard(pointer)
        raise


def discard(pointer: int) -> None:
    """Deletes a request that is not in flight."""
    with contextlib.suppress(TritonError):  # gone already
        _library.call("InferenceRequestDelete", pointer)


def _write_fields(pointer: int, request: InferenceRequest) -> None:
    number, text = _library.number, _library.text
    if request.request_id is not None:
        _library.call("InferenceRequestSetId", pointer, text(request.request_id, "request_id"))
    if request.priority:
        _library.call("InferenceRequestSetPriorityUInt64", pointer, number(request.priority, "priority"))
    if request.timeout:
        _library.call("InferenceRequestSetTimeoutMicroseconds", pointer, number(request.timeout, "timeout"))
    if request.flags:
        _library.call("InferenceRequestSetFlags", pointer, number(request.flags, "flags", 32))
    sequence = request.correlation_id
    if isinstance(sequence, str):
        _library.call("InferenceRequestSetCorrelationIdString", pointer, text(sequence, "correlation_id"))
    elif sequence is not None:
        _library.call("InferenceRequestSetCorrelationId", pointer, number(sequence, "correlation_id"))


def _write_parameter(pointer: int, name: str, value: Any) -> None:
    key = _library.text(name, "The name of a parameter")
    if isinstance(value, bool):
        _library.call("InferenceRequestSetBoolParameter", pointer, key, value)
    elif isinstance(value, int):
        whole = _library.number(value, "The value of a parameter", 64, signed=True)
        _library.call("InferenceRequestSetIntParameter", pointer, key, whole)
    elif isinstance(value, float):
        _library.call("InferenceRequestSetDoubleParameter", pointer, key, value)
    elif isinstance(value, str):
        text = _library.text(value, "The value of a parameter")
        _library.call("InferenceRequestSetStringParameter", pointer, key, text)
    else:
        raise InvalidArgumentError(f"Unsupported Value. Can't convert {type(value)} to Request Parameter")


def _write_input(pointer: int, name: str, value: Any) -> Tensor:
    key = _library.text(name, "The name of an input")
    # The server reads memory of the machine alone.
    tensor = Tensor._from_object(value).to_host()
    shape = (ctypes.c_int64 * max(len(tensor.shape), 1))(*map(int, tensor.shape))
    _library.call("InferenceRequestAddInput", pointer, key, tensor.data_type, shape, len(tensor.shape))
    _library.call("InferenceRequestAppendInputData", pointer, key, tensor.data_ptr, tensor.size, MemoryType.CPU, 0)
    return tensor
