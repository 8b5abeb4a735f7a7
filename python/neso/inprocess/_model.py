"""Models of a server."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any, Optional, Union

from . import _library
from ._enums import ModelBatchFlag, ModelTxnPropertyFlag
from ._iterators import AsyncResponseIterator, ResponseIterator
from ._request import InferenceRequest
from ._running import Addressed, Running


class Model(Addressed):
    """A model of a server; ``Server.model``, ``models`` and ``load`` give them. It keeps the server from its end.

    Every call raises NotFoundError or UnavailableError when there is no such model, and InvalidArgumentError when the
    server has been stopped.
    """

    def create_request(self, **fields: Any) -> InferenceRequest:
        """A request to this model; the arguments are the fields of InferenceRequest."""
        fields.pop("model", None)
        return InferenceRequest(self, **fields)

    def infer(
        self, inference_request: Optional[InferenceRequest] = None, raise_on_error: bool = True, **fields: Any
    ) -> ResponseIterator:
        """Sends a request, and gives its responses as they come.

        The request is ``inference_request``, or one of the fields given. An error of a response is raised when the
        response is asked for, or is its ``error`` if ``raise_on_error`` is false. What is wrong with the request
        itself is raised at once: InvalidArgumentError, NotFoundError, UnavailableError and others.
        """
        return ResponseIterator(inference_request or self.create_request(**fields), raise_on_error)

    def async_infer(
        self, inference_request: Optional[InferenceRequest] = None, raise_on_error: bool = True, **fields: Any
    ) -> AsyncResponseIterator:
        """The same as ``infer``, for ``async for``."""
        return AsyncResponseIterator(inference_request or self.create_request(**fields), raise_on_error)

    def metadata(self) -> dict[str, Any]:
        """Name, versions, platform, inputs and outputs."""
        return dict(self._running.told("ServerModelMetadata", *self._named()))

    def config(self, config_version: int = 1) -> dict[str, Any]:
        """The configuration, completed. The only version of configurations is 1."""
        version = _library.number(config_version, "config_version", 32)
        return dict(self._running.told("ServerModelConfig", *self._named(), version))

    def statistics(self) -> dict[str, Any]:
        """Counters and durations in nanoseconds, below ``model_stats``."""
        return dict(self._running.told("ServerModelStatistics", *self._named()))

    def ready(self) -> bool:
        """Whether the model can be asked."""
        ready = ctypes.c_bool()
        self._running.ask("ServerModelIsReady", *self._named(), ctypes.byref(ready))
        return ready.value

    def batch_properties(self) -> ModelBatchFlag:
        """Whether the first dimension of its tensors is that of the batch."""
        return ModelBatchFlag(self._flags("ServerModelBatchProperties"))

    def transaction_properties(self) -> ModelTxnPropertyFlag:
        """Whether it is decoupled."""
        return ModelTxnPropertyFlag(self._flags("ServerModelTransactionProperties"))

    def _flags(self, function: str) -> int:
        flags, reserved = ctypes.c_uint32(), ctypes.c_void_p()
        self._running.ask(function, *self._named(), ctypes.byref(flags), ctypes.byref(reserved))
        return flags.value


class ModelDictionary(dict[tuple[str, int], Model]):
    """Models by name and version. A name alone gives the model with the version that its policy chooses."""

    def __init__(self, running: Running, models: Iterable[Model]) -> None:
        """Made by ``Server.models``."""
        super().__init__({(model.name, model.version): model for model in models})
        self._running = running

    def __getitem__(self, key: Union[str, tuple[str, int]]) -> Model:
        """The model of a name, or of a name and a version. Raises KeyError for one that is not there."""
        if isinstance(key, tuple):
            if key in self:
                return super().__getitem__(key)
        elif any(name == key for name, _ in self):
            return Model(self._running, key)
        raise KeyError(f"Unknown Model: {key}")
