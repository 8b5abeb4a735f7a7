"""What a callable may return: a value, an awaitable, or a generator of either kind, for one request or for several."""

from __future__ import annotations

import inspect
from types import GeneratorType
from typing import Any, Callable, Optional

import numpy as np


def is_coroutine(function: Any) -> bool:
    """Whether calling gives an awaitable or an asynchronous generator."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return True
    inner = getattr(function, "func", None)  # a partial
    if inner is not None and inner is not function:
        return is_coroutine(inner)
    call = type(function).__call__ if callable(function) else None
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)


async def awaited(awaitable: Any) -> Any:
    """A coroutine of any awaitable, as an event loop takes from other threads."""
    return await awaitable


_ONE = "A model that is not decoupled must give one response, its generator yields"
_BIND = "bind it with config=ModelConfig(decoupled=True)"
_MORE = f"{_ONE} more: {_BIND}"
_NONE = f"{_ONE} none: {_BIND}"


def only(results: Any) -> Any:
    """The only value of a generator."""
    found = [value for _, value in zip(range(2), results)]
    if len(found) != 1:
        raise ValueError(_MORE if found else _NONE)
    return found[0]


async def only_async(results: Any) -> Any:
    """The only value of an asynchronous generator."""
    found = []
    async for value in results:
        found.append(value)
        if len(found) > 1:
            raise ValueError(_MORE)
    if not found:
        raise ValueError(_NONE)
    return found[0]


async def one(value: Any) -> Any:
    """A value as what an asynchronous generator gives."""
    yield value


class Split:
    """Turns what a batch callable gives for several requests into a list of responses."""

    def __init__(self, named: Callable[[Any], dict[str, Any]], result: Any, rows: Optional[list[int]]) -> None:
        """``named`` gives the outputs of a batch by name; ``rows`` are those of each request, None for the only one."""
        self._named, self._result, self._rows = named, result, rows

    def result(self) -> Any:
        """What a callable of requests would have returned."""
        result = self._result
        if inspect.isawaitable(result):
            return self._later(result)
        if isinstance(result, GeneratorType):
            return (self._split(part) for part in result)
        if inspect.isasyncgen(result):
            return self._parts(result)
        return self._split(result)

    async def _later(self, result: Any) -> Any:
        return self._split(await result)

    async def _parts(self, results: Any) -> Any:
        async for part in results:
            yield self._split(part)

    def _split(self, result: Any) -> list[dict[str, Any]]:
        outputs = self._named(result)
        rows = self._rows
        if rows is None:
            return [outputs]
        total = sum(rows)
        for array in outputs.values():
            if not isinstance(array, np.ndarray) or not array.shape or array.shape[0] != total:
                raise wrong_rows(outputs, total)
        responses, begin = [], 0
        for count in rows:
            responses.append({name: array[begin : begin + count] for name, array in outputs.items()})
            begin += count
        return responses


def rows_of(inputs: dict[str, Any]) -> int:
    """The rows of one request."""
    return next(iter(inputs.values())).shape[0] if inputs else 0


def wrong_rows(outputs: dict[str, Any], rows: int) -> ValueError:
    """Says which outputs have another number of rows."""
    wrong = ", ".join(
        f"{name}: {getattr(array, 'shape', None)}"
        for name, array in outputs.items()
        if getattr(array, "shape", ())[:1] != (rows,)
    )
    return ValueError(f"Received output tensors with different batch sizes: {wrong}. Expected batch size: {rows}. ")
