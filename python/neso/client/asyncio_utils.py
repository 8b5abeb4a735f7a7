"""Waiting for servers and models with the asyncio clients of tritonclient."""

from __future__ import annotations

import asyncio
from typing import Any, Optional

from ..model_config.parser import ModelConfigParser
from ..model_config.triton_model_config import TritonModelConfig
from .exceptions import PyTritonClientTimeoutError
from .utils import LATEST_MODEL_VERSION, ModelState, is_grpc, parse_grpc_response, parse_http_response, unreachable

_DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S = 60.0
_DEFAULT_ASYNC_SLEEP_FACTOR_S = 0.1


async def asyncio_wait_for_server_ready(asyncio_client: Any, sleep_time_s: float) -> None:
    """Waits without end until the server is live and ready, with pauses of ``sleep_time_s``."""
    while True:
        try:
            if await asyncio_client.is_server_live() and await asyncio_client.is_server_ready():
                return
        except unreachable():
            pass
        await asyncio.sleep(sleep_time_s)


async def asyncio_get_model_state(client: Any, model_name: str, model_version: Optional[str] = None) -> ModelState:
    """The state of a model in the repository index."""
    index = await client.get_model_repository_index()
    states = parse_grpc_response(index.models) if is_grpc(client) else parse_http_response(index)
    found = [(v, s) for (name, v), s in states.items() if name == model_name and model_version in (None, v)]
    return max(found, key=lambda item: int(item[0] or 0))[1] if found else ModelState.UNAVAILABLE


async def asyncio_wait_for_model_status_loaded(
    asyncio_client: Any, model_name: str, sleep_time_s: float, model_version: Optional[str] = None
) -> None:
    """Waits without end until the model is ready, with pauses of ``sleep_time_s``."""
    while True:
        try:
            if await asyncio_client.is_model_ready(model_name, model_version or ""):
                return
        except unreachable():
            pass
        await asyncio.sleep(sleep_time_s)


async def asyncio_wait_for_model_ready(
    asyncio_client: Any,
    model_name: str,
    model_version: Optional[str] = None,
    timeout_s: float = _DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S,
) -> None:
    """Waits until server and model are ready. Raises PyTritonClientTimeoutError."""
    pause = min(_DEFAULT_ASYNC_SLEEP_FACTOR_S, timeout_s / 10)

    async def both() -> None:
        await asyncio_wait_for_server_ready(asyncio_client, pause)
        await asyncio_wait_for_model_status_loaded(asyncio_client, model_name, pause, model_version)

    try:
        await asyncio.wait_for(both(), timeout_s)
    except asyncio.TimeoutError:
        name = f"{model_name}/{model_version or LATEST_MODEL_VERSION}"
        raise PyTritonClientTimeoutError(
            f"Timeout while waiting for model {name} to be ready for {timeout_s}s"
        ) from None


async def asyncio_get_model_config(
    client: Any,
    model_name: str,
    model_version: Optional[str] = None,
    timeout_s: float = _DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S,
) -> TritonModelConfig:
    """The configuration of a model, once it is ready."""
    await asyncio_wait_for_model_ready(client, model_name, model_version, timeout_s)
    if is_grpc(client):
        answer = await client.get_model_config(model_name, model_version or "", as_json=True)
        return ModelConfigParser.from_dict(answer["config"])
    return ModelConfigParser.from_dict(await client.get_model_config(model_name, model_version or ""))
