"""What one execute and the answers to its requests have in common."""

from __future__ import annotations

import _thread
import contextlib
import threading
from typing import Optional

from neso_runtime.answers import Answers
from neso_runtime.channel import Closed
from neso_runtime.connection import Tables
from neso_runtime.encode import ResponseFrame
from neso_runtime.leases import Lease
from neso_runtime.window import Window


class Answer:
    """How far the answer to one request is; outlives the sender."""

    __slots__ = ("batch", "closed", "done", "handle", "lock", "sent", "wanted", "window")

    def __init__(self, batch: Batch, handle: int, wanted: Optional[list[int]]) -> None:
        self.batch = batch
        self.handle = handle
        self.wanted = wanted
        self.lock = threading.Lock()
        self.sent = 0
        self.closed = False
        # The final response has left, or is part of what execute returned: a little later than closed.
        self.done = False
        tables = batch.tables
        self.window = Window(tables.link, tables.window) if tables.decoupled and tables.window else None
        batch.expect(self)

    def close_window(self) -> None:
        """Ends the waiting of senders; the answer is closed."""
        if self.window is not None:
            self.batch.owed.windows.pop(self.handle, None)
            self.window.close()


class Batch:
    """What requests and senders of one execute refer to. It must not refer to them."""

    __slots__ = ("again", "answers", "broken", "ended", "failed", "leases", "number", "open", "owed", "tables")

    def __init__(self, tables: Tables, owed: Answers, number: int) -> None:
        self.tables = tables
        # Of the whole process.
        self.owed = owed
        self.number = number
        # Leases of inputs in shared memory by handle; None when there are none.
        self.leases: Optional[dict[int, list[Lease]]] = None
        # What is wrong with requests that the model is not given, by handle; None when there are none.
        self.broken: Optional[dict[int, str]] = None
        # Answers of requests whose response sender was asked for, by handle.
        self.answers: Optional[dict[int, Answer]] = None
        # Handles of requests that are to run again; None when there are none.
        self.again: Optional[set[int]] = None
        # Requests without a final response, once execute has returned and they decide about the end of the batch.
        self.open = 0
        self.ended = False
        self.failed = False

    def reschedule(self, handle: int, again: bool) -> None:
        """Notes whether a request is to run again when execute returns."""
        if again:
            if self.again is None:
                self.again = set()
            self.again.add(handle)
        elif self.again is not None:
            self.again.discard(handle)

    def expect(self, answer: Answer) -> None:
        """Notes that a request is answered through a sender."""
        with self.tables.link.writer.lock:
            if self.answers is None:
                self.answers = {}
            self.answers[answer.handle] = answer
            if self.failed:
                answer.closed = True
            else:
                self.owed.open += 1
                if answer.window is not None:
                    self.owed.windows[answer.handle] = answer.window

    def answered(self, answer: Answer, frame: ResponseFrame, collecting: bool = False) -> None:
        """Sends the frame with the final response of a request; the last one ends the batch.

        While collecting garbage it waits for no lock: another thread does.
        """
        writer = self.tables.link.writer
        if collecting and not writer.lock.acquire(blocking=False):
            _thread.start_new_thread(self._answered_late, (answer, frame))
            return
        if not collecting:
            writer.lock.acquire()
        try:
            self._answered_locked(answer, frame)
        finally:
            writer.lock.release()

    def _answered_late(self, answer: Answer, frame: ResponseFrame) -> None:
        with contextlib.suppress(Closed, OSError):  # told to whoever sends next
            self.answered(answer, frame)

    def _answered_locked(self, answer: Answer, frame: ResponseFrame) -> None:
        """Like answered; the caller holds the writer's lock."""
        self.owed.open -= 1
        self.owed.cancelled.discard(answer.handle)
        answer.done = True
        answer.close_window()
        if self.failed:
            return  # the error of the batch has answered it
        if self.open:
            self.open -= 1
        ends = self.ended and not self.open and not self.tables.decoupled
        self.tables.link.writer.send_locked(frame.pack(ends, self.leases))

    def fail_answers(self) -> None:
        """The error of the batch answers what senders have not."""
        with self.tables.link.writer.lock:
            self.failed = True
            for answer in (self.answers or {}).values():
                if not answer.closed:
                    answer.closed = True
                    answer.close_window()
                    self.owed.open -= 1

    def take_over(self, answer: Optional[Answer]) -> bool:
        """Whether a returned response is the answer: not when the sender gave it already."""
        if answer is None:
            return True
        with answer.lock:
            if answer.closed:
                return False
            answer.closed = answer.done = True
        answer.close_window()
        self.owed.open -= 1
        return True
