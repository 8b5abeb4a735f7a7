"""Business logic scripting: requests that a model sends to other models, over INFER and INFER_RESPONSES."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from struct import Struct
from typing import Any, Callable, Optional

from .channel import Closed, Frame, end_text
from .connection import Connection
from .datatypes import BYTES, pack_elements
from .errors import TritonError, TritonModelException
from .frames import (
    ALONE,
    CANCEL,
    COUNT,
    CREDIT,
    CREDIT_BYTES,
    CREDIT_STEP,
    DEVICE_OUTPUTS,
    FINAL,
    HEADER,
    INFER,
    MAGIC,
    PADDING,
    PAIR,
    VERSION,
    ProtocolError,
    frame,
)
from .inferbody import decode, encode
from .request import InferenceRequest, MemoryType
from .response import InferenceResponse
from .tensor import Tensor

# How many beginnings of frames are remembered, and how long the blocks of one may be.
MAX_HEADS = 256
MAX_BLOCKS = 4096
# Bytes that a response has with its data, and its outputs: name, datatype, shape, offset, bytes.
_Answer = tuple[int, list[tuple[str, int, tuple[int, ...], int, int]]]

_ONE = PAIR.pack(1, 0)
_OFFSET = Struct("<Q")
_GPU = MemoryType.TRITONSERVER_MEMORY_GPU


class Call:
    """One request on its way and the responses that came."""

    __slots__ = ("finished", "notify", "number", "responses", "taken")

    def __init__(self, number: int) -> None:
        self.number = number
        self.responses: deque[InferenceResponse] = deque()
        self.finished = False
        # What the model has taken since credit was last returned.
        self.taken = 0
        # Called once when a response is there or the call has finished, under the link's lock.
        self.notify: Optional[Callable[[], None]] = None

    def is_finished(self) -> bool:
        """Whether the last response is there."""
        return self.finished


class Bls:
    """The calls in flight over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._link = connection.link
        self._calls: dict[int, Call] = {}
        # Calls of coroutines: a thread reads for them, since their own must not block.
        self._awaited = 0
        self._news = threading.Condition(self._link.changed)
        self._pump: Optional[threading.Thread] = None
        # Between the end of initialize and finalize.
        self.allowed = False
        # What frames of plain requests begin with, and their lengths, by what the beginning depends on.
        self._heads: dict[tuple[Any, ...], tuple[int, bytes]] = {}
        # What the blocks of single responses say, by their bytes.
        self._answers: dict[bytes, _Answer] = {}

    def _start(self, request: InferenceRequest, decoupled: bool, waits: bool = False) -> Call:
        """Sends a request; with waits its thread does nothing before the answer is there."""
        if not self.allowed:
            raise TritonModelException("BLS is only supported during the 'execute' function.")
        number = self._connection.calls.new()
        call = Call(number)
        # Without another thread nothing leaves before the answer, which lets the server save a switch or two.
        hints = ALONE if waits and not decoupled and threading.active_count() == 1 else 0
        preferred = request._preferred
        if preferred is not None and preferred._memory == _GPU and self._connection.devices.tell():
            hints |= DEVICE_OUTPUTS
        data = None if decoupled else self._short(request, number, hints)
        if data is None:
            data = frame(INFER, 0, number, encode(self._connection, request, decoupled, hints))
        self._calls[number] = call  # before anybody could answer it
        try:
            self._link.writer.send(data)
        except Closed:
            self._finish(call)
        return call

    def _short(self, request: InferenceRequest, number: int, hints: int) -> Optional[bytes]:
        """The whole frame of a plain request with small inputs; None for any other.

        Models ask the same again and again: all but the data stays as it was the last time.
        """
        if request._id or request._correlation or request._timeout or request._flags or request._parameters:
            return None
        trace = request._trace
        if request._priority or (trace is not None and trace._context):
            return None
        key: list[Any] = [request._model, request._version, hints, *request._outputs]
        data: list[bytes] = []
        for tensor in request._inputs:
            array = tensor._array
            if array is None:
                source = tensor._source
                if type(source) is not bytes:  # in shared memory, or on a GPU
                    return None
                part = source[tensor._start : tensor._start + tensor._size]
            elif tensor._number == BYTES:
                if 4 * array.size > self._connection.inline_limit:  # each has its length before it
                    return None
                part = pack_elements(array)
            elif array.nbytes > self._connection.inline_limit:
                return None
            else:
                part = array.tobytes()
            data.append(part)
            key += (tensor._name, tensor._number, tensor._shape, len(part))
        place = tuple(key)
        heads = self._heads
        head = heads.get(place)
        if head is None:
            if max(map(len, data), default=0) > self._connection.inline_limit:
                return None
            body = encode(self._connection, request, False, hints)
            begin = len(body) - sum(len(part) + (-len(part) & 7) for part in data)
            if begin <= MAX_BLOCKS:
                if len(heads) >= MAX_HEADS:
                    heads.clear()
                heads[place] = (len(body), body[:begin])
            return frame(INFER, 0, number, body)
        length, first = head
        parts = [HEADER.pack(MAGIC, VERSION, INFER, length, 0, 0, number), first]
        for part in data:
            parts.append(part)
            if len(part) & 7:
                parts.append(PADDING[len(part) & 7])
        return b"".join(parts)

    def _finish(self, call: Call) -> None:
        """Ends a call that nobody answers any more."""
        with self._link.changed:
            self._finish_locked(call)

    def _finish_locked(self, call: Call) -> None:
        self._calls.pop(call.number, None)
        if not call.finished:
            error = TritonError(end_text(self._link.failure), TritonError.UNAVAILABLE)
            call.responses.append(InferenceResponse(error=error))
            call.finished = True

    def exec(self, request: InferenceRequest, decoupled: bool) -> Any:
        """Sends a request; returns its response, or an iterator over them."""
        call = self._start(request, decoupled, not decoupled)
        if decoupled:
            return ResponseIterator(self, call)
        if not call.finished:
            self.wait(call, call.is_finished)
        return _only(call)

    def async_exec(self, request: InferenceRequest, decoupled: bool) -> Any:
        """Sends a request; returns a future of what exec returns, for the event loop that runs."""
        import asyncio  # a coroutine runs, so it is there already

        loop = asyncio.get_running_loop()
        done = loop.create_future()
        call = self._start(request, decoupled)
        changed = self._link.changed

        def settle() -> None:
            if not done.done():
                done.set_result(ResponseIterator(self, call) if decoupled else _only(call))

        def notify() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(settle)

        def forget(_: Any) -> None:
            if not done.cancelled():
                return
            with changed:
                if call.notify is not None:
                    call.notify = None
                    self._awaited -= 1
            self.abandon(call)  # nobody can take what comes

        with changed:
            if self._link.failure is not None:  # whoever read for coroutines has left
                self._finish_locked(call)
            if call.finished or (decoupled and call.responses):
                settle()
                return done
            done.add_done_callback(forget)
            self._awaited += 1
            call.notify = notify
            if self._pump is None:
                self._pump = threading.Thread(target=self._read_for_coroutines, name="neso-bls", daemon=True)
                self._pump.start()
            self._news.notify()
        return done

    def wait(self, call: Call, ready: Callable[[], Any]) -> None:
        """Waits; when the server goes away the call ends with an error."""
        try:
            self._link.wait(ready)
        except (Closed, ProtocolError):
            self._finish(call)

    def _read_for_coroutines(self) -> None:
        try:
            while True:
                with self._news:
                    while not self._awaited:
                        self._news.wait()
                self._link.wait(lambda: not self._awaited)
        except (Closed, ProtocolError):
            pass
        with self._link.changed:
            for call in list(self._calls.values()):
                if call.notify is not None:  # threads hear it themselves
                    self._finish_locked(call)
                    self._tell(call)

    def _tell(self, call: Call) -> None:
        notify, call.notify = call.notify, None
        if notify is not None:
            self._awaited -= 1
            notify()

    def on_responses(self, received: Frame) -> None:
        """Handles INFER_RESPONSES; runs under the link's lock."""
        _, _, number, data, start, end = received
        call = self._calls.get(number)
        response = self._known(data, start, end)
        if response is not None:
            if call is not None:
                call.responses.append(response)
                call.finished = True
                self._calls.pop(number, None)  # another thread may have abandoned it
                if call.notify is not None:
                    self._tell(call)
            return
        found = decode(self._connection, data, start, end)
        if len(found) == 1:
            self._note(*found[0], data, start)
        for flags, response in found:
            if call is None:
                continue  # nobody wants it any more
            call.responses.append(response)
            if flags & FINAL:
                call.finished = True
                self._calls.pop(number, None)
                self._tell(call)
                call = None
        if call is not None and call.responses:
            self._tell_decoupled(call)

    def _known(self, data: Any, base: int, end: int) -> Optional[InferenceResponse]:
        """The only and last response in a body, all inline, when one with the same blocks came before; else None."""
        if end - base < 64 or type(data) is not bytes:
            return None
        # Inline data begins behind all blocks: where the first output has its own, if that is inline.
        (begin,) = _OFFSET.unpack_from(data, base + 40)
        if begin > end - base:
            return None
        found = self._answers.get(data[base + 16 : base + begin])  # all but the count and the handle
        if found is None or found[0] > end - base or data[base : base + 8] != _ONE:
            return None
        outputs = []
        make = Tensor.__new__
        for name, number, shape, offset, size in found[1]:
            tensor = make(Tensor)
            tensor._name, tensor._number, tensor._shape, tensor._size = name, number, shape, size
            tensor._source, tensor._start, tensor._array = data, base + offset, None
            outputs.append(tensor)
        response = InferenceResponse.__new__(InferenceResponse)
        response._outputs, response._error, response._parameters = outputs, None, ""
        return response

    def _note(self, flags: int, response: InferenceResponse, data: Any, base: int) -> None:
        """Remembers the blocks of the only response in a body, if it is one that ``_known`` can make."""
        tensors = response._outputs
        if flags != FINAL or response._error is not None or response._parameters or not tensors:
            return
        if type(data) is not bytes or any(tensor._source is not data for tensor in tensors):
            return
        blocks = data[base + 16 : tensors[0]._start]
        if len(blocks) > MAX_BLOCKS:
            return
        if len(self._answers) >= MAX_HEADS:
            self._answers.clear()
        entries = [(t._name, t._number, t._shape, t._start - base, t._size) for t in tensors]
        self._answers[blocks] = (max(offset + size for _, _, _, offset, size in entries), entries)

    def _tell_decoupled(self, call: Call) -> None:
        # A coroutine that awaits a decoupled call gets its iterator with the first response; one that awaits a plain
        # call has no response before the final one.
        self._tell(call)

    def take(self, call: Call, response: InferenceResponse) -> None:
        """Notes that the model has taken a response, and tells the server when that is worth a frame."""
        if call.finished:
            return
        size = 0
        for tensor in response._outputs:
            size += tensor._size
        call.taken += 1 + size // CREDIT_BYTES
        if call.taken >= CREDIT_STEP:
            taken, call.taken = call.taken, 0
            with contextlib.suppress(Closed):  # whoever waits next hears it
                self._link.writer.send(frame(CREDIT, 0, call.number, COUNT.pack(taken)))

    def abandon(self, call: Call) -> None:
        """Cancels a call and drops what still comes. Never waits for another sender."""
        if not call.finished:
            call.finished = True
            self._calls.pop(call.number, None)
            self._link.writer.defer(frame(CANCEL, 0, call.number))

    def cancel(self, call: Call) -> None:
        """Asks the server to cancel a call; its responses still come, up to the final one."""
        if not call.finished:
            self._link.writer.send(frame(CANCEL, 0, call.number))


def _only(call: Call) -> InferenceResponse:
    for response in call.responses:
        if response.has_error() or response._outputs:
            return response
    return call.responses[0]


class ResponseIterator:
    """The responses to a decoupled call, as they come. The last one may be empty: no outputs and no error."""

    __slots__ = ("_bls", "_call")

    def __init__(self, bls: Bls, call: Call) -> None:
        self._bls = bls
        self._call = call

    def __iter__(self) -> ResponseIterator:
        return self

    def __next__(self) -> InferenceResponse:
        call = self._call
        if not call.responses and not call.finished:
            self._bls.wait(call, lambda: call.responses or call.finished)
        if call.responses:
            response = call.responses.popleft()
            self._bls.take(call, response)
            return response
        raise StopIteration

    def cancel(self) -> None:
        """Cancels the request; what was on its way may still come."""
        self._bls.cancel(self._call)

    def __del__(self) -> None:
        self._bls.abandon(self._call)
