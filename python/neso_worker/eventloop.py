"""The event loop that coroutines of models run on: one, in a thread of its own, for as long as the worker lives.

asyncio is imported when there is a coroutine: it takes 15 ms, which most models need not wait for.
"""

from __future__ import annotations

import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    import asyncio

_lock = threading.Lock()
_loop: Optional[asyncio.AbstractEventLoop] = None
_thread = 0
_background: set[Any] = set()


def loop() -> asyncio.AbstractEventLoop:
    """The loop; started when first asked for."""
    global _loop, _thread
    import asyncio

    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            thread = threading.Thread(target=_loop.run_forever, name="neso-eventloop", daemon=True)
            thread.start()
            _thread = thread.ident or 0
        return _loop


def here() -> bool:
    """Whether the caller runs on the loop, which must not wait."""
    return threading.get_ident() == _thread


async def _await(awaitable: Any) -> Any:
    return await awaitable


def _submit(awaitable: Any) -> Any:
    import asyncio

    coroutine = awaitable if asyncio.iscoroutine(awaitable) else _await(awaitable)
    return asyncio.run_coroutine_threadsafe(coroutine, loop())


def run(awaitable: Any) -> Any:
    """Runs a coroutine to its end and returns its result."""
    return _submit(awaitable).result()


def start(awaitable: Any) -> None:
    """Runs a coroutine in the background; an exception is only printed."""
    future = _submit(awaitable)
    _background.add(future)
    future.add_done_callback(_finished)


def _finished(future: Any) -> None:
    _background.discard(future)
    if not future.cancelled() and future.exception() is not None:
        error = future.exception()
        traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)


def stop() -> None:
    """Ends the loop; tasks that still run are left unfinished."""
    if _loop is not None:
        _loop.call_soon_threadsafe(_loop.stop)
