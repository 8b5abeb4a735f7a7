"""Serve Python callables: ``Triton().bind(...)`` puts a function behind an inference server.

The best of the package is here; ``neso.triton``, ``neso.model_config``, ``neso.decorators``, ``neso.client`` and
``neso.exceptions`` have everything.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from ._bound.memory import empty
    from .client import (
        AsyncioDecoupledModelClient,
        AsyncioModelClient,
        DecoupledModelClient,
        FuturesModelClient,
        ModelClient,
    )
    from .decorators import (
        batch,
        fill_optionals,
        first_value,
        group_by_keys,
        group_by_values,
        pad_batch,
        sample,
        triton_context,
    )
    from .model_config import DynamicBatcher, ModelConfig, QueuePolicy, Tensor, TimeoutAction
    from .proxy.types import Request
    from .triton import RemoteTriton, Triton, TritonConfig

# Names and the modules that have them; loaded when asked for, so that importing the package costs little.
_PLACES = {
    **dict.fromkeys(("RemoteTriton", "Triton", "TritonConfig"), "triton"),
    **dict.fromkeys(("DynamicBatcher", "ModelConfig", "QueuePolicy", "Tensor", "TimeoutAction"), "model_config"),
    **dict.fromkeys(
        (
            "AsyncioDecoupledModelClient",
            "AsyncioModelClient",
            "DecoupledModelClient",
            "FuturesModelClient",
            "ModelClient",
        ),
        "client",
    ),
    **dict.fromkeys(
        (
            "batch",
            "fill_optionals",
            "first_value",
            "group_by_keys",
            "group_by_values",
            "pad_batch",
            "sample",
            "triton_context",
        ),
        "decorators",
    ),
    "Request": "proxy.types",
    "empty": "_bound.memory",
}

__all__ = [
    "AsyncioDecoupledModelClient",
    "AsyncioModelClient",
    "DecoupledModelClient",
    "DynamicBatcher",
    "FuturesModelClient",
    "ModelClient",
    "ModelConfig",
    "QueuePolicy",
    "RemoteTriton",
    "Request",
    "Tensor",
    "TimeoutAction",
    "Triton",
    "TritonConfig",
    "__version__",
    "batch",
    "empty",
    "fill_optionals",
    "first_value",
    "group_by_keys",
    "group_by_values",
    "pad_batch",
    "sample",
    "triton_context",
]


def __getattr__(name: str) -> Any:
    """Loads a name of the package when it is first used."""
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{place}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Names of the package."""
    return sorted({*globals(), *_PLACES})
