"""What the server sends to callables: batches and lists of requests, taken apart into arrays.

Arrays of numbers are views: of the frame, read-only, or of shared memory, to which callables may write where the
server says that nothing else reads it.
"""

from __future__ import annotations

import json
from typing import Any, Optional

import numpy as np

from neso_worker.datatypes import BF16, BYTES, DTYPES, object_array, unpack_elements
from neso_worker.frames import (
    COUNT,
    ENTRIES,
    INLINE,
    NAMED,
    ONLY_REQUESTED,
    OWN_BLOCK,
    PAIR,
    REQUEST,
    U16,
    ProtocolError,
)  # fmt: skip
from neso_worker.leases import Lease

from .outputs import Tables

ndarray = np.ndarray
_BF16 = np.dtype(np.uint16)


class Request:
    """One request of a list, as far as its answer needs it."""

    __slots__ = ("handle", "inputs", "leases", "parameters", "trace", "wanted")

    def __init__(self, handle: int) -> None:
        self.handle = handle
        # Indices of the wanted outputs, None for all.
        self.wanted: Optional[list[int]] = None
        self.inputs: dict[str, Any] = {}
        self.parameters: Optional[dict[str, Any]] = None
        # What the server says of the trace, as JSON; empty when the request is not traced.
        self.trace = ""
        # Of inputs in shared memory.
        self.leases: list[Lease] = []


def _tensors(
    tables: Tables, data: Any, base: int, end: int, pos: int, count: int, into: dict[str, Any], leases: list[Lease]
) -> int:
    """Adds count tensors, whose entries begin at pos, and returns where the entries end."""
    names = tables.input_names
    for _ in range(count):
        ndim = data[pos + 3]
        index, number, _, segment, offset, size, *shape = ENTRIES[ndim].unpack_from(data, pos)
        pos += 24 + 8 * ndim
        if index == NAMED:
            (length,) = U16.unpack_from(data, pos)
            name = str(data[pos + 2 : pos + 2 + length], "utf-8")
            pos += 2 + length
            pos += base - pos & 7
        else:
            name = names[index]
        if segment == INLINE:
            source, start = data, base + offset
            if start + size > end:
                raise ProtocolError(f"tensor entry: offset {offset}, {size} bytes, body of {end - base}")
        else:
            source, start = tables.segments.view(segment, offset, size), 0
            leases.append(tables.leases.lease(source, segment, offset))
        if number & ~OWN_BLOCK == BYTES:
            into[name] = object_array(unpack_elements(source[start : start + size]), tuple(shape))
            continue
        own = number & OWN_BLOCK
        number &= ~OWN_BLOCK
        if not 0 < number <= BF16:
            raise ProtocolError(f"tensor entry: unknown datatype {number} at offset {pos - base}")
        array: Any = ndarray(shape, DTYPES[number] or _BF16, source, start)
        if array.nbytes != size:
            raise ProtocolError(f"tensor entry: {size} bytes for shape {shape}")
        if segment != INLINE and not own:
            array.flags.writeable = False
        into[name] = array
    return pos


def decode_batch(tables: Tables, data: Any, start: int, end: int) -> tuple[int, dict[str, Any], list[Lease]]:
    """The rows, inputs and leases of an EXECUTE_BATCH body that lies at data[start:end]."""
    inputs: dict[str, Any] = {}
    leases: list[Lease] = []
    try:
        count, rows = PAIR.unpack_from(data, start)
        pos = start + 8 + 16 * count
        (tensors,) = COUNT.unpack_from(data, pos)
        pos += 4
        pos += start - pos & 7
        _tensors(tables, data, start, end, pos, tensors, inputs, leases)
    except ProtocolError:
        raise
    except Exception as error:
        raise ProtocolError(f"execute batch: {error}") from None
    return rows, inputs, leases


def decode_requests(tables: Tables, data: Any, base: int, end: int) -> list[Request]:
    """The requests of an EXECUTE body that lies at data[base:end]."""
    requests: list[Request] = []
    pos = base
    try:
        count, _ = PAIR.unpack_from(data, base)
        pos = base + 8
        for _ in range(count):
            head = REQUEST.unpack_from(data, pos)
            handle, _, _, _, flags, _, n_inputs, n_wanted, n_id, n_text, n_parameters, n_trace = head
            pos += 56
            request = Request(handle)
            if n_parameters:
                at = pos + n_id + n_text
                request.parameters = json.loads(bytes(data[at : at + n_parameters]))
            pos += n_id + n_text + n_parameters + n_trace
            if n_trace:
                request.trace = str(data[pos - n_trace : pos], "utf-8")
            if flags & ONLY_REQUESTED:
                request.wanted = [U16.unpack_from(data, pos + 2 * i)[0] for i in range(n_wanted)]
                pos += 2 * n_wanted
            pos += base - pos & 7
            pos = _tensors(tables, data, base, end, pos, n_inputs, request.inputs, request.leases)
            requests.append(request)
        if pos > end:
            raise ProtocolError(f"execute: {count} requests end at offset {pos - base} of a body of {end - base}")
    except ProtocolError:
        raise
    except Exception as error:
        raise ProtocolError(f"execute: request {len(requests)} at offset {pos - base}: {error}") from None
    return requests
