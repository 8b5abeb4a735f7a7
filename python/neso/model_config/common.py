"""Batching, queues, devices and warm-up."""

from __future__ import annotations

import dataclasses
import enum
import io
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ..exceptions import PyTritonBadParameterError


class DeviceKind(enum.Enum):
    """Where the instances of a model run. Callables run in their own process: the kind is for what reads it."""

    KIND_AUTO = "KIND_AUTO"
    KIND_CPU = "KIND_CPU"
    KIND_GPU = "KIND_GPU"


class TimeoutAction(enum.Enum):
    """What becomes of a request whose time in the queue is over: an error (503), or it runs after all others."""

    REJECT = "REJECT"
    DELAY = "DELAY"


@dataclasses.dataclass
class QueuePolicy:
    """How long and how many requests may wait.

    ``default_timeout_microseconds`` is the time in the queue after which ``timeout_action`` is taken, 0 for no limit;
    with ``allow_timeout_override`` a request may have a shorter one of its own. ``max_queue_size`` is the number of
    requests that may wait, the next one gets an error; 0 leaves it to the server's own bounds.
    """

    timeout_action: TimeoutAction = TimeoutAction.REJECT
    default_timeout_microseconds: int = 0
    allow_timeout_override: bool = False
    max_queue_size: int = 0


@dataclasses.dataclass
class DynamicBatcher:
    """How requests are joined into batches, up to the model's ``max_batch_size``.

    A request waits at most ``max_queue_delay_microseconds`` for others (0: only while all instances are busy), less
    when one of the ``preferred_batch_size`` is reached. ``preserve_ordering`` answers in the order of the requests.
    With ``priority_levels`` above 0 requests have a level from 1, the most urgent, to that number, by default
    ``default_priority_level``; ``default_queue_policy`` bounds the queues, ``priority_queue_policy`` that of one level.
    """

    max_queue_delay_microseconds: int = 0
    preferred_batch_size: Optional[list[int]] = None
    preserve_ordering: bool = False
    priority_levels: int = 0
    default_priority_level: int = 0
    default_queue_policy: Optional[QueuePolicy] = None
    priority_queue_policy: Optional[dict[int, QueuePolicy]] = None


@dataclasses.dataclass
class WarmupInput:
    """Data of one input of a warm-up request: zeros, random numbers, or the bytes of a file.

    ``shape`` is without the batch dimension, -1 counts as 1. ``input_data_file`` holds raw elements or a .npy array.
    Raises PyTritonBadParameterError when there is none of the three.
    """

    dtype: Any
    shape: Sequence[int]
    zero_data: Optional[bool] = False
    random_data: Optional[bool] = False
    input_data_file: Optional[str] = None

    def __post_init__(self) -> None:
        """Refuses an input without data."""
        if not (self.zero_data or self.random_data or self.input_data_file):
            raise PyTritonBadParameterError(
                "One of 'zero_data', 'random_data', or 'input_data_file' must be provided for warmup input."
            )


@dataclasses.dataclass
class ModelWarmup:
    """Requests that a callable answers before its model is served: ``count`` times ``batch_size`` rows of ``inputs``.

    ``batch_size`` 0 is for models without batches. A failure is logged and the model served all the same.
    """

    name: str
    batch_size: int
    inputs: dict[str, WarmupInput]
    count: int


def _rows(array: np.ndarray[Any, Any], warmup_input: WarmupInput, batch_size: int) -> np.ndarray[Any, Any]:
    """As many rows of an array as a batch has: of one sample copies, of several the first, again and again."""
    wanted = tuple(warmup_input.shape)

    def fits(shape: Sequence[int]) -> bool:
        return len(shape) == len(wanted) and all(w in (n, -1) for n, w in zip(shape, wanted))

    if batch_size > 0 and fits(array.shape[1:]) and len(array):
        return array[np.arange(batch_size) % len(array)]
    if fits(array.shape):
        return np.repeat(array[np.newaxis], batch_size, axis=0) if batch_size > 0 else array
    raise PyTritonBadParameterError(
        f"Input data file '{warmup_input.input_data_file}' has an array of shape {array.shape}, "
        f"expected {wanted} with or without rows before"
    )


def generate_warmup_data(warmup_input: WarmupInput, batch_size: int) -> np.ndarray[Any, Any]:
    """The array of one input, with a batch dimension when ``batch_size`` is above 0."""
    shape = tuple(abs(d) for d in warmup_input.shape)
    if batch_size > 0:
        shape = (batch_size, *shape)
    text = warmup_input.dtype in (object, bytes, str, np.object_, np.bytes_, np.str_)
    dtype = np.dtype(object) if text else np.dtype(warmup_input.dtype)
    if warmup_input.input_data_file:
        with open(warmup_input.input_data_file, "rb") as file:
            content = file.read()
        if content.startswith(b"\x93NUMPY"):
            array = np.asarray(np.load(io.BytesIO(content), allow_pickle=False))
            return _rows(array, warmup_input, batch_size).astype(dtype)
        if text:
            return np.full(shape, content, dtype=object)
        return np.array(np.frombuffer(content, dtype=dtype).reshape(shape))
    if text:
        return np.full(shape, b"", dtype=object)
    if warmup_input.zero_data:
        return np.zeros(shape, dtype)
    values = np.random.default_rng().random(shape)
    if dtype.kind == "f":
        return values.astype(dtype)
    return (values * (2 if dtype.kind == "b" else 100)).astype(dtype)


def generate_warmup_requests(
    model_warmup: list[ModelWarmup], input_specs: Sequence[Any], outputs_specs: Sequence[Any]
) -> list[Any]:
    """One request per warm-up and count."""
    from ..proxy.types import Request

    names = [spec.name for spec in outputs_specs]
    return [
        Request(
            data={k: generate_warmup_data(v, warmup.batch_size) for k, v in warmup.inputs.items()},
            parameters={},
            requested_output_names=names,
        )
        for warmup in model_warmup
        for _ in range(max(1, warmup.count))
    ]
