"""The zygote: a process that has imported what every worker needs and forks workers.

It imports no code of users and starts no threads of its own, so that its
children are as good as fresh processes. It ends when its control channel does,
and takes with it the children that do not see the end of their own channels.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
import warnings
from typing import Any, Optional

import numpy as np

from neso_runtime.channel import Closed, Frame, Reader
from neso_runtime.connection import hello
from neso_runtime.frames import (
    COUNT,
    EXITED,
    FAILED,
    FORK,
    FORKED,
    PID_STATUS,
    ProtocolError,
    frame,
    json_body,
    json_frame,
)
from neso_runtime.memory import receive_descriptors

from . import worker
from .aside import Aside

# How long no order must have come before the zygote imports what not every model needs.
QUIET_MS = 20

# The limit by which what a worker starts is known; the time is too long to bound anything.
RTTIME = getattr(resource, "RLIMIT_RTTIME", 15)

# Python adapts what has run eight times.
_REHEARSALS = 10

# How long children may take to end by themselves when the server is gone.
END_GRACE_S = 2.0


def dumpable(yes: bool) -> None:
    """Lets other processes of the same user look into this one, or not.

    The zygote's children, whose code is a model's, are to get none of its descriptors.
    """
    with contextlib.suppress(OSError, AttributeError):
        _libc().prctl(4, int(yes), 0, 0, 0)  # PR_SET_DUMPABLE


@functools.cache
def _libc() -> Any:
    """The C library, which the zygote has looked up for its children."""
    import ctypes  # numpy has imported it

    return ctypes.CDLL(None, use_errno=True)


def keep_apart() -> None:
    """Has this process, and what it starts, trace and signal nothing else from now on (see apart_linux.go)."""
    import ctypes

    libc = _libc()
    attributes = struct.pack("<QQQ", 0, 0, 2)  # LANDLOCK_SCOPE_SIGNAL
    rules = libc.syscall(444, attributes, ctypes.c_size_t(len(attributes)), 0)  # landlock_create_ruleset
    if rules < 0 or libc.syscall(446, rules, 0) != 0:  # landlock_restrict_self
        raise OSError(ctypes.get_errno(), "landlock")
    os.close(rules)


class Zygote:
    """Serves FORK and reports the ends of children."""

    def __init__(self, control: socket.socket, descriptors: socket.socket, aside: Aside, helper: int = 0) -> None:
        self._control = control
        self._descriptors = descriptors
        self._aside = aside
        self._reader = Reader(control)
        self._children: set[int] = set()
        # A child that helped with the start; nobody waits for what it still does.
        self._helper = helper
        # SIGCHLD writes a byte here, which ends the wait below.
        self._wake, wake_write = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake_write, False)
        self._wake_write = wake_write
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> Optional[list[int]]:
        """Serves until the end of the channel and returns None; in a child it returns the child's descriptors."""
        gc.freeze()
        self._control.sendall(hello())
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        settled = False
        while True:
            ready = poll.poll(None if settled else QUIET_MS)
            if not ready:
                settled = True
                self._settle()
            for fd, _ in ready:
                if fd == self._wake:
                    self._drain()
                    self._reap()
                    continue
                try:
                    frames = self._reader.read()
                except (Closed, ConnectionResetError):
                    self._end()
                    return None
                for received in frames:
                    child = self._fork(received)
                    if child is not None:
                        return child

    def _settle(self) -> None:
        """Imports what many models need, once nobody waits for a worker."""
        for preload in ("asyncio", "concurrent.futures", "numpy.random"):
            __import__(preload)
        if self._helper:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._helper, 0)
        self._rehearse()
        gc.collect()
        gc.freeze()
        gc.enable()

    def _rehearse(self) -> None:
        """Makes, and forgets, what each child makes first.

        What Python notes down at that in its types and functions is then shared: with the seeds and
        the time slice a tenth fewer page faults until a child serves.
        """
        for _ in range(_REHEARSALS):
            control, descriptors = socket.socketpair(), socket.socketpair()
            worker.Worker(control[0], descriptors[0], self._aside)
            for end in control + descriptors:
                end.close()

    def _end(self) -> None:
        """Ends the children: they see the end of their own channels, unless a model never comes back."""
        until = time.monotonic() + END_GRACE_S
        while self._children and time.monotonic() < until:
            poll = select.poll()
            poll.register(self._wake, select.POLLIN)
            poll.poll(max(1, int((until - time.monotonic()) * 1000)))
            self._drain()
            self._forget()
        for pid in self._children:
            for kill in (os.killpg, os.kill):  # a child that was forked a moment ago leads no group yet
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)

    def _forget(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self._children.discard(ended)

    def _drain(self) -> None:
        try:
            while os.read(self._wake, 512):
                pass
        except BlockingIOError:
            pass

    def _reap(self) -> None:
        while self._children:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self._children:
                self._children.discard(pid)
                self._say(frame(EXITED, 0, 0, PID_STATUS.pack(pid, status)))

    def _say(self, data: bytes) -> None:
        """Tells the server; when it is gone the next read shows that, and ends the children too."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._control.sendall(data)

    def _fork(self, received: Frame) -> Optional[list[int]]:
        kind, _, call, data, start, end = received
        if kind != FORK:
            raise ProtocolError(f"frame: kind {kind} is not for a zygote")
        order = json_body(data, start, end) if end > start else {}
        fds = receive_descriptors(self._descriptors, 3)
        self._aside.give_way()  # a fork takes milliseconds, in which nobody is let in
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # numpy's threads are at rest
                pid = os.fork()
        except OSError as error:
            self._say(json_frame(FAILED, 0, call, {"message": f"fork: {error}", "traceback": ""}))
            pid = -1
        self._aside.give_way()
        if pid == 0:
            self._become_child(order, fds)
            return fds
        for fd in fds:
            os.close(fd)
        if pid > 0:
            self._children.add(pid)
            self._say(frame(FORKED, 0, call, COUNT.pack(pid)))
        return None

    def _become_child(self, order: dict[str, Any], fds: list[int]) -> None:
        """Leaves everything of the zygote behind."""
        gc.enable()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setpgid(0, 0)
        self._control.close()
        self._descriptors.close()
        os.close(self._wake)
        os.close(self._wake_write)
        sys.stdout.flush()
        sys.stderr.flush()
        output = fds.pop()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        for name, value in (order.get("env") or {}).items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = str(value)
        if order.get("cwd"):
            os.chdir(order["cwd"])
        if order.get("mark"):
            resource.setrlimit(RTTIME, (order["mark"], order["mark"]))
        if order.get("apart"):
            keep_apart()
        dumpable(True)
        # Module random does that by itself. A seed of its own making costs numpy 120 pages of the zygote's memory.
        np.random.seed(int.from_bytes(os.urandom(4), sys.byteorder))
        self._aside.give_way()


def run(control: int, descriptors: int, aside: Aside, helper: int = 0) -> Optional[list[int]]:
    """Serves as a zygote that has stepped aside; in a child it returns the descriptors of its channels.

    helper is a child to be reaped.
    """
    for fd in (control, descriptors):
        os.set_inheritable(fd, False)
    dumpable(False)
    return Zygote(socket.socket(fileno=control), socket.socket(fileno=descriptors), aside, helper).serve()
