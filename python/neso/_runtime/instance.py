"""One instance of a bound model: a thread that takes batches and runs a callable.

Batches of shape batch are answered here, lists of requests in ``job``.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import traceback
from collections import deque
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from neso_worker.batchshape import BATCH_HELD, Entry, decode_batch, pack_batch
from neso_worker.channel import Closed, Frame
from neso_worker.errors import TritonModelException, full_traceback
from neso_worker.frames import (
    ENDS_BATCH,
    EXECUTE,
    EXECUTE_BATCH,
    NOT_BEGUN,
    READY,
    UNLOAD,
    ProtocolError,
    done_frame,
    frame,
    json_frame,
)  # fmt: skip
from neso_worker.leases import Lease
from neso_worker.memory import RECALLED

from . import where
from .binding import BATCH, Binding
from .inputs import Request, decode_requests
from .job import Job
from .loop import Loop
from .memory import current
from .outputs import Tables
from .returned import Split, awaited, is_coroutine, only, only_async, rows_of, wrong_rows

if TYPE_CHECKING:
    from .connection import Connection


# How many streams of a decoupled model a coroutine function may have at once, where its user does not say.
STREAMS = 32


def depth(binding: Binding) -> int:
    """How many batches one instance of a coroutine function has at once."""
    policy = binding.config.get("model_transaction_policy") or {}
    return STREAMS if binding.concurrency is None and policy.get("decoupled") else 1


class Instance:
    """A callable, its thread and the frames that wait for it."""

    def __init__(
        self,
        connection: Connection,
        number: int,
        call: int,
        order: dict[str, Any],
        binding: Binding,
        index: int,
        shared: Loop,
    ) -> None:
        self.connection = connection
        self.number = number
        self.tables = Tables(connection, number, order)
        self.name = str(order.get("name") or binding.name)
        self.model = binding.name
        self.work: deque[Frame] = deque()
        # Where the thread writes which batch it begins; None when nothing is sent ahead.
        self._words = connection.segments.words(order.get("board"))
        self._call = call
        self._binding = binding
        self._callable = binding.callables[index]
        self.check = binding.check
        self._async = is_coroutine(self._callable)
        self._shared = shared
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._running: set[Any] = set()
        # For coroutines: code that was written for one batch at a time is not entered again meanwhile.
        self._turns: Optional[asyncio.Semaphore] = None
        # The thread does not run the callable, and is not about to: it waits for work, or is being unloaded.
        self.idle = True
        # Nothing more is sent: it is unloaded, or the server is gone.
        self.over = False
        self.thread = threading.Thread(target=self._run, name=f"neso-{self.name}", daemon=True)

    def _run(self) -> None:
        connection, link, work = self.connection, self.connection.link, self.work
        current.connection = connection
        arrived = work.__len__
        words = self._words
        leases = connection.leases
        try:
            link.writer.send(json_frame(READY, self.number, self._call, {"async": self._async}))
            while True:
                if not work:
                    connection.segments.private.settle()
                    if leases.pending() or link.writer.waiting():
                        link.writer.flush()
                    self.idle = True
                    link.wait(arrived)
                kind, _, call, data, start, end = work.popleft()
                self.idle = kind == UNLOAD
                if words is not None and kind == EXECUTE:
                    # In this order: what the server recalls at this moment, it sees begun, or it is seen here.
                    words[0] = call
                    if call <= words[RECALLED]:
                        link.writer.send(frame(NOT_BEGUN, self.number, call))
                        continue
                if kind == EXECUTE_BATCH:
                    self._execute_batch(call, data, start, end)
                elif kind == EXECUTE:
                    self._execute(call, data, start, end)
                elif kind == UNLOAD:
                    self._end()
                    connection.unloaded(self)
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
            connection.unloaded(self)

    def _end(self) -> None:
        self.over = True
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
        rows, inputs, leases = decode_batch(self.tables, data, start, end)
        data = None
        if self._async:
            self._start(self._batch_later(number, rows, inputs, leases))
            return
        try:
            result = self._callable(**inputs)
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
            result = self._callable(**inputs)
            result = await (only_async(result) if inspect.isasyncgen(result) else result)
            entries = self._batch_entries(result, rows, leases)
        except BaseException as error:
            inputs = result = None
            if not self.over:
                self._fail(number, error, leases)
            return
        inputs = result = None
        self._send_batch(number, entries, leases)

    def _batch_entries(self, result: Any, rows: int, leases: list[Lease]) -> list[Entry]:
        outputs = self._named(result)
        if self.check is not None:
            self.check(outputs)
        entry = self.tables.entry
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
            self.tables.drop(entries)
            raise
        return entries

    def _named(self, result: Any) -> dict[str, Any]:
        """Outputs of a batch callable as a dict."""
        if isinstance(result, dict):
            return result
        names = self.tables.output_names
        if isinstance(result, (list, tuple)):
            if len(result) != len(names):
                raise ValueError("Outputs length different than config outputs length")
            return dict(zip(names, result))
        raise ValueError(f"Unsupported output type {type(result)}.")

    def _send_batch(self, number: int, entries: list[Entry], leases: list[Lease]) -> None:
        writer = self.connection.link.writer
        try:
            if not leases:
                writer.send(pack_batch(self.number, number, entries, ENDS_BATCH))
                return
            try:
                self.tables.settle(entries, leases)
            except TritonModelException as error:  # no memory
                self._fail(number, error, leases)
                return
            with writer.lock:
                flags = ENDS_BATCH | BATCH_HELD if self.tables.leases.held(leases) else ENDS_BATCH
                writer.send_locked(pack_batch(self.number, number, entries, flags))
        except ValueError as error:  # more than a frame may have
            self.tables.drop(entries)
            self._fail(number, error, [])

    def _fail(self, number: int, error: BaseException, leases: list[Lease]) -> None:
        """Answers a whole batch with an error."""
        message, trace = self.describe(error)
        error.__traceback__ = None  # its frames refer to the inputs
        writer = self.connection.link.writer
        with writer.lock:
            if leases and self.tables.leases.held(leases):
                writer.hold_locked(pack_batch(self.number, number, [], BATCH_HELD))
            writer.send_locked(done_frame(self.number, number, message, trace))

    def describe(self, error: BaseException) -> tuple[str, str]:
        """What the client and what the server's log gets.

        on_error has logged the traceback in this process, so that the server's log, which is most often shown beside
        it, need not have it again.
        """
        message: Optional[str] = None
        if self._binding.on_error is not None:
            try:
                message = self._binding.on_error(error)
            except Exception:
                traceback.print_exc()
        if message is None:
            try:
                text = str(error)
            except Exception:  # a broken __str__ must not hide the failure
                text = ""
            message = f"TritonModelException: Model execute error: {type(error).__name__}: {text}"
            return message, full_traceback(error)
        return message or type(error).__name__, ""

    # Requests shape: a list of requests.

    def _execute(self, number: int, data: Any, start: int, end: int) -> None:
        requests = decode_requests(self.tables, data, start, end)
        data = None
        job = Job(self, number, requests)
        if self._async:
            self._start(job.later(self._callable))
            return
        try:
            result = self.call_requests(requests)
            del requests
            if inspect.isawaitable(result):
                result = self._await(result)
            elif isinstance(result, GeneratorType):
                job.stream(result)
                return
            elif inspect.isasyncgen(result):
                self._await(job.stream_async(result))
                return
            if self.tables.decoupled:
                # A stream of one: its clients take a final response for the empty end.
                job.stream((result,))
                return
            frame = job.answer(result)
            result = None
            job.send(frame, True)
        except BaseException as error:
            result = None
            job.fail(error)

    def call_requests(self, requests: list[Request]) -> Any:
        """Calls the callable; one of shape batch gets what the server would have gathered."""
        binding = self._binding
        if binding.shape != BATCH:
            make, names = binding.make_request, self.tables.output_names
            made = [
                make(r.inputs, r.parameters, None if r.wanted is None else [names[i] for i in r.wanted])
                for r in requests
            ]
            for request, r in zip(made, requests):
                if r.trace:
                    request.trace_context = r.trace
            return self._callable(made)
        if len(requests) == 1:
            return Split(self._named, self._callable(**requests[0].inputs), None).result()
        rows = [rows_of(r.inputs) for r in requests]
        inputs = {name: np.concatenate([r.inputs[name] for r in requests]) for name in requests[0].inputs}
        return Split(self._named, self._callable(**inputs), rows).result()

    # Coroutines run on a loop of the instance's own.

    def loop(self) -> asyncio.AbstractEventLoop:
        """The callable's event loop, in a thread of its own."""
        if self._loop is None:
            self._loop = self._shared.use(self.number, self.name)
        return self._loop

    def _await(self, awaitable: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(awaited(awaitable), self.loop()).result()

    async def _in_turn(self, coroutine: Any) -> None:
        if self._turns is None:  # made here: until Python 3.10 it belongs to the loop that runs
            self._turns = asyncio.Semaphore(depth(self._binding))
        try:
            async with self._turns:
                await coroutine
        finally:
            coroutine.close()  # given up before it had its turn

    def _start(self, coroutine: Any) -> None:
        future = asyncio.run_coroutine_threadsafe(self._in_turn(coroutine), self.loop())
        self._running.add(future)
        future.add_done_callback(self._running.discard)
