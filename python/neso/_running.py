"""The servers that this process has started and not stopped: whose port is taken, and who still holds its object.

A notebook's cell that makes a Triton, run again, leaves the object of before without a name and with its ports.
"""

from __future__ import annotations

import builtins
import gc
import logging
import os
import re
import sys
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any, Optional, Protocol

from ._bound.where import frames
from ._model import Address

LOGGER = logging.getLogger("neso.triton")

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TAKEN = re.compile(r"Socket '[^']*:(\d+)' already in use")
# Names of what cells have shown, which IPython keeps.
_HISTORY = re.compile(r"_\d*|__|___|_oh|Out")


class Running(Protocol):
    """What is asked of a Triton whose server runs."""

    _addresses: dict[str, Address]
    _models: dict[Any, Any]

    @property
    def url(self) -> str:
        """Where it is."""

    def is_alive(self) -> bool:
        """Whether its server lives."""

    def stop(self) -> bool:
        """Ends its server."""


_lock = threading.Lock()
_running: weakref.WeakSet[Running] = weakref.WeakSet()


def started(triton: Running) -> None:
    """Notes a server that runs."""
    with _lock:
        _running.add(triton)


def running() -> list[Running]:
    """The objects of this process whose servers run."""
    with _lock:
        known = list(_running)
    return [triton for triton in known if triton.is_alive()]


def holder(error: str) -> Optional[Running]:
    """The one of this process that has the port which the server says is taken."""
    found = _TAKEN.search(error)
    if found is None:
        return None
    port = int(found[1])
    return next((t for t in running() if any(a.port == port for a in t._addresses.values())), None)


def is_interactive() -> bool:
    """Whether somebody types, or runs cells."""
    return hasattr(sys, "ps1") or hasattr(builtins, "__IPYTHON__")


def _main() -> dict[str, Any]:
    return vars(sys.modules["__main__"])


def _keys(table: dict[Any, Any], triton: Running) -> list[str]:
    """The names that a table has for it, without those of what cells have shown."""
    found = []
    for name, value in list(table.items()):
        if value is triton and not (isinstance(name, str) and _HISTORY.fullmatch(name)):
            found.append(str(name))
    return found


def names(triton: Running) -> list[str]:
    """The variables at the top that hold it."""
    return _keys(_main(), triton)


def _user_frames() -> Iterator[types.FrameType]:
    for frame in frames().values():
        current: Optional[types.FrameType] = frame
        while current is not None:
            if not _is_own(current) and current.f_locals is not _main():
                yield current
            current = current.f_back


def _is_own(frame: types.FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_PACKAGE)


def _is_shell(thing: object) -> bool:
    return type(thing).__module__.startswith(("IPython.", "ipykernel."))


def _remembers(referrer: Any, triton: Running) -> bool:
    """Whether it is IPython's memory of what cells have shown."""
    if referrer is _main().get("_oh") or _is_shell(referrer):
        return True
    if type(referrer) is not dict:
        return False
    if any(key is triton for key in list(referrer)):
        return False
    if not _keys(referrer, triton):
        return True
    for owner in gc.get_referrers(referrer):  # of an object, on Pythons where those have one that shows
        if _is_shell(owner) and getattr(owner, "__dict__", None) is referrer:
            return True
    return False


def is_left(triton: Running) -> bool:
    """Whether nothing of the user's refers to it any more: no variable, container, attribute or running function."""
    if names(triton):
        return False
    # Loops, since what a generator closes over is a reference too.
    for frame in _user_frames():
        for value in frame.f_locals.values():
            if value is triton:
                return False
    for referrer in gc.get_referrers(triton):
        if _remembers(referrer, triton):
            continue
        # Ours are bound methods: for the end of the process, for callables, of threads.
        if isinstance(referrer, types.MethodType):
            continue
        if isinstance(referrer, types.FrameType) and (_is_own(referrer) or referrer.f_locals is _main()):
            continue
        return False
    return True


def make_room(error: str) -> Optional[str]:
    """What to say of a port that is taken; None when it is free again.

    Where somebody works interactively the server of an object that is left is stopped.
    """
    other = holder(error)
    said = ""
    if other is not None:
        if is_interactive() and is_left(other):
            LOGGER.warning(
                "Stopping the server of before, at %s: it has the port, and nothing refers to its Triton.", other.url
            )
            other.stop()
            return None
        models = ", ".join(f"`{name}`" for name, _ in other._models) or "no model yet"
        known = names(other)
        way = f"{known[0]}.stop() ends it" if known else "Triton.running() lists those that run; stop() ends one"
        said = f"\nThe port is that of another Triton of this process, at {other.url}, with {models}: {way}."
    return f"{said}\nTritonConfig chooses other ports; 0 means any free one."
