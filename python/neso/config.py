"""TritonConfig and the other settings of a Triton object. ``neso.triton`` has them all."""

from __future__ import annotations

import dataclasses
import logging
import os
import pathlib
import re
import secrets
from collections.abc import Mapping
from typing import Any, Optional

from .exceptions import PyTritonValidationError

LOGGER = logging.getLogger("neso")

ENVIRONMENT = "PYTRITON_TRITON_CONFIG_"
VALID_TRITON_ENDPOINTS = {
    "health",
    "metadata",
    "inference",
    "shared-memory",
    "model-config",
    "model-repository",
    "statistics",
    "trace",
    "logging",
}
DEFAULT_PROTECTED_ENDPOINTS = ["shared-memory", "model-repository", "statistics", "trace", "logging"]

# Fields that are settings of ours, not options of the server.
_OURS = ("expose_tracebacks", "inference_timeout_s")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        if value.strip().lower() in _TRUE:
            return True
        if value.strip().lower() in _FALSE:
            return False
        raise ValueError(f"{value!r} is neither true nor false")
    return bool(value)


@dataclasses.dataclass(init=False)
class TritonConfig:
    """Options of the server. What is None has the server's default.

    ``expose_tracebacks`` sends the whole traceback of a failed callable to its client. ``inference_timeout_s`` answers
    a request whose callable does not come back in time with an error.
    """

    model_repository: Optional[pathlib.Path] = None
    id: Optional[str] = None
    log_verbose: Optional[int] = None
    log_file: Optional[pathlib.Path] = None
    exit_timeout_secs: Optional[int] = None
    exit_on_error: Optional[bool] = None
    strict_readiness: Optional[bool] = None
    allow_http: Optional[bool] = None
    http_address: Optional[str] = None
    http_port: Optional[int] = None
    http_header_forward_pattern: Optional[str] = None
    http_thread_count: Optional[int] = None
    http_restricted_api: Optional[str] = None
    allow_grpc: Optional[bool] = None
    grpc_address: Optional[str] = None
    grpc_port: Optional[int] = None
    grpc_header_forward_pattern: Optional[str] = None
    grpc_infer_allocation_pool_size: Optional[int] = None
    grpc_use_ssl: Optional[bool] = None
    grpc_use_ssl_mutual: Optional[bool] = None
    grpc_server_cert: Optional[pathlib.Path] = None
    grpc_server_key: Optional[pathlib.Path] = None
    grpc_root_cert: Optional[pathlib.Path] = None
    grpc_infer_response_compression_level: Optional[str] = None
    grpc_keepalive_time: Optional[int] = None
    grpc_keepalive_timeout: Optional[int] = None
    grpc_keepalive_permit_without_calls: Optional[bool] = None
    grpc_http2_max_pings_without_data: Optional[int] = None
    grpc_http2_min_recv_ping_interval_without_data: Optional[int] = None
    grpc_http2_max_ping_strikes: Optional[int] = None
    grpc_restricted_protocol: Optional[str] = None
    allow_metrics: Optional[bool] = None
    allow_gpu_metrics: Optional[bool] = None
    allow_cpu_metrics: Optional[bool] = None
    metrics_interval_ms: Optional[int] = None
    metrics_port: Optional[int] = None
    metrics_address: Optional[str] = None
    allow_sagemaker: Optional[bool] = None
    sagemaker_port: Optional[int] = None
    sagemaker_safe_port_range: Optional[str] = None
    sagemaker_thread_count: Optional[int] = None
    allow_vertex_ai: Optional[bool] = None
    vertex_ai_port: Optional[int] = None
    vertex_ai_thread_count: Optional[int] = None
    vertex_ai_default_model: Optional[str] = None
    metrics_config: Optional[list[str]] = None
    trace_config: Optional[list[str]] = None
    cache_config: Optional[list[str]] = None
    cache_directory: Optional[str] = None
    buffer_manager_thread_count: Optional[int] = None
    expose_tracebacks: Optional[bool] = None
    inference_timeout_s: Optional[float] = None

    def __init__(self, *positional: Any, **fields: Any) -> None:
        """Every field by its name; unknown names are a TypeError."""
        if positional:
            raise TypeError("TritonConfig initialization can't be used with positional arguments")
        for field in dataclasses.fields(self):
            setattr(self, field.name, fields.pop(field.name, None))
        if fields:
            raise TypeError(f"TritonConfig got an unexpected keyword argument '{next(iter(fields))}'")
        if self.allow_http not in (True, None) and self.allow_grpc not in (True, None):
            raise PyTritonValidationError("The `http` or `grpc` endpoint has to be allowed.")

    def to_dict(self) -> dict[str, Any]:
        """All options of the server by name, None included."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in _OURS}

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> TritonConfig:
        """Values are brought to the type of their field; unknown names are logged and left out."""
        types = {f.name: str(f.type) for f in dataclasses.fields(cls)}
        known: dict[str, Any] = {}
        for name, value in config.items():
            if name not in types:
                LOGGER.warning("Ignoring `%s`: TritonConfig has no such field.", name)
            elif value is not None:
                known[name] = _cast(types[name], value)
        return cls(**known)

    @classmethod
    def from_env(cls) -> TritonConfig:
        """Fields from PYTRITON_TRITON_CONFIG_<FIELD>, lists from PYTRITON_TRITON_CONFIG_<FIELD>_<n>."""
        types = {f.name: str(f.type) for f in dataclasses.fields(cls)}
        found: dict[str, Any] = {}
        numbered: dict[str, dict[int, str]] = {}
        for key, value in os.environ.items():
            if not key.startswith(ENVIRONMENT):
                continue
            name = key[len(ENVIRONMENT) :].lower()
            match = re.fullmatch(r"(.+)_(\d+)", name)
            if match and "list" in types.get(match[1], ""):
                numbered.setdefault(match[1], {})[int(match[2])] = value
            elif name in types and value.strip():
                found[name] = [value] if "list" in types[name] else value
            elif name not in types:
                LOGGER.warning("Ignoring the environment variable `%s`: TritonConfig has no such field.", key)
        for name, items in numbered.items():
            found[name] = [*found.get(name, ()), *(items[n] for n in sorted(items))]
        return cls.from_dict(found)

    def over(self, other: TritonConfig) -> TritonConfig:
        """These settings, and those of ``other`` where nothing is set."""
        mine = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return TritonConfig(**{k: getattr(other, k) if v is None else v for k, v in mine.items()})

    def arguments(self) -> list[str]:
        """The options as arguments of the server."""
        out: list[str] = []
        for name, value in self.to_dict().items():
            option = "--" + name.replace("_", "-")
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, bool):
                    out.append(f"{option}={str(item).lower()}")
                elif item is not None:
                    out.append(f"{option}={item}")
        return out


def _cast(kind: str, value: Any) -> Any:
    if "list" in kind:
        return [str(item) for item in value] if isinstance(value, (list, tuple)) else [str(value)]
    if "bool" in kind:
        return _boolean(value)
    if "int" in kind:
        return int(value)
    if "float" in kind:
        return float(value)
    return pathlib.Path(value) if "Path" in kind else str(value)


@dataclasses.dataclass
class TritonLifecyclePolicy:
    """When the server starts: with the ``with`` block, or only in ``run`` and ``serve``."""

    launch_triton_on_startup: bool = True
    local_model_store: bool = False


DefaultTritonLifecyclePolicy = TritonLifecyclePolicy()
VertextAILifecyclePolicy = TritonLifecyclePolicy(launch_triton_on_startup=False, local_model_store=True)


@dataclasses.dataclass
class TritonSecurityConfig:
    """Which parts of the protocol need the access token: None means those that change or show the server's inside.

    An empty list restricts nothing. A token is made when none is given and anything is restricted.
    """

    access_token: Optional[str] = None
    restricted_endpoints: Optional[list[str]] = None

    def __post_init__(self) -> None:
        """Fills in defaults and refuses unknown names."""
        if self.restricted_endpoints is None:
            self.restricted_endpoints = list(DEFAULT_PROTECTED_ENDPOINTS)
        if self.access_token is None and self.restricted_endpoints:
            self.access_token = secrets.token_urlsafe(32)
        wrong = [name for name in self.restricted_endpoints if name not in VALID_TRITON_ENDPOINTS]
        if wrong:
            raise PyTritonValidationError(
                f"Invalid endpoint names: {', '.join(sorted(wrong))}. "
                f"Valid endpoints are: {', '.join(sorted(VALID_TRITON_ENDPOINTS))}"
            )
