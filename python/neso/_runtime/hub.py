"""The control channel as the threads of a user's process share it.

Like the worker's Link, whoever waits for a frame reads for all. Here many
threads wait, each for frames of its own, so that each is woken alone, and a
thread that begins to work passes the reading on only when somebody waits.
"""

from __future__ import annotations

import queue
import select
import socket
import threading
import time
from collections import deque
from typing import Any, Callable, Optional

from neso_worker.channel import Closed, Frame, Reader, Writer, end_of
from neso_worker.frames import ProtocolError

# How long the channel may stay without a reader while every thread works.
UNREAD = 0.25
# Every how many times of that there is a look at what could be given back.
TIDY = 20
# How long the main thread waits at a time: Python sees a signal that came just before only when it comes back.
LOOK_S = 1.0


_MAIN = threading.main_thread().ident


class TimedOut(Exception):  # noqa: N818 (said to the caller as what it waited for)
    """Nothing came before the deadline."""


def _left(deadline: Optional[float]) -> Optional[float]:
    """The seconds that the calling thread may wait at once, None without end."""
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    if threading.get_ident() == _MAIN:
        return LOOK_S if left is None else min(left, LOOK_S)
    return left


class _Waiter:
    __slots__ = ("event", "ready")

    def __init__(self, ready: Callable[[], Any]) -> None:
        self.ready = ready
        self.event = threading.Lock()
        self.event.acquire()


class Hub:
    """Frames in and out."""

    def __init__(self, control: socket.socket, descriptors: socket.socket) -> None:
        self._socket = control
        self._reader = Reader(control)
        # Not over control: whoever waits for a frame there would be woken when the server takes an answer.
        self.writer = Writer(descriptors)
        # Guards everything that handlers touch. Named as in the worker's Link, which the shared code knows.
        self.changed = threading.Lock()
        # Handles a frame, under the lock; the owner of the connection sets it.
        self.deliver: Callable[[Frame], None] = lambda frame: None
        # Called under the lock now and then, for what has time.
        self.tidy: Callable[[], None] = lambda: None
        # Called once under the lock when the channel has ended, with what every wait now raises.
        self.ended: Callable[[BaseException], None] = lambda failure: None
        self._waiters: deque[_Waiter] = deque()
        self._reading = False
        self._turns = 0
        # Why the channel has ended; written under the lock.
        self.failure: Optional[BaseException] = None
        self._ended = threading.Event()
        # For the connection's own thread.
        self._jobs: queue.SimpleQueue[Optional[Callable[[], None]]] = queue.SimpleQueue()

    @property
    def closed(self) -> bool:
        """Whether the channel has ended."""
        return self.failure is not None

    def start(self, name: str) -> None:
        """Starts the thread that reads when nobody else does."""
        threading.Thread(target=self._attend, name=name, daemon=True).start()

    def later(self, job: Callable[[], None]) -> None:
        """Has the connection's own thread call job soon, without the lock; never, once the channel has ended."""
        self._jobs.put(job)

    def end(self, failure: BaseException) -> None:
        """Makes every wait fail from now on."""
        with self.changed:
            self._fail(failure)

    def wait_end(self) -> None:
        """Waits for the end of the channel."""
        self._ended.wait()

    def _fail(self, failure: BaseException) -> None:
        first = self.failure is None
        if first:
            self.failure = failure
        self._ended.set()
        self._jobs.put(None)
        while self._waiters:
            self._waiters.popleft().event.release()
        if first:
            self.ended(failure)

    def wait(self, ready: Callable[[], Any], deadline: Optional[float] = None) -> Any:
        """Returns what ready returns once that is true; raises Closed when the channel ended before."""
        with self.changed:
            while True:
                value = ready()
                if value:
                    self._hand_over()
                    return value
                if self.failure is not None:
                    raise self.failure
                if deadline is not None and time.monotonic() >= deadline:
                    self._hand_over()
                    raise TimedOut
                if self._reading:
                    self._follow(ready, deadline)
                else:
                    self._read(deadline)

    def _hand_over(self) -> None:
        """Lets somebody else read on, if anybody waits."""
        if not self._reading and self._waiters:
            self._waiters.popleft().event.release()

    def _follow(self, ready: Callable[[], Any], deadline: Optional[float]) -> None:
        waiter = _Waiter(ready)
        release, held, woken = self.changed.release, True, False
        try:
            self._waiters.append(waiter)
            held = False  # here: Ctrl-C may come behind a call, and does not come between this and the next one
            release()
            left = _left(deadline)
            woken = waiter.event.acquire(timeout=-1 if left is None else left)
        finally:
            if not held:
                self.changed.acquire()
            if not woken:  # out of time, or Ctrl-C
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
                else:  # whoever woke it meant it to read
                    self._hand_over()

    def _read(self, deadline: Optional[float]) -> None:
        """Reads once, for all. Called and left with the lock held."""
        frames: list[Frame] = []
        failure: Optional[BaseException] = None
        interrupt: Optional[BaseException] = None
        arrived = False
        release, held = self.changed.release, True
        try:
            self._reading = True
            held = False  # as in _follow
            release()
            # The main thread does not wait in the receive: Ctrl-C there might lose what has come.
            if (deadline is None and threading.get_ident() != _MAIN) or self._arrived(deadline):
                arrived = True
                frames = self._reader.read()
        except (OSError, ValueError):
            failure = Closed()
        except Exception as error:
            failure = end_of(error)
        except BaseException as error:
            interrupt = error
            if arrived:  # nobody knows what of it was received
                failure = ProtocolError(f"{type(error).__name__} while it was read")
        finally:
            if not held:
                self.changed.acquire()
            self._reading = False
        if interrupt is not None:
            if failure is not None:
                self._fail(failure)
            self._hand_over()
            raise interrupt
        self._turns += 1
        try:
            deliver = self.deliver
            for frame in frames:
                deliver(frame)
        except BaseException as error:
            failure = end_of(error)
        if failure is not None:
            self._fail(failure)
        elif self._waiters:
            self._wake()

    def _wake(self) -> None:
        """Wakes those whose frames have come."""
        waiting = self._waiters
        for _ in range(len(waiting)):
            waiter = waiting.popleft()
            if waiter.ready():
                waiter.event.release()
            else:
                waiting.append(waiter)

    def _arrived(self, deadline: Optional[float]) -> bool:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        left = _left(deadline)
        return bool(poll.poll(None if left is None else left * 1000))

    def poll(self) -> None:
        """Handles what has already arrived, without waiting."""
        with self.changed:
            if self._reading or self.failure is not None:
                return  # a reader delivers at once
            try:
                while True:
                    frames = self._reader.read(socket.MSG_DONTWAIT)
                    self._turns += 1
                    for frame in frames:
                        self.deliver(frame)
            except BlockingIOError:
                pass
            except BaseException as error:
                self._fail(Closed() if isinstance(error, OSError) else end_of(error))
            self._wake()

    def _attend(self) -> None:
        """Reads when nobody has for a while: all threads work, or there is none."""
        turns, rounds = -1, 0
        while not self._ended.is_set():
            try:
                job = self._jobs.get(timeout=UNREAD)
            except queue.Empty:
                pass
            else:
                if job is not None:
                    job()
                continue
            rounds += 1
            with self.changed:
                if self.failure is not None:
                    return
                if rounds % TIDY == 0:
                    self.tidy()
                if self._reading or self._waiters or self._turns != turns:
                    turns = self._turns
                    continue
                self._read(None)
                self._hand_over()
