"""The worker: takes the server's frames in order and runs the model."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import platform
import signal
import socket
import sys
from typing import Any, Optional

import numpy as np

from . import PROTOCOL, eventloop, logger, serverapi, triton_python_backend_utils
from .bls import Bls
from .calls import Calls
from .channel import Closed, Frame, Link
from .devices import Devices
from .errors import TritonModelException, describe, full_traceback
from .frames import (
    CANCEL,
    CONTROL,
    COUNT,
    CREDIT,
    DEVICE_SEGMENT_BODY,
    DROP,
    EXECUTE,
    EXECUTE_BATCH,
    EXIT,
    FAILED,
    HELLO,
    INFER_RESPONSES,
    INIT,
    LOAD,
    NOT_BEGUN,
    READY,
    RELEASE,
    SEGMENT,
    SEGMENT_BODY,
    UNLOAD,
    ProtocolError,
    frame,
    json_body,
    json_frame,
    release_blocks,
)  # fmt: skip
from .holding import Holding
from .instance import Instance
from .leases import Leases
from .memory import RECALLED, Segments
from .model import DEFAULT_INLINE_LIMIT, complete_config, import_model, takes_devices
from .store import Store
from .window import Window


def hello(link_send: Any, lent: bool = False, board: bool = False) -> None:
    """Sends HELLO, the first frame of a worker and of a zygote.

    lent says that it can be lent segments, board that it writes down which batch it begins.
    """
    body: dict[str, Any] = {
        "pid": os.getpid(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "protocol": PROTOCOL,
    }
    if lent:
        body["lent"] = True
    if board:
        body["board"] = True
    link_send(json_frame(HELLO, 0, 0, body))


class Worker:
    """One worker process: its channel, memory, model and instances."""

    def __init__(self, control: socket.socket, descriptors: socket.socket) -> None:
        self.link = Link(control, descriptors)
        self.segments = Segments(descriptors)
        self.leases = Leases(self.link.writer)
        # Handles of requests that the server cancelled and that may still be open.
        self.cancelled: set[int] = set()
        self.calls = Calls(self.link)
        self.store = Store(self.link, self.segments.outputs, self.calls)
        self.devices = Devices(self.link, self.calls)
        self.bls = Bls(self)
        # Executes that run, and requests that senders will answer.
        self.executing = 0
        self.open_answers = 0
        # Windows of decoupled requests that are not answered, by handle.
        self.windows: dict[int, Window] = {}
        # Answers that wait for the next send.
        self.held = Holding(self.link.writer)
        self.instances: dict[int, Instance] = {}
        self.model_class: Optional[type] = None
        self._instance: type[Instance] = Instance
        self.inline_limit = DEFAULT_INLINE_LIMIT
        self.link.handlers = {
            CANCEL: self._on_cancel,
            CREDIT: self._on_credit,
            READY: self.calls.on_answer,
            FAILED: self.calls.on_answer,
            INFER_RESPONSES: self.bls.on_responses,
            RELEASE: self._on_release,
            SEGMENT: self._on_segment,
            DROP: self._on_drop,
        }
        self._orders = {LOAD: self._load, INIT: self._init, UNLOAD: self._unload, CONTROL: self._control}

    # The handlers of frames that any thread may read; they run under the link's lock.

    def _on_cancel(self, frame: Frame) -> None:
        self.cancelled.add(frame[2])

    def _on_credit(self, frame: Frame) -> None:
        _, _, handle, data, start, end = frame
        if end - start != COUNT.size:
            raise ProtocolError(f"credit: body of {end - start} bytes")
        window = self.windows.get(handle)
        if window is not None:
            window.credit(*COUNT.unpack_from(data, start))

    def _on_release(self, frame: Frame) -> None:
        self.take_back(release_blocks(*frame[3:]))

    def _on_segment(self, frame: Frame) -> None:
        _, _, _, data, start, end = frame
        if end - start == DEVICE_SEGMENT_BODY.size:
            self.devices.add(*DEVICE_SEGMENT_BODY.unpack_from(data, start))
            return
        if end - start != SEGMENT_BODY.size:
            raise ProtocolError(f"segment: body of {end - start} bytes")
        self.segments.add(*SEGMENT_BODY.unpack_from(data, start))

    def _on_drop(self, frame: Frame) -> None:
        _, _, _, data, start, end = frame
        if end - start != COUNT.size:
            raise ProtocolError(f"drop: body of {end - start} bytes")
        (number,) = COUNT.unpack_from(data, start)
        if number in self.devices.lent:
            self.link.work.append(frame)  # the driver may take its time, and nobody else should wait for it
        else:
            self.segments.drop(number)

    def take_back(self, blocks: list[tuple[int, int]]) -> None:
        """Takes back blocks for outputs that nobody reads any more; the caller holds the link's lock."""
        blocks = self.devices.release(blocks)
        if blocks:
            self.segments.outputs.release(blocks)

    # The main loop.

    def run(self) -> None:
        """Works until EXIT or the end of the channel, then finalizes what is left."""
        hello(self.link.writer.send, lent=True, board=True)
        logger.connect(self.link.writer.send)
        serverapi.connect(self)
        try:
            self._serve()
        except (Closed, ConnectionResetError):
            pass
        finally:
            self.bls.allowed = False
            for instance in list(self.instances.values()):
                try:
                    instance.finalize()
                except Exception as error:
                    print(full_traceback(error), file=sys.stderr)
            self.instances.clear()
            eventloop.stop()

    def _serve(self) -> None:
        link, work, instances = self.link, self.link.work, self.instances
        while True:
            if not work:
                self._idle()
                link.wait(work.__len__)
            kind, number, call, data, start, end = work.popleft()
            if kind == EXECUTE:
                instance = instances.get(number)
                if instance is None:
                    raise ProtocolError(f"execute: unknown instance {number}")
                words = instance.words
                if words is not None:
                    # In this order: what the server recalls at this moment, it sees begun, or it is seen here.
                    words[0] = call
                    if call <= words[RECALLED]:
                        link.writer.send(frame(NOT_BEGUN, number, call))
                        continue
                instance.execute(call, data, start, end, bool(work))
                data = None
            elif kind == EXECUTE_BATCH:
                instance = instances.get(number)
                if not hasattr(instance, "execute_batch"):
                    raise ProtocolError(f"execute batch: instance {number} takes no batches")
                instance.execute_batch(call, data, start, end)
                data = None
            elif kind == DROP:
                self.devices.close(*COUNT.unpack_from(data, start))
            elif kind in self._orders:
                self._order(kind, number, call, data, start, end)
            elif kind == EXIT:
                link.writer.flush()
                return
            else:
                raise ProtocolError(f"frame: kind {kind} is not for a worker")

    def _idle(self) -> None:
        """Before waiting: sends what rides on other frames and found none."""
        self.segments.private.settle()
        if self.leases.pending() or self.link.writer.waiting():
            self.link.writer.flush()
        if self.cancelled and not self.open_answers:
            # Whatever they named has ended.
            with self.link.changed:
                if not self.link.work:
                    self.cancelled.clear()

    def _order(self, kind: int, number: int, call: int, data: Any, start: int, end: int) -> None:
        """Obeys LOAD, INIT, UNLOAD or CONTROL and answers READY or FAILED."""
        value = json_body(data, start, end) if end > start else {}
        try:
            answer = json_frame(READY, number, call, self._orders[kind](number, value) or {})
        except (Closed, ProtocolError):
            raise
        except BaseException as error:
            failure = {"message": describe(error), "traceback": full_traceback(error)}
            if getattr(error, "plain", False):  # says it all itself
                failure = {"message": str(error), "traceback": "", "code": error.code}
            answer = json_frame(FAILED, number, call, failure)
        self.link.writer.send(answer)

    def _load(self, _: int, order: dict[str, Any]) -> dict[str, Any]:
        if self.model_class is not None:
            raise TritonModelException("The worker has a model already.")
        version_directory = order.get("version_directory") or os.path.dirname(order["model_path"])
        triton_python_backend_utils._model_dir = version_directory
        self.inline_limit = int(order.get("inline_limit") or DEFAULT_INLINE_LIMIT)
        if order.get("framework"):
            return self._load_hosted(order)
        version = str(order.get("version") or "")
        self.model_class = import_model(
            order["model_path"], order.get("model_directory") or "", version_directory, version
        )
        if takes_devices(order.get("config") or {}):
            self.devices.tell()
        if not order.get("complete"):
            return {}
        config = complete_config(self.model_class, order.get("name") or "", order.get("config") or {})
        return {} if config is None else {"config": config}

    def _load_hosted(self, order: dict[str, Any]) -> dict[str, Any]:
        """Loads a model of a framework, which is no code of the user."""
        from .frameworks import host, instance

        hosted = host.model_class(order)
        answer = {"config": hosted.completed(hosted.config)} if order.get("complete") else {}
        self.model_class, self._instance = hosted, instance.HostedInstance
        return answer

    def _init(self, number: int, order: dict[str, Any]) -> dict[str, Any]:
        if self.model_class is None:
            raise TritonModelException("The worker has no model yet.")
        if number in self.instances:
            raise TritonModelException(f"Instance {number} is there already.")
        if self._instance is not Instance:
            self.model_class.config = order.get("config") or {}  # as completed
        _name_process((order.get("args") or {}).get("model_instance_name", ""))
        instance = self._instance(self, number, self.model_class, self.inline_limit)
        answer = instance.initialize(order)
        self.instances[number] = instance
        self.bls.allowed = True
        return answer

    def _control(self, number: int, order: dict[str, Any]) -> dict[str, Any]:
        if order.get("op") != "is_ready":
            raise TritonModelException(f"The worker cannot do '{order.get('op')}'.")
        instance = self.instances.get(number)
        if instance is None:
            raise TritonModelException(f"Instance {number} is not there.")
        return {"ready": instance.is_ready()}

    def _unload(self, number: int, _: dict[str, Any]) -> dict[str, Any]:
        instance = self.instances.pop(number, None)
        if instance is not None:
            instance.finalize()
        return {}


def _name_process(instance: str) -> None:
    """Shows the instance in ps, top and pstree, where all workers look alike (Linux, 15 bytes)."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as comm:
        comm.write(instance[:15])


def _tell_when_quit() -> None:
    """SIGQUIT ends the process, as always, but it writes down where its main thread is before.

    The server sends it to a worker that does not come back.
    """
    quit_signal = getattr(signal, "SIGQUIT", None)
    if quit_signal is not None:
        signal.signal(quit_signal, signal.SIG_DFL)  # a shell has its background jobs ignore it
        faulthandler.register(quit_signal, file=2, all_threads=False, chain=True)


def run(control: int, descriptors: int) -> int:
    """Runs a worker over two inherited descriptors; returns the exit status."""
    _tell_when_quit()
    for fd in (control, descriptors):
        os.set_inheritable(fd, False)
    sys.modules.setdefault("triton_python_backend_utils", triton_python_backend_utils)
    sys.modules.setdefault("c_python_backend_utils", triton_python_backend_utils)
    worker = Worker(socket.socket(fileno=control), socket.socket(fileno=descriptors))
    try:
        worker.run()
    except ProtocolError as error:
        print(f"worker protocol: {error}", file=sys.stderr)
        return 1
    return 0
