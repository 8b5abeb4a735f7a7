"""What the server sends to callables: batches and lists of requests, taken apart into arrays.

Arrays of numbers are views: of the frame, read-only, or of shared memory, to which callables may write.
"""

from __future__ import annotations

import json
from typing import Any, Optional

from neso_runtime.batchshape import tensors
from neso_runtime.connection import Tables
from neso_runtime.leases import Lease
from neso_runtime.requesthead import HANDLE, INPUTS, PARAMETERS, TRACE, RequestHead, walk


class Request(RequestHead):
    """One request of a list, as far as its answer needs it."""

    __slots__ = ("_at", "_data", "_head", "handle", "inputs", "leases", "parameters", "trace", "wanted")

    handle: int
    # Indices of the wanted outputs, None for all.
    wanted: Optional[list[int]]
    inputs: dict[str, Any]
    parameters: Optional[dict[str, Any]]
    # What the server says of the trace, as JSON; empty when the request is not traced.
    trace: str
    # Of inputs in shared memory.
    leases: list[Lease]


def decode_requests(tables: Tables, data: Any, base: int, end: int) -> list[Request]:
    """The requests of an EXECUTE body that lies at data[base:end]."""

    def read(request: Request, pos: int) -> int:
        head = request._head
        request.handle = head[HANDLE]
        request.parameters = json.loads(request._text(PARAMETERS)) if head[PARAMETERS] else None
        request.trace = request._text(TRACE) if head[TRACE] else ""
        request.wanted = request._wanted()
        request._data = None  # a request that is kept holds no frame
        request.inputs, request.leases = {}, []
        return tensors(tables, data, base, end, pos, head[INPUTS], request.inputs, request.leases)

    return walk(Request, data, base, end, read)
