"""The lines that ``serve`` prints work as they are."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest

from neso import ModelConfig, Tensor
from neso.utils.announce import curl


def stream(requests):
    for _ in range(2):
        yield [dict(r.items()) for r in requests]


def same(requests):
    return [dict(r.items()) for r in requests]


MODELS = {
    "numbers": ([Tensor((3,), np.float32, "a"), Tensor((-1, 2), np.int8, "b")], {}),
    "texts": ([Tensor((2,), bytes, "it's"), Tensor((1,), np.bool_, "yes")], {}),
    "large": ([Tensor((3, 224, 224), np.float32, "image"), Tensor((100,), bytes, "labels")], {}),
    "single": ([Tensor((2,), np.float64, "a")], {"batching": False}),
    "optional": ([Tensor((2,), np.float64, "a"), Tensor((2,), np.float64, "b", True)], {}),
    "stream": ([Tensor((2,), np.float32, "a"), Tensor((1,), bytes, "prompt")], {"decoupled": True}),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_curl_line_of_a_model(triton, name):
    tensors, settings = MODELS[name]
    function = stream if name == "stream" else same
    outputs = [Tensor(t.shape, t.dtype, t.name) for t in tensors]
    triton.bind(name, function, tensors, outputs, config=ModelConfig(**settings))
    line = curl(triton._models[name, 1].config, triton.url.removeprefix("http://"))
    said = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout
    assert len(line) < 2000
    assert "error" not in said[:200]
    if name == "stream":
        assert said.count("data: ") == 2
        return
    outputs = json.loads(said)["outputs"]
    assert [o["name"] for o in outputs] == [t.name for t in tensors if not t.optional]
    assert len(outputs[0]["data"]) == np.prod(outputs[0]["shape"])
