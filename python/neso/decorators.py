"""Decorators for callables: they turn the list of requests into arguments that are easier to work with.

They stack, work on functions and methods, and on functions that are called directly with a list of requests. The
server recognises ``batch`` and then joins the requests itself; see ``batch_call``.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Callable, Optional, Union

import numpy as np
import wrapt

from ._context import (
    CONTEXT,
    ModelConfigDict,
    TritonContext,
    current_config,
    get_model_config,
    get_triton_context,
    innermost,
)
from ._grouping import ConstantPadder, groups
from .constants import TRITON_CONTEXT_FIELD_NAME
from .exceptions import PyTritonBadParameterError, PyTritonRuntimeError, PyTritonValidationError
from .model_config.triton_model_config import TritonModelConfig
from .proxy import telemetry

__all__ = [
    "ConstantPadder",
    "InferenceRequest",
    "InferenceRequests",
    "InferenceResult",
    "InferenceResults",
    "InputNames",
    "ModelConfigDict",
    "TritonContext",
    "batch",
    "batch_call",
    "convert_output",
    "fill_optionals",
    "first_value",
    "get_inference_request_batch_size",
    "get_model_config",
    "get_triton_context",
    "group_by_keys",
    "group_by_values",
    "pad_batch",
    "sample",
    "triton_context",
]

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
InputNames = list[str]
InferenceRequest = Arrays
InferenceRequests = Union[list[Arrays], tuple[Arrays, ...]]
InferenceResult = Arrays
InferenceResults = Union[list[Arrays], tuple[Arrays, ...]]

_RESERVED = [CONTEXT]
# Arguments that are no inputs.
_CONTEXTS = (CONTEXT, TRITON_CONTEXT_FIELD_NAME)


def _has(wrapped: Any, wrapper: Any) -> bool:
    """Whether a callable is decorated by it, at any depth."""
    while getattr(wrapped, "_self_wrapper", None) is not wrapper:
        if not hasattr(wrapped, "__wrapped__"):
            return False
        wrapped = wrapped.__wrapped__
    return True


def get_inference_request_batch_size(inference_request: Mapping[str, Array]) -> int:
    """The number of rows of a request."""
    return int(next(iter(inference_request.values())).shape[0])


def convert_output(
    outputs: Any,
    wrapped: Any = None,
    instance: Any = None,
    model_config: Optional[TritonModelConfig] = None,
) -> Arrays:
    """A dictionary of outputs: a list or tuple takes its names from the model's configuration."""
    if isinstance(outputs, dict):
        return outputs
    if not isinstance(outputs, (list, tuple)):
        raise PyTritonValidationError(f"Unsupported output type {type(outputs)}.")
    config = model_config or get_model_config(wrapped, instance)
    names = [spec.name for spec in config.outputs or ()]
    if len(outputs) != len(names):
        raise PyTritonValidationError("Outputs length different than config outputs length")
    return dict(zip(names, outputs))


def _check_rows(outputs: Mapping[str, Array], rows: int) -> None:
    wrong = ", ".join(f"{k}: {np.shape(v)}" for k, v in outputs.items() if not np.ndim(v) or len(v) != rows)
    if wrong:
        raise ValueError(f"Received output tensors with different batch sizes: {wrong}. Expected batch size: {rows}. ")


def _split(outputs: Arrays, sizes: Sequence[int]) -> list[Arrays]:
    _check_rows(outputs, sum(sizes))
    results: list[Arrays] = []
    start = 0
    for size in sizes:
        results.append({name: value[start : start + size] for name, value in outputs.items()})
        start += size
    return results


def _batch(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    requests = args[0]
    names = list(requests[0].keys())
    expected = set(names)
    for request in requests:
        if set(request.keys()) != expected:
            raise PyTritonValidationError("Cannot batch requests with different set of inputs keys")
    if len(requests) == 1:
        inputs = {name: requests[0][name] for name in names}
    else:
        inputs = {name: np.concatenate([request[name] for request in requests], axis=0) for name in names}
    sizes = [get_inference_request_batch_size(request) for request in requests]
    spans = telemetry.BatchSpans(requests)
    try:
        with spans.current():
            outputs = wrapped(*args[1:], **inputs, **kwargs)
        if inspect.isgenerator(outputs):
            return _batch_each(outputs, wrapped, instance, sizes, spans)
        if inspect.isawaitable(outputs):
            return _batch_later(outputs, wrapped, instance, sizes, spans)
        if inspect.isasyncgen(outputs):
            return _batch_each_later(outputs, wrapped, instance, sizes, spans)
        results = _split(convert_output(outputs, wrapped, instance), sizes)
    except BaseException as error:
        spans.end(error)
        raise
    spans.end()
    return results


# After the last item of a generator; None is an answer, a wrong one.
_END = object()


def _batch_each(
    outputs: Iterator[Any], wrapped: Any, instance: Any, sizes: Sequence[int], spans: telemetry.BatchSpans
) -> Iterator[list[Arrays]]:
    try:
        while True:
            with spans.current():
                item = next(outputs, _END)
            if item is _END:
                break
            yield _split(convert_output(item, wrapped, instance), sizes)
    except BaseException as error:
        spans.end(error)
        raise
    spans.end()


async def _batch_later(
    outputs: Any, wrapped: Any, instance: Any, sizes: Sequence[int], spans: telemetry.BatchSpans
) -> list[Arrays]:
    try:
        with spans.current():
            results = _split(convert_output(await outputs, wrapped, instance), sizes)
    except BaseException as error:
        spans.end(error)
        raise
    spans.end()
    return results


async def _batch_each_later(
    outputs: Any, wrapped: Any, instance: Any, sizes: Sequence[int], spans: telemetry.BatchSpans
) -> AsyncIterator[list[Arrays]]:
    items = outputs.__aiter__()
    try:
        while True:
            try:
                with spans.current():
                    item = await items.__anext__()
            except StopAsyncIteration:
                break
            yield _split(convert_output(item, wrapped, instance), sizes)
    except BaseException as error:
        spans.end(error)
        raise
    spans.end()


def _sample(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    request = args[0][0]
    outputs = wrapped(*args[1:], **{name: request[name] for name in request}, **kwargs)
    if inspect.isgenerator(outputs):
        return ([convert_output(item, wrapped, instance)] for item in outputs)
    if inspect.isawaitable(outputs):
        return _sample_later(outputs, wrapped, instance)
    if inspect.isasyncgen(outputs):
        return ([convert_output(item, wrapped, instance)] async for item in outputs)
    return [convert_output(outputs, wrapped, instance)]


async def _sample_later(outputs: Any, wrapped: Any, instance: Any) -> list[Arrays]:
    return [convert_output(await outputs, wrapped, instance)]


def _group_by_keys(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    requests = args[0]
    sets: dict[tuple[str, ...], list[int]] = {}
    for place, request in enumerate(requests):
        sets.setdefault(tuple(sorted(request.keys())), []).append(place)
    results: dict[int, Any] = {}
    for _, places in sorted(sets.items()):
        results.update(zip(places, wrapped([requests[i] for i in places], *args[1:], **kwargs)))
    return [results[place] for place in sorted(results)]


def _triton_context(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    kwargs[TRITON_CONTEXT_FIELD_NAME] = get_triton_context(wrapped, instance)
    return wrapped(*args, **kwargs)


def _pad_batch(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    inputs = {name: value for name, value in kwargs.items() if name not in _CONTEXTS}
    rows = get_inference_request_batch_size(inputs)
    config = get_model_config(wrapped, instance)
    sizes = sorted((config.batcher.preferred_batch_size if config.batcher else None) or ())
    size = next((s for s in sizes if s >= rows), config.max_batch_size)
    extra = size - rows
    if extra <= 0:
        return wrapped(*args, **kwargs)
    padded = {name: np.concatenate([value, np.repeat(value[-1:], extra, axis=0)]) for name, value in inputs.items()}
    outputs = wrapped(*args, **{**kwargs, **padded})
    if current_config() is None:  # called directly: what was added stays, as its caller may expect
        return outputs

    def cut(items: Any) -> Any:
        if isinstance(items, dict):
            return {name: value[:rows] if len(value) == size else value for name, value in items.items()}
        if isinstance(items, (list, tuple)):
            return [value[:rows] if len(value) == size else value for value in items]
        return items

    return (cut(item) for item in outputs) if inspect.isgenerator(outputs) else cut(outputs)


# The server looks for these two when a callable is bound.
batch: Any = wrapt.decorator(_batch)
"""Joins the inputs of all requests along the first axis and calls the function with them as keyword arguments.

The function returns a dictionary of outputs, or a list in the order of the model's outputs; the rows are split again.
"""
group_by_keys: Any = wrapt.decorator(_group_by_keys)
"""Calls the function once for each set of input names, so that requests with and without optional inputs mix."""

sample: Any = wrapt.decorator(_sample)
"""For models without batching: calls the function with the inputs of the one request as keyword arguments."""
pad_batch: Any = wrapt.decorator(_pad_batch)
"""Repeats the last row up to the next preferred batch size, or the greatest one. Comes after ``batch``."""
triton_context: Any = wrapt.decorator(_triton_context)
"""Gives the function the keyword argument ``triton_context``."""


def batch_call(infer_func: Any, config: TritonModelConfig) -> Optional[Callable[[Arrays], Any]]:
    """What the server calls with joined inputs, when ``infer_func`` is decorated with ``batch``; else None.

    Outputs are a dictionary, or an iterator of dictionaries for a generator.
    """
    target = infer_func
    if not isinstance(target, wrapt.ObjectProxy) and not inspect.isroutine(target):
        target = getattr(target, "__call__", None)  # noqa: B004 - the method, not whether it is there
    if getattr(target, "_self_wrapper", None) is _group_by_keys:
        target = target.__wrapped__
    if getattr(target, "_self_wrapper", None) is not _batch:
        return None
    function = target.__wrapped__
    if inspect.iscoroutinefunction(innermost(function)) or inspect.isasyncgenfunction(innermost(function)):
        return None

    def convert(outputs: Any, rows: int) -> Arrays:
        if outputs.__class__ is not dict:
            outputs = convert_output(outputs, model_config=config)
        for value in outputs.values():
            if not isinstance(value, np.ndarray) or not value.ndim or value.shape[0] != rows:
                _check_rows({k: v for k, v in outputs.items() if isinstance(v, np.ndarray)}, rows)
                break
        return outputs  # type: ignore[no-any-return]

    def each(outputs: Any, rows: int) -> Iterator[Arrays]:
        for item in outputs:
            yield convert(item, rows)

    def call(inputs: Arrays) -> Any:
        rows = 0
        for value in inputs.values():
            rows = value.shape[0]
            break
        outputs = function(**inputs)
        if inspect.isgenerator(outputs):
            return each(outputs, rows)
        return convert(outputs, rows)

    return call


def group_by_values(*keys: str, pad_fn: Optional[Callable[[InferenceResults], InferenceResults]] = None) -> Any:
    """Calls the function once for each set of equal values in the inputs ``keys``. Comes after ``batch``.

    ``pad_fn``, for instance a ``ConstantPadder``, brings the groups' outputs to one shape.
    """

    def wrapper(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _has(wrapped, _batch):
            raise PyTritonRuntimeError("The @group_by_values decorator must be used after the @batch decorator.")
        inputs = {name: value for name, value in kwargs.items() if name not in _CONTEXTS}
        rest = {name: value for name, value in kwargs.items() if name in _CONTEXTS}
        rows = get_inference_request_batch_size(inputs)
        order = groups([inputs[name] for name in keys], rows)
        if len(order) == 1:
            return convert_output(wrapped(*args, **kwargs), wrapped, instance)
        results: InferenceResults = [
            convert_output(
                wrapped(*args, **{name: value[places] for name, value in inputs.items()}, **rest), wrapped, instance
            )
            for places in order
        ]
        if pad_fn is not None:
            results = pad_fn(results)
        outputs: Arrays = {}
        for name in results[0]:
            joined = np.concatenate([result[name] for result in results], axis=0)
            back = np.empty(rows, dtype=np.intp)
            back[[place for places in order for place in places]] = np.arange(rows)
            outputs[name] = joined[back]
        return outputs

    return wrapt.decorator(wrapper)


def first_value(*keys: str, squeeze_single_values: bool = True, strict: bool = True) -> Any:
    """Replaces the inputs ``keys`` by their first row; ``strict``: all rows must be equal. Comes after ``batch``.

    A row with a single value becomes that value, unless ``squeeze_single_values`` is False.
    """
    if any(key in _RESERVED for key in keys):
        reserved = ", ".join(key for key in keys if key in _RESERVED)
        raise PyTritonBadParameterError(
            f"The keys {reserved} are not allowed as keys for @first_value wrapper. "
            f"The set of not allowed keys are {', '.join(_RESERVED)}"
        )

    def wrapper(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not get_model_config(wrapped, instance).batching:
            raise PyTritonRuntimeError("The @first_value decorator can only be used with models that support batching.")
        if args:  # without batch: a list of requests
            for request in args[0]:
                replace(request)
        else:
            replace(kwargs)
        return wrapped(*args, **kwargs)

    def replace(inputs: Any) -> None:
        for key in keys:
            if key not in inputs:
                continue
            values = inputs[key]
            first = values[0]
            if strict and not np.array_equal(np.broadcast_to(first, values.shape), values):
                raise PyTritonRuntimeError(
                    f"The values on the {key!r} input are not equal. To proceed, either disable strict mode in "
                    "@first_value wrapper or ensure that the values always are consistent. "
                    f"The current values of {key!r} are {values!r}."
                )
            if squeeze_single_values and np.size(first) == 1:
                first = np.asarray(first).reshape(-1)[0]
            inputs[key] = first

    return wrapt.decorator(wrapper)


def fill_optionals(**defaults: Array) -> Any:
    """Gives requests that lack an input the default (without a batch dimension). Comes before ``batch``."""

    def check(config: TritonModelConfig) -> None:
        specs = {spec.name: spec for spec in config.inputs or ()}
        missing = sorted(set(defaults) - set(specs))
        if missing:
            raise PyTritonBadParameterError(f"Could not found {', '.join(missing)} inputs")
        plain = [f"{k}={v}" for k, v in defaults.items() if not isinstance(v, (np.ndarray, np.generic))]
        if plain:
            raise PyTritonBadParameterError(f"Could not use {', '.join(plain)} defaults as they are not NumPy arrays")
        wrong = [
            f"{k}: dtype={v.dtype} expected_dtype={specs[k].dtype}"
            for k, v in defaults.items()
            if not _same_kind(v.dtype, specs[k].dtype)
        ]
        if wrong:
            raise PyTritonBadParameterError(
                f"Could not use {', '.join(wrong)} defaults as they have different than input signature dtypes"
            )
        wrong = [
            f"{k}: shape={v.shape} expected_shape={tuple(specs[k].shape)}"
            for k, v in defaults.items()
            if len(v.shape) != len(specs[k].shape) or any(e not in (-1, n) for n, e in zip(v.shape, specs[k].shape))
        ]
        if wrong:
            raise PyTritonBadParameterError(
                f"Could not use {', '.join(wrong)} defaults as they have different than input signature shapes"
            )

    checked: list[int] = []

    def wrapper(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        config = get_model_config(wrapped, instance)
        if id(config) not in checked:
            check(config)
            checked.append(id(config))
        requests = args[0]
        for request in requests:
            rows = get_inference_request_batch_size(request) if config.batching else 0
            for name, default in defaults.items():
                if name not in request:
                    value = np.asarray(default)
                    request[name] = np.broadcast_to(value, (rows, *value.shape)).copy() if config.batching else value
        return wrapped(requests, *args[1:], **kwargs)

    return wrapt.decorator(wrapper)


def _same_kind(dtype: np.dtype[Any], wanted: Any) -> bool:
    if wanted in (bytes, object, str, np.bytes_, np.object_, np.str_):
        return dtype.kind in "OSU"
    return bool(dtype == np.dtype(wanted))
