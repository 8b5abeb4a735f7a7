"""Answers that wait for the next ones to leave in one send, and who sees to it that they do not wait for long."""

from __future__ import annotations

import _thread
import contextlib
import time
from typing import Any

from .channel import Closed

# How often the thread looks while answers are held at all; it sends those that have been held for half of that.
LOOK = 2e-3


class Holding:
    """Counts the held answers of a worker.

    Quick batches come after each other, and the next one takes the answers along. Should it turn out slow, they must
    not wait for it: a thread sends them. It sleeps while nothing is held, so that quick traffic wakes it some hundred
    times a second and an idle worker never.
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        # How many answers wait, as far as who runs batches knows, and since when.
        self.count = 0
        self.since = 0.0
        self._awake = self._started = False
        self._gate = _thread.allocate_lock()

    def add(self, packed: bytes) -> None:
        """Holds one more answer."""
        if not self.count:
            self.since = time.perf_counter()
        self.count += 1
        self._writer.hold(packed)
        if not self._awake:
            self._awake = True
            if not self._started:
                self._started = True
                self._gate.acquire()
                _thread.start_new_thread(self._watch, ())
            else:
                with contextlib.suppress(RuntimeError):  # it has not gone to sleep yet
                    self._gate.release()

    def _watch(self) -> None:
        quiet = 0
        with contextlib.suppress(Closed, OSError):  # told to whoever sends next
            while True:
                time.sleep(LOOK)
                if self._writer.holds():
                    quiet = 0
                    if time.perf_counter() - self.since > LOOK / 2:
                        self._writer.flush()
                    continue
                quiet += 1
                if quiet < 3:
                    continue
                quiet = 0
                self._awake = False
                if self._writer.holds():
                    self._awake = True  # since just now: nobody has knocked
                else:
                    self._gate.acquire()
