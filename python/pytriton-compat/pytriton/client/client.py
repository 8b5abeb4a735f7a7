"""The names of pytriton.client.client."""

from neso.client import (
    AsyncioDecoupledModelClient,
    AsyncioModelClient,
    DecoupledModelClient,
    FuturesModelClient,
    ModelClient,
)
from neso.client.asyncio_utils import asyncio_get_model_config, asyncio_wait_for_model_ready
from neso.client.base import DEFAULT_INFERENCE_TIMEOUT_S, BaseModelClient
from neso.client.exceptions import (
    PyTritonClientClosedError,
    PyTritonClientInferenceServerError,
    PyTritonClientModelDoesntSupportBatchingError,
    PyTritonClientQueueFullError,
    PyTritonClientTimeoutError,
    PyTritonClientValueError,
)
from neso.client.utils import TritonUrl, get_model_config, wait_for_model_ready, wait_for_server_ready
from neso.client.warnings import NotSupportedTimeoutWarning
from neso.model_config.triton_model_config import TritonModelConfig

__all__ = [
    "DEFAULT_INFERENCE_TIMEOUT_S",
    "AsyncioDecoupledModelClient",
    "AsyncioModelClient",
    "BaseModelClient",
    "DecoupledModelClient",
    "FuturesModelClient",
    "ModelClient",
    "NotSupportedTimeoutWarning",
    "PyTritonClientClosedError",
    "PyTritonClientInferenceServerError",
    "PyTritonClientModelDoesntSupportBatchingError",
    "PyTritonClientQueueFullError",
    "PyTritonClientTimeoutError",
    "PyTritonClientValueError",
    "TritonModelConfig",
    "TritonUrl",
    "asyncio_get_model_config",
    "asyncio_wait_for_model_ready",
    "get_model_config",
    "wait_for_model_ready",
    "wait_for_server_ready",
]
