"""The connection of this process with a server: what is bound, and who is called."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import socket
import threading
import time
import weakref
from typing import Any, Callable, Optional

from neso_runtime.channel import Closed, Frame, Stream, end_text
from neso_runtime.connection import Connection, hello
from neso_runtime.frames import (
    BIND,
    CANCEL,
    CONTROL,
    EXIT,
    FAILED,
    INFER_RESPONSES,
    INIT,
    UNBIND,
    ProtocolError,
    json_body,
    json_frame,
)  # fmt: skip
from neso_runtime.link import TimedOut

from .binding import Binding
from .bursts import Bursts
from .function import Function, depth
from .instance import Instance
from .loop import Loop
from .memory import SharedOutputs
from .outputs import OutputTables
from .returned import is_coroutine
from .store import BoundStore

LOGGER = logging.getLogger("neso.triton")

# How long closing waits for the threads of instances, which end by themselves.
JOIN_S = 1.0


class ServerError(Exception):
    """The server refused something, or is gone."""


class ServerGone(ServerError):  # noqa: N818 (how every server ends)
    """The server has ended."""


_open: weakref.WeakSet[BoundConnection] = weakref.WeakSet()


class BoundConnection(Connection):
    """A connection with bindings and their instances. Any thread may use it."""

    store: BoundStore

    def __init__(self, control: Stream, descriptors: Stream) -> None:
        self._outputs = SharedOutputs()
        super().__init__(control, descriptors, self._outputs, interruptible=True)
        self.store = BoundStore(self.link, self._outputs, self.calls)
        self.devices.hidden = True
        self.bursts = Bursts(self.link.writer)
        self._control, self._descriptors = control, descriptors
        self._owner = os.getpid()
        self._bindings: dict[int, Binding] = {}
        self._current: dict[tuple[str, int], int] = {}
        self._numbers = itertools.count(1)
        self._instances: dict[int, Instance] = {}
        # Of coroutines, by binding and callable.
        self._loops: weakref.WeakValueDictionary[tuple[int, int], Loop] = weakref.WeakValueDictionary()
        # Says why the server is gone, for the errors of calls.
        self.last_words: Callable[[], str] = lambda: ""
        # Whether leave has waited for callables.
        self._waited = False
        self.link.handlers.update(
            {
                CANCEL: self._on_cancel,
                INIT: self._on_init,
                INFER_RESPONSES: lambda frame: None,  # until the in-process client sets its own
                EXIT: lambda frame: None,  # the end of the channel is what counts
            }
        )
        self.link.others = self._on_work
        self.link.tidy = self._outputs.trim
        self.link.ended = self._ended
        _open.add(self)
        with contextlib.suppress(Closed):  # whoever asks first hears it
            self.link.writer.send(hello(board=True))
        self.link.start("neso-connection")

    # Frames. The handlers run under the link's lock.

    def _on_work(self, frame: Frame) -> None:
        kind, number = frame[0], frame[1]
        instance = self._instances.get(number)
        if instance is None:
            raise ProtocolError(f"frame: kind {kind} for unknown instance {number}")
        instance.work.append(frame)

    def _on_cancel(self, frame: Frame) -> None:
        """A generator whose request nobody wants any more is closed at its next yield, others go on."""
        self.answers.on_cancel(frame)
        window = self.answers.windows.get(frame[2])
        if window is not None:
            window.end()

    def _on_init(self, frame: Frame) -> None:
        # Its thread is started by one that lives as long as the connection: ipykernel 6 takes a thread for a child of
        # the one that made it, and never comes back from a print if a child's number was its parent's before.
        self.link.later(lambda: self._init(frame))

    def _init(self, frame: Frame) -> None:
        _, number, call, data, start, end = frame
        try:
            order = json_body(data, start, end)
            binding = self._bindings[order["binding"]]
            index = order["index"] % len(binding.callables)
            with self.link.changed:
                loop = self._loops.setdefault((order["binding"], index), Loop(binding.name, self.store))
            tables = OutputTables(self, number, order)
            function = Function(binding, index, tables, str(order.get("name") or binding.name))
            instance = Instance(function, self.bursts, loop, call, self._unloaded)
            with self.link.changed:
                self._instances[number] = instance
                self.link.tended(True)
            instance.thread.start()
        except Exception as error:
            failure = {"message": f"{type(error).__name__}: {error}", "traceback": ""}
            with self.link.changed:
                self._instances.pop(number, None)
                self.link.tended(bool(self._instances))
            with contextlib.suppress(Closed):
                self.link.writer.send(json_frame(FAILED, number, call, failure))

    def _unloaded(self, instance: Instance) -> None:
        """Forgets an instance whose thread ends."""
        with self.link.changed:
            if self._instances.get(instance.number) is instance:
                del self._instances[instance.number]
                self.link.tended(bool(self._instances))

    def _ended(self, failure: BaseException) -> None:
        """At the end of the channel, under the link's lock."""
        for window in list(self.answers.windows.values()):
            window.end()  # a client that does not read cannot hold up what sends to it any more
        if not isinstance(failure, Closed):
            self._shut()  # the other side does not speak the protocol: it sees the end

    # Calls.

    def order(self, kind: int, value: dict[str, Any], timeout: Optional[float] = None) -> dict[str, Any]:
        """Sends an order and returns what READY says; FAILED raises ServerError."""
        if os.getpid() != self._owner:
            raise ServerError("The server belongs to the process that this one was forked from")
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            kind, answer = self.calls.ask(kind, value, deadline)
        except (Closed, OSError, ProtocolError):
            failure = self.link.failure
            broken = end_text(failure) if isinstance(failure, ProtocolError) else ""
            raise ServerGone(broken or self.last_words() or "The server is gone") from None
        except TimedOut:
            raise TimeoutError(f"The server has not answered within {timeout} s") from None
        if kind == FAILED:
            raise ServerError(str(answer.get("message", "")))
        return answer

    def control(self, op: str, timeout: Optional[float] = None, **fields: Any) -> dict[str, Any]:
        """One operation of CONTROL."""
        return self.order(CONTROL, {"op": op, **fields}, timeout)

    def bind(self, binding: Binding, timeout: Optional[float] = None) -> dict[str, Any]:
        """Serves callables as a model and returns its final configuration."""
        number = next(self._numbers)
        self._bindings[number] = binding
        body = {
            "name": binding.name,
            "version": binding.version,
            "config": {"name": binding.name, "backend": "python", **binding.config},
            "binding": number,
            "instances": len(binding.callables) * (binding.concurrency or 1),
            "shape": binding.shape,
            "depth": depth(binding) if all(map(is_coroutine, binding.callables)) else 0,
            "timeout_us": int((binding.timeout or 0) * 1e6),
        }
        try:
            answer = self.order(BIND, body, timeout)
        except BaseException:
            self._bindings.pop(number, None)
            raise
        config: dict[str, Any] = answer.get("config") or {}
        binding.inputs = [tensor["name"] for tensor in config.get("input") or ()]
        binding.outputs = [tensor["name"] for tensor in config.get("output") or ()]
        old = self._current.get((binding.name, binding.version))
        self._current[binding.name, binding.version] = number
        if old is not None:
            self._bindings.pop(old, None)
        return config

    def unbind(self, name: str, version: int = 1, timeout: Optional[float] = None) -> None:
        """Takes a model out of service."""
        self.order(UNBIND, {"name": name, "version": version}, timeout)
        number = self._current.pop((name, version), None)
        if number is not None:
            self._bindings.pop(number, None)

    def leave(self, timeout: float) -> None:
        """Unbinds everything and waits for the callables that are still out, for that many seconds at most."""
        deadline = time.monotonic() + timeout
        for name, version in list(self._current):
            with contextlib.suppress(ServerError, TimeoutError):
                self.unbind(name, version, max(0.1, deadline - time.monotonic()))
        self._join(deadline)  # they read for themselves
        self._waited = True

    def _join(self, deadline: float) -> None:
        """Waits for the threads of instances, but for one that calls this itself."""
        for thread in [i.thread for i in list(self._instances.values())]:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    def stuck(self) -> list[str]:
        """The callables that have not come back, each with where it is."""
        found = [(i.model, i.stuck_at()) for i in list(self._instances.values())]
        return [f"the callable of `{name}`, at {at}" for name, at in found if at is not None]

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self.link.closed

    def _shut(self) -> None:
        for sock in (self._control, self._descriptors):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the connection, which the server sees at once. Threads of instances end by themselves."""
        if os.getpid() != self._owner:
            return
        _open.discard(self)
        self.bursts.close()
        self._shut()
        self.link.end(Closed())
        # Those whose callables do not come back are the user's: one wait for all of them.
        self._join(time.monotonic() + (0.1 if self._waited else JOIN_S))
        for stuck in self.stuck():
            LOGGER.warning("Left behind, as it has not come back: %s", stuck)
        self._control.close()
        self._descriptors.close()

    def _forked(self) -> None:
        """In a child: gives up the child's copies of the channels, so that their end shows when the parent dies."""
        for sock in (self._control, self._descriptors):
            with contextlib.suppress(OSError):
                os.close(sock.detach())


def _after_fork() -> None:
    for connection in list(_open):
        connection._forked()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
