"""Asyncio clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional

from ..model_config.parser import ModelConfigParser
from ..model_config.triton_model_config import TritonModelConfig
from ._inputs import Arrays, Call, result_arrays, timed_out, translate
from .base import BaseModelClient
from .decoupled import is_final
from .exceptions import (
    PyTritonClientClosedError,
    PyTritonClientInferenceServerError,
    PyTritonClientTimeoutError,
    PyTritonClientValueError,
)
from .utils import LATEST_MODEL_VERSION, NOT_READY, WHY_S, Patience, said, unreachable

if TYPE_CHECKING:
    from typing_extensions import Self


class AsyncioModelClient(BaseModelClient):
    """A client of one model over HTTP (aiohttp) or gRPC, for coroutines of one event loop."""

    # The connection; made in the event loop that uses it.
    _made: Any = None

    def get_lib(self) -> Any:
        """The asyncio module of tritonclient for the scheme."""
        if self._is_grpc:
            import tritonclient.grpc.aio as lib
        else:
            import tritonclient.http.aio as lib
        return lib

    def _client(self) -> Any:
        """The connection."""
        if self._closed:
            raise PyTritonClientClosedError(f"{type(self).__name__} is closed")
        if self._made is None:
            lib = self.get_lib()
            if self._is_grpc:
                self._made = lib.InferenceServerClient(self._triton_url.without_scheme)
            else:
                self._made = lib.InferenceServerClient(
                    self._triton_url.without_scheme, conn_timeout=self._inference_timeout_s
                )
        return self._made

    async def __aenter__(self) -> Self:
        """Waits for the model, unless the client is lazy."""
        if not self._lazy_init:
            await self.model_config
        return self

    async def __aexit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc: Optional[BaseException],
        tb: Optional[TracebackType],
    ) -> None:
        """Closes."""
        await self.close()

    async def close(self) -> None:
        """Closes the connection. Safe twice."""
        self._closed = True
        made, self._made = self._made, None
        if made is not None:
            await made.close()

    async def wait_for_model(self, timeout_s: float) -> None:
        """Waits until the model is ready. Raises PyTritonClientTimeoutError."""
        client = self._client()
        patience = Patience(timeout_s)
        version = self._model_version or ""
        reached = False
        while True:
            try:
                ready = client.is_model_ready(self._model_name, version, headers=self._headers(None))
                if await asyncio.wait_for(ready, patience.left()):
                    return
                reached, reason = True, NOT_READY
            except unreachable() as error:
                reason = str(error) or type(error).__name__
            pause = patience.pause(f"model {self._model_name}", reason)
            if pause is None:
                if reached:
                    why = client.get_model_metadata(self._model_name, version, headers=self._headers(None))
                    try:
                        await asyncio.wait_for(why, WHY_S)
                    except unreachable() as error:
                        reason = said(error)
                name = f"{self._model_name}/{self._model_version or LATEST_MODEL_VERSION}"
                raise PyTritonClientTimeoutError(
                    f"Timeout while waiting for model {name} to be ready for {timeout_s}s. Message: {reason}"
                )
            await asyncio.sleep(pause)

    @property
    async def model_config(self) -> TritonModelConfig:
        """The model's configuration; waits for the model the first time."""
        if self._model_ready and self._model_config is not None:
            return self._model_config
        if not self._model_ready:
            await self.wait_for_model(self._init_timeout_s)
        if self._model_config is None:
            client, version = self._client(), self._model_version or ""
            headers = self._headers(None)
            if self._is_grpc:
                answer = await client.get_model_config(self._model_name, version, headers=headers, as_json=True)
                fields = answer["config"]
            else:
                fields = await client.get_model_config(self._model_name, version, headers=headers)
            self._model_config = ModelConfigParser.from_dict(fields)
        self._model_ready = True
        return self._model_config

    async def _infer(self, call: Call) -> Arrays:
        config = await self.model_config
        arrays = call.arrays(config)
        if config.decoupled:
            raise PyTritonClientInferenceServerError(
                "Model config is decoupled. Use AsyncioDecoupledModelClient instead."
            )
        client = self._client()
        request = self._request(self.get_lib(), config, call, arrays)
        if self._is_grpc:
            request["client_timeout"] = self._inference_timeout_s
        asked = client.infer(headers=self._headers(call.options.headers), **request)
        try:
            result = await asyncio.wait_for(asked, self._inference_timeout_s)
        except asyncio.TimeoutError:
            raise timed_out(self._inference_timeout_s, "timed out") from None
        except unreachable() as error:
            raise translate(error, self._inference_timeout_s) from error
        return call.answer(config, result_arrays(result, self._is_grpc))


class AsyncioDecoupledModelClient(AsyncioModelClient):
    """A client of one decoupled model: ``infer_sample`` and ``infer_batch`` are asynchronous iterators. gRPC only."""

    async def _infer(self, call: Call) -> AsyncIterator[Arrays]:  # type: ignore[override]
        if not self._is_grpc:
            raise PyTritonClientValueError(
                "AsyncioDecoupledModelClient is only supported for grpc protocol: write the URL as grpc://host:port, "
                f"with the port of gRPC (8001 by default), not {self._url}"
            )
        config = await self.model_config
        if not config.decoupled:
            raise PyTritonClientInferenceServerError("Model config is coupled. Use AsyncioModelClient instead.")
        client = self._client()
        request = self._request(self.get_lib(), config, call, call.arrays(config))
        request["enable_empty_final_response"] = True

        async def requests() -> AsyncIterator[dict[str, Any]]:
            yield request

        # The timeout is that of each response: a stream may go on for long.
        stream = client.stream_infer(requests(), headers=self._headers(call.options.headers))
        answers = stream.__aiter__()
        try:
            while True:
                try:
                    result, error = await asyncio.wait_for(answers.__anext__(), self._inference_timeout_s)
                except StopAsyncIteration:
                    return
                except asyncio.TimeoutError:
                    raise timed_out(self._inference_timeout_s, "no answer on the stream") from None
                if error is not None:
                    raise translate(error, self._inference_timeout_s)
                final = is_final(result)
                if not final or result.get_response().outputs:
                    yield call.answer(config, result_arrays(result, True))
                if final:
                    return
        except unreachable() as error:
            raise translate(error, self._inference_timeout_s) from error
        finally:
            cancel = getattr(stream, "cancel", None)
            if cancel is not None:
                cancel()
