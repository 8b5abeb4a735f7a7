"""DecoupledModelClient: models that give any number of answers, over gRPC."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Any

from ..model_config.triton_model_config import TritonModelConfig
from ._inputs import Arrays, Call, result_arrays, timed_out, translate
from .base import DEFAULT_INFERENCE_TIMEOUT_S
from .exceptions import PyTritonClientInferenceServerError, PyTritonClientValueError
from .sync import ModelClient


def _end(client: Any) -> None:
    """Ends the stream of a tritonclient's client and the threads behind it, without waiting for them.

    Its own ``stop_stream(cancel_requests=True)`` leaves the thread that waits for further requests, for ever; and it
    joins the one that reads answers, which may be the one that calls this, by way of the garbage collector.
    """
    stream = getattr(client, "_stream", None)
    if stream is None:
        return
    try:
        client._stream, stream._handler = None, None
        stream._response_iterator.cancel()
        stream._request_queue.put(None)
    except AttributeError:  # of another version
        client._stream = stream
        client.stop_stream(cancel_requests=True)


def is_final(result: Any) -> bool:
    """Whether nothing follows: the mark after the last answer, or that itself."""
    parameters = result.get_response().parameters
    return "triton_final_response" in parameters and bool(parameters["triton_final_response"].bool_param)


class DecoupledModelClient(ModelClient):
    """A client of one decoupled model: ``infer_sample`` and ``infer_batch`` give an iterator of answers.

    One inference at a time; for more take more clients. Between two answers may be as much time as
    ``inference_timeout_s``, at least a minute.
    """

    def _prepare(self) -> None:
        if not self._is_grpc:
            raise PyTritonClientValueError(
                "DecoupledModelClient is only supported for grpc protocol: write the URL as grpc://host:port, "
                f"with the port of gRPC (8001 by default), not {self._url}"
            )
        self._busy = threading.Lock()
        self._streaming = False
        self._results: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
        super()._prepare()

    def close(self) -> None:
        """Ends a running inference and closes the connection."""
        if not self._closed and self._streaming:
            self._end_stream()
        super().close()

    def __del__(self) -> None:
        """A client that is not closed leaves no thread behind."""
        with contextlib.suppress(Exception):  # half made, or at the end of the interpreter
            self.close()

    def _end_stream(self) -> None:
        self._streaming = False
        if self._shared is not None:
            _end(self._shared)

    def _infer(self, call: Call) -> Iterator[Arrays]:
        """Sends the request at once, so that answers are on their way before the first is asked for."""
        if call.options.headers:
            # The headers are those of the stream, which outlives a request.
            raise PyTritonClientValueError("DecoupledModelClient does not support headers")
        config = self.model_config
        if not config.decoupled:
            raise PyTritonClientInferenceServerError("Model config is coupled. Use ModelClient instead.")
        from tritonclient.utils import InferenceServerException

        client = self._client()
        request = self._request(self.get_lib(), config, call, call.arrays(config))
        if not self._busy.acquire(blocking=False):
            raise PyTritonClientInferenceServerError("Inference is already in progress")
        try:
            if not self._streaming:
                results = self._results = queue.SimpleQueue()
                client.start_stream(lambda result, error: results.put((result, error)), headers=self._headers(None))
                self._streaming = True
            client.async_stream_infer(enable_empty_final_response=True, **request)
        except BaseException as error:
            self._busy.release()
            if isinstance(error, InferenceServerException):
                raise translate(error, self._inference_timeout_s) from error
            raise
        answers = self._answers(config, call)
        next(answers)  # begun, so that its end is seen to even if nobody asks for an answer
        return answers

    def _answers(self, config: TritonModelConfig, call: Call) -> Iterator[Any]:
        """Gives None at once, then the answers."""
        complete = False
        # Answers may take longer than it takes to send a request.
        patience = max(self._inference_timeout_s, DEFAULT_INFERENCE_TIMEOUT_S)
        results = self._results
        try:
            yield None
            while True:
                try:
                    result, error = results.get(timeout=patience)
                except queue.Empty:
                    raise timed_out(patience, "no answer on the stream") from None
                if error is not None:
                    raise translate(error, self._inference_timeout_s)
                complete = is_final(result)
                if not complete or result.get_response().outputs:
                    yield call.answer(config, result_arrays(result, True))
                if complete:
                    return
        finally:
            if not complete and self._streaming:
                # Answers of this request may still come: they must not reach the next one.
                self._end_stream()
            self._busy.release()
