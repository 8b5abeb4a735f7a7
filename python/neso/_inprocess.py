"""A client that speaks over the control socket: no port, no HTTP, no copy of small tensors beside the frame."""

from __future__ import annotations

import queue
from typing import Any, Optional

from neso_runtime.bls import Bls
from neso_runtime.connection import Connection
from neso_runtime.frames import INFER_RESPONSES
from neso_runtime.request import InferenceRequest
from neso_runtime.tensor import Tensor

from .client._infers import Infers
from .client._inputs import Arrays, Call
from .client.exceptions import (
    PyTritonClientInferenceServerError,
    PyTritonClientQueueFullError,
    PyTritonClientValueError,
)
from .model_config.triton_model_config import TritonModelConfig

# Requests of all in-process clients of a server that may be in flight: half of what the server takes of one process.
IN_FLIGHT = 512
# Seconds that a request waits for a place among them.
WAIT_S = 60.0


class Calls(Bls):
    """The calls in flight of a connection, and the places for them."""

    def __init__(self, connection: Connection) -> None:
        """Made once for a connection."""
        super().__init__(connection)
        self.allowed = True
        connection.link.handlers[INFER_RESPONSES] = self.on_responses
        # One item for each free place. Not a semaphore: the garbage collector may give a place back inside of any call,
        # also of one that holds the semaphore's lock.
        self._places: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(IN_FLIGHT):
            self._places.put(None)

    def enter(self) -> None:
        """Takes a place; ``leave`` gives it back. Raises PyTritonClientQueueFullError when none gets free in time."""
        try:
            self._places.get(timeout=WAIT_S)
        except queue.Empty:
            raise PyTritonClientQueueFullError(
                f"Queue is full: {IN_FLIGHT} requests of this process have been in flight for {WAIT_S:g} s"
            ) from None

    def leave(self) -> None:
        """Gives a place back."""
        self._places.put(None)


class InProcessClient(Infers):
    """A client of one bound model, with the calls of ModelClient; those of a decoupled model give an iterator.

    Safe to use from many threads, but not from the model's own callable: with one instance it would wait for itself.
    512 requests of all such clients may be in flight, an iterator that is not at its end counts as one; a further one
    waits for a minute at most and then raises PyTritonClientQueueFullError.
    """

    def __init__(self, calls: Calls, config: TritonModelConfig) -> None:
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

    def _infer(self, call: Call) -> Any:
        if call.options.headers:
            raise PyTritonClientValueError("A client in the process has no headers: nothing goes over HTTP or gRPC")
        try:
            tensors = [Tensor(name, value) for name, value in call.arrays(self._config).items()]
        except TypeError as error:
            raise PyTritonClientValueError(str(error)) from None
        options = call.options
        request = InferenceRequest(
            inputs=tensors,
            requested_output_names=(),
            model_name=self._config.model_name,
            model_version=self._config.model_version,
            timeout=options.timeout or 0,
            parameters=dict(options.parameters or {}),
            priority=options.priority,
        )
        calls = self._calls
        calls.enter()
        if self._config.decoupled:
            return _Answers(calls, request, call, self._config)
        try:
            return call.answer(self._config, _arrays(calls.exec(request, False)))
        finally:
            calls.leave()


class _Answers:
    """The answers to one request of a decoupled model, as they come."""

    def __init__(self, calls: Calls, request: InferenceRequest, call: Call, config: TritonModelConfig) -> None:
        """Sends the request, for which there is a place."""
        self._calls: Optional[Calls] = calls
        self._call, self._config = call, config
        try:
            self._responses = calls.exec(request, True)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> _Answers:
        """Itself."""
        return self

    def __next__(self) -> Arrays:
        """The next answer; waits for it."""
        if self._calls is None:
            raise StopIteration
        try:
            for response in self._responses:
                if response.has_error() or response.output_tensors():
                    return self._call.answer(self._config, _arrays(response))
        except BaseException:
            self.close()
            raise
        self.close()
        raise StopIteration

    def close(self) -> None:
        """Cancels the request if it is not at its end, and gives its place back. Safe twice."""
        calls, self._calls = self._calls, None
        if calls is not None:
            self._responses = None
            calls.leave()

    def __del__(self) -> None:
        """Like ``close``."""
        self.close()


def _arrays(response: Any) -> Arrays:
    if response.has_error():
        raise PyTritonClientInferenceServerError(
            f"Error occurred during inference request. Message: {response.error().message()}"
        )
    return {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}
