"""A server that runs, and what its models are named by."""

from __future__ import annotations

import ctypes
from typing import Any, Optional

from . import _library
from ._errors import InvalidArgumentError
from ._handle import Handle


class Running:
    """A started server. It ends with ``stop``, or when no server, model or iterator refers to it any more."""

    def __init__(self, options: Handle) -> None:
        """Starts it, and returns when its models are loaded. Raises the library's errors."""
        made = ctypes.c_void_p()
        _library.call("ServerNew", ctypes.byref(made), options.pointer)
        self._handle = Handle(made.value or 0, "ServerDelete")

    @property
    def pointer(self) -> int:
        """The server, for the library. Raises InvalidArgumentError when it has been stopped."""
        if self._handle.closed:
            raise InvalidArgumentError("Server not started")
        return self._handle.pointer

    def ask(self, function: str, *arguments: Any) -> None:
        """Calls a function of the server."""
        _library.call(function, self.pointer, *arguments)

    def told(self, function: str, *arguments: Any) -> Any:
        """What a function of the server says as JSON."""
        return _library.message(function, self.pointer, *arguments)

    def stop(self) -> None:
        """Ends the server in its exit timeout. Raises InternalError when that has passed; it is ended all the same."""
        try:
            self.ask("ServerStop")
        finally:
            self._handle.close()


class Addressed:
    """A model of a server, by name and version."""

    def __init__(
        self,
        running: Running,
        name: str,
        version: int = -1,
        state: Optional[str] = None,
        reason: Optional[str] = None,
    ) -> None:
        """Models come from ``Server.model``, ``models`` and ``load``. Nothing is checked before a model is used."""
        self._running = running
        self.name = name
        #: -1 is the version that the model's version policy chooses.
        self.version = version
        #: "READY", "UNAVAILABLE", ..., where the index said it.
        self.state = state
        #: Why the state is so, where the index said it.
        self.reason = reason

    def __repr__(self) -> str:
        """Name, version and state."""
        return str({"name": self.name, "version": self.version, "state": self.state})

    def _named(self) -> tuple[bytes, int]:
        """Name and version, for the library."""
        name = _library.text(self.name, "The name of a model")
        return name, _library.number(self.version, "The version of a model", 64, signed=True)
