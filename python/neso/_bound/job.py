"""A list of requests that is being answered: at once, or part by part as a generator yields."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from types import GeneratorType
from typing import Any, Callable, Optional

from neso_runtime.encode import fail_requests
from neso_runtime.frames import FINAL
from neso_runtime.leases import Lease
from neso_runtime.window import Window

from .bursts import Bursts
from .function import Function
from .inputs import Request
from .outputs import Responses, check_list, check_response
from .returned import one, only, only_async


class Job:
    """A list of requests that is being answered."""

    def __init__(self, function: Function, bursts: Bursts, number: int, requests: list[Request]) -> None:
        self._function = function
        self._tables = function.tables
        self._answers = function.tables.connection.answers
        self._bursts = bursts
        self.number = number
        self.requests = requests
        self.handles = [r.handle for r in requests]
        self.wanted = [r.wanted for r in requests]
        self.leases: Optional[dict[int, list[Lease]]] = {r.handle: r.leases for r in requests if r.leases} or None

    def _responses(self, result: Any, flags: int) -> Responses:
        tables = self._tables
        check_list(tables.model, result, len(self.handles))
        frame = Responses(tables, self.number)
        check = self._function.check
        # What stays in an input must not change before it is sent: only a last answer does not.
        leases = self.leases if self.leases and flags & FINAL else {}
        try:
            for handle, wanted, response in zip(self.handles, self.wanted, result):
                outputs = check_response(tables.model, response)
                if check is not None:
                    check(outputs)
                frame.add_dict(handle, outputs, wanted, flags, leases.get(handle, ()))
        except BaseException:
            tables.drop(frame._outputs)
            raise
        return frame

    def send(self, frame: Responses, ends: bool) -> None:
        """Sends responses; nothing may refer to the inputs any more on the way to their last answer."""
        writer = self._tables.link.writer
        self.requests = []
        if self.leases is None:
            writer.send(frame.pack(ends))
            return
        for leases in self.leases.values():
            self._tables.settle(frame._outputs, leases)
        with writer.lock:
            writer.send_locked(frame.pack(ends, self.leases))

    def answer(self, result: Any) -> Responses:
        """The last answers, of what a callable has returned; to be sent when nothing refers to that any more."""
        frame = self._responses(result, FINAL)
        self.requests = []
        return frame

    def stream(self, results: Any) -> None:
        """Sends what a generator yields, each as it comes."""
        self.requests = []
        if not self._tables.decoupled:
            self.send(self.answer(only(results)), True)
            return
        send = self._bursts.send
        with self._windows() as windows:
            for result in results:
                for window in windows:
                    window.wait()
                send(self._part(result, windows))
                result = None
                if self._cancelled():
                    if isinstance(results, GeneratorType):
                        results.close()
                    break
        self._end_stream()

    async def stream_async(self, results: Any) -> None:
        """The same for an asynchronous generator."""
        self.requests = []
        if not self._tables.decoupled:
            self.send(self.answer(await only_async(results)), True)
            return
        send = self._bursts.send
        with self._windows() as windows:
            async for result in results:
                for window in windows:
                    await window.room()
                send(self._part(result, windows))
                result = None
                if self._cancelled():
                    await results.aclose()
                    break
        self._end_stream()

    def _cancelled(self) -> bool:
        """Whether nobody wants any of the requests any more."""
        cancelled = self._answers.cancelled
        return bool(cancelled) and all(handle in cancelled for handle in self.handles)

    @contextlib.contextmanager
    def _windows(self) -> Iterator[list[Window]]:
        """The windows of the requests, as long as their responses are made."""
        open_windows, limit = self._answers.windows, self._tables.window
        if not limit:
            yield []
            return
        windows = [Window(self._tables.link, limit) for _ in self.handles]
        open_windows.update(zip(self.handles, windows))
        try:
            yield windows
        finally:
            for handle in self.handles:
                open_windows.pop(handle, None)

    def _part(self, result: Any, windows: list[Window]) -> bytes:
        """The frame of what a generator has yielded."""
        frame = self._responses(result, 0)
        if windows:
            for window, cost in zip(windows, frame.costs()):
                window.spent += cost
        return frame.pack()

    def _end_stream(self) -> None:
        frame = Responses(self._tables, self.number)
        for handle in self.handles:
            frame.add_final(handle)
        self.send(frame, True)

    async def later(self, over: Callable[[], bool]) -> None:
        """Runs a coroutine function or an asynchronous generator function; over says that nothing more is sent."""
        try:
            result = self._function.call_requests(self.requests)
            self.requests = []
            if inspect.isasyncgen(result):
                await self.stream_async(result)
                return
            result = await result
            if self._tables.decoupled:
                await self.stream_async(one(result))
                return
            frame = self.answer(result)
            result = None
            self.send(frame, True)
        except BaseException as error:
            result = None
            if not over():
                self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Answers everything that is open with an error."""
        self.requests = []
        message, trace = self._function.describe(error)
        error.__traceback__ = None
        with self._tables.link.writer.lock:
            fail_requests(self._tables, self.number, self.leases, self._function.name, message, trace)
