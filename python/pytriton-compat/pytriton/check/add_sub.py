"""The example that ``pytriton check`` runs."""

from __future__ import annotations

import logging
from typing import Any, Optional

import numpy as np

from pytriton.client import ModelClient
from pytriton.decorators import batch
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

__all__ = ["add_sub_example", "infer_add_sub_model", "prepare_triton", "serve_triton"]

logger = logging.getLogger("pytriton.check.add_sub")

_NAME = "AddSub"


@batch
def _add_sub(a: Any, b: Any) -> dict[str, Any]:
    return {"add": a + b, "sub": a - b}


def prepare_triton(config: Optional[TritonConfig] = None) -> Triton:
    """A server with the model AddSub that is not started."""
    triton = Triton(config=config)
    inputs = [Tensor(name=name, dtype=np.float32, shape=(-1,)) for name in ("a", "b")]
    outputs = [Tensor(name=name, dtype=np.float32, shape=(-1,)) for name in ("add", "sub")]
    triton.bind(_NAME, _add_sub, inputs, outputs, config=ModelConfig(max_batch_size=128))
    return triton


def serve_triton(triton: Triton) -> None:
    """Serves until the process is told to stop."""
    triton.serve()


def infer_add_sub_model(url: str = "localhost") -> dict[str, Any]:
    """Asks the model, and checks its answer with AssertionError."""
    a = np.ones((2, 1), dtype=np.float32)
    with ModelClient(url, _NAME) as client:
        result: dict[str, Any] = client.infer_batch(a, a)
    for name, value in result.items():
        logger.info("%s: %s", name, value.tolist())
    np.testing.assert_array_equal(result["add"], a + a)
    np.testing.assert_array_equal(result["sub"], a - a)
    return result


def add_sub_example(config: Optional[TritonConfig] = None) -> None:
    """Serves the model and asks it over each front end that is on."""
    with prepare_triton(config) as triton:
        for url in filter(None, (triton.url, triton.grpc_url)):
            infer_add_sub_model(url)
