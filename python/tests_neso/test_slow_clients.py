"""Generators whose clients do not read: they wait, and the other models of the process go on."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from urllib.parse import urlsplit

import numpy as np
import pytest
from conftest import config
from program import wait_until

from neso import ModelClient, ModelConfig, Tensor, Triton

COUNT, SIZE = 500, 16384
made: dict[str, int] = {}


def talk(name):
    for n in range(COUNT):
        made[name] = n + 1
        yield [{"y": np.full(SIZE, n, np.float32)}]


def generator(requests):
    yield from talk("generator")


left = threading.Event()


async def coroutine(requests):
    try:
        for response in talk("coroutine"):
            yield response
    finally:
        left.set()


def double(requests):
    return [{"y": 2 * r["x"]} for r in requests]


@pytest.fixture(scope="module")
def served():
    x, y = [Tensor((-1,), np.float32, "x")], [Tensor((-1,), np.float32, "y")]
    with Triton(config=config()) as triton:
        for name, function in (("generator", generator), ("coroutine", coroutine)):
            triton.bind(name, function, x, y, config=ModelConfig(batching=False, decoupled=True))
        triton.bind("double", double, x, y, config=ModelConfig(batching=False))
        triton.run()
        yield triton


def stands_still(client, name):
    """How many responses were made once there are no more of them, which requests to another model tell."""
    same, last, end = 0, 0, time.monotonic() + 60
    while same < 100 and time.monotonic() < end:
        assert client.infer_sample(np.ones(2, np.float32))["y"].tolist() == [2, 2]
        now = made.get(name, 0)
        same, last = (same + 1, last) if now == last > 0 else (0, now)  # it must have begun
    return last


def ask(s, url, name):
    """Asks for a stream on a socket, and reads nothing of it."""
    body = json.dumps({"x": [1]}).encode()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    s.settimeout(60)
    where = urlsplit(url)
    s.connect((where.hostname, where.port))
    s.sendall(b"POST /v2/models/%s/generate_stream HTTP/1.1\r\nHost: x\r\n" % name.encode())
    s.sendall(b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


@pytest.mark.parametrize("name", ["generator", "coroutine"])
def test_slow_client(served, name):
    with socket.socket() as s, ModelClient(served.url, "double") as client:
        ask(s, served.url, name)
        assert 0 < stands_still(client, name) < COUNT // 2
        with s.makefile("rb") as stream:
            events = [json.loads(line[6:]) for line in stream if line.startswith(b"data: ")]
    assert [event["y"][0] for event in events] == list(range(COUNT))
    assert made[name] == COUNT


@pytest.mark.parametrize("name", ["generator", "coroutine"])
def test_the_end_of_the_server_ends_who_waits_for_a_slow_client(served, name):
    function = {"generator": generator, "coroutine": coroutine}[name]
    x, y = [Tensor((-1,), np.float32, "x")], [Tensor((-1,), np.float32, "y")]
    made.clear()
    left.clear()
    with Triton(config=config()) as triton, socket.socket() as s, ModelClient(served.url, "double") as client:
        triton.bind("over", function, x, y, config=ModelConfig(batching=False, decoupled=True))
        ask(s, triton.url, "over")
        assert 0 < stands_still(client, name) < COUNT // 2
        assert any(thread.name.startswith("neso-over") for thread in threading.enumerate())
        os.kill(triton._server.pid, signal.SIGKILL)
        wait_until(lambda: not any(thread.name.startswith("neso-over") for thread in threading.enumerate()))
    assert left.is_set() or name == "generator"
