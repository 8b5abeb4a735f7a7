"""From what the user binds to what the runtime calls: checked answers, whatever form the callable has."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import traceback
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Callable

import numpy as np

from . import _context
from .exceptions import PyTritonUnrecoverableError
from .model_config.triton_model_config import TritonModelConfig
from .proxy import telemetry
from .proxy.types import Request
from .proxy.validators import TritonResultsValidator

LOGGER = logging.getLogger("neso")

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]


def kind_of(infer_func: Any) -> str:
    """``coroutine``, ``async_generator``, ``generator`` or ``function``."""
    target = infer_func
    while True:
        if isinstance(target, functools.partial):
            target = target.func
        elif hasattr(target, "__wrapped__"):
            target = target.__wrapped__
        elif not inspect.isroutine(target) and callable(target):
            target = type(target).__call__
            if not inspect.isroutine(target) and not hasattr(target, "__wrapped__"):
                return "function"
        else:
            break
    if inspect.iscoroutinefunction(target):
        return "coroutine"
    if inspect.isasyncgenfunction(target):
        return "async_generator"
    return "generator" if inspect.isgeneratorfunction(target) else "function"


def _running(config: TritonModelConfig, items: Iterator[Any]) -> Iterator[Any]:
    """The items of a generator of a user's, which runs as the model's callable does."""
    while True:
        token = _context.running(config)
        try:
            item = next(items)
        except StopIteration:
            return
        finally:
            _context.stopped(token)
        yield item


def in_requests(infer_func: Any, config: TritonModelConfig, check: TritonResultsValidator) -> Callable[..., Any]:
    """A callable of the same form that takes a list of requests and gives checked lists of dictionaries."""
    validate = check.validate_responses

    def results(requests: list[Request], items: Iterator[Any]) -> Iterator[list[Arrays]]:
        for item in _running(config, items):
            yield validate(requests, item)

    async def later(requests: list[Request], answer: Any) -> list[Arrays]:
        _context.running(config)
        return validate(requests, await answer)

    async def later_results(requests: list[Request], items: AsyncIterator[Any]) -> AsyncIterator[list[Arrays]]:
        _context.running(config)
        async for item in items:
            yield validate(requests, item)

    def run(requests: list[Request]) -> Any:
        token = _context.running(config)
        try:
            answer = infer_func(requests)
        finally:
            _context.stopped(token)
        if answer.__class__ is list:
            return validate(requests, answer)
        if inspect.isgenerator(answer):
            return results(requests, answer)
        if inspect.isawaitable(answer):
            return later(requests, answer)
        if inspect.isasyncgen(answer):
            return later_results(requests, answer)
        return validate(requests, answer)

    kind = kind_of(infer_func)
    if kind == "coroutine":

        async def coroutine(requests: list[Request]) -> Any:
            _context.running(config)
            answer = infer_func(requests)
            return validate(requests, await answer if inspect.isawaitable(answer) else answer)

        return coroutine
    if kind == "async_generator":

        async def async_generator(requests: list[Request]) -> AsyncIterator[list[Arrays]]:
            _context.running(config)
            async for item in infer_func(requests):
                yield validate(requests, item)

        return async_generator
    return run


def traced(infer_func: Any) -> Callable[..., Any]:
    """A callable of the same form whose requests have spans while it runs."""

    def results(requests: list[Request], items: Iterator[Any]) -> Iterator[Any]:
        with _spans(requests):
            yield from items

    async def later(requests: list[Request], answer: Any) -> Any:
        with _spans(requests):
            return await answer

    async def later_results(requests: list[Request], items: AsyncIterator[Any]) -> AsyncIterator[Any]:
        with _spans(requests):
            async for item in items:
                yield item

    def run(requests: list[Request]) -> Any:
        telemetry.start_request_spans(requests)
        try:
            answer = infer_func(requests)
        except BaseException as error:
            telemetry.end_request_spans(requests, error)
            raise
        if inspect.isgenerator(answer):
            return results(requests, answer)
        if inspect.isawaitable(answer):
            return later(requests, answer)
        if inspect.isasyncgen(answer):
            return later_results(requests, answer)
        telemetry.end_request_spans(requests)
        return answer

    kind = kind_of(infer_func)
    if kind == "coroutine":

        async def coroutine(requests: list[Request]) -> Any:
            return await run(requests)

        return coroutine
    if kind == "async_generator":

        async def async_generator(requests: list[Request]) -> AsyncIterator[Any]:
            async for item in run(requests):
                yield item

        return async_generator
    return run


@contextlib.contextmanager
def _spans(requests: list[Request]) -> Iterator[None]:
    """Ends the spans of requests with the block."""
    try:
        yield
    except BaseException as error:
        # A stream that nobody reads on is closed: that is no failure of the callable.
        telemetry.end_request_spans(requests, None if isinstance(error, GeneratorExit) else error)
        raise
    telemetry.end_request_spans(requests)


def in_batches(
    call: Callable[[Arrays], Any], config: TritonModelConfig, check: TritonResultsValidator
) -> Callable[..., Any]:
    """A callable that takes the joined inputs as keyword arguments and gives checked dictionaries."""
    validate = check.validate

    def each(items: Iterator[Arrays], rows: int) -> Iterator[Arrays]:
        for item in _running(config, items):
            yield validate(item, None, rows)

    def run(**inputs: Array) -> Any:
        rows = 0
        for name, value in inputs.items():
            rows = value.shape[0]
            if not value.flags.writeable:  # callables may write to what they are given, and keep it
                inputs[name] = value.copy()
        token = _context.running(config)
        try:
            outputs = call(inputs)
        finally:
            _context.stopped(token)
        if outputs.__class__ is dict:
            return validate(outputs, None, rows)
        return each(outputs, rows)

    return run


def failure(name: str, expose: bool, stop: Callable[[], None]) -> Callable[[BaseException], str]:
    """What tells a client of an exception: its type and message, with ``expose`` the whole traceback.

    The log gets the traceback. PyTritonUnrecoverableError calls ``stop``.
    """

    def text(error: BaseException) -> str:
        if isinstance(error, PyTritonUnrecoverableError):
            LOGGER.error("Unrecoverable error in model `%s`: the server stops.", name, exc_info=error)
            stop()
        else:
            LOGGER.warning("Exception in a callable of model `%s`.", name, exc_info=error)
        if expose:
            return "".join(traceback.format_exception(type(error), error, error.__traceback__))
        try:
            message = str(error)
        except Exception:  # it is the callable's failure that is told, not that of its exception
            message = "<exception str() failed>"
        return f"{type(error).__name__}: {message}" if message else type(error).__name__

    return text


def warm_up(name: str, callables: Sequence[Any], config: TritonModelConfig) -> None:
    """Runs the warm-up requests of a model; what fails is only logged."""
    from .model_config.common import generate_warmup_requests

    if not config.model_warmup:
        return
    token = _context.running(config)
    try:
        for infer_func in callables:
            for request in generate_warmup_requests(config.model_warmup, config.inputs or (), config.outputs or ()):
                answer = infer_func([request])
                if inspect.isgenerator(answer):
                    for _ in answer:
                        pass
                elif inspect.isawaitable(answer):
                    import asyncio

                    asyncio.run(_finish(answer))
    except Exception:
        LOGGER.warning("Warm-up of model `%s` failed.", name, exc_info=True)
    finally:
        _context.stopped(token)


async def _finish(answer: Any) -> None:
    await answer
