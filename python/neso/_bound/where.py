"""Where in a user's code a callable is that does not come back."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import sys
import threading
import types
from typing import Any, Optional

import neso_runtime


@functools.cache
def _others() -> tuple[str, ...]:
    """The folders of what is not the user's: this package, what it is built on, and Python."""
    import sysconfig  # takes its time, and is seldom asked

    paths = sysconfig.get_paths()
    own = [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), os.path.dirname(neso_runtime.__file__)]
    folders = [*own, paths["stdlib"], paths["purelib"], paths["platlib"]]
    return tuple(os.path.join(os.path.realpath(folder), "") for folder in folders)


def _is_users(frame: types.FrameType) -> bool:
    name = frame.f_code.co_filename
    return not name.startswith("<frozen ") and not os.path.realpath(name).startswith(_others())


def _text(frame: types.FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


# One that its holder may take again: a handler of a signal may stop the program here.
_looking = threading.RLock()


def frames() -> dict[int, types.FrameType]:
    """What each thread runs, by its number."""
    # Python 3.11.7 makes the frames under a lock of its own, which the garbage collector may wait for if it runs there.
    with _looking:
        enabled = gc.isenabled()
        try:
            gc.disable()
            return sys._current_frames()
        finally:
            if enabled:
                gc.enable()


def of_thread(thread: threading.Thread) -> str:
    """The innermost place of the user's code in what a thread does now, or else of any code."""
    innermost = frame = frames().get(thread.ident or 0)
    while frame is not None and not _is_users(frame):
        frame = frame.f_back
    found = frame or innermost
    return "an unknown place" if found is None else _text(found)


def of_tasks(loop: asyncio.AbstractEventLoop) -> str:
    """The innermost place of the user's code where a coroutine of a loop waits."""
    found = "a coroutine"
    for task in asyncio.all_tasks(loop):
        waiting: Any = task.get_coro()
        while waiting is not None:
            frame: Optional[types.FrameType] = getattr(waiting, "cr_frame", None) or getattr(waiting, "ag_frame", None)
            if frame is not None and _is_users(frame):
                found = _text(frame)
            waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "ag_await", None) or _generator(waiting)
    return found


def _generator(step: Any) -> Any:
    """The asynchronous generator whose next item is waited for."""
    if type(step).__name__ != "async_generator_asend":
        return None
    return next((thing for thing in gc.get_referents(step) if isinstance(thing, types.AsyncGeneratorType)), None)
