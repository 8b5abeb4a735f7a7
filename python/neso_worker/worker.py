"""The worker: takes the server's frames in order and runs the model."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
from collections import deque
from typing import Any, Optional

from neso_runtime.asked import Asked, connect
from neso_runtime.bls import Bls
from neso_runtime.channel import Closed, Frame, Stream, inherited
from neso_runtime.connection import Connection, hello
from neso_runtime.errors import TritonModelException, describe, full_traceback
from neso_runtime.frames import (
    CONTROL,
    COUNT,
    DEFAULT_INLINE_LIMIT,
    DROP,
    EXECUTE,
    EXECUTE_BATCH,
    EXIT,
    FAILED,
    INFER_RESPONSES,
    INIT,
    LOAD,
    READY,
    UNLOAD,
    ProtocolError,
    json_body,
    json_frame,
)  # fmt: skip

from . import eventloop, logger, placing, triton_python_backend_utils
from .aside import Aside
from .holding import Holding
from .instance import Instance
from .model import complete_config, import_model, takes_devices


class Worker:
    """One worker process: its connection, model and instances."""

    def __init__(self, control: Stream, descriptors: Stream, aside: Aside) -> None:
        self.connection = Connection(control, descriptors)
        self._aside = aside  # as long as it does not serve
        # EXECUTE and the other frames that are the main loop's work, in order.
        self._work: deque[Frame] = deque()
        self.bls = Bls(self.connection)
        self.connection.link.handlers[INFER_RESPONSES] = self.bls.on_responses
        self.connection.link.others = self._work.append
        # Answers that wait for the next send.
        self.held = Holding(self.connection.link.writer, self.connection.segments)
        self.instances: dict[int, Instance] = {}
        self.model_class: Optional[type] = None
        self._instance: type[Instance] = Instance
        self._orders = {LOAD: self._load, INIT: self._init, UNLOAD: self._unload, CONTROL: self._control}

    # The main loop.

    def run(self) -> None:
        """Works until EXIT or the end of the channel, then finalizes what is left."""
        send = self.connection.link.writer.send
        send(hello(lent=True, board=True))
        logger.connect(send)
        connect(Asked(self.bls, self.connection.calls))
        self._aside.give_way()
        try:
            self._serve()
        except (Closed, ConnectionResetError):
            pass
        finally:
            self._aside.begin()
            self.bls.allowed = False
            for number in list(self.instances):
                self._unload(number, {})
            eventloop.stop()

    def _serve(self) -> None:
        link, work, instances = self.connection.link, self._work, self.instances
        while True:
            if not work:
                self._idle()
                link.wait(work.__len__)
            kind, number, call, data, start, end = work.popleft()
            if kind == EXECUTE:
                instance = instances.get(number)
                if instance is None:
                    raise ProtocolError(f"execute: unknown instance {number}")
                tables = instance.tables
                if tables.board is not None and not tables.begins(call):
                    continue
                # Its answer may be held when the next in line is of the same instance: that the server watches.
                instance.execute(call, data, start, end, bool(work) and work[0][1] == number)
                data = None
            elif kind == EXECUTE_BATCH:
                instance = instances.get(number)
                if not hasattr(instance, "execute_batch"):
                    raise ProtocolError(f"execute batch: instance {number} takes no batches")
                instance.execute_batch(call, data, start, end)
                data = None
            elif kind == DROP:
                self.connection.devices.close(*COUNT.unpack_from(data, start))
            elif kind in self._orders:
                self._order(kind, number, call, data, start, end)
            elif kind == EXIT:
                link.writer.flush()
                return
            else:
                raise ProtocolError(f"frame: kind {kind} is not for a worker")

    def _idle(self) -> None:
        """Before waiting: does what is best done then."""
        self.connection.rest()
        answers = self.connection.answers
        if answers.cancelled and not answers.open:
            # Whatever they named has ended.
            with self.connection.link.changed:
                if not self._work:
                    answers.cancelled.clear()

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
        self.connection.link.writer.send(answer)

    def _load(self, _: int, order: dict[str, Any]) -> dict[str, Any]:
        if self.model_class is not None:
            raise TritonModelException("The worker has a model already.")
        version_directory = order.get("version_directory") or os.path.dirname(order["model_path"])
        triton_python_backend_utils._model_dir = version_directory
        self.connection.inline_limit = int(order.get("inline_limit") or DEFAULT_INLINE_LIMIT)
        if order.get("framework"):
            return self._load_hosted(order)
        version = str(order.get("version") or "")
        self.model_class = import_model(
            order["model_path"], order.get("model_directory") or "", version_directory, version
        )
        self._aside.give_way()
        if takes_devices(order.get("config") or {}):
            self.connection.devices.tell()
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
        self._aside.give_way()
        _name_process((order.get("args") or {}).get("model_instance_name", ""))
        placing.place(order.get("host_policy"))
        instance = self._instance(self.connection, self.held, number, self.model_class)
        answer = instance.initialize(order)
        self.instances[number] = instance
        self.bls.allowed = True
        self._aside.end()
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
        self.bls.allowed = bool(self.instances)
        if instance is not None:
            try:
                instance.finalize()
            except Exception as error:
                print(full_traceback(error), file=sys.stderr)
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


def run(control: int, descriptors: int, aside: Aside) -> int:
    """Runs a worker, which has stepped aside, over two inherited descriptors (Windows: handles); returns its status."""
    _tell_when_quit()
    channels = inherited(control), inherited(descriptors)
    sys.modules.setdefault("triton_python_backend_utils", triton_python_backend_utils)
    sys.modules.setdefault("c_python_backend_utils", triton_python_backend_utils)
    worker = Worker(*channels, aside)
    try:
        worker.run()
    except ProtocolError as error:
        print(f"worker protocol: {error}", file=sys.stderr)
        return 1
    return 0
