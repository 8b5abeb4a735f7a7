"""Arrays with masked elements: an error that says what to do, wherever one may come from."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from neso import FuturesModelClient, ModelClient, ModelConfig, Tensor, batch
from neso.client import PyTritonClientInferenceServerError, PyTritonClientValueError
from neso_runtime.errors import TritonModelException
from neso_runtime.tensor import Tensor as ModelTensor

X, Y = [Tensor((-1,), np.float32, "x")], [Tensor((-1,), np.float32, "y")]
ARRAY = np.array([1, 2, 3], np.float32)
MASKED = np.ma.masked_array(ARRAY, mask=[0, 1, 0])
UNMASKED = np.ma.masked_array(ARRAY)
SAID = "is a masked array, whose masked elements have no value: fill them first"


@batch
def hide(x):
    return {"y": np.ma.masked_less(x, 2)}


def hide_requests(requests):
    return [{"y": np.ma.masked_less(r["x"], 2)} for r in requests]


@pytest.mark.parametrize("function", [hide, hide_requests])
@pytest.mark.parametrize("strict", [False, True])
def test_answers(triton, function, strict):
    triton.bind("masked", function, X, Y, strict=strict, config=ModelConfig(), replace=True)
    for url in (triton.url, triton.grpc_url):
        with ModelClient(url, "masked") as client:
            with pytest.raises(PyTritonClientInferenceServerError, match=SAID):
                client.infer_sample(ARRAY)
            assert client.infer_sample(ARRAY + 1)["y"].tolist() == [2, 3, 4]  # nothing is masked


@pytest.mark.parametrize("kind", ["http", "grpc", "futures", "inside"])
def test_inputs(triton, kind):
    triton.bind("masked_echo", hide, X, Y, replace=True)
    url = triton.grpc_url if kind == "grpc" else triton.url
    client = {"futures": FuturesModelClient, "inside": None}.get(kind, ModelClient)
    with contextlib.nullcontext(triton.client("masked_echo")) if client is None else client(url, "masked_echo") as c:
        with pytest.raises(PyTritonClientValueError, match=f"Input 'x' {SAID}"):
            answer = c.infer_sample(MASKED)
            answer.result()
        answer = c.infer_sample(np.ma.masked_array(ARRAY + 1))
        assert (answer.result() if kind == "futures" else answer)["y"].tolist() == [2, 3, 4]


def test_tensors_of_models():
    with pytest.raises(TritonModelException, match=f"Tensor 'y' {SAID}"):
        ModelTensor("y", MASKED)
    assert ModelTensor("y", UNMASKED).as_numpy().tolist() == [1, 2, 3]
