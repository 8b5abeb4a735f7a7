import json
import types

import bodies
import numpy as np
import pytest
from tritonclient.grpc import service_pb2


def test_grpc_body_is_one_framed_message(tmp_path):
    payload = bodies.add_sub("m")
    body = bodies.grpc_body(payload, tmp_path / "b")
    data = body.path.read_bytes()
    assert data[0] == 0 and int.from_bytes(data[1:5], "big") == len(data) - 5
    request = service_pb2.ModelInferRequest.FromString(data[5:])
    assert [t.name for t in request.inputs] == ["INPUT0", "INPUT1"]
    assert [len(raw) for raw in request.raw_input_contents] == [64, 64]


def test_http_bodies(tmp_path):
    payload = bodies.identity("m", 16, batched=True)
    binary = bodies.http_body(payload, True, tmp_path / "b")
    head = int(binary.headers["Inference-Header-Content-Length"])
    assert binary.path.read_bytes()[head:] == payload.inputs["INPUT0"].tobytes()
    text = bodies.http_body(payload, False, tmp_path / "j")
    assert json.loads(text.path.read_bytes())["inputs"][0]["shape"] == [1, 16]
    assert "Inference-Header-Content-Length" not in text.headers


@pytest.mark.parametrize("values", [None, np.zeros((1, 16), np.float32), np.zeros(16, np.float32)])
def test_wrong_answers_are_found(values):
    payload = bodies.identity("m", 16, batched=True)
    with pytest.raises(bodies.WrongAnswer):
        bodies.compare(payload, types.SimpleNamespace(as_numpy=lambda name: values))
    bodies.compare(
        payload,
        types.SimpleNamespace(as_numpy=lambda name: payload.expected[name].copy()),
    )


def test_strings_travel_as_the_client_sends_them(tmp_path):
    payload = bodies.payload("ens_strings", 3)
    request = service_pb2.ModelInferRequest.FromString(bodies.grpc_body(payload, tmp_path / "b").path.read_bytes()[5:])
    assert request.inputs[0].datatype == "BYTES" and list(request.inputs[0].shape) == [1, 3]
    assert request.raw_input_contents[0][:17] == b"\x0d\0\0\0word number 0"
    bodies.compare(payload, types.SimpleNamespace(as_numpy=lambda name: payload.expected[name].copy()))
    other = np.array([[b"word number 0", b"word number 1", b""]], np.object_)
    with pytest.raises(bodies.WrongAnswer):
        bodies.compare(payload, types.SimpleNamespace(as_numpy=lambda name: other))


def test_perf_data_is_the_same_request(tmp_path):
    """Without the batch dimension, which neso perf adds; of several rows, or none, there is no such data."""
    path = bodies.perf_data(bodies.add_sub("py_add_sub"), tmp_path / "d.json")
    [entry] = json.loads(path.read_text())["data"]
    assert set(entry) == {"INPUT0", "INPUT1"} and entry["INPUT0"]["shape"] == [16]
    [entry] = json.loads(bodies.perf_data(bodies.strings("ens_strings", 3), path).read_text())["data"]
    assert entry["INPUT0"] == {"content": ["word number 0", "word number 1", "word number 2"], "shape": [3]}
    [entry] = json.loads(bodies.perf_data(bodies.payload("noop", 4), path).read_text())["data"]
    assert entry["INPUT0"]["shape"] == [4]
    rows = bodies.Payload("m", {"I": np.zeros((2, 3), np.float32)}, {})
    assert bodies.perf_data(rows, path) is None
