"""Responses into frames: RESPONSES in requests shape.

Packing goes in two steps because inline data lies behind all blocks: ``add``
takes the tensors' bytes (small ones as bytes, large ones straight into shared
memory), ``pack`` knows the sizes and writes the blocks. Between the two the
model's objects can be dropped, which tells whether inputs are still in use.
"""

from __future__ import annotations

from typing import Any, Optional

from .connection import Tables
from .datatypes import BYTES, pack_elements
from .errors import TritonError, describe
from .frames import (
    AGAIN,
    CREDIT_BYTES,
    ENDS_BATCH,
    ENTRIES,
    FINAL,
    FIRST_OUTPUT,
    HEADER,
    INLINE,
    INPUTS_HELD,
    MAGIC,
    MAX_BODY,
    NAMED,
    NO_ERROR,
    NO_RESPONSE,
    ONLY_REQUESTED,
    PADDING,
    PAIR,
    RESPONSE,
    RESPONSES,
    U16,
    VERSION,
    done_frame,
)  # fmt: skip
from .leases import Lease, lease_of
from .response import InferenceResponse
from .store import flat
from .tensor import DeviceTensor, Tensor

# Outputs with more strings are not packed before it is known where they go.
FEW = 64


class ResponseFrame:
    """A RESPONSES frame in the making."""

    __slots__ = ("_blocks", "_given", "_number", "_outputs", "_size", "_tables")

    def __init__(self, tables: Tables, number: int) -> None:
        self._tables = tables
        self._number = number
        self._size = 8  # bytes of the body before inline data
        # Per response: handle, flags, error code, outputs, message, parameters.
        self._blocks: list[tuple[int, int, int, int, bytes, bytes]] = []
        # Per output: index, datatype, shape, segment, offset or inline data, bytes, name.
        self._outputs: list[tuple[int, int, tuple[int, ...], int, Any, int, bytes]] = []
        # Blocks of others that outputs lie in: their RELEASE must not leave before this frame.
        self._given: list[Any] = []

    def add_final(self, handle: int) -> None:
        """Adds the final mark of a request, without a response."""
        self._blocks.append((handle, FINAL | NO_RESPONSE, NO_ERROR, 0, b"", b""))
        self._size += 24
        self._size += -self._size & 7

    def add_again(self, handle: int) -> None:
        """Adds that a request is to run again."""
        self._blocks.append((handle, AGAIN | NO_RESPONSE, NO_ERROR, 0, b"", b""))
        self._size += 24
        self._size += -self._size & 7

    def add_error(self, handle: int, message: str, code: int, flags: int) -> None:
        """Adds an error as a response."""
        text = message.encode("utf-8", "replace")
        self._blocks.append((handle, flags, code, 0, text, b""))
        self._size += 24 + len(text)
        self._size += -self._size & 7

    def add(self, handle: int, response: InferenceResponse, wanted: Optional[list[int]], flags: int) -> None:
        """Adds a response; wanted are the indices of the outputs to send, None for all."""
        error = response._error
        if error is not None:
            self.add_error(handle, error.message(), error.code(), flags)
            return
        outputs = self._outputs
        mark = len(outputs)
        try:
            parameters = response._parameters.encode("utf-8", "replace") if response._parameters else b""
            size = self._size + 24 + len(parameters)
            size += -size & 7
            for tensor in response._outputs:
                size += self._add_output(tensor, wanted, size)
        except Exception as fault:
            own = [output for output in outputs[mark:] if output[3] != INLINE and output[3] >= FIRST_OUTPUT]
            blocks = [(output[3], output[4]) for output in own]
            del outputs[mark:]
            self._tables.connection.give_back(blocks)
            self.add_error(handle, describe(fault), TritonError.INTERNAL, flags)
            return
        self._blocks.append((handle, flags, NO_ERROR, len(outputs) - mark, b"", parameters))
        self._size = size

    def add_all(self, requests: Any, responses: Any) -> None:
        """Adds one final response per request: what a default execute returned.

        This is add, add_output included, for the common case: it runs for every request of every batch.
        """
        table = self._tables.output_index
        limit = self._tables.inline_limit
        add_block, add_output = self._blocks.append, self._outputs.append
        size = self._size
        for request, response in zip(requests, responses):
            head = request._head
            if response._error is None and not response._parameters and not head[4] & ONLY_REQUESTED and not size & 7:
                tensors = response._outputs
                for tensor in tensors:
                    array = tensor._array
                    index = table.get(tensor._name)
                    if index is None:
                        break
                    number, shape = tensor._number, tensor._shape
                    if array is None:
                        source = tensor._source
                        if type(source) is not bytes:  # one on a GPU has no size here
                            break
                        length, start = tensor._size, tensor._start
                        if length > limit:
                            break
                        data = source[start : start + length]  # received, and passed on as it came
                    elif number == BYTES:
                        if array.size > FEW:
                            break
                        try:
                            data = pack_elements(array)
                        except Exception:
                            break  # add says why
                        length = len(data)
                        if length > limit:
                            break
                    else:
                        length = array.nbytes
                        if length > limit:
                            break
                        data = array.tobytes()
                    add_output((index, number, shape, INLINE, data, length, b""))
                    size += 24 + 8 * len(shape)
                else:
                    add_block((head[0], FINAL, NO_ERROR, len(tensors), b"", b""))
                    size += 24
                    continue
                # Take back what was added of this response.
                for done in tensors[: tensors.index(tensor)]:
                    size -= 24 + 8 * len(done._shape)
                    self._outputs.pop()
            self._size = size
            self.add(head[0], response, request._wanted(), FINAL)
            size = self._size
        self._size = size

    def _add_output(self, tensor: Tensor, wanted: Optional[list[int]], at: int) -> int:
        """Adds an output whose entry may begin at ``at``; returns its bytes, 0 when nobody wants it."""
        tables = self._tables
        index = tables.output_index.get(tensor._name, NAMED)
        if wanted is not None and index not in wanted:
            return 0
        name = b""
        if index == NAMED:
            name = tensor._name.encode("utf-8")
            name = U16.pack(len(name)) + name
        number, shape = tensor._number, tensor._shape
        lease = lease_of(tensor)
        if lease is not None and lease.owed:  # the answer to a call, which nobody here writes to
            self._given.append(tensor._source)
            self._outputs.append((index, number, shape, *lease.block, tensor._size, name))
            return (-at & 7) + 24 + 8 * len(shape) + len(name)
        if number == BYTES or tensor._array is None:
            if isinstance(tensor, DeviceTensor):
                on_device = tables.devices.put(tensor._memory)
                if on_device is not None:
                    self._outputs.append((index, number, shape, *on_device, tensor._size, name))
                    return (-at & 7) + 24 + 8 * len(shape) + len(name)
            data: Any = tensor._payload()
            length = len(data)
        else:
            data = tensor._array
            length = data.nbytes
        if length > tables.inline_limit:
            block = tables.store.put(flat(data))
            self._outputs.append((index, number, shape, block[0], block[1], length, name))
        else:
            if type(data) is not bytes:
                data = data.tobytes()
            self._outputs.append((index, number, shape, INLINE, data, length, name))
        return (-at & 7) + 24 + 8 * len(shape) + len(name)

    def costs(self) -> list[int]:
        """What each response in the frame counts in its request's window."""
        costs: list[int] = []
        outputs = iter(self._outputs)
        for block in self._blocks:
            size = 0
            for _ in range(block[3]):
                size += next(outputs)[5]
            costs.append(1 + size // CREDIT_BYTES)
        return costs

    def pack(self, ends_batch: bool = False, leases: Optional[dict[int, list[Lease]]] = None) -> bytes:
        """The whole frame. leases are those of the answered requests by handle; with them the caller holds the
        writer's lock."""
        pack_response, entries = RESPONSE.pack, ENTRIES
        outputs = iter(self._outputs)
        parts = [b"", PAIR.pack(len(self._blocks), ENDS_BATCH if ends_batch else 0)]
        add = parts.append
        data: list[bytes] = []
        add_data = data.append
        cursor = self._size + (-self._size & 7)  # where inline data goes
        skew = 0  # how far the end of the parts is from a multiple of 8; only names make it so
        held = self._tables.leases.held
        for handle, flags, code, count, message, parameters in self._blocks:
            if leases is not None and flags & (FINAL | AGAIN):
                mine = leases.pop(handle, None)
                if mine and held(mine):
                    flags |= INPUTS_HELD
            add(pack_response(handle, flags, code, 0, count, len(message), len(parameters)))
            if message or parameters or skew:
                add(message)
                add(parameters)
                add(PADDING[len(message) + len(parameters) + skew & 7])
                skew = 0
            for _ in range(count):
                index, number, shape, segment, where, length, name = next(outputs)
                ndim = len(shape)
                if skew:
                    add(PADDING[skew])
                    skew = 0
                if segment == INLINE:
                    if cursor & 7:
                        add_data(PADDING[cursor & 7])
                        cursor += -cursor & 7
                    add(entries[ndim].pack(index, number, ndim, INLINE, cursor, length, *shape))
                    add_data(where)
                    cursor += length
                else:
                    add(entries[ndim].pack(index, number, ndim, segment, where, length, *shape))
                if name:
                    add(name)
                    skew = len(name) & 7
        if not data:
            cursor = self._size
        else:
            add(PADDING[skew])
            if cursor & 7:  # the next frame begins aligned
                add_data(PADDING[cursor & 7])
                cursor += -cursor & 7
        if cursor > MAX_BODY:
            raise ValueError(f"the responses have {cursor} bytes")
        parts[0] = HEADER.pack(MAGIC, VERSION, RESPONSES, cursor, self._tables.instance, 0, self._number)
        parts += data
        return b"".join(parts)


def fail_requests(
    tables: Tables, number: int, leases: Optional[dict[int, list[Lease]]], name: str, message: str, trace: str
) -> None:
    """Ends a list of requests with an error; leases are those of its inputs by handle, name is the instance's.

    The caller holds the writer's lock.
    """
    writer = tables.link.writer
    # DONE frees the inputs of the requests that it answers. Where the model still refers to some, the error goes out as
    # a response that says so.
    held = [handle for handle, mine in (leases or {}).items() if tables.leases.needed(mine)]
    if held:
        frame = ResponseFrame(tables, number)
        text = f"Failed to process the request(s) for model '{name}', message: {message}"
        for handle in held:
            frame.add_error(handle, text, TritonError.INTERNAL, FINAL)
        writer.hold_locked(frame.pack(False, leases))
    writer.send_locked(done_frame(tables.instance, number, message, trace))
