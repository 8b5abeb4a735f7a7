"""Generators whose clients do not read: they wait, and the other models of the process go on."""

from __future__ import annotations

import json
import socket
import time
from urllib.parse import urlsplit

import numpy as np
import pytest
from conftest import config

from neso import ModelClient, ModelConfig, Tensor, Triton

COUNT, SIZE = 500, 16384
made: dict[str, int] = {}


def talk(name):
    for n in range(COUNT):
        made[name] = n + 1
        yield [{"y": np.full(SIZE, n, np.float32)}]


def generator(requests):
    yield from talk("generator")


async def coroutine(requests):
    for response in talk("coroutine"):
        yield response


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


@pytest.mark.parametrize("name", ["generator", "coroutine"])
def test_slow_client(served, name):
    body = json.dumps({"x": [1]}).encode()
    with socket.socket() as s, ModelClient(served.url, "double") as client:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        s.settimeout(60)
        where = urlsplit(served.url)
        s.connect((where.hostname, where.port))
        s.sendall(b"POST /v2/models/%s/generate_stream HTTP/1.1\r\nHost: x\r\n" % name.encode())
        s.sendall(b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        assert 0 < stands_still(client, name) < COUNT // 2
        with s.makefile("rb") as stream:
            events = [json.loads(line[6:]) for line in stream if line.startswith(b"data: ")]
    assert [event["y"][0] for event in events] == list(range(COUNT))
    assert made[name] == COUNT
