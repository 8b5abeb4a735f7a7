"""A bound model: what ``bind`` was given, checked, and what the runtime serves of it."""

from __future__ import annotations

import base64
import dataclasses
import json
import logging
import re
from collections.abc import Sequence
from typing import Any, Callable, Optional

from . import _callables, _context, decorators
from ._arguments import check_arguments
from ._bound.binding import BATCH, REQUESTS, Binding
from .exceptions import PyTritonBadParameterError, PyTritonValidationError
from .model_config import DeviceKind, ModelConfig, Tensor
from .model_config.datatypes import triton_type
from .model_config.generator import ModelConfigGenerator
from .model_config.triton_model_config import ResponseCache, TensorSpec, TritonModelConfig
from .proxy import telemetry
from .proxy.types import Request
from .proxy.validators import TritonResultsValidator

LOGGER = logging.getLogger("neso")

# Each batch that a coroutine has at once is an instance, with a thread that hands it its work.
MAX_CONCURRENT = 256
_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(model_name: Any) -> None:
    """Raises PyTritonValidationError unless it can be the name of a model."""
    if model_name is None or model_name == "":
        raise PyTritonValidationError("Model name cannot be empty")
    if not isinstance(model_name, str):
        raise PyTritonValidationError(f"Model name must be a string, not {type(model_name).__name__}")
    if not _NAME.fullmatch(model_name) or model_name in (".", ".."):
        raise PyTritonValidationError(
            "Model name can only contain alphanumeric characters, dots, underscores and dashes"
        )


def _functions(infer_func: Any) -> list[Any]:
    if callable(infer_func):
        return [infer_func]
    if isinstance(infer_func, Sequence) and infer_func and all(callable(f) for f in infer_func):
        return list(infer_func)
    raise PyTritonValidationError("inference_fn has to be either callable or sequence of callables")


def _specs(model: str, what: str, tensors: Any) -> list[TensorSpec]:
    if isinstance(tensors, (str, bytes)) or not isinstance(tensors, Sequence):
        raise PyTritonValidationError(f"The {what}s of model `{model}` must be a list of Tensor, not {tensors!r}.")
    if not tensors:
        LOGGER.warning("Model `%s` has no %s tensors.", model, what)
    specs: list[TensorSpec] = []
    for number, tensor in enumerate(tensors, 1):
        if not isinstance(tensor, Tensor):
            raise PyTritonValidationError(f"The {what} {number} of model `{model}` is no Tensor: {tensor!r}")
        name = tensor.name or f"{what.upper()}_{number}"
        if any(spec.name == name for spec in specs):
            raise PyTritonValidationError(f"Model `{model}` has two {what} tensors named `{name}`.")
        if triton_type(tensor.dtype) is None:
            raise PyTritonValidationError(
                f"The dtype {tensor.dtype!r} of {what} `{name}` of model `{model}` is not supported."
            )
        specs.append(TensorSpec(name, _shape(model, what, name, tensor.shape), tensor.dtype, bool(tensor.optional)))
    return specs


def _shape(model: str, what: str, name: str, shape: Any) -> tuple[int, ...]:
    try:
        dims = tuple(d.__index__() for d in shape)
    except (AttributeError, TypeError):
        dims = (0,)
    if any(d != -1 and d < 1 for d in dims):
        raise PyTritonValidationError(
            f"The shape {shape!r} of {what} `{name}` of model `{model}` must hold positive numbers, or -1 for any size."
        )
    return dims


def _parameters(trace_config: Any) -> dict[str, str]:
    """What the configuration shows of ``trace_config``, as PyTriton writes it."""
    if trace_config is None:
        return {}
    if not isinstance(trace_config, (list, tuple)) or not all(isinstance(entry, str) for entry in trace_config):
        raise PyTritonValidationError(f"The trace_config must be a list of strings, not {trace_config!r}.")
    return {"trace-config": base64.b64encode(json.dumps(list(trace_config)).encode()).decode()}


class Model:
    """One bound model and version."""

    def __init__(
        self,
        model_name: str,
        model_version: int,
        inference_fn: Any,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        config: ModelConfig,
        triton_context: _context.TritonContext,
        strict: bool,
        trace_config: Optional[list[str]] = None,
    ) -> None:
        """Checks everything; raises PyTritonValidationError or PyTritonBadParameterError."""
        check_name(model_name)
        if isinstance(model_version, bool) or not isinstance(model_version, int) or model_version < 1:
            raise PyTritonValidationError(f"The version of model `{model_name}` must be a positive number.")
        if not isinstance(config, ModelConfig):
            raise PyTritonValidationError(f"The config of model `{model_name}` must be a ModelConfig, not {config!r}.")
        self.name = model_name
        self.version = model_version
        self.functions = _functions(inference_fn)
        if any(isinstance(t, Tensor) and t.optional for t in outputs or ()):
            raise PyTritonValidationError("Output tensors cannot be optional.")
        self._concurrency = self._concurrent_batches(config.concurrent_batches)
        self.config = TritonModelConfig(
            model_name=model_name,
            model_version=model_version,
            batching=config.batching,
            max_batch_size=config.max_batch_size,
            batcher=config.batcher,
            instance_group={DeviceKind.KIND_CPU: len(self.functions) * (self._concurrency or 1)},
            decoupled=config.decoupled,
            backend_parameters=_parameters(trace_config),
            inputs=_specs(model_name, "input", inputs),
            outputs=_specs(model_name, "output", outputs),
            response_cache=ResponseCache(enable=True) if config.response_cache else None,
            model_warmup=config.model_warmup,
        )
        for function in self.functions:
            check_arguments(function, self.config)
        # Raises what is wrong with the batcher.
        self.server_config = ModelConfigGenerator(self.config).get_config()
        self._names = [spec.name for spec in self.config.outputs or ()]
        self._check = TritonResultsValidator(self.config, strict)
        self.context = triton_context
        for function in self.functions:
            triton_context.model_configs[function] = self.config
            _context.inject(triton_context, function)

    def warm_up(self) -> None:
        """Runs the warm-up requests."""
        _callables.warm_up(self.name, self.functions, self.config)

    def binding(self, on_error: Callable[[BaseException], Optional[str]], timeout: Optional[float]) -> Binding:
        """What the runtime serves."""
        # A span belongs to a request: traced callables get requests one by one.
        traced = telemetry.get_telemetry_tracer() is not None
        calls = [None if traced else self._batch_call(f) for f in self.functions]
        if all(call is not None for call in calls):
            shape, callables = BATCH, calls
        else:
            shape = REQUESTS
            functions = [_callables.traced(f) for f in self.functions] if traced else self.functions
            callables = [_callables.in_requests(f, self.config, self._check) for f in functions]
        return Binding(
            name=self.name,
            callables=callables,  # type: ignore[arg-type]
            config=self.server_config,
            version=self.version,
            shape=shape,
            make_request=self._make_request,
            on_error=on_error,
            timeout=timeout,
            concurrency=self._concurrency,
        )

    def _concurrent_batches(self, number: Any) -> Optional[int]:
        if number is None:
            return None
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MAX_CONCURRENT:
            raise PyTritonBadParameterError(
                f"The `concurrent_batches` of model `{self.name}` must be a number from 1 to {MAX_CONCURRENT}, "
                f"not {number!r}."
            )
        plain = [f for f in self.functions if _callables.kind_of(f) not in ("coroutine", "async_generator")]
        if number > 1 and plain:
            raise PyTritonBadParameterError(
                f"The `concurrent_batches` of model `{self.name}` is for coroutine functions, `{plain[0]!r}` is none: "
                "bind a list of callables, each of which runs on a thread of its own."
            )
        return number

    def _make_request(self, data: Any, parameters: Any, wanted: Any) -> Request:
        """A request as callables get it: they may write to its arrays, and keep them."""
        for name, value in data.items():
            if not value.flags.writeable:
                data[name] = value.copy()
        return Request(
            data, {} if parameters is None else parameters, None, list(self._names) if wanted is None else wanted
        )

    def _batch_call(self, function: Any) -> Optional[Callable[..., Any]]:
        """The callable in batch shape, None when it takes requests.

        Requests that may differ in their inputs cannot be joined by the server, and streams answer request by request.
        """
        if not self.config.batching or self.config.decoupled or any(spec.optional for spec in self.config.inputs or ()):
            return None
        call = decorators.batch_call(function, self.config)
        return None if call is None else _callables.in_batches(call, self.config, self._check)


@dataclasses.dataclass
class Address:
    """Where a front end listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Takes ``host:port`` apart."""
        host, _, port = text.rpartition(":")
        return cls(host.strip("[]"), int(port))

    def local(self) -> str:
        """As a client on this machine reaches it."""
        host = self.host if self.host not in ("", "0.0.0.0", "::") else "127.0.0.1"
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
