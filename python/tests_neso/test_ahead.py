"""Bound callables without batching: what is sent to one ahead of its turn is still in the queue."""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from neso import ModelConfig, Tensor

X = [Tensor((1,), np.int32, "x")]
PATIENCE = 60.0


class Held:
    """A callable that notes what it has begun, holds the negative until it is let go, and raises on -2."""

    def __init__(self, triton, name, instances):
        self.triton, self.name = triton, name
        self.begun, self.free = [], threading.Event()
        triton.bind(name, [self.call] * instances, X, X, config=ModelConfig(batching=False), replace=True)

    def call(self, requests):
        (request,) = requests
        value = int(request["x"][0])
        if value:
            self.begun.append(value)
        if value < 0:
            assert self.free.wait(PATIENCE)
        if value == -2:
            raise RuntimeError("it is a bad one")
        return [{"x": request["x"]}]

    def send(self, value):
        """A request on a connection of its own, whose answer nobody has asked for yet."""
        url = urllib.parse.urlsplit(self.triton.url)
        c = http.client.HTTPConnection(url.hostname, url.port, timeout=PATIENCE)
        body = {"inputs": [{"name": "x", "datatype": "INT32", "shape": [1], "data": [value]}]}
        c.request("POST", f"/v2/models/{self.name}/infer", json.dumps(body))
        return c

    def ask(self, value):
        c = self.send(value)
        status = c.getresponse().status
        c.close()
        return status

    def warm(self, pool):
        """Many quick requests at once: now they are sent ahead, where they ever are."""
        for _ in range(4):
            assert set(pool.map(self.ask, [0] * 32)) == {200}

    def pending(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.triton.metrics_port}/metrics") as reply:
            for line in reply.read().decode().splitlines():
                if line.startswith("nv_inference_pending_request_count{") and f'model="{self.name}"' in line:
                    return float(line.rsplit(" ", 1)[1])
        return None

    def queued(self):
        """Nanoseconds in the queue, and how many requests have been there."""
        request = urllib.request.Request(f"{self.triton.url}/v2/models/{self.name}/stats")
        request.add_header("triton-access-token", self.triton.get_access_token())
        with urllib.request.urlopen(request) as reply:
            queue = json.load(reply)["model_stats"][0]["inference_stats"]["queue"]
        return int(queue["ns"]), int(queue["count"])


def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)  # polling another process: there is nothing to wait on
    return True


@pytest.fixture
def pool():
    with ThreadPoolExecutor(16) as pool:
        yield pool


@pytest.mark.parametrize("quick_before", [False, True])
def test_what_waits_goes_to_the_idle_callable(triton, pool, quick_before):
    m = Held(triton, "idle", 2)
    if quick_before:
        m.warm(pool)
    held = pool.submit(m.ask, -1)
    try:
        assert until(lambda: -1 in m.begun)
        quick = [pool.submit(m.ask, 20) for _ in range(15)]
        assert [q.result(PATIENCE) for q in quick] == [200] * 15
        assert not held.done()
    finally:
        m.free.set()
    assert held.result() == 200


def test_a_failure_takes_only_what_was_begun(triton, pool):
    m = Held(triton, "failing", 1)
    m.warm(pool)
    doomed = pool.submit(m.ask, -2)
    try:
        assert until(lambda: -2 in m.begun)
        behind = [pool.submit(m.ask, 1) for _ in range(8)]
        assert until(lambda: m.pending() == 8)
    finally:
        m.free.set()
    assert doomed.result() == 500
    assert [b.result() for b in behind] == [200] * 8
    assert m.begun == [-2] + [1] * 8


def test_who_has_gone_is_not_run(triton, pool):
    m = Held(triton, "leaving", 1)
    m.warm(pool)
    held = pool.submit(m.ask, -1)
    try:
        assert until(lambda: -1 in m.begun)
        waiting = [m.send(i + 1) for i in range(6)]
        assert until(lambda: m.pending() == 6)
        for w in waiting[::2]:
            w.close()
        assert until(lambda: m.pending() == 3)
    finally:
        m.free.set()
    assert [w.getresponse().status for w in waiting[1::2]] == [200] * 3
    assert held.result() == 200 and sorted(m.begun) == [-1, 2, 4, 6]


def test_what_waits_counts_as_waiting(triton, pool):
    m = Held(triton, "waiting", 1)
    m.warm(pool)
    (before, count), begin = m.queued(), time.monotonic_ns()
    held = pool.submit(m.ask, -1)
    try:
        assert until(lambda: -1 in m.begun)
        others = [pool.submit(m.ask, 1) for _ in range(3)]
        assert until(lambda: m.pending() == 3)
        since = time.monotonic_ns()
        assert m.pending() == 3
        until(lambda: time.monotonic_ns() - since > 300_000_000)  # that they wait, at the least
    finally:
        m.free.set()
    assert held.result() == 200 and [o.result() for o in others] == [200] * 3
    assert until(lambda: m.queued()[1] == count + 4)
    spent = m.queued()[0] - before
    assert 3 * 300_000_000 <= spent <= 4 * (time.monotonic_ns() - begin)
    assert m.pending() == 0
