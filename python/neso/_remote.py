"""Joining a server that runs already: callables of this process behind a server that another one started."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import urllib.parse
from typing import Any, Callable, Optional

from ._runtime.binding import Binding
from ._runtime.connection import Connection, ServerError, ServerGone

TOKEN_HEADER = "triton-access-token"


class RemoteServer:
    """The connection with a server of somebody else on this machine, with the methods of Server."""

    def __init__(self, url: str, connection: Connection, on_death: Optional[Callable[[], None]] = None) -> None:
        """Takes over the connection; on_death is called when it ends without having been told to."""
        self.url = url
        self.connection = connection
        self._on_death = on_death
        self._owner = os.getpid()
        self._stopping = False
        self._ended = threading.Event()
        self.addresses: dict[str, str] = connection.control("server", 10.0).get("addresses") or {}
        threading.Thread(target=self._watch, name="neso-watch", daemon=True).start()

    def _watch(self) -> None:
        self.connection.link.wait_end()
        self._ended.set()
        if not self._stopping and self._on_death is not None:
            self._on_death()

    def bind(self, binding: Binding, timeout: Optional[float] = None) -> dict[str, Any]:
        """Serves callables as a model and returns its final configuration; binding it again swaps it in."""
        return self.connection.bind(binding, timeout)

    def unbind(self, name: str, version: int = 1) -> None:
        """Takes a model out of service."""
        self.connection.unbind(name, version)

    def is_alive(self) -> bool:
        """Whether the connection lives and belongs to this process."""
        return os.getpid() == self._owner and not self.connection.closed

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits for the end of the connection."""
        return self._ended.wait(timeout)

    def last_words(self) -> str:
        """How the connection ended; an empty text while it lives."""
        return f"The connection with {self.url} has ended" if self._ended.is_set() and not self._stopping else ""

    def stop(self, timeout: Optional[float] = None) -> None:
        """Unbinds everything and leaves; requests in flight are answered before."""
        if os.getpid() != self._owner or self._stopping:
            return
        self._stopping = True
        with contextlib.suppress(ServerError, TimeoutError):
            self.connection.leave(30.0 if timeout is None else timeout)
        self.connection.close()


def connect(
    url: str, access_token: Optional[str] = None, on_death: Optional[Callable[[], None]] = None
) -> RemoteServer:
    """Joins the server at an HTTP URL. It must run on this machine, as the same user, and allow binding."""
    path, token = _ticket(url, access_token)
    ours, theirs = zip(socket.socketpair(), socket.socketpair())
    try:
        with theirs[0], theirs[1], socket.socket(socket.AF_UNIX) as door:
            door.settimeout(10)
            try:
                door.connect(path)
                socket.send_fds(door, [token.encode()], [s.fileno() for s in theirs])
                answer = door.recv(1)
            except OSError as error:
                raise ServerError(f"The server at {url} cannot be joined from here: {error}") from None
            if answer != b"y":
                raise ServerError(f"The server at {url} refused this process")
        connection = Connection(*ours)
        connection.last_words = lambda: f"The server at {url} is gone"
        return RemoteServer(url, connection, on_death)
    except BaseException:
        for sock in ours:
            sock.close()
        raise


def _ticket(url: str, access_token: Optional[str]) -> tuple[str, str]:
    import http.client  # with it comes the email package: only for those who join

    parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        raise ServerError(f"A server is joined over HTTP, as in http://localhost:8000, not over {url}")
    http_connection = http.client.HTTPConnection(parts.hostname, parts.port or 8000, timeout=10)
    try:
        headers = {TOKEN_HEADER: access_token} if access_token else {}
        http_connection.request("POST", "/v2/repository/bind", b"", headers)
        answer = http_connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise ServerGone(f"The server at {url} cannot be reached: {error}") from None
    finally:
        http_connection.close()
    try:
        told = json.loads(body)
    except ValueError:
        told = {}
    if answer.status != 200 or not isinstance(told, dict):
        reason = told.get("error", answer.reason) if isinstance(told, dict) else answer.reason
        raise ServerError(f"The server at {url} does not let processes bind: {reason}")
    return str(told.get("socket")), str(told.get("token"))
