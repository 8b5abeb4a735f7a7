"""The event loop of a callable that is a coroutine function, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any, Optional

from . import where
from .memory import current
from .store import BoundStore

LOGGER = logging.getLogger("neso.triton")


class Loop:
    """One event loop for all instances of a callable, from the first coroutine to the end of the last instance."""

    def __init__(self, model: str, store: BoundStore) -> None:
        """store is where outputs are allocated that coroutines ask for."""
        self._model, self._store = model, store
        self._lock = threading.Lock()
        self._users: set[int] = set()
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def use(self, user: int, name: str) -> asyncio.AbstractEventLoop:
        """The running loop, for the instance of that number, until it leaves."""
        with self._lock:
            self._users.add(user)
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._run, args=(self._loop,), name=f"neso-{name}-loop", daemon=True).start()
            return self._loop

    def leave(self, user: int) -> None:
        """The instance of that number runs no more coroutines."""
        with self._lock:
            self._users.discard(user)
            if self._users or self._loop is None:
                return
            loop, self._loop = self._loop, None
        loop.call_soon_threadsafe(loop.stop)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        current.store = self._store
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            # What has not come to its end is cancelled, which runs its cleaning up.
            tasks: set[asyncio.Task[Any]] = asyncio.all_tasks(loop)
            if tasks:
                place = where.of_tasks(loop)
                LOGGER.warning("Cancelled, as it has not come back: the callable of `%s`, at %s", self._model, place)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()
