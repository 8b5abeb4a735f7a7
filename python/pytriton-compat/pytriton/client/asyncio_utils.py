"""The names of pytriton.client.asyncio_utils, from neso.client.asyncio_utils."""

from neso.client.asyncio_utils import (
    asyncio_get_model_config,
    asyncio_get_model_state,
    asyncio_wait_for_model_ready,
    asyncio_wait_for_model_status_loaded,
    asyncio_wait_for_server_ready,
)
from neso.client.exceptions import PyTritonClientModelUnavailableError, PyTritonClientTimeoutError
from neso.client.utils import LATEST_MODEL_VERSION, ModelState, parse_grpc_response, parse_http_response
from neso.model_config.parser import ModelConfigParser

__all__ = [
    "LATEST_MODEL_VERSION",
    "ModelConfigParser",
    "ModelState",
    "PyTritonClientModelUnavailableError",
    "PyTritonClientTimeoutError",
    "asyncio_get_model_config",
    "asyncio_get_model_state",
    "asyncio_wait_for_model_ready",
    "asyncio_wait_for_model_status_loaded",
    "asyncio_wait_for_server_ready",
    "parse_grpc_response",
    "parse_http_response",
]
