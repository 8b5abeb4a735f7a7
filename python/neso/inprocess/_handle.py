"""Objects of the library that end with their Python objects."""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import Any

from . import _library
from ._errors import InvalidArgumentError, TritonError

# Whether the thread is in a callback of the library.
_here = threading.local()


class Callback:
    """A block that runs in a callback of the library; see ``Handle``."""

    def __enter__(self) -> None:
        """Notes that a callback has begun."""
        self._before = getattr(_here, "inside", False)
        _here.inside = True

    def __exit__(self, *_: object) -> None:
        """Notes that it has ended."""
        _here.inside = self._before


class Handle:
    """An object of the library. It is deleted by ``close``, or when nothing refers to it, or when the program ends.

    The end of a server waits for requests, hence for callbacks. Where the last reference goes away in one, another
    thread deletes.
    """

    def __init__(self, pointer: int, delete: str, *needs: Handle) -> None:
        """``delete`` is the function that deletes it. It is deleted before the objects that it ``needs``."""
        self._pointer = pointer
        self._finalize = weakref.finalize(self, _delete, delete, pointer, needs)

    @property
    def pointer(self) -> int:
        """The object, for the library. Raises InvalidArgumentError when it has been deleted."""
        if not self._finalize.alive:
            raise InvalidArgumentError("The object has been deleted")
        return self._pointer

    @property
    def closed(self) -> bool:
        """Whether it has been deleted."""
        return not self._finalize.alive

    def close(self) -> None:
        """Deletes it. The second time it does nothing."""
        self._finalize()


def _delete(function: str, pointer: int, needs: tuple[Any, ...]) -> None:
    if getattr(_here, "inside", False):
        threading.Thread(target=_delete_here, args=(function, pointer, needs), daemon=False).start()
    else:
        _delete_here(function, pointer, needs)


def _delete_here(function: str, pointer: int, _needs: tuple[Any, ...]) -> None:
    with contextlib.suppress(TritonError):  # nobody is there to hear of it, and the object is gone in any case
        _library.call(function, pointer)
