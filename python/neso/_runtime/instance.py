"""One instance of a bound model: a thread that takes batches and runs a callable."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterator
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from neso_worker.batchshape import BATCH_HELD, Entry, decode_batch, pack_batch
from neso_worker.channel import Closed, Frame
from neso_worker.errors import TritonError, TritonModelException, full_traceback
from neso_worker.frames import (
    ENDS_BATCH,
    EXECUTE,
    EXECUTE_BATCH,
    FINAL,
    READY,
    UNLOAD,
    ProtocolError,
    done_frame,
    json_frame,
)  # fmt: skip
from neso_worker.leases import Lease
from neso_worker.window import Window

from .binding import BATCH, Binding
from .inputs import Request, decode_requests
from .memory import current
from .outputs import Responses, Tables, check_list, check_response

if TYPE_CHECKING:
    from .connection import Connection


class Instance:
    """A callable, its thread and the frames that wait for it."""

    def __init__(
        self, connection: Connection, number: int, call: int, order: dict[str, Any], binding: Binding, index: int
    ) -> None:
        self.connection = connection
        self.number = number
        self.tables = Tables(connection, number, order)
        self.name = str(order.get("name") or binding.name)
        self.work: deque[Frame] = deque()
        self._call = call
        self._binding = binding
        self._callable = binding.callables[index]
        self._check = binding.check
        self._async = is_coroutine(self._callable)
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._running: set[Any] = set()
        self.thread = threading.Thread(target=self._run, name=f"neso-{self.name}", daemon=True)

    def _run(self) -> None:
        connection, link, work = self.connection, self.connection.link, self.work
        current.connection = connection
        arrived = work.__len__
        leases = connection.leases
        try:
            link.writer.send(json_frame(READY, self.number, self._call, {"async": self._async}))
            while True:
                if not work:
                    if leases.pending() or link.writer.waiting():
                        link.writer.flush()
                    link.wait(arrived)
                kind, _, call, data, start, end = work.popleft()
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
            connection.broken(error)
        finally:
            self._end()
            connection.unloaded(self)

    def _end(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

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
                    result = _only(result)
                elif inspect.isasyncgen(result):
                    result = self._await(_only_async(result))
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
            result = await (_only_async(result) if inspect.isasyncgen(result) else result)
            entries = self._batch_entries(result, rows, leases)
        except BaseException as error:
            inputs = result = None
            self._fail(number, error, leases)
            return
        inputs = result = None
        self._send_batch(number, entries, leases)

    def _batch_entries(self, result: Any, rows: int, leases: list[Lease]) -> list[Entry]:
        outputs = self._named(result)
        if self._check is not None:
            self._check(outputs)
        entry = self.tables.entry
        entries: list[Entry] = []
        try:
            for name, array in outputs.items():
                made = entry(name, array, None, leases)
                if made is None:
                    continue
                entries.append(made)
                if not made[2] or made[2][0] != rows:
                    raise _wrong_rows(outputs, rows)
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
        message, trace = self._describe(error)
        error.__traceback__ = None  # its frames refer to the inputs
        writer = self.connection.link.writer
        with writer.lock:
            if leases and self.tables.leases.held(leases):
                writer.hold_locked(pack_batch(self.number, number, [], BATCH_HELD))
            writer.send_locked(done_frame(self.number, number, message, trace))

    def _describe(self, error: BaseException) -> tuple[str, str]:
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
        job = _Job(self, number, requests)
        if self._async:
            self._start(job.later(self._callable))
            return
        try:
            result = self._call_requests(requests)
            del requests
            if inspect.isawaitable(result):
                result = self._await(result)
            elif isinstance(result, GeneratorType):
                job.stream(result)
                return
            elif inspect.isasyncgen(result):
                self._await(job.stream_async(result))
                return
            frame = job.answer(result)
            result = None
            job.send(frame, True)
        except BaseException as error:
            result = None
            job.fail(error)

    def _call_requests(self, requests: list[Request]) -> Any:
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
            return _Split(self, self._callable(**requests[0].inputs), None).result()
        rows = [_rows(r.inputs) for r in requests]
        inputs = {name: np.concatenate([r.inputs[name] for r in requests]) for name in requests[0].inputs}
        return _Split(self, self._callable(**inputs), rows).result()

    # Coroutines run on a loop of the instance's own.

    def loop(self) -> asyncio.AbstractEventLoop:
        """The instance's event loop, in a thread of its own."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(
                target=self._run_loop, args=(self._loop,), name=f"neso-{self.name}-loop", daemon=True
            ).start()
        return self._loop

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        current.connection = self.connection
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.close()

    def _await(self, awaitable: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(_awaited(awaitable), self.loop()).result()

    def _start(self, coroutine: Any) -> None:
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop())
        self._running.add(future)
        future.add_done_callback(self._running.discard)


class _Job:
    """A list of requests that is being answered."""

    def __init__(self, instance: Instance, number: int, requests: list[Request]) -> None:
        self.instance = instance
        self.number = number
        self.requests = requests
        self.handles = [r.handle for r in requests]
        self.wanted = [r.wanted for r in requests]
        self.leases: Optional[dict[int, list[Lease]]] = {r.handle: r.leases for r in requests if r.leases} or None

    def _responses(self, result: Any, flags: int) -> Responses:
        instance, tables = self.instance, self.instance.tables
        check_list(tables.model, result, len(self.handles))
        frame = Responses(tables, self.number)
        check = instance._check
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
        writer = self.instance.connection.link.writer
        self.requests = []
        if self.leases is None:
            writer.send(frame.pack(ends))
            return
        for leases in self.leases.values():
            self.instance.tables.settle(frame._outputs, leases)
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
        if not self.instance.tables.decoupled:
            self.send(self.answer(_only(results)), True)
            return
        send = self.instance.connection.bursts.send
        with self._windows() as windows:
            for result in results:
                for window in windows:
                    window.wait()
                send(self._part(result, windows))
                result = None
        self._end_stream()

    async def stream_async(self, results: Any) -> None:
        """The same for an asynchronous generator."""
        self.requests = []
        if not self.instance.tables.decoupled:
            self.send(self.answer(await _only_async(results)), True)
            return
        send = self.instance.connection.bursts.send
        with self._windows() as windows:
            async for result in results:
                for window in windows:
                    await window.room()
                send(self._part(result, windows))
                result = None
        self._end_stream()

    @contextlib.contextmanager
    def _windows(self) -> Iterator[list[Window]]:
        """The windows of the requests, as long as their responses are made."""
        connection, limit = self.instance.connection, self.instance.tables.window
        if not limit:
            yield []
            return
        windows = [Window(connection.link, limit) for _ in self.handles]
        connection.windows.update(zip(self.handles, windows))
        try:
            yield windows
        finally:
            for handle in self.handles:
                connection.windows.pop(handle, None)

    def _part(self, result: Any, windows: list[Window]) -> bytes:
        """The frame of what a generator has yielded."""
        frame = self._responses(result, 0)
        if windows:
            for window, cost in zip(windows, frame.costs()):
                window.spent += cost
        return frame.pack()

    def _end_stream(self) -> None:
        frame = Responses(self.instance.tables, self.number)
        for handle in self.handles:
            frame.add_final(handle)
        self.send(frame, True)

    async def later(self, function: Any) -> None:
        """Runs a coroutine function or an asynchronous generator function."""
        try:
            result = self.instance._call_requests(self.requests)
            self.requests = []
            if inspect.isasyncgen(result):
                await self.stream_async(result)
                return
            frame = self.answer(await result)
            result = None
            self.send(frame, True)
        except BaseException as error:
            result = None
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Answers everything that is open with an error."""
        self.requests = []
        instance = self.instance
        message, trace = instance._describe(error)
        error.__traceback__ = None
        writer = instance.connection.link.writer
        text = f"Failed to process the request(s) for model '{instance.name}', message: {message}"
        held = instance.tables.leases
        with writer.lock:
            if self.leases:
                frame = Responses(instance.tables, self.number)
                for handle, leases in self.leases.items():
                    if any(lease() is not None for lease in leases):
                        frame.add_error(handle, text, TritonError.INTERNAL, FINAL)
                if frame._blocks:
                    writer.hold_locked(frame.pack(False, self.leases))
            del held
            writer.send_locked(done_frame(instance.number, self.number, message, trace))


class _Split:
    """Turns what a batch callable gives for several requests into a list of responses."""

    def __init__(self, instance: Instance, result: Any, rows: Optional[list[int]]) -> None:
        self._instance, self._result, self._rows = instance, result, rows

    def result(self) -> Any:
        """What a callable of requests would have returned."""
        result = self._result
        if inspect.isawaitable(result):
            return self._later(result)
        if isinstance(result, GeneratorType):
            return (self._split(part) for part in result)
        if inspect.isasyncgen(result):
            return self._parts(result)
        return self._split(result)

    async def _later(self, result: Any) -> Any:
        return self._split(await result)

    async def _parts(self, results: Any) -> Any:
        async for part in results:
            yield self._split(part)

    def _split(self, result: Any) -> list[dict[str, Any]]:
        outputs = self._instance._named(result)
        rows = self._rows
        if rows is None:
            return [outputs]
        total = sum(rows)
        for array in outputs.values():
            if not isinstance(array, np.ndarray) or not array.shape or array.shape[0] != total:
                raise _wrong_rows(outputs, total)
        responses, begin = [], 0
        for count in rows:
            responses.append({name: array[begin : begin + count] for name, array in outputs.items()})
            begin += count
        return responses


def _rows(inputs: dict[str, Any]) -> int:
    return next(iter(inputs.values())).shape[0] if inputs else 0


def _wrong_rows(outputs: dict[str, Any], rows: int) -> ValueError:
    wrong = ", ".join(
        f"{name}: {getattr(array, 'shape', None)}"
        for name, array in outputs.items()
        if getattr(array, "shape", ())[:1] != (rows,)
    )
    return ValueError(f"Received output tensors with different batch sizes: {wrong}. Expected batch size: {rows}. ")


def is_coroutine(function: Any) -> bool:
    """Whether calling gives an awaitable or an asynchronous generator."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return True
    inner = getattr(function, "func", None)  # a partial
    if inner is not None and inner is not function:
        return is_coroutine(inner)
    call = type(function).__call__ if callable(function) else None
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


_MORE = "A model that is not decoupled must give one response, its generator yields more"
_NONE = "A model that is not decoupled must give one response, its generator yields none"


def _only(results: Any) -> Any:
    """The only value of a generator."""
    found = [value for _, value in zip(range(2), results)]
    if len(found) != 1:
        raise ValueError(_MORE if found else _NONE)
    return found[0]


async def _only_async(results: Any) -> Any:
    found = []
    async for value in results:
        found.append(value)
        if len(found) > 1:
            raise ValueError(_MORE)
    if not found:
        raise ValueError(_NONE)
    return found[0]
