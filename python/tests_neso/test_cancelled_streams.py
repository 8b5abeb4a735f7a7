"""Generators without an end whose clients leave: they are closed at their next yield, and others are served."""

from __future__ import annotations

import json
import socket
import threading
from urllib.parse import urlsplit

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from conftest import config

from neso import ModelConfig, Tensor, Triton
from neso.decorators import batch

LAST = 3.0  # who sends this wants one response, others have no end
closed = {name: threading.Semaphore(0) for name in ("requests", "batch", "returned", "async")}


def count(name, first):
    try:
        n = 0
        while n == 0 or first != LAST:
            yield np.full((1, 1), n, np.float32)
            n += 1
    finally:
        closed[name].release()


def requests_(requests):
    for y in count("requests", requests[0]["x"].flat[0]):
        yield [{"y": y}]


@batch
def batch_(x):
    for y in count("batch", x.flat[0]):
        yield {"y": y}


def returned(requests):
    return ([{"y": y}] for y in count("returned", requests[0]["x"].flat[0]))


async def async_(requests):
    for y in count("async", requests[0]["x"].flat[0]):
        yield [{"y": y}]


@pytest.fixture(scope="module")
def served():
    x, y = [Tensor((1,), np.float32, "x")], [Tensor((1,), np.float32, "y")]
    with Triton(config=config()) as triton:
        for name, function in (("requests", requests_), ("batch", batch_), ("returned", returned), ("async", async_)):
            triton.bind(name, function, x, y, config=ModelConfig(max_batch_size=1, decoupled=True))
        triton.run()
        yield triton


class Stream:
    """A gRPC stream with one request."""

    def __init__(self, served, name, value):
        self.responses = threading.Semaphore(0)
        self.client = grpcclient.InferenceServerClient(urlsplit(served.grpc_url).netloc)
        x = grpcclient.InferInput("x", [1, 1], "FP32")
        x.set_data_from_numpy(np.full((1, 1), value, np.float32))
        self.client.start_stream(lambda result, error: self.responses.release())
        self.client.async_stream_infer(name, [x])
        assert self.responses.acquire(timeout=60)


def cancels(served, name):
    Stream(served, name, 1).client.stop_stream(cancel_requests=True)


def hangs_up(served, name):
    s = Stream(served, name, 1)
    s.client._client_stub = None
    s.client._channel.close()


def leaves_over_http(served, name):
    where = urlsplit(served.url)
    with socket.create_connection((where.hostname, where.port), timeout=60) as s:
        body = json.dumps({"x": [[1]]}).encode()
        s.sendall(b"POST /v2/models/%s/generate_stream HTTP/1.1\r\nHost: x\r\n" % name.encode())
        s.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        assert s.recv(4096)


@pytest.mark.parametrize("leaves", [cancels, hangs_up, leaves_over_http])
@pytest.mark.parametrize("name", closed)
def test_a_generator_without_end(served, name, leaves):
    leaves(served, name)
    assert closed[name].acquire(timeout=60)
    Stream(served, name, LAST).client.stop_stream()
    assert closed[name].acquire(timeout=60)
