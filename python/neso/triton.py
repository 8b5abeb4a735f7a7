"""Triton: binds callables and serves them; RemoteTriton: the same on a server that runs already."""

from __future__ import annotations

import logging
import os
import pathlib
import sys
import time
from typing import Any, Optional, Union

from . import _running
from ._base import (
    MODEL_CONFIG_URL,
    MODEL_INFER_URL,
    MODEL_READY_URL,
    MODEL_URL,
    MONITORING_PERIOD_S,
    TritonBase,
)
from ._model import Address
from .config import (
    DEFAULT_PROTECTED_ENDPOINTS,
    VALID_TRITON_ENDPOINTS,
    DefaultTritonLifecyclePolicy,
    TritonConfig,
    TritonLifecyclePolicy,
    TritonSecurityConfig,
    VertextAILifecyclePolicy,
)
from .constants import DEFAULT_TRITON_STARTUP_TIMEOUT_S, TRITON_ACCESS_HEADER
from .exceptions import PyTritonRuntimeError
from .utils.announce import announce, slow
from .utils.workspace import Workspace

__all__ = [
    "DEFAULT_PROTECTED_ENDPOINTS",
    "DEFAULT_TRITON_STARTUP_TIMEOUT_S",
    "MODEL_CONFIG_URL",
    "MODEL_INFER_URL",
    "MODEL_READY_URL",
    "MODEL_URL",
    "MONITORING_PERIOD_S",
    "TRITON_ACCESS_HEADER",
    "VALID_TRITON_ENDPOINTS",
    "DefaultTritonLifecyclePolicy",
    "RemoteTriton",
    "Triton",
    "TritonBase",
    "TritonConfig",
    "TritonLifecyclePolicy",
    "TritonSecurityConfig",
    "VertextAILifecyclePolicy",
]

LOGGER = logging.getLogger("neso.triton")

# Between two attempts to reach a server that does not answer yet.
CONNECT_PAUSE_S = 0.1


class Triton(TritonBase):
    """A server of our own: it starts with the ``with`` block, ``run`` or ``serve`` and ends with this process."""

    def __init__(
        self,
        *,
        config: Optional[TritonConfig] = None,
        workspace: Union[Workspace, str, pathlib.Path, None] = None,
        triton_lifecycle_policy: Optional[TritonLifecyclePolicy] = None,
        security_config: Optional[TritonSecurityConfig] = None,
    ) -> None:
        """``config`` goes before the environment (PYTRITON_TRITON_CONFIG_…), which goes before the defaults."""
        self.config = (config or TritonConfig()).over(TritonConfig.from_env())
        if triton_lifecycle_policy is None:
            vertex = self.config.allow_vertex_ai
            triton_lifecycle_policy = VertextAILifecyclePolicy if vertex else DefaultTritonLifecyclePolicy
        self._security_config = security_config or TritonSecurityConfig()
        super().__init__("", workspace, triton_lifecycle_policy, self._security_config.access_token)
        self._expose_tracebacks = bool(self.config.expose_tracebacks)
        self._inference_timeout_s = self.config.inference_timeout_s
        self._addresses: dict[str, Address] = {}

    def __enter__(self) -> Triton:
        """Starts the server, unless the policy says later."""
        if self._policy.launch_triton_on_startup:
            self.run()
        return self

    def run(self) -> None:
        """Starts the server and serves what is bound, in the background."""
        self.connect()

    def _trace_config(self) -> Optional[list[str]]:
        return self.config.trace_config

    def _arguments(self) -> list[str]:
        # Explicit: models come and go while the server runs, and other processes may bind.
        out = [*self.config.arguments(), "--model-control-mode=explicit"]
        if self.config.model_repository is not None:
            out.append("--load-model=*")
        return out

    def _private_arguments(self) -> list[str]:
        """Those that hold the token, which no list of processes is to show."""
        if not self._security_config.restricted_endpoints:
            return []
        rule = f"{','.join(self._security_config.restricted_endpoints)}:{TRITON_ACCESS_HEADER}={self._access_token}"
        return [f"--http-restricted-api={rule}", f"--grpc-restricted-protocol={rule}"]

    def _open(self) -> Any:
        from ._server import ServerError

        self._verbose_warning()
        self._pid = os.getpid()
        while True:
            try:
                server = self._start()
                break
            except ServerError as error:
                hint = _running.make_room(str(error)) if "already in use" in str(error) else ""
                if hint is None:
                    continue
                raise PyTritonRuntimeError(f"The server did not start: {error}{hint}") from error
        self._addresses = {k: Address.parse(v) for k, v in server.addresses.items() if not v.startswith("unix:")}
        _running.started(self)
        return server

    def _start(self) -> Any:
        from ._server import Server

        grace = self.config.exit_timeout_secs
        server = Server(
            self._arguments(),
            private=self._private_arguments(),
            exit_timeout=30.0 if grace is None else float(grace),
        )
        try:
            with slow("Starting the server"):
                server.start(timeout=DEFAULT_TRITON_STARTUP_TIMEOUT_S)
        except BaseException:
            server.stop()
            raise
        return server

    @staticmethod
    def running() -> list[Triton]:
        """The objects of this process whose servers run, also those that no variable holds."""
        return [triton for triton in _running.running() if isinstance(triton, Triton)]

    def _verbose_warning(self) -> None:
        if self.config.log_verbose:
            LOGGER.warning(
                "Triton Inference Server is running with enabled verbose logs (log_verbose_level=%d). "
                "It may affect inference performance.",
                self.config.log_verbose,
            )

    def _before_stop(self) -> None:
        self._verbose_warning()

    def _announce(self) -> None:
        announce(
            {k: v.local() for k, v in self._addresses.items()}, [m.config for m in self._models.values()], sys.stderr
        )

    def _port(self, end: str) -> int:
        address = self._addresses.get(end)
        return address.port if address else 0

    @property
    def http_port(self) -> int:
        """The port of HTTP, 0 when there is none."""
        return self._port("http")

    @property
    def grpc_port(self) -> int:
        """The port of gRPC, 0 when there is none."""
        return self._port("grpc")

    @property
    def metrics_port(self) -> int:
        """The port of the metrics, 0 when there is none."""
        return self._port("metrics")

    @property
    def vertex_ai_port(self) -> int:
        """The port of Vertex AI's form, 0 when there is none."""
        return self._port("vertex-ai")

    @property
    def sagemaker_port(self) -> int:
        """The port of SageMaker's form, 0 when there is none."""
        return self._port("sagemaker")

    @property
    def url(self) -> str:
        """The URL of HTTP, or of gRPC where HTTP is off."""
        for end in ("http", "grpc"):
            if end in self._addresses:
                return f"{end}://{self._addresses[end].local()}"
        return ""

    @property
    def grpc_url(self) -> str:
        """The URL of gRPC."""
        return f"grpc://{self._addresses['grpc'].local()}" if "grpc" in self._addresses else ""

    def get_access_token(self) -> Optional[str]:
        """The token that restricted parts of the protocol ask for; None when nothing is and none was given."""
        return self._access_token


class RemoteTriton(TritonBase):
    """Binds callables of this process to a server that runs already on this machine."""

    def __init__(
        self,
        url: str,
        workspace: Union[Workspace, str, pathlib.Path, None] = None,
        access_token: Optional[str] = None,
        *,
        exit_timeout_secs: float = 30.0,
    ) -> None:
        """``url`` is that of its HTTP or gRPC end. Raises PyTritonClientInvalidUrlError.

        ``exit_timeout_secs`` is how long ``stop`` waits for callables that are still running.
        """
        from .client.exceptions import PyTritonClientInvalidUrlError
        from .client.utils import TritonUrl

        try:
            url = TritonUrl.from_url(url).with_scheme
        except PyTritonClientInvalidUrlError as error:
            raise PyTritonClientInvalidUrlError(
                f"{error}: a server is joined over HTTP or gRPC, as in http://localhost:8000"
            ) from None
        super().__init__(url, workspace, TritonLifecyclePolicy(True, False), access_token)
        self._stop_timeout_s = exit_timeout_secs

    def is_alive(self) -> bool:
        """Whether all that is bound is served: true before anything is bound, as scripts for PyTriton expect."""
        return super().is_alive() or (self._server is None and not self._models)

    def __enter__(self) -> RemoteTriton:
        """Joins the server."""
        self.connect()
        return self

    def _open(self) -> Any:
        from ._bound.connection import ServerError, ServerGone
        from ._remote import connect

        self._pid = os.getpid()
        deadline = time.monotonic() + DEFAULT_TRITON_STARTUP_TIMEOUT_S
        with slow(f"Waiting for the server at {self._url}") as waiting:
            while True:
                try:
                    return connect(self._url, self._access_token)
                except ServerGone as error:
                    waiting.why = str(error)
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"Triton Inference Server is not ready after timeout. {error}") from None
                    time.sleep(CONNECT_PAUSE_S)
                except ServerError as error:
                    hint = ""
                    if "restricted" in str(error):
                        hint = (
                            "; RemoteTriton(url, access_token=...) takes what get_access_token() of its Triton returns"
                        )
                    raise PyTritonRuntimeError(f"No connection with {self._url}: {error}{hint}") from error
