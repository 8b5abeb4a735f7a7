"""Iterators over the responses of a request, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import queue
from collections import deque
from typing import Any, Optional

from ._errors import InvalidArgumentError
from ._flight import Flight
from ._request import InferenceRequest
from ._response import InferenceResponse
from ._running import Addressed


class _Waited:
    """An inbox that threads wait at."""

    def __init__(self, model: Addressed, also: Any) -> None:
        self.model = model
        self._also = also
        # A lock that the garbage collector cannot find held, as a queue.Queue's: see _flight.
        self._arrived: queue.SimpleQueue[Optional[InferenceResponse]] = queue.SimpleQueue()

    def put(self, response: InferenceResponse) -> None:
        self._arrived.put(response)
        if response.final:
            self._arrived.put(None)  # for the next one that asks
        if self._also is not None:
            self._also.put_nowait(response)

    def take(self) -> Optional[InferenceResponse]:
        response = self._arrived.get()
        if response is None:
            self._arrived.put(None)
        return response


class ResponseIterator:
    """The responses of a request, as they come. ``next`` waits for one; several threads may share the iterator."""

    def __init__(self, request: InferenceRequest, raise_on_error: bool) -> None:
        """Sends the request; made by ``Model.infer``."""
        also = request.response_queue
        if isinstance(also, asyncio.Queue) or (also is not None and not hasattr(also, "put_nowait")):
            raise InvalidArgumentError("The response_queue of infer must be a queue.SimpleQueue")
        self._inbox = _Waited(request.model, also)
        self._raise = raise_on_error
        self._flight = Flight(request, self._inbox, keep=also is not None)

    def __iter__(self) -> ResponseIterator:
        """Itself."""
        return self

    def __next__(self) -> InferenceResponse:
        """The next response. Raises its error where that was asked for."""
        response = self._inbox.take()
        if response is None:
            raise StopIteration
        return _checked(response, self._raise)

    def cancel(self) -> None:
        """Asks the server to end the request; the final response then says so. Does nothing when that has come."""
        self._flight.cancel()


class _Awaited:
    """An inbox that coroutines of any event loop wait at."""

    def __init__(self, model: Addressed, also: Optional[asyncio.Queue[Any]]) -> None:
        self.model = model
        self._also = also
        self._loop = None if also is None else asyncio.get_running_loop()
        self._arrived: deque[InferenceResponse] = deque()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = set()
        self._complete = False

    def put(self, response: InferenceResponse) -> None:
        self._arrived.append(response)
        for loop, future in tuple(self._waiting):
            _call(loop, _wake, future)
        if self._also is not None and self._loop is not None:
            _call(self._loop, self._also.put_nowait, response)

    async def take(self) -> Optional[InferenceResponse]:
        loop = asyncio.get_running_loop()
        while not self._complete:
            waits = loop, loop.create_future()
            # First said, then looked: a response between the two wakes in vain and is not missed.
            self._waiting.add(waits)
            try:
                if not self._arrived:
                    await waits[1]
                if self._arrived:
                    response = self._arrived.popleft()
                    self._complete = response.final
                    return response
            finally:
                self._waiting.discard(waits)
        return None


def _call(loop: asyncio.AbstractEventLoop, function: Any, argument: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed, and with it all that waited
        loop.call_soon_threadsafe(function, argument)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class AsyncResponseIterator:
    """The responses of a request, as they come, for ``async for``. The event loop goes on meanwhile."""

    def __init__(self, request: InferenceRequest, raise_on_error: bool) -> None:
        """Sends the request; made by ``Model.async_infer``."""
        also = request.response_queue
        if also is not None and not isinstance(also, asyncio.Queue):
            raise InvalidArgumentError("The response_queue of async_infer must be an asyncio.Queue")
        self._inbox = _Awaited(request.model, also)
        self._raise = raise_on_error
        self._flight = Flight(request, self._inbox, keep=also is not None)

    def __aiter__(self) -> AsyncResponseIterator:
        """Itself."""
        return self

    async def __anext__(self) -> InferenceResponse:
        """The next response. Raises its error where that was asked for."""
        response = await self._inbox.take()
        if response is None:
            raise StopAsyncIteration
        return _checked(response, self._raise)

    def cancel(self) -> None:
        """Asks the server to end the request; the final response then says so. Does nothing when that has come."""
        self._flight.cancel()


def _checked(response: InferenceResponse, raise_on_error: bool) -> InferenceResponse:
    if raise_on_error and response.error is not None:
        raise response.error
    return response
