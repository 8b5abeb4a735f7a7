"""FuturesModelClient: inference on worker threads, answers as futures."""

from __future__ import annotations

import math
import queue
import threading
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Optional

from ._inputs import Values
from .exceptions import PyTritonClientClosedError, PyTritonClientQueueFullError
from .sync import ModelClient

if TYPE_CHECKING:
    from typing_extensions import Self

_Task = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class FuturesModelClient:
    """Like ModelClient, but every call returns a future. Threads are started as they are needed."""

    def __init__(
        self,
        url: str,
        model_name: str,
        model_version: Optional[str] = None,
        *,
        max_workers: Optional[int] = 128,
        max_queue_size: Optional[int] = 128,
        non_blocking: bool = False,
        init_timeout_s: Optional[float] = None,
        inference_timeout_s: Optional[float] = None,
        access_token: Optional[str] = None,
    ) -> None:
        """At most ``max_workers`` calls run and ``max_queue_size`` wait; None is no bound.

        When the queue is full a call waits for ``inference_timeout_s``, not at all with ``non_blocking``, and then
        raises PyTritonClientQueueFullError.
        """
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if max_queue_size is not None and max_queue_size <= 0:
            raise ValueError("max_queue_size must be greater than 0")
        self._client = ModelClient(
            url,
            model_name,
            model_version,
            init_timeout_s=init_timeout_s,
            inference_timeout_s=inference_timeout_s,
            access_token=access_token,
        )
        self._max_workers: float = math.inf if max_workers is None else max_workers
        self._put_timeout = inference_timeout_s
        self._non_blocking = non_blocking
        self._queue: queue.Queue[Optional[_Task]] = queue.Queue(max_queue_size or 0)
        self._lock = threading.Lock()
        self._workers: list[threading.Thread] = []
        self._idle = 0
        self._closed = False

    def __enter__(self) -> Self:
        """Nothing more than the client."""
        return self

    def __exit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc: Optional[BaseException],
        tb: Optional[TracebackType],
    ) -> None:
        """Closes; waits for what is in flight unless an exception goes through."""
        if exc_type is not None:
            self._cancel_queued()
        self.close(wait=exc_type is None)

    def close(self, wait: bool = True) -> None:
        """Takes nothing more; ends the threads after what is queued, and waits for them unless told not to.

        Safe twice.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            workers = list(self._workers)
        if wait:
            self._end(workers)
        else:
            threading.Thread(target=self._end, args=(workers,), name="neso-client-close", daemon=True).start()

    def _end(self, workers: list[threading.Thread]) -> None:
        for _ in workers:
            self._queue.put(None)
        for worker in workers:
            worker.join()
        self._cancel_queued()  # what came while this closed: nobody takes it any more
        self._client.close()

    def _cancel_queued(self) -> None:
        while True:
            try:
                task = self._queue.get_nowait()
            except queue.Empty:
                return
            if task is not None:
                task[0].cancel()

    def wait_for_model(self, timeout_s: float) -> Future[Any]:
        """A future that is done when the model is ready."""
        return self._submit(self._client.wait_for_model, (timeout_s,), {})

    def model_config(self) -> Future[Any]:
        """A future of the model's configuration."""
        return self._submit(lambda: self._client.model_config, (), {})

    def infer_sample(
        self, *inputs: Any, parameters: Optional[Values] = None, headers: Optional[Values] = None, **named: Any
    ) -> Future[Any]:
        """A future of the answer to one sample; also takes ``priority`` and ``timeout``."""
        return self._submit(self._client.infer_sample, inputs, {"parameters": parameters, "headers": headers, **named})

    def infer_batch(
        self, *inputs: Any, parameters: Optional[Values] = None, headers: Optional[Values] = None, **named: Any
    ) -> Future[Any]:
        """A future of the answer to a batch; also takes ``priority`` and ``timeout``."""
        return self._submit(self._client.infer_batch, inputs, {"parameters": parameters, "headers": headers, **named})

    def _submit(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise PyTritonClientClosedError("FutureModelClient is already closed")
            if self._idle <= self._queue.qsize() and len(self._workers) < self._max_workers:
                worker = threading.Thread(target=self._work, name="neso-client", daemon=True)
                self._workers.append(worker)
                worker.start()
        try:
            self._queue.put((future, function, args, kwargs), block=not self._non_blocking, timeout=self._put_timeout)
        except queue.Full:
            raise PyTritonClientQueueFullError("Queue is full") from None
        return future

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            task = self._queue.get()
            with self._lock:
                self._idle -= 1
            if task is None:
                return
            future, function, args, kwargs = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)
            del task, future, args, kwargs
