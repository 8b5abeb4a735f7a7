"""The names of pytriton.client.auth, from neso.client.auth."""

from neso.client.auth import (
    create_auth_headers,
    extract_access_token_from_headers,
)
from neso.constants import TRITON_ACCESS_HEADER

__all__ = [
    "TRITON_ACCESS_HEADER",
    "create_auth_headers",
    "extract_access_token_from_headers",
]
