"""The server process behind a Triton object, and the connection to it.

``LocalServer`` starts the ``neso`` binary with one end of a socket pair and owns the other. ``RemoteServer`` attaches to a server
that runs already. Both serve bindings and infer through the same connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

if TYPE_CHECKING:
    from ._binding import Arrays, Binding


class ServerError(Exception):
    """The server refused, or died; the text says why (its last words included). ``code`` as in backend.Error, or None."""

    code: Optional[str] = None


class Connection:
    """A live connection over which models are bound. All methods may be called from any thread."""

    def bind(self, binding: "Binding", timeout: Optional[float] = None) -> None:
        """Serves a model; returns when it is ready. A bound name and version is replaced without downtime.

        Raises ServerError when the server refuses it, TimeoutError after ``timeout`` seconds.
        """
        raise NotImplementedError

    def unbind(self, name: str, version: int, timeout: Optional[float] = None) -> None:
        """Stops serving a model once its requests are answered."""
        raise NotImplementedError

    def infer(
        self,
        name: str,
        inputs: Mapping[str, Any],
        *,
        version: int = -1,
        outputs: Sequence[str] = (),
        parameters: Optional[Mapping[str, Any]] = None,
        priority: int = 0,
        timeout_us: int = 0,
        request_id: str = "",
    ) -> Iterator["Arrays"]:
        """Infers on any model of the server; yields each answer. Raises ServerError."""
        raise NotImplementedError

    def metadata(self, name: str, version: int = -1) -> Dict[str, Any]:
        """The served configuration of a model."""
        raise NotImplementedError

    def is_alive(self) -> bool:
        """Whether the server lives, the connection stands and every instance thread runs."""
        raise NotImplementedError

    def last_words(self) -> str:
        """Why it is no longer alive: exit status and the last lines of the log; empty while it lives."""
        raise NotImplementedError

    def stop(self, timeout: float = 20.0) -> None:
        """Unbinds, ends the server (LocalServer) or the connection (RemoteServer), waits for threads and the process. Safe twice."""
        raise NotImplementedError


class LocalServer(Connection):
    """A server of our own. It ends when this process ends, however that happens."""

    # Where it listens, known after start; 0 when that front end is off.
    http_port: int = 0
    grpc_port: int = 0
    metrics_port: int = 0
    pid: int = 0

    def __init__(
        self,
        binary: str,
        arguments: Sequence[str],
        *,
        on_end: Optional[Callable[[], None]] = None,
        environment: Optional[Mapping[str, str]] = None,
    ) -> None:
        """``arguments`` follow ``neso serve``: the flags made of the TritonConfig. ``on_end`` is called once, from
        a thread of this object, when the server is gone, asked for or not."""
        raise NotImplementedError

    def start(self, timeout: float = 120.0) -> None:
        """Starts the binary and returns when its listeners accept. Raises ServerError at once with its last words if it dies,
        TimeoutError otherwise. Ports 0 mean any free one."""
        raise NotImplementedError


class RemoteServer(Connection):
    """A running server, reached over its attach socket (on this machine)."""

    def __init__(
        self, url: str, *, access_token: Optional[str] = None, on_end: Optional[Callable[[], None]] = None
    ) -> None:
        """``url`` of its HTTP or gRPC end; ``access_token`` is sent as triton-access-token to ask for the socket."""
        raise NotImplementedError

    def connect(self, timeout: float = 120.0) -> None:
        """Asks for the attach socket and joins. Raises ServerError or TimeoutError."""
        raise NotImplementedError


def binary_path() -> str:
    """The ``neso`` binary: NESO_BINARY, the one in this package, or the first on PATH."""
    raise NotImplementedError


