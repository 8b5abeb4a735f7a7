"""One instance of a bound model: a thread that takes batches and runs a callable.

Batches of shape batch are answered here, lists of requests in ``job``.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from collections import deque
from types import GeneratorType
from typing import Any, Callable, Optional

from neso_runtime.batchshape import Entry, decode_batch, fail_batch, send_batch
from neso_runtime.channel import Closed, Frame
from neso_runtime.errors import TritonModelException
from neso_runtime.frames import (
    EXECUTE,
    EXECUTE_BATCH,
    READY,
    UNLOAD,
    ProtocolError,
    done_frame,
    json_frame,
)  # fmt: skip
from neso_runtime.leases import Lease

from . import where
from .bursts import Bursts
from .function import Function
from .inputs import decode_requests
from .job import Job
from .loop import Loop
from .memory import current
from .returned import awaited, only, only_async, wrong_rows


class Instance:
    """A callable, its thread and the frames that wait for it."""

    def __init__(
        self,
        function: Function,
        bursts: Bursts,
        shared: Loop,
        call: int,
        unloaded: Callable[[Instance], None],
    ) -> None:
        """call is the number of INIT, unloaded is called when the thread ends."""
        self._function = function
        self._tables = function.tables
        self._connection = function.tables.connection
        self._bursts = bursts
        self.number = function.tables.instance
        self.model = function.model
        self.work: deque[Frame] = deque()
        self._call = call
        self._unloaded = unloaded
        self._shared = shared
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._running: set[Any] = set()
        # For coroutines: code that was written for one batch at a time is not entered again meanwhile.
        self._turns: Optional[asyncio.Semaphore] = None
        # The thread does not run the callable, and is not about to: it waits for work, or is being unloaded.
        self.idle = True
        # Nothing more is sent: it is unloaded, or the server is gone.
        self._over = False
        self.thread = threading.Thread(target=self._run, name=f"neso-{function.name}", daemon=True)

    def _run(self) -> None:
        connection, link, work = self._connection, self._connection.link, self.work
        tables = self._tables
        current.store = tables.store
        arrived = work.__len__
        try:
            link.writer.send(json_frame(READY, self.number, self._call, {"async": self._function.is_async}))
            while True:
                if not work:
                    connection.rest()
                    self.idle = True
                    link.wait(arrived)
                kind, _, call, data, start, end = work.popleft()
                self.idle = kind == UNLOAD
                if kind == EXECUTE and tables.board is not None and not tables.begins(call):
                    continue
                if kind == EXECUTE_BATCH:
                    self._execute_batch(call, data, start, end)
                elif kind == EXECUTE:
                    self._execute(call, data, start, end)
                elif kind == UNLOAD:
                    self._end()
                    self._unloaded(self)
                    link.writer.send(json_frame(READY, self.number, call, {}))
                    return
                data = None
        except (Closed, OSError):  # the server is gone, or stop was called
            pass
        except ProtocolError as error:
            print(f"worker protocol: {error}", file=sys.stderr)
            link.end(error)
        finally:
            self._end()
            self._unloaded(self)

    def _end(self) -> None:
        self._over = True
        self._loop = None
        self._shared.leave(self.number)

    def stuck_at(self) -> Optional[str]:
        """Where in the user's code the callable is, as ``file:line in function``; None when it is not called now."""
        if not self.thread.is_alive():
            return None
        if not self.idle:
            return where.of_thread(self.thread)
        loop = self._loop
        return where.of_tasks(loop) if self._running and loop is not None else None

    # Batch shape: one call for everything.

    def _execute_batch(self, number: int, data: Any, start: int, end: int) -> None:
        rows, inputs, leases = decode_batch(self._tables, data, start, end)
        data = None
        if self._function.is_async:
            self._start(self._batch_later(number, rows, inputs, leases))
            return
        try:
            result = self._function.callable(**inputs)
            if type(result) is not dict:
                if inspect.isawaitable(result):
                    result = self._await(result)
                elif isinstance(result, GeneratorType):
                    result = only(result)
                elif inspect.isasyncgen(result):
                    result = self._await(only_async(result))
            entries = self._batch_entries(result, rows, leases)
        except BaseException as error:
            inputs = result = None  # type: ignore[assignment]
            self._fail(number, error, leases)
            return
        inputs = result = None  # type: ignore[assignment]
        self._send_batch(number, entries, leases)

    async def _batch_later(self, number: int, rows: int, inputs: Any, leases: list[Lease]) -> None:
        try:
            result = self._function.callable(**inputs)
            result = await (only_async(result) if inspect.isasyncgen(result) else result)
            entries = self._batch_entries(result, rows, leases)
        except BaseException as error:
            inputs = result = None
            if not self._over:
                self._fail(number, error, leases)
            return
        inputs = result = None
        self._send_batch(number, entries, leases)

    def _batch_entries(self, result: Any, rows: int, leases: list[Lease]) -> list[Entry]:
        outputs = self._function.named(result)
        if self._function.check is not None:
            self._function.check(outputs)
        entry = self._tables.entry
        entries: list[Entry] = []
        try:
            for name, array in outputs.items():
                made = entry(name, array, None, leases)
                if made is None:
                    continue
                entries.append(made)
                if not made[2] or made[2][0] != rows:
                    raise wrong_rows(outputs, rows)
        except BaseException:
            self._tables.drop(entries)
            raise
        return entries

    def _send_batch(self, number: int, entries: list[Entry], leases: list[Lease]) -> None:
        try:
            if leases:
                self._tables.settle(entries, leases)
            send_batch(self._tables, number, entries, leases)
        except TritonModelException as error:  # no memory
            self._fail(number, error, leases)
        except ValueError as error:  # more than a frame may have
            self._tables.drop(entries)
            self._fail(number, error, [])

    def _fail(self, number: int, error: BaseException, leases: list[Lease]) -> None:
        """Answers a whole batch with an error."""
        message, trace = self._function.describe(error)
        error.__traceback__ = None  # its frames refer to the inputs
        fail_batch(self._tables, number, leases, done_frame(self.number, number, message, trace))

    # Requests shape: a list of requests.

    def _execute(self, number: int, data: Any, start: int, end: int) -> None:
        requests = decode_requests(self._tables, data, start, end)
        data = None
        job = Job(self._function, self._bursts, number, requests)
        if self._function.is_async:
            self._start(job.later(lambda: self._over))
            return
        try:
            result = self._function.call_requests(requests)
            del requests
            if inspect.isawaitable(result):
                result = self._await(result)
            elif isinstance(result, GeneratorType):
                job.stream(result)
                return
            elif inspect.isasyncgen(result):
                self._await(job.stream_async(result))
                return
            if self._tables.decoupled:
                # A stream of one: its clients take a final response for the empty end.
                job.stream((result,))
                return
            frame = job.answer(result)
            result = None
            job.send(frame, True)
        except BaseException as error:
            result = None
            job.fail(error)

    # Coroutines run on a loop of the instance's own.

    def loop(self) -> asyncio.AbstractEventLoop:
        """The callable's event loop, in a thread of its own."""
        if self._loop is None:
            self._loop = self._shared.use(self.number, self._function.name)
        return self._loop

    def _await(self, awaitable: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(awaited(awaitable), self.loop()).result()

    async def _in_turn(self, coroutine: Any) -> None:
        if self._turns is None:  # made here: until Python 3.10 it belongs to the loop that runs
            self._turns = asyncio.Semaphore(self._function.depth)
        try:
            async with self._turns:
                await coroutine
        finally:
            coroutine.close()  # given up before it had its turn

    def _start(self, coroutine: Any) -> None:
        future = asyncio.run_coroutine_threadsafe(self._in_turn(coroutine), self.loop())
        self._running.add(future)
        future.add_done_callback(self._running.discard)
