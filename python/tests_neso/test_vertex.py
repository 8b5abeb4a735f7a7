"""Vertex AI's form of the server: its listener is there before models are bound."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import numpy as np
import pytest
from conftest import config

from neso import Tensor, Triton, batch

X = [Tensor((-1,), np.float32, "x")]
Y = [Tensor((-1,), np.float32, "y")]
BODY = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [3]}]}).encode()


@batch
def double(x):
    return {"y": 2 * x}


def ask(triton, path, body=None):
    """The body of an answer on the cloud's port."""
    with urllib.request.urlopen(f"http://127.0.0.1:{triton.vertex_ai_port}{path}", body, timeout=60) as answer:
        return answer.read()


def predict(triton):
    return json.loads(ask(triton, "/predict", BODY))["outputs"][0]["data"]


@pytest.fixture
def vertex(monkeypatch):
    """A server as Vertex AI's containers start it; it runs from ``run`` on, not from the ``with`` block."""
    monkeypatch.setenv("AIP_PREDICT_ROUTE", "/predict")
    monkeypatch.setenv("AIP_HEALTH_ROUTE", "/health")
    with Triton(config=config(allow_vertex_ai=True, vertex_ai_port=0)) as triton:
        assert not triton.is_connected()
        yield triton


@pytest.mark.parametrize("order", ["before", "after"])
def test_the_only_model_answers_predictions(vertex, order):
    if order == "before":
        vertex.bind("m", double, X, Y)
    vertex.run()
    if order == "after":
        vertex.bind("m", double, X, Y)
    assert ask(vertex, "/health") == b""
    assert predict(vertex) == [6.0]


def test_two_models_need_a_name(vertex):
    vertex.bind("m", double, X, Y)
    vertex.bind("n", double, X, Y)
    vertex.run()
    with pytest.raises(urllib.error.HTTPError) as refused:
        predict(vertex)
    assert refused.value.code == 400
    assert b"contains only a single model" in refused.value.read()
    vertex.unbind("n")
    assert predict(vertex) == [6.0]


def test_the_default_model_has_a_name(monkeypatch):
    monkeypatch.setenv("AIP_PREDICT_ROUTE", "/predict")
    monkeypatch.setenv("AIP_HEALTH_ROUTE", "/health")
    wanted = config(allow_vertex_ai=True, vertex_ai_port=0, vertex_ai_default_model="n")
    with Triton(config=wanted) as triton:
        triton.bind("m", lambda requests: [{"y": r["x"]} for r in requests], X, Y)
        triton.bind("n", double, X, Y)
        triton.run()
        assert predict(triton) == [6.0]
