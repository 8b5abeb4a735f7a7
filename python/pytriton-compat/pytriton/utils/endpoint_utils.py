"""The names of pytriton.utils.endpoint_utils."""

from __future__ import annotations

import re

from pytriton.constants import DEFAULT_GRPC_PORT, DEFAULT_HTTP_PORT, DEFAULT_METRICS_PORT, TRITON_LOCAL_IP
from pytriton.server.triton_server_config import TritonServerConfig

__all__ = ["DEFAULT_GRPC_PORT", "DEFAULT_HTTP_PORT", "DEFAULT_METRICS_PORT", "TRITON_LOCAL_IP", "get_endpoint"]

# Where the address of an end is looked for, its scheme and port.
_ENDS = {
    "http": (("http-address",), "http", DEFAULT_HTTP_PORT),
    "grpc": (("grpc-address",), "grpc", DEFAULT_GRPC_PORT),
    "metrics": (("metrics-address", "http-address"), "http", DEFAULT_METRICS_PORT),
}


def get_endpoint(server_config: TritonServerConfig, endpoint: str) -> str:
    """The URL of ``http``, ``grpc`` or ``metrics``, as a client on this machine uses it."""
    places, scheme, usual = _ENDS[endpoint]
    given = [str(server_config[key]) for key in places if server_config[key]]
    host = next((h for h in given if not re.fullmatch(r"0+(\.0+){3}", h)), TRITON_LOCAL_IP)
    return f"{scheme}://{host}:{server_config[f'{endpoint}-port'] or usual}"
