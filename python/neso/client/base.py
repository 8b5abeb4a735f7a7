"""What all clients of one model share: the URL, the model, timeouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from ..model_config.triton_model_config import TritonModelConfig
from ._infers import Infers
from ._inputs import Arrays, Call, RequestIds, infer_inputs, requested_outputs
from .auth import create_auth_headers
from .exceptions import PyTritonClientValueError
from .utils import TritonUrl

if TYPE_CHECKING:
    from typing_extensions import Self

DEFAULT_INFERENCE_TIMEOUT_S = 60.0
DEFAULT_INIT_TIMEOUT_S = 300.0


class BaseModelClient(Infers):
    """The settings of a client of one model."""

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
        """``url`` is ``[http://|grpc://]host[:port]``, by default of HTTP, ports 8000 and 8001.

        ``model_version`` None is the latest. ``init_timeout_s`` (default 300) bounds the wait for server and model,
        ``inference_timeout_s`` (default 60) an inference and all that goes over the network. ``access_token`` is sent
        with every request, see ``TritonSecurityConfig``. ``lazy_init`` waits for the model at the first use only. With
        ``model_config`` the configuration is not asked for, and with ``ensure_model_is_ready`` False nothing is waited
        for.
        """
        self._init_timeout_s = DEFAULT_INIT_TIMEOUT_S if init_timeout_s is None else init_timeout_s
        self._inference_timeout_s = DEFAULT_INFERENCE_TIMEOUT_S if inference_timeout_s is None else inference_timeout_s
        if not self._inference_timeout_s > 0:  # sockets take 0 for not waiting at all: nothing would ever be reached
            raise PyTritonClientValueError(f"inference_timeout_s must be greater than 0, not {inference_timeout_s}")
        self._triton_url = TritonUrl.from_url(url)
        self._url = self._triton_url.with_scheme
        self._model_name = model_name
        self._model_version = None if model_version is None else str(model_version)
        self._access_token = access_token
        self._auth_headers = create_auth_headers(access_token, self._triton_url.scheme) if access_token else {}
        self._model_config = model_config
        self._model_ready = model_config is not None and not ensure_model_is_ready
        self._lazy_init = lazy_init
        self._ids = RequestIds()
        self._closed = False
        self._prepare()

    def _prepare(self) -> None:
        """What a kind of client does when its settings are there."""

    @classmethod
    def from_existing_client(cls, existing_client: BaseModelClient) -> Self:
        """A client like another one, that knows what the other one knows of the model."""
        client = cls(
            existing_client._url,
            existing_client._model_name,
            existing_client._model_version,
            init_timeout_s=existing_client._init_timeout_s,
            inference_timeout_s=existing_client._inference_timeout_s,
            model_config=existing_client._model_config,
            ensure_model_is_ready=False,
            access_token=existing_client._access_token,
        )
        client._model_ready = existing_client._model_config is not None
        return client

    def _request(self, lib: Any, config: TritonModelConfig, call: Call, arrays: Arrays) -> dict[str, Any]:
        """An inference as tritonclient takes it, without its headers."""
        request: dict[str, Any] = {
            "model_name": self._model_name,
            "model_version": self._model_version or "",
            "inputs": infer_inputs(lib, arrays),
            "outputs": requested_outputs(lib, config),
            "request_id": self._ids.next(),
            "parameters": call.options.parameters,
        }
        if call.options.priority:
            request["priority"] = call.options.priority
        if call.options.timeout is not None:
            request["timeout"] = call.options.timeout
        return request

    @property
    def _is_grpc(self) -> bool:
        return self._triton_url.scheme == "grpc"

    def _headers(self, headers: Optional[dict[str, str]]) -> Optional[dict[str, str]]:
        if not self._auth_headers:
            return headers
        return {**self._auth_headers, **(headers or {})}

    def get_lib(self) -> Any:
        """The module of tritonclient for the scheme."""
        if self._is_grpc:
            import tritonclient.grpc as lib
        else:
            import tritonclient.http as lib
        return lib
