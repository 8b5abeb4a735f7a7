"""DecoupledModelClient: models that give any number of answers, over gRPC."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any, Optional

from ..model_config.triton_model_config import TritonModelConfig
from ._inputs import (
    Arrays,
    Options,
    Values,
    add_batch_dimension,
    drop_batch_dimension,
    infer_inputs,
    named_inputs,
    requested_outputs,
    result_arrays,
    translate,
    verify_inputs,
)
from .base import DEFAULT_INFERENCE_TIMEOUT_S
from .exceptions import (
    PyTritonClientInferenceServerError,
    PyTritonClientModelDoesntSupportBatchingError,
    PyTritonClientTimeoutError,
    PyTritonClientValueError,
)
from .sync import ModelClient


def is_final(result: Any) -> bool:
    """Whether it is the mark after the last answer."""
    parameters = result.get_response().parameters
    return "triton_final_response" in parameters and bool(parameters["triton_final_response"].bool_param)


class DecoupledModelClient(ModelClient):
    """A client of one decoupled model: ``infer_sample`` and ``infer_batch`` give an iterator of answers.

    One inference at a time; for more take more clients. Between two answers may be as much time as
    ``inference_timeout_s``, at least a minute.
    """

    def __init__(
        self,
        url: str,
        model_name: str,
        model_version: Optional[str] = None,
        *,
        lazy_init: bool = True,
        init_timeout_s: Optional[float] = None,
        inference_timeout_s: Optional[float] = None,
        model_config: Optional[TritonModelConfig] = None,
        ensure_model_is_ready: bool = True,
        access_token: Optional[str] = None,
    ) -> None:
        """See ModelClient; only URLs of gRPC."""
        self._busy = threading.Lock()
        self._streaming = False
        self._results: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
        super().__init__(
            url,
            model_name,
            model_version,
            lazy_init=lazy_init,
            init_timeout_s=init_timeout_s,
            inference_timeout_s=inference_timeout_s,
            model_config=model_config,
            ensure_model_is_ready=ensure_model_is_ready,
            access_token=access_token,
        )
        if not self._is_grpc:
            self.close()
            raise PyTritonClientValueError("DecoupledModelClient is only supported for grpc protocol")

    def close(self) -> None:
        """Ends a running inference and closes the connection."""
        if not self._closed and self._streaming:
            self._end_stream(cancel=True)
        super().close()

    def _end_stream(self, cancel: bool) -> None:
        self._streaming = False
        if self._shared is not None:
            self._shared.stop_stream(cancel_requests=cancel)

    def infer_sample(
        self,
        *inputs: Any,
        parameters: Optional[Values] = None,
        headers: Optional[Values] = None,
        priority: Optional[Any] = None,
        timeout: Optional[Any] = None,
        **named: Any,
    ) -> Any:
        """Infers on one sample; iterate over what is returned."""
        config, arrays, options = self._prepare(inputs, named, parameters, headers, priority, timeout)
        if not config.batching:
            return self._stream(config, arrays, options)
        return (drop_batch_dimension(a) for a in self._stream(config, add_batch_dimension(arrays), options))

    def infer_batch(
        self,
        *inputs: Any,
        parameters: Optional[Values] = None,
        headers: Optional[Values] = None,
        priority: Optional[Any] = None,
        timeout: Optional[Any] = None,
        **named: Any,
    ) -> Any:
        """Infers on a batch; iterate over what is returned."""
        config, arrays, options = self._prepare(inputs, named, parameters, headers, priority, timeout)
        if not config.batching:
            raise PyTritonClientModelDoesntSupportBatchingError(
                f"Model {config.model_name} doesn't support batching - use infer_sample method instead"
            )
        return self._stream(config, arrays, options)

    def _prepare(
        self, inputs: Any, named: Any, parameters: Any, headers: Any, priority: Any, timeout: Any
    ) -> tuple[TritonModelConfig, Arrays, Options]:
        options = Options(parameters, headers, priority, timeout, named)
        verify_inputs(inputs, named)
        if headers:
            # The headers are those of the stream, which outlives a request.
            raise PyTritonClientValueError("DecoupledModelClient does not support headers")
        config = self.model_config
        if not config.decoupled:
            raise PyTritonClientInferenceServerError("Model config is coupled. Use ModelClient instead.")
        return config, named_inputs(config, inputs, named), options

    def _stream(self, config: TritonModelConfig, arrays: Arrays, options: Options) -> Iterator[Arrays]:
        """Sends the request at once, so that answers are on their way before the first is asked for."""
        from tritonclient.utils import InferenceServerException

        lib = self.get_lib()
        client = self._client()
        tensors = infer_inputs(lib, arrays)
        if not self._busy.acquire(blocking=False):
            raise PyTritonClientInferenceServerError("Inference is already in progress")
        try:
            if not self._streaming:
                results = self._results = queue.SimpleQueue()
                client.start_stream(lambda result, error: results.put((result, error)), headers=self._headers(None))
                self._streaming = True
            client.async_stream_infer(
                model_name=self._model_name,
                model_version=self._model_version or "",
                inputs=tensors,
                outputs=requested_outputs(lib, config),
                request_id=self._ids.next(),
                enable_empty_final_response=True,
                parameters=options.parameters,
                priority=options.priority,
                timeout=options.timeout,
            )
        except BaseException as error:
            self._busy.release()
            if isinstance(error, InferenceServerException):
                raise translate(error, self._inference_timeout_s) from error
            raise
        return self._answers(config)

    def _answers(self, config: TritonModelConfig) -> Iterator[Arrays]:
        complete = False
        # Answers may take longer than it takes to send a request.
        patience = max(self._inference_timeout_s, DEFAULT_INFERENCE_TIMEOUT_S)
        try:
            while True:
                try:
                    result, error = self._results.get(timeout=patience)
                except queue.Empty:
                    raise PyTritonClientTimeoutError(
                        f"Timeout occurred during inference request. Timeout: {patience} s. "
                        "Message: no answer on the stream"
                    ) from None
                if error is not None:
                    raise translate(error, self._inference_timeout_s)
                if is_final(result):
                    complete = True
                    return
                yield result_arrays(result, config, True)
        finally:
            if not complete and self._streaming:
                # Answers of this request may still come: they must not reach the next one.
                self._end_stream(cancel=True)
            self._busy.release()
