"""Responses of generators that come closely one after the other leave together.

A send costs more than making a small response, and each one wakes the server. So a response that comes less than
``WINDOW`` after the last send is held; whatever is sent next takes it along. Should nothing be sent, because the
generator thinks about its next response, a thread sends what is held after about ``WAIT``.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Optional

from neso_runtime.channel import Closed, Writer

# Seconds after a send in which further responses are held.
WINDOW = 200e-6
# Seconds until what is held is sent, if nothing else is.
WAIT = 300e-6
# Bytes that are not held any longer.
FULL = 16384
# How many waits without anything held end the ticking.
IDLE = 4


class Bursts:
    """Holds responses back in a connection's writer. Any thread may use it."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._lock = threading.Lock()
        self._ticking = False
        self._closed = False
        self._arm = threading.Event()
        self._thread: Optional[threading.Thread] = None
        # When something was last sent, and how many bytes have been held since.
        self._sent = 0.0
        self._held = 0

    def send(self, data: bytes) -> None:
        """Sends a response that is not the last one, now or in a moment."""
        now = time.perf_counter()
        self._held += len(data)  # a race with another generator makes a window longer or shorter, no more
        if now - self._sent > WINDOW or self._held > FULL:
            self._sent, self._held = now, 0
            self._writer.send(data)
            return
        self._writer.hold(data)
        if not self._ticking:
            self._tick()

    def _tick(self) -> None:
        with self._lock:
            self._ticking = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="neso-bursts", daemon=True)
                self._thread.start()
        self._arm.set()

    def _run(self) -> None:
        writer, idle = self._writer, 0
        while not self._closed:
            time.sleep(WAIT)
            if writer.holds():
                idle = 0
                with contextlib.suppress(Closed, OSError):  # the threads of the connection hear it too
                    writer.flush()
                continue
            idle += 1
            if idle < IDLE:
                continue
            self._arm.clear()
            self._ticking = False
            if writer.holds():  # held before it could see that nobody ticks
                self._ticking = True
                continue
            self._arm.wait()
            idle = 0

    def close(self) -> None:
        """Ends the thread."""
        self._closed = True
        self._arm.set()
