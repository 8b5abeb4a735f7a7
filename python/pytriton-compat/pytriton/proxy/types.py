"""The names of pytriton.proxy.types, from neso.proxy.types."""

from neso.proxy.telemetry import traced_span
from neso.proxy.types import (
    Request,
    Requests,
    Response,
    Responses,
    ResponsesNoneOrError,
    ResponsesOrError,
    Scope,
)

__all__ = [
    "Request",
    "Requests",
    "Response",
    "Responses",
    "ResponsesNoneOrError",
    "ResponsesOrError",
    "Scope",
    "traced_span",
]
