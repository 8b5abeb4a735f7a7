"""The access token in headers."""

from __future__ import annotations

from typing import Optional

from ..constants import TRITON_ACCESS_HEADER

_GRPC_PREFIX = "triton-grpc-protocol-"


def create_auth_headers(access_token: Optional[str], protocol: str) -> dict[str, str]:
    """Headers (``http``) or metadata (``grpc``) with the token; empty without one."""
    if not access_token:
        return {}
    name = _GRPC_PREFIX + TRITON_ACCESS_HEADER if protocol.lower().startswith("grpc") else TRITON_ACCESS_HEADER
    return {name: access_token}


def extract_access_token_from_headers(headers: Optional[dict[str, str]]) -> Optional[str]:
    """The token in headers of either protocol."""
    for name, value in (headers or {}).items():
        if name.lower() in (TRITON_ACCESS_HEADER, _GRPC_PREFIX + TRITON_ACCESS_HEADER):
            return value
    return None
