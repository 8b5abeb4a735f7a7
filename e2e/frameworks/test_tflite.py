"""TensorFlow Lite models by TensorFlow's own interpreter, where LiteRT is missing; e2e/backends/test_tflite.py has more of them."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from repository import settled
from server import ROOT, Server
from tritonclient import http

FILES = ROOT / "e2e" / "backends" / "tflite"
MODELS = ("add_sub", "unsigned", "texts")


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    repo = tmp_path_factory.mktemp("tflite")
    for name in (*MODELS, "cut"):
        (repo / name / "1").mkdir(parents=True)
        shutil.copy(FILES / f"{'add_sub' if name == 'cut' else name}.tflite", repo / name / "1" / "model.tflite")
    file = repo / "cut" / "1" / "model.tflite"
    file.write_bytes(file.read_bytes()[:700])
    with Server(repo, "--exit-on-error=false", "--strict-readiness=false", wait=False) as s:
        reasons = settled(s, len(MODELS) + 1)
        assert [name for name in MODELS if reasons[name]] == [], reasons
        assert "'cut/1/model.tflite'" in reasons["cut"] and "write the model again" in reasons["cut"]
        with http.InferenceServerClient(s.http) as c:
            yield c


def infer(client, model, **inputs):
    tensors = []
    for name, array in inputs.items():
        kind = "BYTES" if array.dtype == object else {"float32": "FP32", "int32": "INT32"}[array.dtype.name]
        tensors.append(http.InferInput(name, list(array.shape), kind))
        tensors[-1].set_data_from_numpy(array)
    return client.infer(model, tensors)


@pytest.mark.parametrize(("model", "output"), [("add_sub", "OUTPUT0"), ("unsigned", "Identity")])
def test_numbers(client, model, output):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for rows in (3, 1):
        np.testing.assert_array_equal(infer(client, model, INPUT0=x[:rows], INPUT1=x[:rows]).as_numpy(output), 2 * x[:rows])  # fmt: skip


def test_texts(client):
    texts = np.array([[b"ab"], [b"n\0ul"]], np.object_)
    answer = infer(client, "texts", TEXTS=texts, PLACES=np.int32([[1], [0]]))
    assert answer.as_numpy("CHOSEN").ravel().tolist() == [b"n\0ul", b"ab"]
