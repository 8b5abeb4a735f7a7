"""One instance of a model: initialize, execute, finalize, and what execute may return."""

from __future__ import annotations

import inspect
import time
from types import GeneratorType
from typing import Any, Optional

from neso_runtime.connection import Connection, Tables
from neso_runtime.encode import ResponseFrame, fail_requests
from neso_runtime.errors import TritonError, TritonModelException, describe, full_traceback
from neso_runtime.frames import FINAL, FREE, done_frame
from neso_runtime.frames import frame as frame_of
from neso_runtime.response import InferenceResponse

from . import eventloop, generators
from .batch import Batch
from .holding import Holding
from .received import HANDLE, ReceivedRequest, decode

# Answers to one request whose execute was quicker than this may wait for the next ones, up to so many and so long, to
# leave in one send. Those to several do not: the server works on them while the next batch runs.
QUICK = 50e-6
MAX_HELD = 8
MAX_HOLD = 100e-6


class Instance:
    """One instance: the user's object and the tables its frames are coded with."""

    def __init__(self, connection: Connection, held: Holding, number: int, model_class: type) -> None:
        """Makes nothing of the model yet."""
        self.tables = Tables(connection, number, {})
        self._owed = connection.answers
        self._held = held
        self._class = model_class
        self._model: Any = None
        self._execute: Any = None
        self._name = self._instance_name = ""
        # Seconds of the last execute.
        self._last = 1.0

    def initialize(self, order: dict[str, Any]) -> dict[str, Any]:
        """Makes the user's object and runs initialize; order is that of INIT."""
        tables = self.tables = Tables(self.tables.connection, self.tables.instance, order)
        tables.segments.copied = bool(order.get("copied"))
        args = order.get("args") or {}
        self._name = args.get("model_name", "")
        self._instance_name = args.get("model_instance_name", "")
        self._model = self._class()
        self._execute = self._model.execute
        if hasattr(self._model, "initialize"):
            result = self._model.initialize(args)
            if inspect.isawaitable(result):
                eventloop.run(result)
        return {
            "async": inspect.iscoroutinefunction(self._execute),
            "is_ready": callable(getattr(self._model, "is_ready", None)),
        }

    def is_ready(self) -> bool:
        """What the model's own is_ready says."""
        result = self._model.is_ready()
        if inspect.isawaitable(result):
            result = eventloop.run(result)
        if not isinstance(result, bool):
            raise TritonModelException("is_ready() must return a boolean value")
        return result

    def finalize(self) -> None:
        """Runs finalize and drops the user's object."""
        model, self._model, self._execute = self._model, None, None
        if model is not None and hasattr(model, "finalize"):
            result = model.finalize()
            if inspect.isawaitable(result):
                eventloop.run(result)

    def execute(self, number: int, data: Any, start: int, end: int, more: bool) -> None:
        """Runs one batch; more says that another one is already here."""
        tables = self.tables
        held, cancelled = self._held, self._owed.cancelled
        if held.count and self._last > QUICK:
            held.count = 0
            tables.link.writer.flush()
        batch = Batch(tables, self._owed, number)
        requests = decode(batch, data, start, end)
        if batch.broken is not None:
            requests = self._refuse(batch, batch.broken, requests)
            if not requests:
                return
        if tables.decoupled:
            for request in requests:
                request.get_response_sender()  # so that a request is answered when the model drops it
            request = None
        tables.leases.busy = True
        frame: Optional[ResponseFrame] = None
        message = trace = ""
        result: Any = None
        began = time.perf_counter()
        try:
            result = self._execute(requests)
            if result.__class__ is not list and result is not None:
                result = self._running(batch, requests, result)
            self._last = time.perf_counter() - began
            frame, message = self._collect(batch, requests, result)
        except BaseException as error:
            self._last = 1.0
            message, trace = describe(error), full_traceback(error)
        if message and batch.answers is not None:
            batch.fail_answers()
        # From here on only the model itself refers to the inputs.
        handles = [request._head[HANDLE] for request in requests] if cancelled else ()
        requests = result = None
        if message or frame is None or batch.leases is not None or batch.answers is not None or tables.decoupled:
            self._end(batch, frame, message, trace)
        else:
            self._send(batch, frame, more)
        frame = None  # what it held goes back all at once
        tables.leases.busy = False
        for handle in handles:
            if batch.answers is None or handle not in batch.answers:
                cancelled.discard(handle)

    def _refuse(self, batch: Batch, broken: dict[int, str], requests: list[ReceivedRequest]) -> list[ReceivedRequest]:
        """Answers requests that the model cannot be given; returns the others, and ends a batch without any."""
        tables = self.tables
        left = [request for request in requests if request._head[HANDLE] not in broken]
        requests.clear()
        frame = ResponseFrame(tables, batch.number)
        for handle, message in broken.items():
            frame.add_error(handle, message, TritonError.INTERNAL, FINAL)
        writer = tables.link.writer
        self._held.count = 0
        with writer.lock:
            writer.send_locked(frame.pack(False, batch.leases))
            if not left:
                writer.send_locked(done_frame(tables.instance, batch.number))
        return left

    def _running(self, batch: Batch, requests: list[ReceivedRequest], result: Any) -> Any:
        """What execute would have returned, had it not been a coroutine or generator."""
        decoupled = self.tables.decoupled
        if inspect.isawaitable(result):
            if not decoupled:
                return eventloop.run(result)
            eventloop.start(generators.guarded(batch, self._instance_name, result))
        elif isinstance(result, GeneratorType):
            if not decoupled:
                return generators.only(result)
            generators.run(requests, result)
        elif inspect.isasyncgen(result):
            if not decoupled:
                return eventloop.run(generators.only_async(result))
            work = generators.run_async(requests, result)
            eventloop.start(generators.guarded(batch, self._instance_name, work))
        else:
            return result
        return None

    def _send(self, batch: Batch, frame: ResponseFrame, more: bool) -> None:
        """Sends the responses of a whole batch, or holds them back for the next ones."""
        held, writer = self._held, self.tables.link.writer
        try:
            packed = frame.pack(True)
        except ValueError as error:  # more than a frame may have
            self._end(batch, None, describe(error), full_traceback(error))
            return
        if more and self._last < QUICK and len(frame._blocks) == 1:
            if held.count and (held.count >= MAX_HELD - 1 or time.perf_counter() - held.since > MAX_HOLD):
                more = False
            if more and held.add(packed):
                return
        held.count = 0
        writer.send(packed)

    def _end(self, batch: Batch, frame: Optional[ResponseFrame], message: str, trace: str) -> None:
        """The end of an execute that failed, used senders or had inputs in shared memory."""
        tables = self.tables
        writer = tables.link.writer
        self._held.count = 0
        with writer.lock:
            batch.ended = True
            if message:
                fail_requests(tables, batch.number, batch.leases, self._instance_name, message, trace)
                return
            if tables.decoupled:
                if frame is not None:
                    writer.send_locked(frame.pack(False, batch.leases))
                writer.send_locked(done_frame(tables.instance, batch.number))
                return
            if batch.answers is not None:
                batch.open = sum(not answer.done for answer in batch.answers.values())
            if frame is not None and frame._blocks:
                writer.send_locked(frame.pack(not batch.open, batch.leases))
            elif not batch.open:
                writer.send_locked(done_frame(tables.instance, batch.number))
            if batch.open and tables.board is not None:
                writer.send_locked(frame_of(FREE, tables.instance, batch.number))

    def _collect(
        self, batch: Batch, requests: list[ReceivedRequest], result: Any
    ) -> tuple[Optional[ResponseFrame], str]:
        """The responses of an execute in a frame, or what is wrong with them."""
        answers = batch.answers
        if self.tables.decoupled:
            if result is not None:
                return None, (
                    f"Python model '{self._instance_name}' is using the decoupled mode and the execute function must "
                    "return None."
                )
            return self._again(batch, None), ""
        if result is None and not batch.again and answers is not None and len(answers) == len(requests):
            return None, ""
        if not isinstance(result, list):
            return None, f"Expected a list in the execute return, found type '{type(result)}'."
        if len(result) != len(requests):
            return None, (
                "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
                f"InferenceRequest(s) size is:{len(requests)}, and InferenceResponse(s) size is:{len(result)}\n"
            )
        if batch.again:
            return self._collect_again(batch, requests, result)
        senders = False
        for request, response in zip(requests, result):
            if response.__class__ is not InferenceResponse and not isinstance(response, InferenceResponse):
                if response is not None or answers is None or request._head[HANDLE] not in answers:
                    return None, (
                        "Expected an 'InferenceResponse' object in the execute function return list, found type "
                        f"'{type(response)}'."
                    )
                senders = True
        frame = ResponseFrame(self.tables, batch.number)
        if not senders and answers is None:
            frame.add_all(requests, result)
            return frame, ""
        for request, response in zip(requests, result):
            answer = answers.get(request._head[HANDLE]) if answers is not None else None
            if response is not None and batch.take_over(answer):
                frame.add(request._head[HANDLE], response, request._wanted(), FINAL)
        return frame, ""

    def _collect_again(
        self, batch: Batch, requests: list[ReceivedRequest], result: list[Any]
    ) -> tuple[Optional[ResponseFrame], str]:
        """The responses of an execute that wants some of its requests again."""
        frame = ResponseFrame(self.tables, batch.number)
        for request, response in zip(requests, result):
            handle = request._head[HANDLE]
            answer = batch.answers.get(handle) if batch.answers is not None else None
            if handle in (batch.again or ()):
                if response is not None:
                    return None, (
                        "Expected a None object in the execute function return list for reschduled request, found type "
                        f"'{type(response)}'."
                    )
            elif isinstance(response, InferenceResponse):
                if batch.take_over(answer):
                    frame.add(handle, response, request._wanted(), FINAL)
            elif response is not None or answer is None:
                return None, (
                    "Expected an 'InferenceResponse' object in the execute function return list, found type "
                    f"'{type(response)}'."
                )
        return self._again(batch, frame), ""

    def _again(self, batch: Batch, frame: Optional[ResponseFrame]) -> Optional[ResponseFrame]:
        """Adds the requests that are to run again, unless a sender has ended them."""
        for handle in batch.again or ():
            if batch.take_over(batch.answers.get(handle) if batch.answers is not None else None):
                frame = frame or ResponseFrame(self.tables, batch.number)
                frame.add_again(handle)
        return frame
