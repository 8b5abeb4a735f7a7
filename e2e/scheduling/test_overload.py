"""Bounds: full queues answer at once, vanished clients leave them, memory stays."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
from repository import Gate, Sent, X, python_model, until
from server import Server
from tritonclient.utils import InferenceServerException

BATCHING = """
max_batch_size: 1
dynamic_batching {{ {policy} }}
"""


def slow(repo, policy="", execute="pass"):
    python_model(repo, "slow", execute=execute)
    config = (repo / "slow" / "config.pbtxt").read_text().replace("[ -1, -1 ]", "[ -1 ]")
    (repo / "slow" / "config.pbtxt").write_text(config + BATCHING.format(policy=policy))


@pytest.fixture
def gate(tmp_path):
    return Gate(tmp_path)


@pytest.fixture
def repo(tmp_path):
    return tmp_path / "models"


def test_full_queue(repo, gate):
    slow(repo, "default_queue_policy { max_queue_size: 2 }", gate.execute)
    with Server(repo) as s:
        taken = [Sent(s, "slow")]
        gate.come()
        taken += [Sent(s, "slow"), Sent(s, "slow")]
        assert until(lambda: pending(s) == 2), pending(s)
        for _ in range(3):
            r = s.infer("slow", X)
            assert r.status == 503 and "Exceeds maximum queue size" in r.error, r
            assert int(r.headers["retry-after"]) >= 1
        gate.open()
        assert [r.status() for r in taken] == [200] * 3


def test_timeout_is_answered_in_time(repo, gate):
    """Not when the running batch ends: it does so only afterwards."""
    slow(repo, "default_queue_policy { default_timeout_microseconds: 1000000 }", gate.execute)
    with Server(repo) as s:
        first = Sent(s, "slow")
        gate.come()
        r = s.infer("slow", X)
        assert r.status == 503 and r.error == "Request timeout expired", r
        gate.open()
        assert first.status() == 200


def test_server_wide_caps(repo, gate):
    slow(repo, execute=gate.execute)
    with Server(repo, "--max-queued-requests=3") as s:
        with ThreadPoolExecutor(12) as pool:
            asked = [pool.submit(s.infer, "slow", X) for _ in range(12)]
            assert until(lambda: len([a for a in asked if a.done()]) >= 7)
            refused = [a.result() for a in asked if a.done()]  # as nothing is answered yet
            gate.open()
        for r in refused:
            assert r.status == 503 and "max-queued-requests" in r.error and "retry-after" in r.headers, r
        assert [a for a in asked if a.result().status == 200]
    with Server(repo, "--max-queued-bytes=1000") as s:
        body = {"inputs": [{**X["inputs"][0], "shape": [1, 1000], "data": [1] * 1000}]}
        r = s.infer("slow", body)
        assert r.status == 503 and "max-queued-bytes" in r.error, r
        assert s.infer("slow", X).status == 200


def pending(server) -> int:
    for line in server.metrics().splitlines():
        if line.startswith("nv_inference_pending_request_count"):
            return int(line.rsplit(" ", 1)[1])
    return -1


def test_vanished_clients_leave_the_queue(repo, gate):
    # With a bound of its own no request is handed to the busy worker ahead of time.
    slow(repo, "default_queue_policy { max_queue_size: 100 }", gate.execute)
    with Server(repo) as s:
        first = Sent(s, "slow")
        gate.come()
        left = [Sent(s, "slow") for _ in range(5)]
        assert until(lambda: pending(s) == 5), pending(s)
        for r in left:
            r.close()
        assert until(lambda: pending(s) == 0), pending(s)

        errors = []
        x = tgrpc.InferInput("INPUT0", [1, 1], "FP32")
        x.set_data_from_numpy(np.ones((1, 1), np.float32))

        def short_deadline():
            with tgrpc.InferenceServerClient(s.grpc) as client:
                try:
                    client.infer("slow", [x], client_timeout=0.3)
                except InferenceServerException as e:
                    errors.append(e.status())

        threads = [threading.Thread(target=short_deadline) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert errors == ["StatusCode.DEADLINE_EXCEEDED"] * 3
        assert until(lambda: pending(s) == 0), pending(s)
        gate.open()
        assert first.status() == 200


@pytest.mark.parametrize("form", ["http", "grpc"])
def test_priorities(repo, gate, form):
    python_model(repo, "slow", init="self.n = 0", execute=gate.execute + "\n        self.n += 1", add="self.n")
    config = (repo / "slow" / "config.pbtxt").read_text().replace("[ -1, -1 ]", "[ -1 ]")
    (repo / "slow" / "config.pbtxt").write_text(
        config + BATCHING.format(policy="priority_levels: 2 default_priority_level: 2")
    )
    with Server(repo) as s:
        order = {}

        def ask(name, priority):
            if form == "http":
                order[name] = s.infer("slow", {**X, "parameters": {"priority": priority}}).json["outputs"][0]["data"][0]
            else:
                with tgrpc.InferenceServerClient(s.grpc) as client:
                    x = tgrpc.InferInput("INPUT0", [1, 1], "FP32")
                    x.set_data_from_numpy(np.ones((1, 1), np.float32))
                    order[name] = client.infer("slow", [x], priority=priority).as_numpy("OUTPUT0")[0, 0]

        threads = []
        for i, (name, priority) in enumerate([("first", 2), ("low", 2), ("low2", 0), ("high", 1)]):
            t = threading.Thread(target=ask, args=(name, priority))
            t.start()
            threads.append(t)
            gate.come()
            assert until(lambda i=i: pending(s) == i), "requests must arrive in this order"
        gate.open()
        for t in threads:
            t.join()
        assert order["high"] < order["low"] and order["high"] < order["low2"], order
