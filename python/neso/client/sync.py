"""ModelClient: inference on one model, call by call. Safe to use from many threads."""

from __future__ import annotations

import threading
import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional

from ..model_config.triton_model_config import TritonModelConfig
from ._inputs import Call, result_arrays, translate
from ._perthread import PerThread
from .base import BaseModelClient
from .exceptions import PyTritonClientClosedError, PyTritonClientInferenceServerError
from .utils import create_client_from_url, read_model_config, unreachable, wait_for_model_ready, wait_for_server_ready
from .warnings import NotSupportedTimeoutWarning

if TYPE_CHECKING:
    from typing_extensions import Self


class ModelClient(BaseModelClient):
    """A client of one model over HTTP or gRPC.

    Over gRPC all threads share one connection; over HTTP each thread keeps one of its own, until it ends.
    """

    def _prepare(self) -> None:
        self._init_lock = threading.Lock()
        self._shared: Any = self._new_client() if self._is_grpc else None
        self._threads = PerThread(self._new_client)
        if not self._lazy_init:
            _ = self.model_config

    def __enter__(self) -> Self:
        """Nothing more than the client."""
        return self

    def __exit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc: Optional[BaseException],
        tb: Optional[TracebackType],
    ) -> None:
        """Closes."""
        self.close()

    def _new_client(self) -> Any:
        if self._is_grpc:
            warnings.warn(
                "tritonclient.grpc doesn't support timeout for other commands than infer. "
                f"Ignoring network_timeout: {self._inference_timeout_s}.",
                NotSupportedTimeoutWarning,
                stacklevel=4,
            )
            return create_client_from_url(self._url)
        return create_client_from_url(self._url, self._inference_timeout_s)

    def _client(self) -> Any:
        """The client of this thread."""
        if self._closed:
            raise PyTritonClientClosedError(f"{type(self).__name__} is closed")
        return self._threads.get() if self._shared is None else self._shared

    def close(self) -> None:
        """Closes all connections. Safe twice."""
        self._closed = True
        self._threads.close()
        if self._shared is not None:
            self._shared.close()

    def wait_for_server(self, timeout_s: float) -> None:
        """Waits until the server is ready. Raises PyTritonClientTimeoutError."""
        wait_for_server_ready(self._client(), timeout_s, self._headers(None))

    def wait_for_model(self, timeout_s: float) -> None:
        """Waits until the model is ready. Raises PyTritonClientTimeoutError."""
        wait_for_model_ready(self._client(), self._model_name, self._model_version, timeout_s, self._headers(None))

    def load_model(self, config: Optional[str] = None, files: Optional[dict[str, Any]] = None) -> None:
        """Loads the model from the server's repository, or with this configuration and these files."""
        self._client().load_model(self._model_name, headers=self._headers(None), config=config, files=files)

    def unload_model(self) -> None:
        """Unloads the model."""
        self._client().unload_model(self._model_name, headers=self._headers(None))

    @property
    def model_config(self) -> TritonModelConfig:
        """The model's configuration; waits for the model the first time."""
        if self._model_ready and self._model_config is not None:
            return self._model_config
        client = self._client()
        with self._init_lock:
            if not self._model_ready:
                self.wait_for_model(self._init_timeout_s)
            if self._model_config is None:
                self._model_config = read_model_config(
                    client, self._model_name, self._model_version, self._headers(None)
                )
            self._model_ready = True
            return self._model_config

    @property
    def is_batching_supported(self) -> bool:
        """Whether the model takes batches."""
        return self.model_config.batching

    def _infer(self, call: Call) -> Any:
        config = self.model_config
        arrays = call.arrays(config)
        if config.decoupled:
            raise PyTritonClientInferenceServerError("Model config is decoupled. Use DecoupledModelClient instead.")
        client = self._client()
        request = self._request(self.get_lib(), config, call, arrays)
        if self._is_grpc:
            request["client_timeout"] = self._inference_timeout_s
        try:
            result = client.infer(headers=self._headers(call.options.headers), **request)
        except unreachable() as error:
            raise translate(error, self._inference_timeout_s) from error
        return call.answer(config, result_arrays(result, self._is_grpc))
