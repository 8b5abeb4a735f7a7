"""What docs/security.md says of keys beside who may do what: nothing is read before them, and what they share."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from repository import X, python_model
from server import Server, free_port
from test_auth import Keys


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    d = tmp_path_factory.mktemp("keys")
    python_model(d / "models", "m", extra="response_cache { enable: true }\n")
    keys = Keys(d / "keys.json", one=[], other=[], watcher=["--scopes", "read"])
    port = free_port()
    options = (f"--auth-file={keys.path}", "--cache-config=local,size=1048576", "--allow-vertex-ai=true")
    env = {"AIP_PREDICT_ROUTE": "/predict", "AIP_HEALTH_ROUTE": "/health", "AIP_HTTP_PORT": str(port)}
    with Server(d / "models", *options, env=env) as s:
        s.vertex_port = port
        yield s, keys


def test_nothing_of_a_body_is_read_before_the_key(served):
    """The answer comes although the body, or the message, never does."""
    s, _ = served
    with socket.create_connection(("127.0.0.1", s.http_port), timeout=60) as c:
        c.sendall(b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n")
        assert c.recv(4096).startswith(b"HTTP/1.1 401 ")
    over = threading.Event()

    def messages():
        over.wait(120)
        yield from ()

    with grpc.insecure_channel(s.grpc) as channel:
        for method in ("ModelInfer", "ModelStreamInfer"):
            call = channel.stream_stream(f"/inference.GRPCInferenceService/{method}")
            with pytest.raises(grpc.RpcError) as e:
                next(call(messages(), timeout=60))
            assert e.value.code() == grpc.StatusCode.UNAUTHENTICATED
        over.set()


def test_the_cache_does_not_look_at_keys(served):
    s, keys = served
    for key in ("one", "other"):
        assert s.infer("m", X, headers=keys.of(key)).status == 200
    stats = s.get("/v2/models/m/stats", headers=keys.of("watcher")).json["model_stats"][0]
    assert (stats["execution_count"], stats["inference_stats"]["cache_hit"]["count"]) == (1, 1), stats


def test_vertex_ai(served):
    s, keys = served
    assert s.post("/predict", X, port=s.vertex_port).status == 401
    assert s.post("/predict", X, port=s.vertex_port, headers=keys.of("one")).status == 200


def test_a_batch_does_not_look_at_keys(tmp_path):
    """Requests of two keys run in one batch, and each key gets the answer to its own."""
    model = {"extra": "max_batch_size: 2\ndynamic_batching { max_queue_delay_microseconds: 600000000 }\n"}
    python_model(tmp_path / "models", "m", **model)
    keys = Keys(tmp_path / "keys.json", one=[], other=[], watcher=["--scopes", "read"])
    with Server(tmp_path / "models", f"--auth-file={keys.path}") as s, ThreadPoolExecutor(2) as pool:

        def own(key, value):
            x = {"inputs": [{**X["inputs"][0], "shape": [1, 1, 1], "data": [value]}]}
            r = s.infer("m", x, headers=keys.of(key))
            assert r.status == 200, r
            return r.json["outputs"][0]["data"]

        answers = list(pool.map(own, ("one", "other"), (5, 7)))
        stats = s.get("/v2/models/m/stats", headers=keys.of("watcher")).json["model_stats"][0]
        assert (stats["inference_count"], stats["execution_count"]) == (2, 1), stats
        assert answers == [[5], [7]]


CONTROLS = """
sequence_batching {
  max_sequence_idle_microseconds: 600000000
  control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ]
}
"""


def test_sequences_do_not_look_at_keys(tmp_path):
    """A sequence is found by model and correlation id, whoever began it; an id that nobody has begun is an error."""
    python_model(tmp_path / "models", "m", extra="max_batch_size: 0\n" + CONTROLS)
    keys = Keys(tmp_path / "keys.json", one=[], other=[])
    with Server(tmp_path / "models", f"--auth-file={keys.path}", "--exit-timeout-secs=0") as s:  # a sequence stays open

        def step(key, number, **flags):
            return s.infer("m", {**X, "parameters": {"sequence_id": number, **flags}}, headers=keys.of(key))

        assert step("one", 5, sequence_start=True).status == 200
        assert step("other", 5).status == 200
        wrong = step("other", 6)
        assert wrong.status == 400 and "must specify the START flag" in wrong.error, wrong
