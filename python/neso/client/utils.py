"""URLs of servers, and waiting for servers and models with the clients of tritonclient."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import functools
import importlib
import logging
import time
import urllib.parse
import warnings
from typing import Any, Optional

from ..constants import DEFAULT_GRPC_PORT, DEFAULT_HTTP_PORT
from ..model_config.parser import ModelConfigParser
from ..model_config.triton_model_config import TritonModelConfig
from .exceptions import PyTritonClientInvalidUrlError, PyTritonClientTimeoutError
from .warnings import NotSupportedTimeoutWarning

LOGGER = logging.getLogger(__name__)

LATEST_MODEL_VERSION = "<latest>"
NETWORK_TIMEOUT_S = 60.0
_DEFAULT_WAIT_FOR_SERVER_READY_TIMEOUT_S = 60.0
_DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S = 300.0

# Between two questions whether something is ready, growing from the first to the second.
FIRST_PAUSE_S = 0.02
LAST_PAUSE_S = 0.5

# Why one waits while the server answers but the model does not. When time is over the server is asked for more: whether
# it knows the model at all. That may take this long.
NOT_READY = "the model is not ready"
WHY_S = 1.0


# Seconds until the log says that a client still waits, and between such lines.
SLOW_AFTER_S = 3.0
SLOW_EVERY_S = 10.0

# Errors of HTTP clients that are no OSError.
_BROKEN = (("geventhttpclient.response", "HTTPParseError"), ("aiohttp", "ClientError"))


class ModelState(enum.Enum):
    """Whether a model can be used."""

    LOADING = "LOADING"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"
    READY = "READY"


@dataclasses.dataclass
class TritonUrl:
    """The URL of a server: scheme http or grpc."""

    scheme: str
    hostname: str
    port: int

    @classmethod
    def from_url(cls, url: str) -> TritonUrl:
        """Reads ``[scheme://]host[:port]``. Raises PyTritonClientInvalidUrlError."""
        if not isinstance(url, str):
            raise PyTritonClientInvalidUrlError(f"Invalid url {url}. Url must be a string.")
        given = url if "://" in url else f"http://{url}"
        try:
            parts = urllib.parse.urlsplit(given)
            port = parts.port
        except ValueError:
            raise PyTritonClientInvalidUrlError(f"Invalid url {url}") from None
        scheme = parts.scheme.lower()
        if scheme not in ("http", "grpc") or not parts.hostname or parts.path not in ("", "/") or parts.query:
            raise PyTritonClientInvalidUrlError(f"Invalid url {url}")
        if port is None:
            port = DEFAULT_GRPC_PORT if scheme == "grpc" else DEFAULT_HTTP_PORT
        return cls(scheme, parts.hostname, port)

    @property
    def with_scheme(self) -> str:
        """With the scheme."""
        return f"{self.scheme}://{self.without_scheme}"

    @property
    def without_scheme(self) -> str:
        """Host and port."""
        host = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{host}:{self.port}"


def create_client_from_url(url: str, network_timeout_s: Optional[float] = None) -> Any:
    """A client of tritonclient for the URL."""
    parsed = TritonUrl.from_url(url)
    if parsed.scheme == "grpc":
        import tritonclient.grpc as grpc_client

        if network_timeout_s is not None:
            warnings.warn(
                "tritonclient.grpc doesn't support timeout for other commands than infer. "
                f"Ignoring network_timeout: {network_timeout_s}.",
                NotSupportedTimeoutWarning,
                stacklevel=2,
            )
        return grpc_client.InferenceServerClient(parsed.without_scheme)
    import tritonclient.http as http_client

    timeout = NETWORK_TIMEOUT_S if network_timeout_s is None else network_timeout_s
    return http_client.InferenceServerClient(parsed.without_scheme, network_timeout=timeout, connection_timeout=timeout)


def is_grpc(client: Any) -> bool:
    """Whether it is a gRPC client of tritonclient."""
    return ".grpc" in type(client).__module__


@functools.cache
def unreachable() -> tuple[type[BaseException], ...]:
    """What clients raise while nobody answers, and when a connection breaks."""
    from tritonclient.utils import InferenceServerException

    kinds: list[type[BaseException]] = [InferenceServerException, OSError, asyncio.TimeoutError]
    # Each library below has an error of its own for a connection that ends before its answer, or a broken answer.
    for module, name in _BROKEN:
        with contextlib.suppress(ImportError, AttributeError):
            kinds.append(getattr(importlib.import_module(module), name))
    return tuple(kinds)


def said(error: BaseException) -> str:
    """What an error says, without the status."""
    message = getattr(error, "message", None)
    return (str(message()) if callable(message) else str(error)) or type(error).__name__


class Patience:
    """Counts down a timeout and pauses between questions."""

    def __init__(self, timeout_s: float) -> None:
        """``timeout_s`` from now."""
        self._begin = time.monotonic()
        self._end = self._begin + timeout_s
        self._pause = FIRST_PAUSE_S
        self._tell = SLOW_AFTER_S

    def pause(self, what: str = "", why: str = "") -> Optional[float]:
        """Seconds to wait before the next question; None when time is over. Logs now and then what is waited for."""
        now = time.monotonic()
        left = self._end - now
        if left <= 0:
            return None
        if what and now - self._begin >= self._tell:
            self._tell = now - self._begin + SLOW_EVERY_S
            LOGGER.warning("Waiting for %s: %.0f s so far, %.0f s left (%s)", what, now - self._begin, left, why)
        pause, self._pause = self._pause, min(self._pause * 1.5, LAST_PAUSE_S)
        return min(pause, left)

    def left(self) -> float:
        """Seconds that a question may take: those that are left, but enough for the first one to be answered."""
        return max(WHY_S if self._pause == FIRST_PAUSE_S else 0.001, self._end - time.monotonic())


def wait_for_server_ready(
    client: Any, timeout_s: Optional[float] = None, headers: Optional[dict[str, str]] = None
) -> None:
    """Waits until the server is live and ready. Raises PyTritonClientTimeoutError."""
    limit = _DEFAULT_WAIT_FOR_SERVER_READY_TIMEOUT_S if timeout_s is None else timeout_s
    patience = Patience(limit)
    while True:
        extra = {"client_timeout": patience.left()} if is_grpc(client) else {}
        try:
            if client.is_server_live(headers=headers, **extra) and client.is_server_ready(headers=headers, **extra):
                return
            reason = "the server is not ready"
        except unreachable() as error:
            reason = str(error)
        pause = patience.pause("the server", reason)
        if pause is None:
            raise PyTritonClientTimeoutError(
                f"Waiting for server to be ready timed out. Timeout: {limit} s. Message: {reason}"
            )
        time.sleep(pause)


def wait_for_model_ready(
    client: Any,
    model_name: str,
    model_version: Optional[str] = None,
    timeout_s: Optional[float] = None,
    headers: Optional[dict[str, str]] = None,
) -> None:
    """Waits until the server answers and the model is ready. Raises PyTritonClientTimeoutError."""
    limit = _DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S if timeout_s is None else timeout_s
    patience = Patience(limit)
    version = model_version or ""
    reached = False
    while True:
        extra = {"client_timeout": patience.left()} if is_grpc(client) else {}
        try:
            reached = reached or client.is_server_live(headers=headers, **extra)
            if client.is_model_ready(model_name, version, headers=headers, **extra):
                return
            reason = NOT_READY
        except unreachable() as error:
            reason = str(error)
        pause = patience.pause(f"model {model_name}", reason)
        if pause is None:
            if reached:
                extra = {"client_timeout": WHY_S} if is_grpc(client) else {}
                try:
                    client.get_model_metadata(model_name, version, headers=headers, **extra)
                except unreachable() as error:
                    reason = said(error)
            what = f"model {model_name}/{model_version or LATEST_MODEL_VERSION}" if reached else "server"
            raise PyTritonClientTimeoutError(
                f"Waiting for {what} to be ready timed out. Timeout: {limit} s. Message: {reason}"
            )
        time.sleep(pause)


def get_model_config(
    client: Any,
    model_name: str,
    model_version: Optional[str] = None,
    timeout_s: Optional[float] = None,
    headers: Optional[dict[str, str]] = None,
) -> TritonModelConfig:
    """The configuration of a model, once it is ready."""
    wait_for_model_ready(client, model_name, model_version, timeout_s, headers)
    return read_model_config(client, model_name, model_version, headers)


def read_model_config(
    client: Any, model_name: str, model_version: Optional[str], headers: Optional[dict[str, str]]
) -> TritonModelConfig:
    """The configuration of a model."""
    if is_grpc(client):
        fields = client.get_model_config(model_name, model_version or "", headers=headers, as_json=True)["config"]
    else:
        fields = client.get_model_config(model_name, model_version or "", headers=headers)
    return ModelConfigParser.from_dict(fields)


def _index(models: Any, name: str) -> dict[tuple[str, str], ModelState]:
    out: dict[tuple[str, str], ModelState] = {}
    for entry in models:
        state = entry.get("state")
        out[entry[name], entry.get("version", "")] = ModelState(state) if state else ModelState.UNAVAILABLE
    return out


def parse_http_response(models: Any) -> dict[tuple[str, str], ModelState]:
    """States of models in the repository index of HTTP."""
    return _index(models, "name")


def parse_grpc_response(models: Any) -> dict[tuple[str, str], ModelState]:
    """States of models in the repository index of gRPC."""
    from google.protobuf import json_format

    return _index([json_format.MessageToDict(model) for model in models], "name")


def get_model_state(
    client: Any,
    model_name: str,
    model_version: Optional[str] = None,
    headers: Optional[dict[str, str]] = None,
) -> ModelState:
    """The state of a model in the repository index; without a version that of the latest."""
    index = client.get_model_repository_index(headers=headers)
    states = parse_grpc_response(index.models) if is_grpc(client) else parse_http_response(index)
    found = [(v, state) for (name, v), state in states.items() if name == model_name and model_version in (None, v)]
    if not found:
        return ModelState.UNAVAILABLE
    return max(found, key=lambda item: int(item[0] or 0))[1]
