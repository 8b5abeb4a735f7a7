"""Windows: how much of the responses to one request may be on its way to the client.

A client that does not read fills its request's window; then whoever sends for that request waits, and nobody else.
The server returns with CREDIT what the client has taken.
"""

from __future__ import annotations

import contextlib
from typing import Any

from .link import Link

# How many windows a coroutine may be ahead of the client when it sends without waiting for room.
LOOP_WINDOWS = 4


class Window:
    """The window of one request. One sender at a time adds to what is spent; the link's reader adds credit."""

    __slots__ = ("_closed", "_credited", "_limit", "_link", "_waiters", "_waiting", "spent")

    def __init__(self, link: Link, limit: int) -> None:
        self._link = link
        self._limit = limit
        # What was sent, and what of it the client has taken.
        self.spent = 0
        self._credited = 0
        self._closed = False
        # How many threads wait, and the futures of the coroutines that do.
        self._waiting = 0
        self._waiters: list[Any] = []

    def credit(self, taken: int) -> None:
        """Notes what the client has taken; runs under the link's lock, which wakes the waiting threads."""
        self._credited += taken
        self._wake()

    def _full(self, limit: int) -> bool:
        return self.spent - self._credited >= limit and not self._closed

    def wait(self, on_loop: bool = False) -> None:
        """Waits for room. On an event loop that holds up all other coroutines: then only when there is no other way."""
        limit = self._limit * LOOP_WINDOWS if on_loop else self._limit
        if not self._full(limit):
            return
        self._waiting += 1
        try:
            self._link.wait(lambda: not self._full(limit))
        finally:
            self._waiting -= 1

    async def room(self) -> None:
        """Waits for room in a coroutine, while others go on."""
        if not self._full(self._limit):
            return
        import asyncio  # there is a coroutine, so it has been imported

        while self._full(self._limit):
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            if not self._full(self._limit):  # meanwhile
                self._wake()
            await waiter

    def close(self) -> None:
        """Ends the waiting. Takes no lock unless a thread waits."""
        self._closed = True
        self._wake()
        if self._waiting:
            with self._link.changed:
                self._link.wake()

    def end(self) -> None:
        """Ends the waiting of coroutines when the channel has ended, which threads hear of the link; under its lock."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.pop()
            with contextlib.suppress(RuntimeError):  # its loop was closed
                waiter.get_loop().call_soon_threadsafe(_finish, waiter)


def _finish(waiter: Any) -> None:
    if not waiter.done():
        waiter.set_result(None)
