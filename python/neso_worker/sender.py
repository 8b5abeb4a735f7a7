"""InferenceResponseSender: responses from any thread, in default mode and decoupled."""

from __future__ import annotations

import threading
from typing import Any, Optional

from . import eventloop
from .encode import ResponseFrame
from .errors import TritonError, TritonModelException
from .frames import FINAL
from .response import InferenceResponse

COMPLETE_FINAL = 1
# How many windows a coroutine may be ahead of the client when it sends without waiting for room.
LOOP_WINDOWS = 4
_FORGOTTEN = "The model dropped the response sender of the request without a final response."


class Answer:
    """How far the answer to one request is; outlives the sender."""

    __slots__ = (
        "batch", "closed", "credited", "handle", "lock", "sent", "spent", "waiter", "waiting", "wanted", "window",
    )  # fmt: skip

    def __init__(self, batch: Any, handle: int, wanted: Optional[list[int]]) -> None:
        self.batch = batch
        self.handle = handle
        self.wanted = wanted
        self.lock = threading.Lock()
        self.sent = 0
        self.closed = False
        # What was sent and what of it the client has taken, in units of the window; 0 for no window.
        self.window: int = batch.model.window if batch.model.decoupled else 0
        self.spent = 0
        self.credited = 0
        # Threads that wait for room, and the future of a coroutine that does.
        self.waiting = 0
        self.waiter: Any = None
        batch.expect(self)

    def credit(self, taken: int) -> None:
        """Notes what the client has taken; runs under the link's lock, which wakes the waiting threads."""
        self.credited += taken
        self._wake()

    def _wake(self) -> None:
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter.get_loop().call_soon_threadsafe(_finish, waiter)

    def _full(self, limit: int) -> bool:
        return self.spent - self.credited >= limit and not self.closed

    def wait_for_room(self) -> None:
        """Waits while a window's worth of responses is on its way to the client."""
        limit = self.window
        if not limit or self.spent - self.credited < limit:
            return
        if eventloop.here():
            # Waiting here holds up every other coroutine, so only when there is no other way.
            limit *= LOOP_WINDOWS
        self.waiting += 1
        try:
            self.batch.model.link.wait(lambda: not self._full(limit))
        finally:
            self.waiting -= 1

    async def room(self) -> None:
        """The same for a coroutine: others go on."""
        import asyncio  # there is a coroutine, so it has been imported

        while self.window and self._full(self.window):
            waiter = asyncio.get_running_loop().create_future()
            self.waiter = waiter
            if not self._full(self.window):  # meanwhile
                self._wake()
            await waiter

    def close_window(self) -> None:
        """Ends the waiting; the answer is closed. Takes no lock unless somebody waits."""
        if not self.window:
            return
        self.batch.model.worker.windows.pop(self.handle, None)
        self._wake()
        if self.waiting:
            changed = self.batch.model.link.changed
            with changed:
                changed.notify_all()


def _finish(waiter: Any) -> None:
    if not waiter.done():
        waiter.set_result(None)


class InferenceResponseSender:
    """Sends the responses to one request. The final flag must come once, also for cancelled requests."""

    __slots__ = ("__weakref__", "_answer")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def send(self, response: Optional[InferenceResponse] = None, flags: int = 0) -> None:
        """Sends a response, a final mark, or both."""
        answer = self._answer
        if flags not in (0, COMPLETE_FINAL):
            raise TritonModelException("Unable to send response. Unsupported flag provided.")
        if response is None:
            if flags == 0:
                raise TritonModelException(
                    "Inference Response object must be provided when the response flags is set to zero."
                )
        elif not isinstance(response, InferenceResponse):
            raise TypeError(f"response must be an InferenceResponse, found type '{type(response)}'")
        if response is not None:
            answer.wait_for_room()
        with answer.lock:
            self._check(response, flags)
            batch = answer.batch
            frame = ResponseFrame(batch.model, batch.number)
            final = flags == COMPLETE_FINAL
            if response is None:
                frame.add_final(answer.handle)
            else:
                frame.add(answer.handle, response, answer.wanted, FINAL if final else 0)
                answer.sent += 1
                if answer.window:
                    answer.spent += frame.cost()
            response = None
            if final:
                answer.closed = True
                batch.answered(answer, frame)
            else:
                batch.model.link.writer.send(frame.pack())

    def _check(self, response: Optional[InferenceResponse], flags: int) -> None:
        answer = self._answer
        if answer.closed:
            raise TritonModelException("Unable to send response. Response sender has been closed.")
        if not answer.batch.model.decoupled:
            if response is not None and answer.sent:
                answer.closed = True
                raise TritonModelException(
                    "Unable to send response. Non-decoupled model cannot send more than one response."
                )
            if response is None and flags == COMPLETE_FINAL and not answer.sent:
                raise TritonModelException(
                    "Unable to send response. Non-decoupled model cannot send complete final before sending a response."
                )

    async def send_async(self, response: Optional[InferenceResponse] = None, flags: int = 0) -> None:
        """Like send, for coroutines: while the client does not keep up, others go on."""
        if response is not None:
            await self._answer.room()
        self.send(response, flags)

    def is_cancelled(self) -> bool:
        """Whether the client gave the request up."""
        return self._answer.batch.is_cancelled(self._answer.handle)

    def __del__(self) -> None:
        answer = getattr(self, "_answer", None)
        if answer is not None and not answer.closed:
            # Nobody else can answer; without this the client would wait for ever.
            answer.closed = True
            frame = ResponseFrame(answer.batch.model, answer.batch.number)
            if answer.sent:
                frame.add_final(answer.handle)
            else:
                error = InferenceResponse(error=TritonError(_FORGOTTEN))
                frame.add(answer.handle, error, None, FINAL)
            answer.batch.answered(answer, frame, collecting=True)
