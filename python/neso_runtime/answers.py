"""What is known of the requests that a process has to answer."""

from __future__ import annotations

import contextlib

from .channel import Frame
from .frames import COUNT, ProtocolError
from .link import Link
from .window import Window

# How many requests that were cancelled are remembered, far more than there are at a time.
MOST = 1 << 16


class Cancelled(dict[int, None]):
    """Handles of requests that nobody wants any more, in order; some of them may have ended meanwhile."""

    def note(self, handle: int) -> None:
        """Adds one, and forgets the oldest of too many."""
        if len(self) >= MOST:
            with contextlib.suppress(RuntimeError):  # another thread has just removed one
                self.pop(next(iter(self), -1), None)
        self[handle] = None

    def discard(self, handle: int) -> None:
        """Removes one whose request has ended, if it is there."""
        self.pop(handle, None)


class Answers:
    """Which requests are cancelled, how far the answers to each may go, and how many are still to come."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.cancelled = Cancelled()
        # Of decoupled requests that are not answered, by handle.
        self.windows: dict[int, Window] = {}
        # Requests that response senders will answer.
        self.open = 0

    def is_cancelled(self, handle: int) -> bool:
        """Whether the server has cancelled the request, as far as anything says that has arrived."""
        if handle not in self.cancelled:
            self._link.poll()
        return handle in self.cancelled

    # Handlers of frames; they run under the link's lock.

    def on_cancel(self, frame: Frame) -> None:
        """Notes that nobody wants a request any more."""
        self.cancelled.note(frame[2])

    def on_credit(self, frame: Frame) -> None:
        """Notes what a client has taken."""
        _, _, handle, data, start, end = frame
        if end - start != COUNT.size:
            raise ProtocolError(f"credit: body of {end - start} bytes")
        window = self.windows.get(handle)
        if window is not None:
            window.credit(*COUNT.unpack_from(data, start))
