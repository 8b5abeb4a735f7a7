"""The names of pytriton.proxy.types, from neso.proxy.types."""

from neso.proxy.types import (
    Request,
    Response,
)

__all__ = [
    "Request",
    "Response",
]
