"""Requests as they arrive: a batch taken apart into ReceivedRequest objects.

A request keeps its fixed fields as one tuple and the place of its texts, and
makes anything else only when asked.
"""

from __future__ import annotations

from operator import index
from typing import Any, Union

from neso_runtime.datatypes import BF16, BYTES
from neso_runtime.errors import TritonModelException
from neso_runtime.frames import ENTRIES, INLINE, NAMED, OWN_BLOCK, U16, ProtocolError
from neso_runtime.leases import Lease
from neso_runtime.request import InferenceRequest, InferenceTrace, _whole
from neso_runtime.requesthead import (
    CORRELATION,
    CORRELATION_TEXT,
    FLAGS,
    HANDLE,
    ID,
    INPUTS,
    PARAMETERS,
    PRIORITY,
    TIMEOUT,
    TRACE,
    RequestHead,
    walk,
)
from neso_runtime.tensor import DeviceTensor, Tensor, device_fault

from .batch import Answer, Batch
from .sender import InferenceResponseSender

RELEASE_ALL, RELEASE_RESCHEDULE = 1, 2


class ReceivedRequest(RequestHead, InferenceRequest):
    """A request that a model was given."""

    # _at is where its texts begin in _data; _sender is made when asked for.
    __slots__ = ("_at", "_batch", "_data", "_head", "_sender")

    def request_id(self) -> str:
        return self._text(ID) if self._head[ID] else ""

    def correlation_id(self) -> Union[int, str]:
        return self._text(CORRELATION_TEXT) if self._head[CORRELATION_TEXT] else self._head[CORRELATION]

    def flags(self) -> int:
        return self._head[FLAGS] & 3

    def set_flags(self, flags: int) -> None:
        head = self._head
        self._head = (*head[:FLAGS], head[FLAGS] & ~3 | _whole("flags", flags, 1 << 32) & 3, *head[FLAGS + 1 :])

    def timeout(self) -> int:
        return self._head[TIMEOUT]

    def priority(self) -> int:
        return self._head[PRIORITY]

    def parameters(self) -> str:
        return self._text(PARAMETERS) if self._head[PARAMETERS] else "{}"

    def trace(self) -> InferenceTrace:
        return InferenceTrace(self._text(TRACE) if self._head[TRACE] else "")

    def requested_output_names(self) -> set[str]:
        names = self._batch.tables.output_names
        wanted = self._wanted()
        return set(names) if wanted is None else {names[i] for i in wanted}

    def is_cancelled(self) -> bool:
        return self._batch.owed.is_cancelled(self._head[HANDLE])

    def get_response_sender(self) -> InferenceResponseSender:
        sender = self._sender
        if sender is None:
            sender = self._sender = InferenceResponseSender(Answer(self._batch, self._head[HANDLE], self._wanted()))
        return sender

    def set_release_flags(self, flags: int) -> None:
        flags = index(flags)
        if flags not in (RELEASE_ALL, RELEASE_RESCHEDULE):
            raise TritonModelException(f"Invalid request release flags: {flags}.")
        self._batch.reschedule(self._head[HANDLE], flags == RELEASE_RESCHEDULE)

    def exec(self, decoupled: bool = False) -> Any:
        raise TritonModelException("A received request cannot be executed; make an InferenceRequest.")

    async_exec = exec


def decode(batch: Batch, data: Any, base: int, end: int) -> list[ReceivedRequest]:
    """The requests of an EXECUTE body that lies at data[base:end].

    Everything is checked to lie inside the body. Notes in batch.leases which
    requests have inputs in shared memory.
    """
    new_tensor = Tensor.__new__
    entries, names = ENTRIES, batch.tables.input_names

    def read(request: ReceivedRequest, pos: int) -> int:
        request._batch = batch
        request._sender = None
        request._inputs = inputs = []
        named = 0  # after a name the next entry begins at a multiple of 8
        for _ in range(request._head[INPUTS]):
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
            tensor._number = number = entry[1] & ~OWN_BLOCK
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
            elif entry[3] in batch.tables.devices.lent:
                tensor = _on_device(batch, request._head[HANDLE], tensor._name, number, entry)
            else:
                view, mine = batch.tables.segments.view(entry[3], entry[4], size), False
                if not entry[1] & OWN_BLOCK and number != BYTES:  # something else reads it too
                    view, mine = batch.tables.segments.mine(
                        entry[3], entry[4], size, (batch.tables.instance, tensor._name)
                    )
                if not mine:
                    _lease(batch, request._head[HANDLE], batch.tables.leases.lease(view, entry[3], entry[4]))
                tensor._source = view
                tensor._start = 0
            inputs.append(tensor)
        return pos

    return walk(ReceivedRequest, data, base, end, read)


def _on_device(batch: Batch, handle: int, name: str, number: int, entry: tuple[int, ...]) -> DeviceTensor:
    """A tensor that lies on a GPU. Where it cannot be reached, its request is noted as broken."""
    _, _, _, segment, offset, size, *shape = entry
    memory, device, fault = batch.tables.devices.view(segment, offset, size)
    fault = fault or device_fault(name, number, shape, size)
    if fault:
        if batch.broken is None:
            batch.broken = {}
        batch.broken.setdefault(handle, f"Input '{name}': {fault}")
    _lease(batch, handle, batch.tables.leases.lease(memory, segment, offset, device))
    return DeviceTensor(name, memory, tuple(shape), number)


def _lease(batch: Batch, handle: int, lease: Lease) -> None:
    if batch.leases is None:
        batch.leases = {}
    batch.leases.setdefault(handle, []).append(lease)
