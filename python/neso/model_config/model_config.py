"""ModelConfig: what ``bind`` is told about a model beside its tensors."""

from __future__ import annotations

import dataclasses
from typing import Optional

from .common import DynamicBatcher, ModelWarmup


@dataclasses.dataclass
class ModelConfig:
    """Options of a bound model."""

    batching: bool = True
    max_batch_size: int = 4
    batcher: Optional[DynamicBatcher] = dataclasses.field(default_factory=DynamicBatcher)
    response_cache: bool = False
    decoupled: bool = False
    model_warmup: Optional[list[ModelWarmup]] = None
