"""The HTTP clients of threads.

tritonclient's HTTP client waits in an event loop of gevent, which belongs to the thread that made it: a connection
cannot change hands. So each thread keeps one, and when the thread ends it goes, and the event loop with it, whose
descriptors gevent would keep for ever.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
import weakref
from typing import Any, Callable, Optional

_local = threading.local()


class _Loop:
    """An event loop of gevent in a thread that had none. It ends with its thread and the clients there."""

    def __init__(self) -> None:
        from gevent._hub_local import get_hub_if_exists
        from gevent.hub import get_hub

        self._thread = threading.get_ident()
        self._hub: Any = None
        if get_hub_if_exists() is None and threading.current_thread() is not threading.main_thread():
            self._hub = get_hub()
            # The other resolvers have threads, with loops of their own that outlive this one.
            from gevent.resolver.blocking import Resolver

            self._hub.resolver = Resolver(self._hub)

    def enter(self) -> bool:
        """Makes it its thread's loop again, which the end of a thread forgets: closing would make another one."""
        if self._hub is None or threading.get_ident() != self._thread:
            return False
        from gevent._hub_local import set_hub

        set_hub(self._hub)
        return True

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of a thread there is nobody to tell
            if self.enter():
                self._hub.destroy(destroy_loop=True)


class _Entry:
    """The client of one thread."""

    def __init__(self, make: Callable[[], Any], forget: Callable[[Any], None]) -> None:
        loop = getattr(_local, "loop", None)
        if loop is None:  # before the client, which would make one
            loop = _local.loop = _Loop()
        self._loop = loop
        self._forget = forget
        self.client = make()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._loop.enter()
            self._forget(self.client)


class PerThread:
    """A client for each thread that asks, closed when the thread ends or all are."""

    def __init__(self, make: Callable[[], Any]) -> None:
        """``make`` opens a client of the calling thread. A method does not keep its object."""
        # Its object has this one: in a circle they would stay, with their connections, until the collector comes by.
        self._make = weakref.WeakMethod(make) if inspect.ismethod(make) else lambda: make
        self._entries = threading.local()
        # One that its holder may take again: the garbage collector may drop an entry inside of anything.
        self._lock = threading.RLock()
        self._open: list[Any] = []

    def get(self) -> Any:
        """The client of this thread."""
        entry: Optional[_Entry] = getattr(self._entries, "entry", None)
        if entry is None:
            make = self._make()
            assert make is not None  # it is called by the object that has the method
            entry = self._entries.entry = _Entry(make, self._close)
            with self._lock:
                self._open.append(entry.client)
        return entry.client

    def _close(self, client: Any) -> None:
        with self._lock:
            if client not in self._open:
                return
            self._open.remove(client)
        client.close()

    def close(self) -> None:
        """Closes the clients of all threads."""
        with self._lock:
            clients, self._open = self._open, []
        for client in clients:
            client.close()
