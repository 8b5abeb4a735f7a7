"""The names of pytriton.client.auth, from neso.client.auth."""

from neso.client.auth import (
    create_auth_headers,
    extract_access_token_from_headers,
)

__all__ = [
    "create_auth_headers",
    "extract_access_token_from_headers",
]
