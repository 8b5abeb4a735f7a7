"""How many batches of a coroutine function run at once: one, unless its model says more."""

from __future__ import annotations

import asyncio
import concurrent.futures
import urllib.request

import numpy as np
import pytest

from neso import DecoupledModelClient, ModelClient, ModelConfig, Tensor, batch
from neso.exceptions import PyTritonBadParameterError

X, Y = [Tensor((1,), np.float32, "x")], [Tensor((1,), np.float32, "y")]
ONE = np.ones(1, np.float32)


class Counting:
    """Counts how often it is entered at once; with ``until`` each call waits for so many.

    With ``alone`` the first call waits until that says that all others wait for it, or one of them does not.
    """

    def __init__(self, until=0, alone=None):
        self.now = self.most = 0
        self.until, self.alone = until, alone

    async def enter(self):
        self.now += 1
        self.most = max(self.most, self.now)
        while self.most < self.until:
            await asyncio.sleep(0.001)
        alone, self.alone = self.alone, None
        while alone and self.most < 2 and not await asyncio.to_thread(alone):
            pass
        self.now -= 1

    async def requests(self, requests):
        await self.enter()
        return [{"y": r["x"]} for r in requests]

    async def stream(self, requests):
        await self.enter()
        yield [{"y": r["x"]} for r in requests]


def ask(client, url, model, count):
    def one(_):
        with client(url, model) as c:
            answer = c.infer_sample(ONE)
            return next(iter(answer)) if client is DecoupledModelClient else answer

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        for answer in pool.map(one, range(4 * count)):
            assert answer["y"].tolist() == [1.0]


@pytest.mark.parametrize("batching", [True, False])
def test_one_at_a_time(triton, batching):
    def others_wait():
        with urllib.request.urlopen(f"http://127.0.0.1:{triton.metrics_port}/metrics") as r:
            page = r.read().decode()
        return 'nv_inference_pending_request_count{model="coroutine_one",version="1"} 7' in page

    counting = Counting(alone=others_wait)
    config = ModelConfig(batching=batching, max_batch_size=1)
    triton.bind("coroutine_one", counting.requests, X, Y, config=config, replace=True)
    ask(ModelClient, triton.url, "coroutine_one", 8)
    assert counting.most == 1


def test_one_at_a_time_for_each_callable(triton):
    both = Counting(until=2)
    config = ModelConfig(batching=False)
    triton.bind("coroutine_two", [both.requests, both.requests], X, Y, config=config, replace=True)
    ask(ModelClient, triton.url, "coroutine_two", 8)
    assert both.most == 2


@pytest.mark.parametrize("batching", [True, False])
def test_as_many_as_the_model_says(triton, batching):
    counting = Counting(until=4)
    config = ModelConfig(batching=batching, max_batch_size=1, concurrent_batches=4)
    triton.bind("coroutine_four", counting.requests, X, Y, config=config, replace=True)
    ask(ModelClient, triton.url, "coroutine_four", 8)
    assert counting.most == 4


def test_streams_run_beside_each_other(triton):
    counting = Counting(until=4)
    triton.bind(
        "coroutine_stream", counting.stream, X, Y, config=ModelConfig(batching=False, decoupled=True), replace=True
    )
    ask(DecoupledModelClient, triton.grpc_url, "coroutine_stream", 4)
    assert counting.most == 4


@pytest.mark.parametrize("number", [0, -1, 257, 1.5, True, "2"])
def test_wrong_numbers(triton, number):
    with pytest.raises(PyTritonBadParameterError, match="must be a number from 1 to 256"):
        triton.bind("wrong", Counting().requests, X, Y, config=ModelConfig(concurrent_batches=number))


def test_functions_have_a_thread_each(triton):
    @batch
    def double(x):
        return {"y": x}

    with pytest.raises(PyTritonBadParameterError, match="is for coroutine functions"):
        triton.bind("wrong", double, X, Y, config=ModelConfig(concurrent_batches=2))
