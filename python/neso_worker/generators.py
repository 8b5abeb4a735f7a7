"""Generators as execute functions: each value that they yield leaves at once as a response.

A value is a list with an InferenceResponse or None for each request, or, for a single request, the response itself.
The end of the generator is the end of all requests. When every client is gone, the generator is closed.
"""

from __future__ import annotations

from typing import Any

from neso_runtime.encode import ResponseFrame
from neso_runtime.errors import TritonError, TritonModelException, describe
from neso_runtime.frames import FINAL
from neso_runtime.response import InferenceResponse

from .batch import Batch
from .sender import COMPLETE_FINAL


def _responses(value: Any, count: int) -> Any:
    """The responses in a yielded value, one or None for each request."""
    if isinstance(value, InferenceResponse) and count == 1:
        return (value,)
    if not isinstance(value, (list, tuple)) or len(value) != count:
        found = f"a {type(value).__name__} of {len(value)}" if isinstance(value, (list, tuple)) else str(type(value))
        raise TritonModelException(
            f"An execute function that is a generator must yield a list with an InferenceResponse or None for each of "
            f"its {count} requests, found {found}."
        )
    for response in value:
        if response is not None and not isinstance(response, InferenceResponse):
            raise TritonModelException(
                "Expected an 'InferenceResponse' object in the list that execute yields, found type "
                f"'{type(response)}'."
            )
    return value


def _end(senders: Any) -> None:
    for sender in senders:
        if not sender._answer.closed:
            sender.send(flags=COMPLETE_FINAL)


def run(requests: Any, results: Any) -> None:
    """Runs the generator of a decoupled model to its end."""
    senders = [request.get_response_sender() for request in requests]
    try:
        for value in results:
            for sender, response in zip(senders, _responses(value, len(senders))):
                if response is not None:
                    sender.send(response)
            value = response = None
            if all(sender.is_cancelled() for sender in senders):
                break
    finally:
        results.close()
    _end(senders)


async def run_async(requests: Any, results: Any) -> None:
    """The same for an asynchronous generator."""
    senders = [request.get_response_sender() for request in requests]
    try:
        async for value in results:
            for sender, response in zip(senders, _responses(value, len(senders))):
                if response is not None:
                    await sender.send_async(response)
            value = response = None
            if all(sender.is_cancelled() for sender in senders):
                break
    finally:
        await results.aclose()
    _end(senders)


async def guarded(batch: Batch, name: str, work: Any) -> None:
    """Awaits what runs on behalf of a decoupled batch; an exception answers the requests that are still open."""
    try:
        await work
    except BaseException as error:
        text = f"Failed to process the request(s) for model '{name}', message: {describe(error)}"
        for answer in list((batch.answers or {}).values()):
            with answer.lock:
                if answer.closed:
                    continue
                answer.closed = True
                frame = ResponseFrame(batch.tables, batch.number)
                frame.add_error(answer.handle, text, TritonError.INTERNAL, FINAL)
                batch.answered(answer, frame)
        raise


def _one(values: list[Any]) -> Any:
    if len(values) != 1:
        raise TritonModelException(
            f"A model that is not decoupled gives one response to a request: execute must yield once, it did so "
            f"{'more than once' if values else 'not at all'}."
        )
    value = values[0]
    return [value] if isinstance(value, InferenceResponse) else value


def only(results: Any) -> Any:
    """What the generator of a model that is not decoupled yields, as execute would have returned it."""
    values = []
    for value in results:
        values.append(value)
        if len(values) > 1:
            results.close()
            break
    return _one(values)


async def only_async(results: Any) -> Any:
    """The same for an asynchronous generator."""
    values = []
    async for value in results:
        values.append(value)
        if len(values) > 1:
            await results.aclose()
            break
    return _one(values)
