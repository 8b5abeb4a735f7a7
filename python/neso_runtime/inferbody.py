"""The bodies of INFER and INFER_RESPONSES: calls of a model, and what comes back."""

from __future__ import annotations

from struct import Struct
from typing import Any

import numpy as np

from .connection import Connection
from .datatypes import BF16, BYTES
from .errors import TritonError
from .frames import (
    DECOUPLED_WINDOW,
    ENTRIES,
    INLINE,
    NAMED,
    NO_ERROR,
    NO_RESPONSE,
    PAIR,
    REQUEST,
    RESPONSE,
    U16,
    ProtocolError,
)
from .leases import lease_of
from .request import InferenceRequest
from .response import InferenceResponse
from .store import flat
from .tensor import DeviceTensor, Tensor, device_fault

_HEAD = Struct("<BBHIq")
_OFFSET = Struct("<Q")


def encode(connection: Connection, request: InferenceRequest, decoupled: bool, hints: int) -> bytes:
    """The body of INFER."""
    model = request._model.encode("utf-8")
    kind = DECOUPLED_WINDOW if decoupled else 0
    body = bytearray(_HEAD.pack(kind, hints, len(model), len(request._outputs), request._version))
    body += model
    for name in request._outputs:
        text = name.encode("utf-8")
        body += U16.pack(len(text)) + text
    body += bytes(-len(body) & 7)
    correlation = request._correlation
    number, text = (correlation, b"") if isinstance(correlation, int) else (0, correlation.encode("utf-8"))
    identity = request._id.encode("utf-8")
    parameters = request._parameters.encode("utf-8")
    trace = (request._trace._context if request._trace else "").encode("utf-8")
    body += REQUEST.pack(
        0, number, request._timeout, request._priority, request._flags & 3, 0,
        len(request._inputs), 0, len(identity), len(text), len(parameters), len(trace),
    )  # fmt: skip
    body += identity + text + parameters + trace
    body += bytes(-len(body) & 7)
    inline: list[tuple[int, bytes]] = []
    blocks: list[tuple[int, int]] = []
    try:
        _encode_inputs(connection, request._inputs, body, inline, blocks)
    except BaseException:
        connection.give_back(blocks)
        raise
    for at, data in inline:
        body += bytes(-len(body) & 7)
        _OFFSET.pack_into(body, at, len(body))
        body += data
    if inline:
        body += bytes(-len(body) & 7)
    return bytes(body)


def _encode_inputs(
    connection: Connection,
    inputs: list[Tensor],
    body: bytearray,
    inline: list[tuple[int, bytes]],
    blocks: list[tuple[int, int]],
) -> None:
    """Adds the entries of the inputs to the body, to inline the data that goes behind it and the place in the body that
    says where, and to blocks those that other data lies in."""
    for tensor in inputs:
        body += bytes(-len(body) & 7)
        segment, offset = INLINE, 0
        lease = lease_of(tensor)
        on_device = connection.devices.put(tensor._memory) if isinstance(tensor, DeviceTensor) else None
        if lease is not None:
            # The called model reads it where it lies. What this one asks for from now on is a copy: that of no array.
            kind = type(tensor._source)
            if kind is np.ndarray:
                tensor._source = memoryview(tensor._source)
            size = tensor._size
            segment, offset = lease.block
        elif on_device is not None:
            size = tensor._size
            segment, offset = on_device
            blocks.append(on_device)
        else:
            data: Any = tensor._payload() if tensor._number == BYTES or tensor._array is None else tensor._array
            size = len(data) if type(data) is bytes else data.nbytes
            if size > connection.inline_limit:
                segment, offset = block = connection.store.put(flat(data))
                blocks.append(block)
            else:
                inline.append((len(body) + 8, data if type(data) is bytes else data.tobytes()))
        shape = tensor._shape
        body += ENTRIES[len(shape)].pack(NAMED, tensor._number, len(shape), segment, offset, size, *shape)
        name = tensor._name.encode("utf-8")
        body += U16.pack(len(name)) + name


def decode(connection: Connection, data: Any, base: int, end: int) -> list[tuple[int, InferenceResponse]]:
    """The responses of an INFER_RESPONSES body, each with its flags."""
    found = []
    try:
        count, _ = PAIR.unpack_from(data, base)
        pos = base + 8
        for _ in range(count):
            _, flags, code, _, n_outputs, n_message, n_parameters = RESPONSE.unpack_from(data, pos)
            pos += 24
            message = str(data[pos : pos + n_message], "utf-8", "replace")
            pos += n_message
            parameters = str(data[pos : pos + n_parameters], "utf-8", "replace")
            pos += n_parameters
            pos += base - pos & 7
            outputs: list[Tensor] = []
            faults: list[str] = []
            for _ in range(n_outputs):
                pos += base - pos & 7
                tensor, pos = _decode_entry(connection, data, pos, base, end, faults)
                outputs.append(tensor)
            error = None if code == NO_ERROR or flags & NO_RESPONSE else TritonError(message, code)
            if faults:
                outputs, error = [], TritonError(faults[0])
            response = InferenceResponse(outputs, error)
            response._parameters = parameters
            found.append((flags, response))
    except ProtocolError:
        raise
    except Exception as error:
        raise ProtocolError(f"infer responses: response {len(found)}: {error}") from None
    return found


def _decode_entry(
    connection: Connection, data: Any, pos: int, base: int, end: int, faults: list[str]
) -> tuple[Tensor, int]:
    """The tensor of the entry at pos, and where that ends; adds to faults if it cannot be reached."""
    ndim = data[pos + 3]
    index, number, _, segment, offset, size, *shape = ENTRIES[ndim].unpack_from(data, pos)
    pos += 24 + 8 * ndim
    if index != NAMED:
        raise ProtocolError(f"infer responses: output {index} without a name")
    (length,) = U16.unpack_from(data, pos)
    tensor = Tensor.__new__(Tensor)
    tensor._name = str(data[pos + 2 : pos + 2 + length], "utf-8")
    pos += 2 + length
    if not 0 < number <= BF16:
        raise ProtocolError(f"tensor entry: unknown datatype {number}")
    tensor._number, tensor._shape, tensor._array, tensor._size = number, tuple(shape), None, size
    if segment in connection.devices.lent:
        memory, device, fault = connection.devices.view(segment, offset, size)
        connection.leases.owe(memory, segment, offset, device)
        fault = fault or device_fault(tensor._name, number, shape, size)
        if fault:
            faults.append(f"Output '{tensor._name}': {fault}")
        tensor = DeviceTensor(tensor._name, memory, tensor._shape, number)
    elif segment == INLINE:
        tensor._source, tensor._start = data, base + offset
        if base + offset + size > end:
            raise ProtocolError(f"tensor entry: offset {offset}, {size} bytes, body of {end - base}")
    else:
        segments = connection.segments
        view = segments.view(segment, offset, size)
        mine, copied = segments.mine(segment, offset, size, ("", tensor._name))  # others may read the answer too
        connection.leases.owe(view if copied else mine, segment, offset)
        tensor._source, tensor._start = mine, 0
    return tensor, pos
