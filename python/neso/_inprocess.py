"""A client that speaks over the control socket: no port, no HTTP, no copy of small tensors beside the frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Optional

from neso_worker.bls import Bls
from neso_worker.request import InferenceRequest
from neso_worker.tensor import Tensor

from .client._inputs import Arrays, Call, Values
from .client.exceptions import PyTritonClientInferenceServerError, PyTritonClientValueError
from .model_config.triton_model_config import TritonModelConfig

if TYPE_CHECKING:
    from ._runtime.connection import Connection


def open_calls(connection: Connection) -> Bls:
    """The calls in flight of a connection."""
    calls = Bls(connection)  # type: ignore[arg-type]
    calls.allowed = True
    connection.on_responses = calls.on_responses
    return calls


class InProcessClient:
    """A client of one bound model, with the calls of ModelClient; those of a decoupled model give an iterator.

    Safe to use from many threads, but not from the model's own callable: with one instance it would wait for itself.
    """

    def __init__(self, calls: Bls, config: TritonModelConfig) -> None:
        """Made by ``Triton.client``."""
        self._calls = calls
        self._config = config

    @property
    def model_config(self) -> TritonModelConfig:
        """The model's configuration."""
        return self._config

    @property
    def is_batching_supported(self) -> bool:
        """Whether the model takes batches."""
        return self._config.batching

    def infer_sample(
        self,
        *inputs: Any,
        parameters: Optional[Values] = None,
        priority: Optional[Any] = None,
        timeout: Optional[Any] = None,
        **named: Any,
    ) -> Any:
        """Infers on one sample, without a batch dimension."""
        return self._infer(Call(True, inputs, named, parameters, None, priority, timeout))

    def infer_batch(
        self,
        *inputs: Any,
        parameters: Optional[Values] = None,
        priority: Optional[Any] = None,
        timeout: Optional[Any] = None,
        **named: Any,
    ) -> Any:
        """Infers on a batch: the first dimension of each input is its number of samples."""
        return self._infer(Call(False, inputs, named, parameters, None, priority, timeout))

    def _infer(self, call: Call) -> Any:
        try:
            tensors = [Tensor(name, value) for name, value in call.arrays(self._config).items()]
        except TypeError as error:
            raise PyTritonClientValueError(str(error)) from None
        options = call.options
        request = InferenceRequest(
            inputs=tensors,
            model_name=self._config.model_name,
            model_version=self._config.model_version,
            timeout=options.timeout or 0,
            parameters=dict(options.parameters or {}),
            priority=options.priority,
        )
        if self._config.decoupled:
            return self._answers(self._calls.exec(request, True), call)
        return call.answer(self._config, _arrays(self._calls.exec(request, False)))

    def _answers(self, responses: Any, call: Call) -> Iterator[Arrays]:
        for response in responses:
            if response.has_error() or response.output_tensors():
                yield call.answer(self._config, _arrays(response))


def _arrays(response: Any) -> Arrays:
    if response.has_error():
        raise PyTritonClientInferenceServerError(
            f"Error occurred during inference request. Message: {response.error().message()}"
        )
    return {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}
