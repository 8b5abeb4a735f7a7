"""Options of a server."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from . import _library
from ._enums import InstanceGroupKind, LogFormat, ModelControlMode, RateLimitMode
from ._errors import InvalidArgumentError
from ._handle import Handle


@dataclass
class RateLimiterResource:
    """How much there is of a resource of the rate limiter."""

    name: str
    count: int
    #: The number of the GPU, -1 for all.
    device: int


@dataclass
class ModelLoadDeviceLimit:
    """How much of a device's memory may be in use when a model is loaded."""

    kind: InstanceGroupKind
    device: int
    #: From 0 to 1.
    fraction: float


@dataclass
class Options:
    """Options of a server, those of Triton's package by their names and defaults. They are read by ``Server.start``.

    A directory that stands at its default is not set: the library's own default holds.
    """

    #: One path, or several: directories, or places in object stores.
    model_repository: Union[str, list[str]] = field(default_factory=list)
    server_id: str = "triton"
    model_control_mode: ModelControlMode = ModelControlMode.NONE
    #: Models to load at the start in mode EXPLICIT; ``*`` is all.
    startup_models: list[str] = field(default_factory=list)
    strict_model_config: bool = False
    rate_limiter_mode: RateLimitMode = RateLimitMode.OFF
    rate_limiter_resources: list[RateLimiterResource] = field(default_factory=list)
    #: In bytes; without effect.
    pinned_memory_pool_size: int = 1 << 28
    #: In bytes, by the numbers of GPUs; without effect.
    cuda_memory_pool_sizes: dict[int, int] = field(default_factory=dict)
    #: The configuration of the response cache by its name: ``{"local": {"size": 1 << 20}}``, in bytes.
    cache_config: dict[str, dict[str, Any]] = field(default_factory=dict)
    cache_directory: str = "/opt/tritonserver/caches"
    min_supported_compute_capability: float = 6.0
    #: Whether a model that cannot be loaded makes the start fail.
    exit_on_error: bool = True
    #: Whether the server is ready only if all of its models are.
    strict_readiness: bool = True
    #: How long ``stop`` waits for requests, in seconds.
    exit_timeout: int = 30
    buffer_manager_thread_count: int = 0
    model_load_thread_count: int = 4
    model_load_retry_count: int = 0
    model_namespacing: bool = False
    enable_peer_access: bool = True
    #: The file of the log, None for the standard error. The log is the process's.
    log_file: Optional[str] = None
    #: Each level brings those above it in the order error, warn, info, verbose.
    log_info: bool = False
    log_warn: bool = False
    log_error: bool = False
    log_format: LogFormat = LogFormat.DEFAULT
    log_verbose: int = 0
    metrics: bool = True
    gpu_metrics: bool = True
    cpu_metrics: bool = True
    #: How often metrics of the machine are read, in milliseconds.
    metrics_interval: int = 2000
    backend_directory: str = "/opt/tritonserver/backends"
    repo_agent_directory: str = "/opt/tritonserver/repoagents"
    model_load_device_limits: list[ModelLoadDeviceLimit] = field(default_factory=list)
    #: Settings by the name of the backend, "" for all.
    backend_configuration: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Settings by the name of the policy.
    host_policies: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Settings by the name, "" for all.
    metrics_configuration: dict[str, dict[str, str]] = field(default_factory=dict)

    def handle(self) -> Handle:
        """The options for the library.

        Raises TypeError for a value of another type, InvalidArgumentError for one that cannot be.
        """
        made = ctypes.c_void_p()
        _library.call("ServerOptionsNew", ctypes.byref(made))
        handle = Handle(made.value or 0, "ServerOptionsDelete")
        try:
            for name, *arguments in self._settings():
                _library.call(f"ServerOptions{name}", handle.pointer, *arguments)
        except BaseException:
            handle.close()
            raise
        return handle

    def _settings(self) -> Iterator[tuple[Any, ...]]:
        """The functions to call, without their beginnings, and their arguments."""
        yield from self._of_models()
        yield from self._of_devices()
        yield from self._of_log()
        yield "SetExitOnError", self.exit_on_error
        yield "SetStrictReadiness", self.strict_readiness
        yield "SetExitTimeout", _library.number(self.exit_timeout, "exit_timeout", 32)
        yield "SetMetrics", self.metrics
        yield "SetCpuMetrics", self.cpu_metrics
        yield "SetGpuMetrics", self.gpu_metrics
        yield "SetMetricsInterval", _library.number(self.metrics_interval, "metrics_interval")
        for cache, config in self.cache_config.items():
            yield "SetCacheConfig", _library.text(cache, "The name of a cache"), json.dumps(config).encode()
        for name, function in _DIRECTORIES.items():
            given = getattr(self, name)
            if given != getattr(Options, name):
                yield function, _library.text(given, name)
        for name, function in _NESTED.items():
            for key, settings in getattr(self, name).items():
                for setting, value in settings.items():
                    yield (function, *(_library.text(text, name) for text in (key, setting, value)))

    def _of_models(self) -> Iterator[tuple[Any, ...]]:
        if self.model_repository is None:
            raise InvalidArgumentError("Model repository must be specified.")
        given = self.model_repository
        for path in given if isinstance(given, (list, tuple)) else [given]:
            yield "SetModelRepositoryPath", _library.text(path, "model_repository")
        yield "SetServerId", _library.text(self.server_id, "server_id")
        yield "SetModelControlMode", self.model_control_mode
        for model in self.startup_models:
            yield "SetStartupModel", _library.text(model, "startup_models")
        yield "SetStrictModelConfig", self.strict_model_config
        for name, function in _COUNTS.items():
            yield function, _library.number(getattr(self, name), name, 32)
        yield "SetModelNamespacing", self.model_namespacing

    def _of_devices(self) -> Iterator[tuple[Any, ...]]:
        yield "SetRateLimiterMode", self.rate_limiter_mode
        for resource in self.rate_limiter_resources:
            count = _library.number(resource.count, "The count of a resource")
            yield "AddRateLimiterResource", _library.text(resource.name, "A resource"), count, resource.device
        yield (
            "SetPinnedMemoryPoolByteSize",
            _library.number(self.pinned_memory_pool_size, "pinned_memory_pool_size"),
        )
        for device, size in self.cuda_memory_pool_sizes.items():
            yield "SetCudaMemoryPoolByteSize", device, _library.number(size, "cuda_memory_pool_sizes")
        yield "SetMinSupportedComputeCapability", self.min_supported_compute_capability
        yield "SetEnablePeerAccess", self.enable_peer_access
        for limit in self.model_load_device_limits:
            yield "SetModelLoadDeviceLimit", limit.kind, limit.device, limit.fraction

    def _of_log(self) -> Iterator[tuple[Any, ...]]:
        info = self.log_info or self.log_verbose > 0
        warn = self.log_warn or info
        if self.log_file:
            yield "SetLogFile", _library.text(self.log_file, "log_file")
        yield "SetLogInfo", info
        yield "SetLogWarn", warn
        yield "SetLogError", self.log_error or warn
        yield "SetLogFormat", self.log_format
        yield "SetLogVerbose", int(self.log_verbose)


_DIRECTORIES = {
    "cache_directory": "SetCacheDirectory",
    "backend_directory": "SetBackendDirectory",
    "repo_agent_directory": "SetRepoAgentDirectory",
}
_COUNTS = {
    "buffer_manager_thread_count": "SetBufferManagerThreadCount",
    "model_load_thread_count": "SetModelLoadThreadCount",
    "model_load_retry_count": "SetModelLoadRetryCount",
}
_NESTED = {
    "host_policies": "SetHostPolicy",
    "metrics_configuration": "SetMetricsConfig",
    "backend_configuration": "SetBackendConfig",
}
