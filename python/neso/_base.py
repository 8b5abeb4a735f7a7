"""TritonBase: what the two kinds of servers share: bound models, the connection, and the life from start to stop."""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import pathlib
import signal
import socket
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Optional, Union

from . import _callables
from ._context import TritonContext
from ._model import Model
from .config import DefaultTritonLifecyclePolicy, TritonLifecyclePolicy
from .exceptions import PyTritonInvalidOperationError, PyTritonRuntimeError
from .model_config import ModelConfig, Tensor
from .utils.announce import slow
from .utils.workspace import Workspace

if TYPE_CHECKING:
    from ._inprocess import InProcessClient

LOGGER = logging.getLogger("neso.triton")

# Seconds between two looks of ``serve`` whether the server lives.
MONITORING_PERIOD_S = 10.0
MODEL_URL = "/v2/models/{model_name}"
MODEL_READY_URL = f"{MODEL_URL}/ready/"
MODEL_CONFIG_URL = f"{MODEL_URL}/config/"
MODEL_INFER_URL = f"{MODEL_URL}/infer/"


class _InterruptedError(BaseException):
    """A signal came while ``serve`` was starting, which may wait for long."""


class _Wake:
    """Wakes the thread in ``serve`` from other threads and from signal handlers."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)

    def fire(self) -> None:
        with contextlib.suppress(OSError):  # closed, or full: it is awake then
            self._writer.send(b"x")

    def wait(self, seconds: float) -> None:
        self._reader.settimeout(seconds)  # select knows no descriptor above 1,023
        with contextlib.suppress(OSError):
            self._reader.recv(64)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


class TritonBase:
    """Binds models and keeps the connection with a server."""

    # Whether this process has made one: what a script without any is told.
    any_made: ClassVar[bool] = False

    def __init__(
        self,
        url: str = "",
        workspace: Union[Workspace, str, pathlib.Path, None] = None,
        triton_lifecycle_policy: TritonLifecyclePolicy = DefaultTritonLifecyclePolicy,
        access_token: Optional[str] = None,
    ) -> None:
        """Starts nothing."""
        TritonBase.any_made = True
        self._url = url
        # The server needs no folder: there is one only where the user wants it.
        self._workspace = Workspace(workspace) if isinstance(workspace, (str, pathlib.Path)) else workspace
        self._policy = triton_lifecycle_policy
        self._access_token = access_token
        self._context = TritonContext()
        self._models: dict[tuple[str, int], Model] = {}
        # Those of before the last stop: bound again they give way, as PyTriton forgets them.
        self._of_before: set[tuple[str, int]] = set()
        self._server: Any = None
        # Calls of in-process clients.
        self._calls: Any = None
        self._connected = False
        self._expose_tracebacks = False
        self._inference_timeout_s: Optional[float] = None
        # How long stopping may take; None is the server's own time for that and a margin.
        self._stop_timeout_s: Optional[float] = None
        # Guards starting, stopping and the table of models.
        self._lock = threading.RLock()
        self._serving: Optional[_Wake] = None
        self._pid = os.getpid()
        self._was_stopped = False

    def __enter__(self) -> Any:
        """Connects."""
        self.connect()
        return self

    def __exit__(
        self, exc_type: Optional[type[BaseException]], exc: Optional[BaseException], tb: Optional[TracebackType]
    ) -> None:
        """Stops."""
        self.stop()

    # Models.

    def bind(
        self,
        model_name: str,
        infer_func: Union[Callable[..., Any], Sequence[Callable[..., Any]]],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        model_version: int = 1,
        config: Optional[ModelConfig] = None,
        strict: bool = False,
        trace_config: Optional[list[str]] = None,
        *,
        replace: bool = False,
    ) -> None:
        """Serves ``infer_func`` as a model: at once when the server runs, else whenever it starts.

        The callable takes a list of ``Request`` and returns a list with a dictionary of arrays for each, or what its
        decorators make of that (``neso.decorators``); it may be a coroutine function, and with
        ``ModelConfig(decoupled=True)`` a generator. A list of callables gives one instance each, with a thread of its
        own. ``inputs`` and ``outputs`` are in the order in which clients may give them; shapes are without the batch
        dimension. ``model_version`` is 1 or more, ``config`` by default ``ModelConfig()``.

        ``strict`` makes every difference between an answer and ``outputs`` an error. ``trace_config`` gives
        requests spans of OpenTelemetry, see ``neso.proxy.telemetry``; without it that of ``TritonConfig`` does.
        ``replace`` puts a bound model's new callable in place of the old one without a lost request.

        Raises PyTritonInvalidOperationError for a name and version that is taken, PyTritonValidationError and
        PyTritonBadParameterError for what is wrong with the arguments, and PyTritonRuntimeError when the running server
        refuses the model; the other models go on.
        """
        with self._lock:
            for name, version in self._models:
                if isinstance(model_name, str) and (name.lower(), version) == (model_name.lower(), model_version):
                    if name == model_name and (replace or (name, version) in self._of_before):
                        continue
                    raise PyTritonInvalidOperationError("Cannot add model with the same name twice.")
            model = Model(
                model_name,
                model_version,
                infer_func,
                inputs,
                outputs,
                config or ModelConfig(),
                self._context,
                strict,
                self._trace_config() if trace_config is None else trace_config,
            )
            self._trace(trace_config)
            if self._connected:
                self._load(model)
            self._models[model.name, model.version] = model
            self._of_before.discard((model.name, model.version))

    def unbind(self, model_name: str, model_version: Optional[int] = None) -> None:
        """Stops serving a model (one version, or all) once its requests are answered."""
        with self._lock:
            found = [k for k in self._models if k[0] == model_name and model_version in (None, k[1])]
            if not found:
                raise PyTritonInvalidOperationError(f"Model `{model_name}` is not bound.")
            for key in found:
                if self._connected:
                    self._take_out(*key)
                del self._models[key]

    def _take_out(self, model_name: str, model_version: int) -> None:
        from ._server import ServerError

        try:
            self._server.unbind(model_name, model_version)
        except ServerError as error:
            raise PyTritonRuntimeError(f"Model `{model_name}` could not be unbound: {error}") from error

    def rollout(self, model_name: str, change: Union[str, dict[str, Any], None] = None) -> dict[str, Any]:
        """Which versions of a model get which requests, and what has happened under these rules; PyTriton has none.

        With ``change`` the rules are changed before, all at once: a dict with the sections of ``rollout.yaml``, or
        their text. A section that it lacks stays as it is, and None takes one away. Raises PyTritonRuntimeError, with
        the server's words, for rules that cannot hold and a model that is not there.
        """
        from ._server import ServerError

        if not self._connected:
            raise PyTritonInvalidOperationError("The server is not running.")
        fields = {"model": model_name}
        if change is not None:
            fields["change"] = change if isinstance(change, str) else json.dumps(change)
        try:
            return dict(self._server.connection.control("rollout", **fields))
        except ServerError as error:
            raise PyTritonRuntimeError(f"The rules of model `{model_name}`: {error}") from error

    def _trace_config(self) -> Optional[list[str]]:
        """What is traced where ``bind`` is not told."""
        return None

    def _trace(self, given: Optional[list[str]]) -> None:
        """Sees to a tracer where one is asked for and there is none."""
        wanted = self._trace_config() if given is None else given
        # Other modes than OpenTelemetry are the server's own; bind knows none but this.
        if wanted is None or (given is None and "mode=opentelemetry" not in wanted):
            return
        from .proxy import telemetry

        if telemetry.get_telemetry_tracer() is None:
            telemetry.set_telemetry_tracer(telemetry.build_proxy_tracer_from_triton_config(wanted))

    def _load(self, model: Model) -> None:
        from ._server import ServerError

        with slow(f"Loading model `{model.name}`"):
            model.warm_up()
            failure = _callables.failure(model.name, self._expose_tracebacks, self._stop_later)
            try:
                self._server.bind(model.binding(failure, self._inference_timeout_s))
            except ServerError as error:
                raise PyTritonRuntimeError(f"Model `{model.name}` could not be loaded: {error}") from error
        url = self.url
        LOGGER.info("Infer function available as model: `%s`", MODEL_URL.format(model_name=model.name))
        LOGGER.info("  Status:         `GET  %s`", url + MODEL_READY_URL.format(model_name=model.name))
        LOGGER.info("  Model config:   `GET  %s`", url + MODEL_CONFIG_URL.format(model_name=model.name))
        LOGGER.info("  Inference:      `POST %s`", url + MODEL_INFER_URL.format(model_name=model.name))

    # Life.

    def _open(self) -> Any:
        """Starts or joins the server."""
        raise NotImplementedError

    def connect(self) -> None:
        """Waits for the server and loads the models bound so far; nothing when it is connected already."""
        with self._lock:
            if self._connected:
                return
            if self._server is None:
                self._server = self._open()
                threading.Thread(target=self._watch, args=(self._server,), name="neso-watch", daemon=True).start()
                atexit.register(self.stop)
            try:
                for model in self._models.values():
                    self._load(model)
            except BaseException:
                self.stop()
                raise
            self._connected = True

    def _watch(self, server: Any) -> None:
        """Notes the end of the server."""
        server.wait(None)
        wake = self._serving
        if wake is not None:
            wake.fire()

    def _stop_later(self) -> None:
        """Stops from the thread of a callable, which stopping waits for."""
        threading.Thread(target=self.stop, name="neso-stop", daemon=True).start()

    def is_alive(self) -> bool:
        """Whether the server lives and serves what is bound."""
        server = self._server
        return server is not None and bool(server.is_alive())

    def wants_serving(self) -> bool:
        """Whether models are bound that nothing has served and stopped yet."""
        return bool(self._models) and not self._was_stopped

    def is_connected(self) -> bool:
        """Whether models are served, or would be as soon as they are bound."""
        return self._connected

    def stop(self) -> bool:
        """Lets requests end and stops; False when there was nothing to stop. Safe twice and from any thread.

        A callable that does not come back is given up after ``exit_timeout_secs`` (default 30), of ``TritonConfig`` or
        ``RemoteTriton``: its clients get an error, its thread is left behind, and a warning says where it is.
        """
        with self._lock:
            server, self._server = self._server, None
            self._calls = None
            self._connected = False
            self._was_stopped = self._was_stopped or server is not None
            self._of_before = set(self._models)
            if server is None:
                return False
            if os.getpid() != self._pid:  # a forked child: the server belongs to its parent
                return False
            self._before_stop()
            try:
                with slow("Waiting for what is in flight") as waiting:
                    waiting.ask = lambda: "; ".join(server.connection.stuck())
                    server.stop(self._stop_timeout_s)
            finally:
                if self._workspace is not None:
                    self._workspace.clean()
                atexit.unregister(self.stop)
                wake = self._serving
                if wake is not None:
                    wake.fire()
            return True

    def _before_stop(self) -> None:
        """What a subclass says before the server stops."""

    def serve(self, monitoring_period_s: float = MONITORING_PERIOD_S) -> None:
        """Connects and blocks until SIGINT, SIGTERM, ``stop`` or the end of the server; then everything is stopped.

        ``monitoring_period_s`` is the time in seconds between two looks whether the server lives; its end and ``stop``
        are seen at once.

        Raises PyTritonRuntimeError with the server's last words when it ended by itself.
        """
        wake = self._serving = _Wake()
        caught: list[int] = []
        previous: dict[int, Any] = {}
        starting = False
        if threading.current_thread() is threading.main_thread():

            def handler(number: int, frame: Any) -> None:
                caught.append(number)
                wake.fire()
                if starting:
                    raise _InterruptedError

            for wanted in (signal.SIGINT, signal.SIGTERM):
                previous[wanted] = signal.signal(wanted, handler)
        words = ""
        try:
            with contextlib.suppress(_InterruptedError):
                starting = True
                self.connect()
            starting = False
            if not caught:
                self._announce()
            server = self._server
            while not caught and self._server is not None and self.is_alive():
                wake.wait(monitoring_period_s)
            if caught:
                LOGGER.info("%s received, exiting.", signal.Signals(caught[0]).name)
            elif self._server is not None and server is not None:
                words = server.last_words()
        except _InterruptedError:  # just as the start was over
            pass
        finally:
            starting = False
            self.stop()
            self._serving = None
            for number, old in previous.items():
                signal.signal(number, old)
            wake.close()
        if words:
            raise PyTritonRuntimeError(f"The server has ended: {words}")

    def _announce(self) -> None:
        """Says where everything is."""

    @property
    def url(self) -> str:
        """The URL of the server, as clients on this machine use it."""
        return self._url

    def client(self, model_name: str, model_version: Optional[int] = None) -> InProcessClient:
        """A client of a bound model that needs no port: it speaks over the control socket."""
        from ._inprocess import Calls, InProcessClient

        with self._lock:
            if not self._connected:
                raise PyTritonInvalidOperationError("The server is not running.")
            found = [m for (name, v), m in self._models.items() if name == model_name and model_version in (None, v)]
            if not found:
                raise PyTritonInvalidOperationError(f"Model `{model_name}` is not bound.")
            if self._calls is None:
                self._calls = Calls(self._server.connection)
            return InProcessClient(self._calls, max(found, key=lambda m: m.version).config)
