"""Requests that wait behind one that a callable holds are pending, whatever the callable's form."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import urllib.request

import numpy as np
import pytest
from program import wait_until

from neso import DecoupledModelClient, ModelClient, ModelConfig, Tensor, batch, sample

X, Y = [Tensor((1,), np.float32, "x")], [Tensor((1,), np.float32, "y")]
ONE = np.ones(1, np.float32)


class Held:
    """Callables that begin, and end when the gate opens."""

    def __init__(self):
        self.begun, self.gate = threading.Event(), threading.Event()

    def requests(self, requests):
        self.begun.set()
        assert self.gate.wait(60)
        return [{"y": r["x"]} for r in requests]

    async def coroutine(self, requests):
        self.begun.set()
        while not self.gate.is_set():
            await asyncio.sleep(0.001)
        return [{"y": r["x"]} for r in requests]

    def generator(self, requests):
        yield self.requests(requests)

    @sample
    def sample(self, x):
        return self.requests([{"x": x}])[0]

    @batch
    def batch(self, x):
        return self.requests([{"x": x}])[0]


def pending(triton, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{triton.metrics_port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return sum(
        float(line.split()[-1])
        for line in lines
        if line.startswith("nv_inference_pending_request_count") and f'model="{name}"' in line
    )


@pytest.mark.parametrize("size", [0, 1, 4])
@pytest.mark.parametrize("form", ["requests", "coroutine", "generator", "decorated"])
def test_what_waits_is_pending(triton, form, size):
    held = Held()
    function = getattr(held, ("batch" if size else "sample") if form == "decorated" else form)
    config = ModelConfig(batching=bool(size), max_batch_size=max(size, 1), decoupled=form == "generator")
    name = f"held_{form}_{size}"
    triton.bind(name, function, X, Y, config=config)

    def ask(_):
        with (DecoupledModelClient if config.decoupled else ModelClient)(triton.grpc_url, name) as client:
            answer = client.infer_sample(ONE)
            return next(iter(answer)) if config.decoupled else answer

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        try:
            answers = [pool.submit(ask, 0)]
            assert held.begun.wait(60)
            for count in (1, 2, 3):
                answers.append(pool.submit(ask, count))
                wait_until(lambda count=count: pending(triton, name) == count)
        finally:
            held.gate.set()
        assert [a.result(60)["y"].tolist() for a in answers] == [[1.0]] * 4
    wait_until(lambda: pending(triton, name) == 0)
