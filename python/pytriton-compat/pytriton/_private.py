"""Private names of PyTriton that its own tests and some scripts reach for, on the classes of neso.

The classes of both packages are the same, so that a script may mix the names; neso by itself has none of these.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from neso.client import AsyncioModelClient, ModelClient
from neso.triton import Triton


class WrappedWithWrapper(NamedTuple):
    """A callable and the decorator around it."""

    wrapped: Any
    wrapper: Any


def get_wrapt_stack(wrapped: Any) -> list[WrappedWithWrapper]:
    """The decorators around a callable, outermost first, with what each one decorates."""
    stack = []
    while True:
        stack.append(WrappedWithWrapper(wrapped, getattr(wrapped, "_self_wrapper", None)))
        if not hasattr(wrapped, "__wrapped__"):
            return stack
        wrapped = wrapped.__wrapped__


def _server(triton: Triton) -> Triton | None:
    """What is asked whether the server is alive; None before it has been started."""
    return triton if triton._server is not None or triton._was_stopped else None


def _client(client: Any) -> Any:
    """The client of tritonclient."""
    return client._client()


Triton._triton_server = property(_server)
for _kind in (ModelClient, AsyncioModelClient):
    _kind._general_client = _kind._infer_client = property(_client)
