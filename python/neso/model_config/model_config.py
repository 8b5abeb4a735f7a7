"""ModelConfig: what ``bind`` is told about a model beside its tensors."""

from __future__ import annotations

import dataclasses
from typing import Optional

from .common import DynamicBatcher, ModelWarmup


@dataclasses.dataclass
class ModelConfig:
    """Options of a bound model.

    With ``batching`` arrays have a first dimension of 1 to ``max_batch_size`` rows and ``batcher`` joins requests
    (None: each runs alone); without it they have exactly the shapes of the tensors. ``response_cache`` answers equal
    requests from the server's cache, which ``TritonConfig(cache_config=...)`` sets up. A ``decoupled`` model gives any
    number of answers to a request, as its generator yields them. ``model_warmup`` runs before the model is served.

    ``concurrent_batches`` is for callables that are coroutine functions: how many batches (requests, without batching)
    one of them may have at once on its event loop, 1 to 256; the server counts each as an instance. None, as in
    PyTriton: one, and the next begins when it has answered; 32 for a decoupled model, whose streams go on beside each
    other.
    """

    batching: bool = True
    max_batch_size: int = 4
    batcher: Optional[DynamicBatcher] = dataclasses.field(default_factory=DynamicBatcher)
    response_cache: bool = False
    decoupled: bool = False
    model_warmup: Optional[list[ModelWarmup]] = None
    concurrent_batches: Optional[int] = None
