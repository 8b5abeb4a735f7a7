"""Requests as they arrive: a batch taken apart into ReceivedRequest objects.

A request keeps its fixed fields as one tuple and the place of its texts, and
makes anything else only when asked.
"""

from __future__ import annotations

from typing import Any, Optional, Union

from .datatypes import BF16
from .errors import TritonModelException
from .frames import ENTRIES, INLINE, NAMED, ONLY_REQUESTED, PAIR, REQUEST, U16, ProtocolError
from .leases import Lease
from .request import InferenceRequest, InferenceTrace
from .sender import Answer, InferenceResponseSender
from .tensor import Tensor

RELEASE_ALL, RELEASE_RESCHEDULE = 1, 2

# Places in the tuple of a request block.
HANDLE, CORRELATION, TIMEOUT, PRIORITY, FLAGS = 0, 1, 2, 3, 4
_INPUTS, _REQUESTED, _ID, _CORRELATION_TEXT, _PARAMETERS, _TRACE = 6, 7, 8, 9, 10, 11


class ReceivedRequest(InferenceRequest):
    """A request that a model was given."""

    # _at is where its texts begin in _data; _sender is made when asked for.
    __slots__ = ("_at", "_batch", "_data", "_head", "_sender")

    def _text(self, place: int) -> str:
        head = self._head
        start = self._at + sum(head[_ID:place])
        return str(self._data[start : start + head[place]], "utf-8", "replace")

    def request_id(self) -> str:
        return self._text(_ID) if self._head[_ID] else ""

    def correlation_id(self) -> Union[int, str]:
        return self._text(_CORRELATION_TEXT) if self._head[_CORRELATION_TEXT] else self._head[CORRELATION]

    def flags(self) -> int:
        return self._head[FLAGS] & 3

    def set_flags(self, flags: int) -> None:
        head = self._head
        self._head = (*head[:FLAGS], head[FLAGS] & ~3 | int(flags) & 3, *head[FLAGS + 1 :])

    def timeout(self) -> int:
        return self._head[TIMEOUT]

    def priority(self) -> int:
        return self._head[PRIORITY]

    def parameters(self) -> str:
        return self._text(_PARAMETERS) if self._head[_PARAMETERS] else "{}"

    def trace(self) -> InferenceTrace:
        return InferenceTrace(self._text(_TRACE) if self._head[_TRACE] else "")

    def _wanted(self) -> Optional[list[int]]:
        """Indices of the wanted outputs, None for all."""
        head = self._head
        if not head[FLAGS] & ONLY_REQUESTED:
            return None
        start = self._at + sum(head[_ID:])
        return [U16.unpack_from(self._data, start + 2 * i)[0] for i in range(head[_REQUESTED])]

    def requested_output_names(self) -> list[str]:
        names = self._batch.model.output_names
        wanted = self._wanted()
        return list(names) if wanted is None else [names[i] for i in wanted]

    def is_cancelled(self) -> bool:
        return self._batch.is_cancelled(self._head[HANDLE])

    def get_response_sender(self) -> InferenceResponseSender:
        sender = self._sender
        if sender is None:
            sender = self._sender = InferenceResponseSender(Answer(self._batch, self._head[HANDLE], self._wanted()))
        return sender

    def set_release_flags(self, flags: int) -> None:
        if flags not in (RELEASE_ALL, RELEASE_RESCHEDULE):
            raise TritonModelException(f"Invalid request release flags: {flags}.")
        self._batch.reschedule(self._head[HANDLE], flags == RELEASE_RESCHEDULE)

    def exec(self, decoupled: bool = False) -> Any:
        raise TritonModelException("A received request cannot be executed; make an InferenceRequest.")

    async_exec = exec


def decode(batch: Any, data: Any, base: int, end: int) -> list[ReceivedRequest]:
    """The requests of an EXECUTE body that lies at data[base:end].

    Everything is checked to lie inside the body. Notes in batch.leases which
    requests have inputs in shared memory.
    """
    new_request, new_tensor = ReceivedRequest.__new__, Tensor.__new__
    unpack_request, entries, names = REQUEST.unpack_from, ENTRIES, batch.model.input_names
    requests: list[ReceivedRequest] = []
    pos = base
    try:
        count, _ = PAIR.unpack_from(data, base)
        pos = base + 8
        for _ in range(count):
            request = new_request(ReceivedRequest)
            request._head = head = unpack_request(data, pos)
            pos += 56
            request._at = pos
            request._data = data
            request._batch = batch
            request._sender = None
            _, _, _, _, _, _, n_inputs, n_requested, n_id, n_correlation, n_parameters, n_trace = head
            extra = n_id + n_correlation + n_parameters + n_trace + 2 * n_requested
            if extra or pos - base & 7:  # a block that follows a name begins anywhere
                pos += extra
                pos += base - pos & 7
            request._inputs = inputs = []
            named = 0  # after a name the next entry begins at a multiple of 8
            for _ in range(n_inputs):
                if named:
                    pos += base - pos & 7
                    named = 0
                ndim = data[pos + 3]
                entry = entries[ndim].unpack_from(data, pos)
                pos += 24 + 8 * ndim
                tensor = new_tensor(Tensor)
                index = entry[0]
                if index == NAMED:
                    (length,) = U16.unpack_from(data, pos)
                    tensor._name = str(data[pos + 2 : pos + 2 + length], "utf-8")
                    pos += 2 + length
                    named = pos
                else:
                    tensor._name = names[index]
                tensor._number = number = entry[1]
                if not 0 < number <= BF16:
                    raise ProtocolError(f"tensor entry: unknown datatype {number} at offset {pos - base}")
                tensor._shape = entry[6:]
                tensor._array = None
                tensor._size = size = entry[5]
                if entry[3] == INLINE:
                    tensor._source = data
                    tensor._start = start = base + entry[4]
                    if start + size > end:
                        raise ProtocolError(f"tensor entry: offset {entry[4]}, {size} bytes, body of {end - base}")
                else:
                    view = batch.model.segments.view(entry[3], entry[4], size)
                    tensor._source = view
                    tensor._start = 0
                    _lease(batch, head[0], batch.model.leases.lease(view, entry[3], entry[4]))
                inputs.append(tensor)
            requests.append(request)
        if pos > end:
            raise ProtocolError(f"execute: {count} requests end at offset {pos - base} of a body of {end - base}")
    except ProtocolError:
        raise
    except Exception as error:
        raise ProtocolError(f"execute: request {len(requests)} at offset {pos - base}: {error}") from None
    return requests


def _lease(batch: Any, handle: int, lease: Lease) -> None:
    if batch.leases is None:
        batch.leases = {}
    batch.leases.setdefault(handle, []).append(lease)
