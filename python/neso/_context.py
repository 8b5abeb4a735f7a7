"""What callables may know of the models they are bound as: the context that decorators find the configurations in."""

from __future__ import annotations

import collections.abc
import contextlib
import contextvars
import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any, Callable, Optional

from .exceptions import PyTritonValidationError
from .model_config.triton_model_config import TritonModelConfig

CONTEXT = "__triton_context__"

# The configuration of the model that is being run: one callable may be bound under several names.
_running: contextvars.ContextVar[Optional[TritonModelConfig]] = contextvars.ContextVar(
    "neso_model_config", default=None
)


def innermost(target: Any) -> Any:
    while hasattr(target, "__wrapped__"):
        target = target.__wrapped__
    return target


class ModelConfigDict(collections.abc.MutableMapping[Callable[..., Any], TritonModelConfig]):
    """Model configurations by callable; a decorated callable is found by what it decorates."""

    def __init__(self) -> None:
        """Makes an empty one."""
        self._items: dict[tuple[int, int], tuple[Any, TritonModelConfig]] = {}

    @staticmethod
    def _key(infer_callable: Any) -> tuple[int, int]:
        target = innermost(infer_callable)
        owner = getattr(target, "__self__", None)
        return id(getattr(target, "__func__", target)), id(owner) if owner is not None else 0

    def __getitem__(self, infer_callable: Callable[..., Any]) -> TritonModelConfig:
        """The configuration of a callable; KeyError when it is not bound."""
        found = self._items.get(self._key(infer_callable))
        if found is None:
            raise KeyError(str(infer_callable))
        return found[1]

    def __setitem__(self, infer_callable: Callable[..., Any], item: TritonModelConfig) -> None:
        """Sets the configuration of a callable."""
        self._items[self._key(infer_callable)] = (infer_callable, item)

    def __delitem__(self, infer_callable: Callable[..., Any]) -> None:
        """Forgets a callable."""
        del self._items[self._key(infer_callable)]

    def __len__(self) -> int:
        """How many callables it knows."""
        return len(self._items)

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        """The callables."""
        return (target for target, _ in list(self._items.values()))


@dataclasses.dataclass
class TritonContext:
    """What callables may know of the server: the configurations of the bound models."""

    model_configs: ModelConfigDict = dataclasses.field(default_factory=ModelConfigDict)


def get_triton_context(wrapped: Any, instance: Any) -> TritonContext:
    """The context of a bound callable, or of the object that a bound method belongs to."""
    for place in (instance, wrapped, innermost(wrapped)):
        context = getattr(place, CONTEXT, None) if place is not None else None
        if context is not None:
            return context  # type: ignore[no-any-return]
    raise PyTritonValidationError(
        f"Wrapped function or object must bound with triton to get  {CONTEXT}"  # two spaces, as clients know it
    )


def get_model_config(wrapped: Any, instance: Any) -> TritonModelConfig:
    """The configuration of the model that runs, else the one that the callable was bound with."""
    running = _running.get()
    if running is not None:
        return running
    return get_triton_context(wrapped, instance).model_configs[wrapped]


def inject(triton_context: TritonContext, model_callable: Any) -> Any:
    """Attaches the context to a callable, or to the object that a method belongs to."""
    owner = getattr(model_callable, "__self__", None)
    target = owner if owner is not None and not inspect.ismodule(owner) else model_callable
    # Builtins and objects with slots take none: for them only the running configuration is known.
    with contextlib.suppress(AttributeError, TypeError):
        setattr(target, CONTEXT, triton_context)
    return model_callable


def running(config: TritonModelConfig) -> contextvars.Token[Optional[TritonModelConfig]]:
    """Says which model runs in this thread; ``stopped`` takes the token."""
    return _running.set(config)


stopped = _running.reset
current_config = _running.get
