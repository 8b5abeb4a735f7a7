"""Bounds: full queues answer at once, vanished clients leave them, memory stays."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
from repository import X, python_model, until
from server import Server
from tritonclient.utils import InferenceServerException

BATCHING = """
max_batch_size: 1
dynamic_batching {{ {policy} }}
"""


def slow(repo, policy="", seconds=0.5):
    python_model(repo, "slow", execute=f"time.sleep({seconds})", extra="")
    config = (repo / "slow" / "config.pbtxt").read_text().replace("[ -1, -1 ]", "[ -1 ]")
    (repo / "slow" / "config.pbtxt").write_text(config + BATCHING.format(policy=policy))


def statuses(server, n, body=X):
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(lambda _: server.infer("slow", body), range(n)))


def test_full_queue(tmp_path):
    slow(tmp_path, "default_queue_policy { max_queue_size: 2 }")
    with Server(tmp_path) as s:
        replies = statuses(s, 10)
        refused = [r for r in replies if r.status == 503]
        assert [r for r in replies if r.status == 200] and len(refused) >= 6
        assert "Exceeds maximum queue size" in refused[0].error
        assert int(refused[0].headers["retry-after"]) >= 1


def test_timeout_is_answered_in_time(tmp_path):
    """Not when the running batch ends, three seconds later."""
    slow(tmp_path, "default_queue_policy { default_timeout_microseconds: 200000 }", seconds=3)
    with Server(tmp_path) as s, ThreadPoolExecutor(2) as pool:
        first = pool.submit(s.infer, "slow", X)
        time.sleep(0.5)  # the first one is running: nothing outside shows it
        started = time.monotonic()
        r = s.infer("slow", X)
        took = time.monotonic() - started
        assert r.status == 503 and r.error == "Request timeout expired", r
        assert took < 2, took
        assert first.result().status == 200


def test_server_wide_caps(tmp_path):
    slow(tmp_path)
    with Server(tmp_path, "--max-queued-requests=3") as s:
        replies = statuses(s, 12)
        refused = [r for r in replies if r.status == 503]
        assert refused and "max-queued-requests" in refused[0].error and "retry-after" in refused[0].headers, refused
    with Server(tmp_path, "--max-queued-bytes=1000") as s:
        body = {"inputs": [{**X["inputs"][0], "shape": [1, 1000], "data": [1] * 1000}]}
        r = s.infer("slow", body)
        assert r.status == 503 and "max-queued-bytes" in r.error, r
        assert s.infer("slow", X).status == 200


def pending(server) -> int:
    for line in server.metrics().splitlines():
        if line.startswith("nv_inference_pending_request_count"):
            return int(line.rsplit(" ", 1)[1])
    return -1


def test_vanished_clients_leave_the_queue(tmp_path):
    # With a bound of its own no request is handed to the busy worker ahead of time.
    slow(tmp_path, "default_queue_policy { max_queue_size: 100 }", seconds=3)
    with Server(tmp_path) as s, ThreadPoolExecutor(1) as pool:
        first = pool.submit(s.infer, "slow", X)
        body = json.dumps(X).encode()
        request = b"POST /v2/models/slow/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        time.sleep(0.3)
        sockets = [socket.create_connection(("127.0.0.1", s.http_port)) for _ in range(5)]
        for c in sockets:
            c.sendall(request)
        assert until(lambda: pending(s) == 5), pending(s)
        for c in sockets:
            c.close()
        assert until(lambda: pending(s) == 0), pending(s)
        assert not first.done(), "the queue emptied only because the batch ended"

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
        assert first.result().status == 200


@pytest.mark.parametrize("form", ["http", "grpc"])
def test_priorities(tmp_path, form):
    begun = tmp_path / "begun"
    run = f"open({str(begun)!r}, 'w').close(); time.sleep(0.7); self.n += 1"
    python_model(tmp_path, "slow", init="self.n = 0", execute=run, add="self.n")
    config = (tmp_path / "slow" / "config.pbtxt").read_text().replace("[ -1, -1 ]", "[ -1 ]")
    (tmp_path / "slow" / "config.pbtxt").write_text(
        config + BATCHING.format(policy="priority_levels: 2 default_priority_level: 2")
    )
    with Server(tmp_path) as s:
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
            assert until(lambda i=i: begun.exists() and pending(s) == i), "requests must arrive in this order"
        for t in threads:
            t.join()
        assert order["high"] < order["low"] and order["high"] < order["low2"], order
