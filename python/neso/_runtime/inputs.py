"""What the server sends to callables: batches and lists of requests, taken apart into arrays.

Arrays of numbers are views: of the frame, read-only, or of shared memory, to which callables may write where the
server says that nothing else reads it.
"""

from __future__ import annotations

import json
from typing import Any, Optional

from neso_worker.batchshape import tensors
from neso_worker.frames import ONLY_REQUESTED, PAIR, REQUEST, U16, ProtocolError
from neso_worker.leases import Lease

from .outputs import Tables


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
            pos = tensors(tables, data, base, end, pos, n_inputs, request.inputs, request.leases)
            requests.append(request)
        if pos > end:
            raise ProtocolError(f"execute: {count} requests end at offset {pos - base} of a body of {end - base}")
    except ProtocolError:
        raise
    except Exception as error:
        raise ProtocolError(f"execute: request {len(requests)} at offset {pos - base}: {error}") from None
    return requests
