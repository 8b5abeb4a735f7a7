"""Joining a server that runs already: callables of this process behind a server that another one started."""

from __future__ import annotations

import json
import os
import socket
import threading
from typing import TYPE_CHECKING, Any, Callable, Optional

from neso_runtime.frames import ProtocolError

from ._bound.binding import Binding
from ._bound.connection import BoundConnection, ServerError, ServerGone

if TYPE_CHECKING:
    from .client.utils import TritonUrl

# How long the server may take for each step of joining it.
ASK_TIMEOUT_S = 30.0


class RemoteServer:
    """The connection with a server of somebody else on this machine, with the methods of Server."""

    def __init__(self, url: str, connection: BoundConnection, on_death: Optional[Callable[[], None]] = None) -> None:
        """Takes over the connection; on_death is called when it ends without having been told to."""
        self.url = url
        self.connection = connection
        self._on_death = on_death
        self._owner = os.getpid()
        self._stopping = False
        self._ended = threading.Event()
        self.addresses: dict[str, str] = connection.control("server", ASK_TIMEOUT_S).get("addresses") or {}
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
        if self._stopping or not self.connection.closed:
            return ""
        failure = self.connection.link.failure
        why = f": {failure}" if isinstance(failure, ProtocolError) else ""
        return f"The connection with {self.url} has ended{why}"

    def stop(self, timeout: Optional[float] = None) -> None:
        """Unbinds everything and leaves; requests in flight are answered before."""
        if os.getpid() != self._owner or self._stopping:
            return
        self._stopping = True
        self.connection.leave(30.0 if timeout is None else timeout)
        self.connection.close()


def connect(
    url: str, access_token: Optional[str] = None, on_death: Optional[Callable[[], None]] = None
) -> RemoteServer:
    """Joins the server at the URL of its HTTP or gRPC end.

    It must run on this machine, as the same user, and allow binding.
    """
    path, token = _ticket(url, access_token)
    ours, theirs = zip(socket.socketpair(), socket.socketpair())
    try:
        with theirs[0], theirs[1], socket.socket(socket.AF_UNIX) as door:
            door.settimeout(ASK_TIMEOUT_S)
            try:
                door.connect(path)
                socket.send_fds(door, [token.encode()], [s.fileno() for s in theirs])
                answer = door.recv(1)
            except socket.timeout:  # TimeoutError from Python 3.10 on
                raise ServerGone(f"The server at {url} does not answer") from None
            except OSError as error:
                raise ServerError(f"The server at {url} cannot be joined from here: {error}") from None
            if answer != b"y":
                raise ServerError(f"The server at {url} refused this process")
        connection = BoundConnection(*ours)
        connection.last_words = lambda: f"The server at {url} is gone"
        try:
            return RemoteServer(url, connection, on_death)
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise ServerGone(f"The server at {url} does not answer") from None
            raise
    except BaseException:
        for sock in ours:
            sock.close()
        raise


def _ticket(url: str, access_token: Optional[str]) -> tuple[str, str]:
    """The path of the server's socket and the token that opens it once."""
    from .client.auth import create_auth_headers
    from .client.exceptions import PyTritonClientInvalidUrlError
    from .client.utils import TritonUrl

    try:
        parsed = TritonUrl.from_url(url)
    except PyTritonClientInvalidUrlError:
        raise ServerError(
            f"A server is joined over HTTP or gRPC, as in http://localhost:8000, not over {url}"
        ) from None
    headers = create_auth_headers(access_token, parsed.scheme) if access_token else {}
    if os.environ.get("NESO_KEY"):  # of a server with --auth-file; not an argument, which tracebacks show
        headers["x-api-key"] = os.environ["NESO_KEY"]
    told = (_ask_grpc if parsed.scheme == "grpc" else _ask_http)(parsed, headers)
    if not told.get("socket") or not told.get("token"):
        raise ServerError(f"The server at {url} does not let processes bind")
    return str(told["socket"]), str(told["token"])


def _ask_http(url: TritonUrl, headers: dict[str, str]) -> dict[str, Any]:
    import http.client  # with it comes the email package: only for those who join

    http_connection = http.client.HTTPConnection(url.hostname, url.port, timeout=ASK_TIMEOUT_S)
    try:
        http_connection.request("POST", "/v2/repository/bind", b"", headers)
        answer = http_connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise ServerGone(f"The server at {url.with_scheme} cannot be reached: {error}") from None
    finally:
        http_connection.close()
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        told = {}
    if answer.status != 200:
        reason = told.get("error", answer.reason)
        raise ServerError(f"The server at {url.with_scheme} does not let processes bind: {reason}")
    return told


def _ask_grpc(url: TritonUrl, headers: dict[str, str]) -> dict[str, Any]:
    import grpc
    from google.protobuf import empty_pb2, struct_pb2

    with grpc.insecure_channel(url.without_scheme) as channel:
        call = channel.unary_unary(
            "/neso.Binding/RepositoryBind",
            request_serializer=empty_pb2.Empty.SerializeToString,
            response_deserializer=struct_pb2.Struct.FromString,
        )
        try:
            told = call(empty_pb2.Empty(), timeout=ASK_TIMEOUT_S, metadata=list(headers.items()))
        except grpc.RpcError as error:
            code, reason = error.code(), error.details()
            # A restricted call has the same code as a server that is not there.
            if code == grpc.StatusCode.DEADLINE_EXCEEDED or (
                code == grpc.StatusCode.UNAVAILABLE and "restricted" not in reason
            ):
                raise ServerGone(f"The server at {url.with_scheme} cannot be reached: {reason}") from None
            raise ServerError(f"The server at {url.with_scheme} does not let processes bind: {reason}") from None
    return dict(told)
