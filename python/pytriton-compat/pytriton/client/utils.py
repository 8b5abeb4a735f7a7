"""The names of pytriton.client.utils, from neso.client.utils."""

from tritonclient.utils import InferenceServerException

from neso.client.exceptions import PyTritonClientInvalidUrlError, PyTritonClientTimeoutError
from neso.client.utils import (
    LATEST_MODEL_VERSION,
    ModelState,
    TritonUrl,
    create_client_from_url,
    get_model_config,
    get_model_state,
    parse_grpc_response,
    parse_http_response,
    wait_for_model_ready,
    wait_for_server_ready,
)
from neso.client.utils import NETWORK_TIMEOUT_S as _DEFAULT_NETWORK_TIMEOUT_S
from neso.client.warnings import NotSupportedTimeoutWarning
from neso.constants import DEFAULT_GRPC_PORT, DEFAULT_HTTP_PORT
from neso.model_config.parser import ModelConfigParser

__all__ = [
    "DEFAULT_GRPC_PORT",
    "DEFAULT_HTTP_PORT",
    "LATEST_MODEL_VERSION",
    "_DEFAULT_NETWORK_TIMEOUT_S",
    "InferenceServerException",
    "ModelConfigParser",
    "ModelState",
    "NotSupportedTimeoutWarning",
    "PyTritonClientInvalidUrlError",
    "PyTritonClientTimeoutError",
    "TritonUrl",
    "create_client_from_url",
    "get_model_config",
    "get_model_state",
    "parse_grpc_response",
    "parse_http_response",
    "wait_for_model_ready",
    "wait_for_server_ready",
]
