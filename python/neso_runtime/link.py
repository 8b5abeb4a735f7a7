"""The control channel as the threads of a process share it: whoever waits for a frame reads for all.

Each thread waits for frames of its own (the main loop of a worker for batches, a call into the server for its answer)
and is woken alone; one that has what it waited for passes the reading on only when somebody else waits.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from typing import Any, Callable, Optional

from .channel import DONTWAIT, Closed, Frame, Reader, Stream, Writer, end_of, readable
from .frames import ProtocolError

# How long the channel may stay without a reader while every thread works.
UNREAD = 0.25
# Every how many times of that there is a look at what could be given back.
TIDY = 20
# How long the main thread waits at a time: Python sees a signal that came just before only when it comes back.
LOOK_S = 1.0


class TimedOut(Exception):  # noqa: N818 (said to the caller as what it waited for)
    """Nothing came before the deadline."""


class _Waiter:
    __slots__ = ("event", "ready")

    def __init__(self, ready: Callable[[], Any]) -> None:
        self.ready = ready
        self.event = threading.Lock()
        self.event.acquire()


class Link:
    """Frames in and out."""

    def __init__(self, control: Stream, descriptors: Stream, interruptible: bool = False) -> None:
        """interruptible says that the main thread may leave a wait by a signal (Ctrl-C), and the link goes on."""
        self._socket = control
        self._main = threading.main_thread().ident if interruptible else None
        self._reader = Reader(control)
        # Not over control: whoever waits for a frame there would be woken when the server takes an answer.
        self.writer = Writer(descriptors)
        # Guards everything that handlers touch.
        self.changed = threading.Lock()
        # Handle frames by kind, under the lock, and those of all other kinds.
        self.handlers: dict[int, Callable[[Frame], None]] = {}
        self.others: Callable[[Frame], None] = lambda frame: None
        # Called under the lock now and then, for what has time.
        self.tidy: Callable[[], None] = lambda: None
        # Called once under the lock when the channel has ended, with what every wait now raises.
        self.ended: Callable[[BaseException], None] = lambda failure: None
        self._waiters: deque[_Waiter] = deque()
        self._reading = False
        self._turns = 0
        # Whether threads come back to read by themselves, as instances do after each batch. While none do, the thread
        # that ``start`` starts reads at once. Changed by ``tended``.
        self._tended = True
        # Why the channel has ended; written under the lock.
        self.failure: Optional[BaseException] = None
        self._ended = threading.Event()
        # For the thread that ``start`` starts; None has it look again whether it must read.
        self._jobs: queue.SimpleQueue[Optional[Callable[[], None]]] = queue.SimpleQueue()

    @property
    def closed(self) -> bool:
        """Whether the channel has ended."""
        return self.failure is not None

    def start(self, name: str) -> None:
        """Starts the thread that reads when nobody else does. No other one does so far."""
        self._tended = False
        threading.Thread(target=self._attend, name=name, daemon=True).start()

    def later(self, job: Callable[[], None]) -> None:
        """Has the thread that ``start`` started call job soon, without the lock; never, once the channel has ended."""
        self._jobs.put(job)

    def tended(self, by_others: bool) -> None:
        """Says whether threads come back to read; for who has called ``start``. The caller holds the lock."""
        self._tended = by_others
        self._hand_over()

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
                    if (self._waiters or not self._tended) and not self._reading:
                        self._hand_over()
                    return value
                if self.failure is not None:
                    raise self.failure
                if deadline is not None and time.monotonic() >= deadline:
                    self._hand_over()
                    raise TimedOut
                if self._reading:
                    self._follow(ready, deadline)
                elif deadline is None and (self._main is None or threading.get_ident() != self._main):
                    self._read()
                else:
                    self._read_when_there(deadline)

    def _hand_over(self) -> None:
        """Lets somebody else read on: who waits, or else the thread of ``start`` where nobody would come back."""
        if self._reading:
            return
        if self._waiters:
            self._waiters.popleft().event.release()
        elif not self._tended:
            self._jobs.put(None)

    def _follow(self, ready: Callable[[], Any], deadline: Optional[float]) -> None:
        waiter = _Waiter(ready)
        release, held, woken = self.changed.release, True, False
        try:
            self._waiters.append(waiter)
            held = False  # here: Ctrl-C may come behind a call, and does not come between this and the next one
            release()
            left = self._left(deadline)
            woken = waiter.event.acquire(timeout=-1 if left is None else left)
        finally:
            if not held:
                self.changed.acquire()
            if not woken:  # out of time, or Ctrl-C
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
                else:  # whoever woke it meant it to read
                    self._hand_over()

    def _read(self) -> None:
        """Reads once, for all. Called and left with the lock held."""
        self._reading = True
        self.changed.release()
        frames: list[Frame] = []
        failure: Optional[BaseException] = None
        try:
            frames = self._reader.read()
        except OSError:
            failure = Closed()
        except BaseException as error:
            failure = end_of(error)
        finally:
            self.changed.acquire()
            self._reading = False
        self._handle(frames, failure)

    def _read_when_there(self, deadline: Optional[float]) -> None:
        """The same for who waits for so long only, or may leave by Ctrl-C: in the receive that might lose what came."""
        frames: list[Frame] = []
        failure: Optional[BaseException] = None
        interrupt: Optional[BaseException] = None
        arrived = False
        release, held = self.changed.release, True
        try:
            self._reading = True
            held = False  # as in _follow
            release()
            if self._arrived(deadline):
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
        self._handle(frames, failure)

    def _handle(self, frames: list[Frame], failure: Optional[BaseException] = None) -> None:
        """Hands frames to their handlers, and wakes those who wait for them."""
        self._turns += 1
        handlers, others = self.handlers, self.others
        try:
            for frame in frames:
                handler = handlers.get(frame[0])
                if handler is None:
                    others(frame)
                else:
                    handler(frame)
        except BaseException as error:
            failure = end_of(error)
        if failure is not None:
            self._fail(failure)
        elif self._waiters:
            self.wake()

    def wake(self) -> None:
        """Wakes those whose frames have come, or what else they wait for; the caller holds the lock."""
        waiting = self._waiters
        for _ in range(len(waiting)):
            waiter = waiting.popleft()
            if waiter.ready():
                waiter.event.release()
            else:
                waiting.append(waiter)

    def _left(self, deadline: Optional[float]) -> Optional[float]:
        """The seconds that the calling thread may wait at once, None without end."""
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if threading.get_ident() == self._main:
            return LOOK_S if left is None else min(left, LOOK_S)
        return left

    def _arrived(self, deadline: Optional[float]) -> bool:
        return readable(self._socket, self._left(deadline))

    def poll(self) -> None:
        """Handles what has already arrived, without waiting."""
        with self.changed:
            if self._reading or self.failure is not None:
                return  # a reader delivers at once
            try:
                while self.failure is None:
                    self._handle(self._reader.read(DONTWAIT))
            except BlockingIOError:
                pass
            except BaseException as error:
                self._fail(Closed() if isinstance(error, OSError) else end_of(error))

    def _attend(self) -> None:
        """Reads when nobody has for a while, as all threads work, and at once when there is none that would."""
        turns, rounds = -1, 0
        while not self._ended.is_set():
            with self.changed:
                alone = not (self._tended or self._reading or self._waiters)
            try:
                job = self._jobs.get(timeout=0 if alone else UNREAD)
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
                if self._reading or self._waiters or (self._tended and self._turns != turns):
                    turns = self._turns
                    continue
                self._read()
                self._hand_over()
