"""The connection of this process with a server: what is bound, and who is called."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import platform
import socket
import threading
import time
import weakref
from typing import Any, Callable, Optional

import numpy as np

from neso_worker import PROTOCOL
from neso_worker.calls import Calls
from neso_worker.channel import Closed, Frame, end_text
from neso_worker.frames import (
    BIND,
    CANCEL,
    CONTROL,
    COUNT,
    CREDIT,
    EXIT,
    FAILED,
    HELLO,
    INFER_RESPONSES,
    INIT,
    READY,
    RELEASE,
    SEGMENT,
    SEGMENT_BODY,
    UNBIND,
    ProtocolError,
    json_body,
    json_frame,
    release_blocks,
)  # fmt: skip
from neso_worker.leases import Leases
from neso_worker.memory import Segments
from neso_worker.model import DEFAULT_INLINE_LIMIT
from neso_worker.window import Window

from .binding import Binding
from .bursts import Bursts
from .devices import NoDevices
from .hub import Hub, TimedOut
from .instance import Instance, depth
from .loop import Loop
from .memory import SharedOutputs
from .returned import is_coroutine
from .store import BoundStore

LOGGER = logging.getLogger("neso.triton")

# How long closing waits for the threads of instances, which end by themselves.
JOIN_S = 1.0


class ServerError(Exception):
    """The server refused something, or is gone."""


class ServerGone(ServerError):  # noqa: N818 (how every server ends)
    """The server has ended."""


_open: weakref.WeakSet[Connection] = weakref.WeakSet()


class Connection:
    """Channels, memory, bindings and instances. Any thread may use it."""

    def __init__(self, control: socket.socket, descriptors: socket.socket) -> None:
        self._control, self._descriptors = control, descriptors
        self._owner = os.getpid()
        self.link = Hub(control, descriptors)
        self.segments = Segments(descriptors)
        self.segments.outputs = SharedOutputs()
        self.leases = Leases(self.link.writer)
        self.bursts = Bursts(self.link.writer)
        self.calls = Calls(self.link)  # type: ignore[arg-type]
        self.store = BoundStore(self.link, self.segments.outputs, self.calls)  # type: ignore[arg-type]
        self.devices = NoDevices(self.link, self.calls)  # type: ignore[arg-type]
        self.inline_limit = DEFAULT_INLINE_LIMIT
        # Handles INFER_RESPONSES; the in-process client sets it.
        self.on_responses: Callable[[Frame], None] = lambda frame: None
        # Windows of the requests that generators answer, by handle.
        self.windows: dict[int, Window] = {}
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
        self.link.deliver = self._deliver
        self.link.tidy = self.segments.outputs.trim
        self.link.ended = self._ended
        _open.add(self)
        hello = {
            "pid": os.getpid(), "python": platform.python_version(), "numpy": np.__version__, "protocol": PROTOCOL,
            "board": True,
        }  # fmt: skip
        with contextlib.suppress(Closed):  # whoever asks first hears it
            self.link.writer.send(json_frame(HELLO, 0, 0, hello))
        self.link.start("neso-connection")

    # Frames. The handlers run under the link's lock, but for that of INIT.

    def _deliver(self, frame: Frame) -> None:
        kind, number = frame[0], frame[1]
        instance = self._instances.get(number)
        if kind in (READY, FAILED):
            self.calls.on_answer(frame)
        elif kind == RELEASE:
            self.take_back(release_blocks(*frame[3:]))
        elif kind == SEGMENT:
            _, _, _, data, start, end = frame
            if end - start != SEGMENT_BODY.size:
                raise ProtocolError(f"segment: body of {end - start} bytes")
            self.segments.add(*SEGMENT_BODY.unpack_from(data, start))
        elif kind == CREDIT:
            _, _, handle, data, start, end = frame
            if end - start != COUNT.size:
                raise ProtocolError(f"credit: body of {end - start} bytes")
            window = self.windows.get(handle)
            if window is not None:
                window.credit(*COUNT.unpack_from(data, start))
        elif kind == INFER_RESPONSES:
            self.on_responses(frame)
        elif kind == INIT:
            # Its thread is started by one that lives as long as the connection: ipykernel 6 takes a thread for a child
            # of the one that made it, and never comes back from a print if a child's number was its parent's before.
            self.link.later(lambda: self._init(frame))
        elif kind in (CANCEL, EXIT):
            pass  # callables run to their end; the end of the channel is what counts
        elif instance is not None:
            instance.work.append(frame)
        else:
            raise ProtocolError(f"frame: kind {kind} for unknown instance {number}")

    def _init(self, frame: Frame) -> None:
        _, number, call, data, start, end = frame
        try:
            order = json_body(data, start, end)
            binding = self._bindings[order["binding"]]
            index = order["index"] % len(binding.callables)
            with self.link.changed:
                loop = self._loops.setdefault((order["binding"], index), Loop(binding.name, self))
            instance = Instance(self, number, call, order, binding, index, loop)
            with self.link.changed:
                self._instances[number] = instance
            instance.thread.start()
        except Exception as error:
            failure = {"message": f"{type(error).__name__}: {error}", "traceback": ""}
            with self.link.changed:
                self._instances.pop(number, None)
            with contextlib.suppress(Closed):
                self.link.writer.send(json_frame(FAILED, number, call, failure))

    def take_back(self, blocks: list[tuple[int, int]]) -> None:
        """Takes back blocks that nobody reads any more; the caller holds the link's lock."""
        self.segments.outputs.release(blocks)

    def unloaded(self, instance: Instance) -> None:
        """Forgets an instance whose thread ends."""
        with self.link.changed:
            if self._instances.get(instance.number) is instance:
                del self._instances[instance.number]

    def _ended(self, failure: BaseException) -> None:
        """At the end of the channel, under the link's lock."""
        for window in list(self.windows.values()):
            window.end()  # a client that does not read cannot hold up what sends to it any more
        if not isinstance(failure, Closed):
            self._shut()  # the other side does not speak the protocol: it sees the end

    # Calls.

    def order(self, kind: int, value: dict[str, Any], timeout: Optional[float] = None) -> dict[str, Any]:
        """Sends an order and returns what READY says; FAILED raises ServerError."""
        if os.getpid() != self._owner:
            raise ServerError("The server belongs to the process that this one was forked from")
        calls = self.calls
        call = calls.new()
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            self.link.writer.send(json_frame(kind, 0, call, value))
            self.link.wait(lambda: call in calls.answers, deadline)
        except (Closed, OSError, ProtocolError):
            failure = self.link.failure
            broken = end_text(failure) if isinstance(failure, ProtocolError) else ""
            raise ServerGone(broken or self.last_words() or "The server is gone") from None
        except TimedOut:
            calls._ignored.add(call)
            raise TimeoutError(f"The server has not answered within {timeout} s") from None
        with self.link.changed:
            answered, answer = calls.answers.pop(call)
        if answered == FAILED:
            raise ServerError(str(answer.get("message", "")))
        return answer

    def control(self, op: str, timeout: Optional[float] = None) -> dict[str, Any]:
        """One operation of CONTROL."""
        return self.order(CONTROL, {"op": op}, timeout)

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
