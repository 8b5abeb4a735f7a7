"""Whether a decorated function can be called with a model's inputs at all, asked when it is bound.

``batch`` and ``sample`` call a function with the inputs as keyword arguments; a name that is misspelt would only show
with the first request.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Optional

import wrapt

from . import decorators
from .constants import TRITON_CONTEXT_FIELD_NAME
from .exceptions import PyTritonValidationError
from .model_config.triton_model_config import TritonModelConfig


def _is_own(wrapper: Any) -> bool:
    """Whether it is a decorator of this package: those keep the names of inputs."""
    return getattr(wrapper, "__module__", None) == decorators.__name__


def _layers(target: Any) -> Iterator[tuple[Any, Any]]:
    """The decorators around a callable, outermost first, with what each one decorates; ends before any other kind."""
    while _is_own(getattr(target, "_self_wrapper", None)):
        yield target._self_wrapper, target.__wrapped__
        target = target.__wrapped__


def _called_with_inputs(infer_func: Any) -> Optional[tuple[inspect.Signature, bool]]:
    """The signature of what ``batch`` or ``sample`` calls, and whether ``triton_context`` is among the arguments.

    None where somebody else's code is between, which may give it any names.
    """
    target = infer_func
    if not isinstance(target, wrapt.ObjectProxy) and not inspect.isroutine(target):
        target = getattr(target, "__call__", None)  # noqa: B004 - the method, not whether it is there
    inputs = context = False
    for wrapper, wrapped in _layers(target):
        inputs = inputs or wrapper in (decorators._batch, decorators._sample)
        context = context or wrapper is decorators._triton_context
        target = wrapped
    # A function of its own code: that which is left by functools.wraps tells the signature of another one.
    if not inputs or hasattr(target, "__wrapped__") or not (inspect.isfunction(target) or inspect.ismethod(target)):
        return None
    return inspect.signature(target), context


def check_arguments(infer_func: Any, config: TritonModelConfig) -> None:
    """Raises PyTritonValidationError when every request would fail for the names of its inputs."""
    found = _called_with_inputs(infer_func)
    if found is None:
        return
    signature, context = found
    given = [spec.name for spec in config.inputs or () if not spec.optional]
    possible = {spec.name for spec in config.inputs or ()}
    if context:
        given.append(TRITON_CONTEXT_FIELD_NAME)
        possible.add(TRITON_CONTEXT_FIELD_NAME)
    parameters = signature.parameters.values()
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    unknown = [] if takes_all else [name for name in given if name not in names]
    required = [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    missing = [name for name in required if name not in possible or name not in names]
    if not unknown and not missing:
        return
    name = getattr(infer_func, "__qualname__", None) or type(infer_func).__qualname__
    faults = [f"it does not take {_list(unknown)}"] if unknown else []
    faults += [f"nothing is given for its {_list(missing)}"] if missing else []
    raise PyTritonValidationError(
        f"`{name}{signature}` cannot be called with the inputs of model `{config.model_name}`, "
        f"{_list([spec.name for spec in config.inputs or ()]) or 'of which there are none'}: {' and '.join(faults)}."
    )


def _list(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
