"""Answers that wait for the next ones to leave in one send, and who sees to it that they do not wait for long."""

from __future__ import annotations

import _thread
import contextlib
import os
import time

from neso_runtime.channel import Closed, Writer
from neso_runtime.memory import Segments


class Holding:
    """Counts the held answers of a worker.

    Quick batches come after each other, and the next one takes the answers along. Should it turn out slow, they must
    not wait for it. The server sees on the board that a later batch was begun and no answer came, and rings: a thread
    that waits for that sends them. It is started with the first answer that is held, and costs nothing while nobody
    rings; one that looked now and then would take the interpreter from the model each time.
    """

    def __init__(self, writer: Writer, segments: Segments) -> None:
        self._writer = writer
        self._segments = segments
        # How many answers wait, as far as who runs batches knows, and since when.
        self.count = 0
        self.since = 0.0
        self._listens = False

    def add(self, packed: bytes) -> bool:
        """Holds one more answer; False, and nothing is held, where the server has no bell to ring."""
        if not self._listens:
            if self._segments.bell is None:
                return False
            self._listens = True
            _thread.start_new_thread(self._listen, (self._segments.bell,))
        if not self.count:
            self.since = time.perf_counter()
        self.count += 1
        self._writer.hold(packed)
        return True

    def _listen(self, bell: int) -> None:
        with contextlib.suppress(Closed, OSError):  # told to whoever sends next
            while os.read(bell, 4096):
                if self._writer.holds():
                    self._writer.flush()
