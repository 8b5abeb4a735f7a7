"""A server that this process starts, and serves callables to.

The server inherits one end of a socket pair. When this process dies, the
server sees the end of it and ends too; when the server dies, whatever waits
here fails with the server's last words.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Callable, Optional

from neso_runtime.channel import Closed

from ._bound.binding import Binding
from ._bound.connection import BoundConnection, ServerError, ServerGone
from ._leftovers import sweep
from ._remote import RemoteServer, connect
from ._spawn import spawn

__all__ = ["RemoteServer", "Server", "ServerError", "ServerGone", "connect", "find_binary"]

# How long the server gets to end after it was told to, beyond its own --exit-timeout-secs.
STOP_MARGIN = 15.0
# How long the end of the process may take behind that of the connection.
END_S = 30.0
# How long the last lines of its log may take behind the end of the process: others may have the pipe open.
LOG_S = 10.0
LAST_LINES = 20


def find_binary() -> str:
    """The path of the neso binary: $NESO_BINARY, the one that came with this package, or the one on the PATH."""
    given = os.environ.get("NESO_BINARY")
    if given:
        return given
    name = "neso.exe" if sys.platform == "win32" else "neso"
    packaged = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    if os.access(packaged, os.X_OK):
        return packaged
    found = shutil.which("neso-server") or shutil.which("neso")
    if found is None:
        raise ServerError("The neso binary was not found: set NESO_BINARY, or install the package with its binary")
    return found


class Server:
    """One server process and the connection with it."""

    def __init__(
        self,
        arguments: Sequence[str] = (),
        *,
        binary: Optional[str] = None,
        environment: Optional[dict[str, str]] = None,
        output: Optional[Callable[[str], None]] = None,
        on_death: Optional[Callable[[], None]] = None,
        exit_timeout: float = 30.0,
        private: Sequence[str] = (),
    ) -> None:
        """arguments are those of ``neso serve``; output takes the lines of its log (default: stderr).

        private are more of them that no list of processes is to show, such as tokens.
        on_death is called on a thread of its own when the server ends without having been told to.
        """
        self._arguments, self._private = list(arguments), list(private)
        self._binary, self._environment = binary, environment
        self._output, self._on_death = output, on_death
        self._exit_timeout = exit_timeout
        self._owner = os.getpid()
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._connection: Optional[BoundConnection] = None
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._stopping = False
        self._ended = threading.Event()
        self._logged = threading.Event()
        self._stop_lock = threading.Lock()
        # Of the front ends that listen: "http", "grpc", "metrics".
        self.addresses: dict[str, str] = {}

    @property
    def pid(self) -> Optional[int]:
        """The process id of the server."""
        return None if self._process is None else self._process.pid

    @property
    def returncode(self) -> Optional[int]:
        """The exit status of the server, None while it runs."""
        return self._process.returncode if self._process is not None and self._ended.is_set() else None

    @property
    def connection(self) -> BoundConnection:
        """The connection; there is one from start to stop."""
        if self._connection is None:
            raise ServerError("The server is not started")
        return self._connection

    def start(self, timeout: Optional[float] = 120.0) -> None:
        """Starts the server and waits until it listens and its startup models are loaded."""
        if self._process is not None:
            raise ServerError("The server has been started before")
        command = [self._binary or find_binary(), "serve", *self._arguments]
        try:
            self._process, ours = spawn(command, self._private, self._environment)
        except OSError as error:
            raise ServerError(f"The server cannot be started: {error}") from None
        try:
            threading.Thread(target=self._log, name="neso-log", daemon=True).start()
            threading.Thread(target=self._watch, name="neso-watch", daemon=True).start()
            self._connection = BoundConnection(*ours)
            self._connection.last_words = self._obituary
            self.addresses = self._connection.control("server", timeout).get("addresses") or {}
        except BaseException:
            self._stopping = True
            self._kill()
            if self._connection is not None:
                self._connection.close()
            for end in ours:
                end.close()
            raise

    def _log(self) -> None:
        """Hands on what the server prints, and keeps the last lines."""
        assert self._process is not None and self._process.stdout is not None
        with self._process.stdout as pipe:
            for raw in pipe:
                line = raw.decode("utf-8", "replace").rstrip("\n")
                self._lines.append(line)
                with contextlib.suppress(Exception):
                    if self._output is not None:
                        self._output(line)
                    else:
                        sys.stderr.write(line + "\n")
        self._logged.set()

    def _watch(self) -> None:
        assert self._process is not None
        if self._process.wait() < 0:  # killed
            environment = os.environ if self._environment is None else self._environment
            sweep(environment.get("TMPDIR") or "/tmp")
        self._logged.wait(LOG_S)
        self._ended.set()
        connection = self._connection
        if connection is not None:
            connection.link.end(Closed())
        if not self._stopping and self._on_death is not None:
            self._on_death()

    def _obituary(self) -> str:
        self._ended.wait(END_S)
        code = self.returncode
        how = "The server is gone"
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                how = f"The server was killed by {signal.Signals(-code).name}"
        elif code:
            how = f"The server ended with exit status {code}"
        return "\n".join([how + (":" if self._lines else ""), *self._lines])

    def last_words(self) -> str:
        """How the server ended, with the last lines of its log; an empty text while it runs."""
        over = self._ended.is_set() or (self._connection is not None and self._connection.closed)
        return self._obituary() if over else ""

    def bind(self, binding: Binding, timeout: Optional[float] = None) -> dict[str, Any]:
        """Serves callables as a model and returns its final configuration; binding it again swaps it in."""
        return self.connection.bind(binding, timeout)

    def unbind(self, name: str, version: int = 1) -> None:
        """Takes a model out of service."""
        self.connection.unbind(name, version)

    def is_alive(self) -> bool:
        """Whether the server runs and can be reached from this process."""
        return (
            self._process is not None
            and os.getpid() == self._owner
            and not self._ended.is_set()
            and not self.connection.closed
        )

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits for the end of the server; False when it still runs after timeout seconds."""
        return self._ended.wait(timeout)

    def stop(self, timeout: Optional[float] = None) -> None:
        """Ends the server in order: requests in flight are answered, models unloaded. Kills it when that takes long."""
        if self._process is None or os.getpid() != self._owner:
            return
        with self._stop_lock:
            self._stopping = True
            if not self._ended.is_set():
                limit = self._exit_timeout + STOP_MARGIN if timeout is None else timeout
                deadline = time.monotonic() + limit
                try:
                    self.connection.control("stop", limit)
                except (ServerError, TimeoutError):
                    self._signal(signal.SIGTERM)
                if not self._ended.wait(max(0.1, deadline - time.monotonic())):
                    self._kill()
            if self._connection is not None:
                self._connection.close()

    def _signal(self, number: int) -> None:
        if self._process is not None and not self._ended.is_set():
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _kill(self) -> None:
        if self._process is not None:
            if not self._ended.is_set():
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
            self._ended.wait(5.0)
