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
    """Where the instances of a model run."""

    KIND_AUTO = "KIND_AUTO"
    KIND_CPU = "KIND_CPU"
    KIND_GPU = "KIND_GPU"


class TimeoutAction(enum.Enum):
    """What becomes of a request whose time in the queue is over."""

    REJECT = "REJECT"
    DELAY = "DELAY"


@dataclasses.dataclass
class QueuePolicy:
    """How long and how many requests may wait."""

    timeout_action: TimeoutAction = TimeoutAction.REJECT
    default_timeout_microseconds: int = 0
    allow_timeout_override: bool = False
    max_queue_size: int = 0


@dataclasses.dataclass
class DynamicBatcher:
    """How requests are joined into batches."""

    max_queue_delay_microseconds: int = 0
    preferred_batch_size: Optional[list[int]] = None
    preserve_ordering: bool = False
    priority_levels: int = 0
    default_priority_level: int = 0
    default_queue_policy: Optional[QueuePolicy] = None
    priority_queue_policy: Optional[dict[int, QueuePolicy]] = None


@dataclasses.dataclass
class WarmupInput:
    """Data of one input of a warm-up request."""

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
    """Requests that a callable answers before its model is served."""

    name: str
    batch_size: int
    inputs: dict[str, WarmupInput]
    count: int


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
            return np.array(np.broadcast_to(array, shape))
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
