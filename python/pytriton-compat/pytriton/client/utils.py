"""The names of pytriton.client.utils, from neso.client.utils."""

from neso.client.utils import (
    _DEFAULT_NETWORK_TIMEOUT_S,
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

__all__ = [
    "LATEST_MODEL_VERSION",
    "_DEFAULT_NETWORK_TIMEOUT_S",
    "ModelState",
    "TritonUrl",
    "create_client_from_url",
    "get_model_config",
    "get_model_state",
    "parse_grpc_response",
    "parse_http_response",
    "wait_for_model_ready",
    "wait_for_server_ready",
]
