"""The access token in headers."""

from __future__ import annotations

from typing import Optional

from ..constants import TRITON_ACCESS_HEADER

_GRPC_PREFIX = "triton-grpc-protocol-"


def create_auth_headers(access_token: Optional[str], protocol: str) -> dict[str, str]:
    """Headers (``http``) or metadata (``grpc``) with the token. Raises ValueError."""
    if not access_token:
        raise ValueError("access_token cannot be None or empty")
    names = {"http": TRITON_ACCESS_HEADER, "grpc": _GRPC_PREFIX + TRITON_ACCESS_HEADER}
    name = names.get(protocol.lower())
    if name is None:
        raise ValueError(f"Invalid protocol '{protocol}'. Must be 'http' or 'grpc'")
    return {name: access_token}


def extract_access_token_from_headers(headers: Optional[dict[str, str]]) -> Optional[str]:
    """The token in headers of either protocol, None without one. Raises ValueError when there are two."""
    lowered = {name.lower(): value for name, value in (headers or {}).items()}
    plain, prefixed = lowered.get(TRITON_ACCESS_HEADER), lowered.get(_GRPC_PREFIX + TRITON_ACCESS_HEADER)
    if plain is not None and prefixed is not None and plain != prefixed:
        raise ValueError(
            f"Conflicting authentication headers found: '{TRITON_ACCESS_HEADER}' and "
            f"'{_GRPC_PREFIX}{TRITON_ACCESS_HEADER}' contain different tokens. Please use consistent tokens."
        )
    return plain if plain is not None else prefixed
