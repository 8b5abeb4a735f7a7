"""TritonModelConfig: the whole description of a served model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Optional

from .common import DeviceKind, DynamicBatcher, ModelWarmup


@dataclasses.dataclass
class ResponseCache:
    """Whether answers are kept in the response cache."""

    enable: bool


@dataclasses.dataclass
class TensorSpec:
    """An input or output of a served model; the shape is without the batch dimension."""

    name: str
    shape: Sequence[int]
    dtype: Any
    optional: Optional[bool] = False


@dataclasses.dataclass
class TritonModelConfig:
    """A model as the server serves it: what ``bind`` was given, and what clients read back.

    ``max_batch_size`` counts only with ``batching``; ``instance_group`` is the number of instances by kind (None: the
    server's default); ``backend_parameters`` are the parameters of the configuration, by name.
    """

    model_name: str
    model_version: int = 1
    max_batch_size: int = 4
    batching: bool = True
    batcher: Optional[DynamicBatcher] = None
    instance_group: dict[DeviceKind, Optional[int]] = dataclasses.field(default_factory=dict)
    decoupled: bool = False
    backend_parameters: dict[str, str] = dataclasses.field(default_factory=dict)
    inputs: Optional[Sequence[TensorSpec]] = None
    outputs: Optional[Sequence[TensorSpec]] = None
    response_cache: Optional[ResponseCache] = None
    model_warmup: Optional[list[ModelWarmup]] = None

    @property
    def backend(self) -> str:
        """The backend that serves it."""
        return "python"
