"""Streams that are read to their end or left, and clients that are closed or not: their threads end."""

from __future__ import annotations

import asyncio
import gc
import threading

import numpy as np
import pytest
from program import wait_until

from neso import DecoupledModelClient, ModelConfig, Tensor
from neso.client import PyTritonClientInferenceServerError

X, Y = [Tensor((1,), np.float32, "x")], [Tensor((1,), np.float32, "y")]
ONE = np.ones(1, np.float32)
ROUNDS = 12
over = threading.Event()
running = 0


async def endless(requests):
    """One answer, and then none until the test is over."""
    global running
    running += 1
    try:
        yield [{"y": r["x"]} for r in requests]
        while not over.is_set():
            await asyncio.sleep(0.01)
    finally:
        running -= 1


def three(requests):
    for i in range(3):
        yield [{"y": r["x"] + i} for r in requests]


@pytest.fixture(scope="module")
def url(triton):
    config = ModelConfig(batching=False, decoupled=True)
    triton.bind("threads_endless", endless, X, Y, config=config)
    triton.bind("threads_three", three, X, Y, config=config)
    return triton.grpc_url


def clients():
    """The threads of clients: those of the callables, which are in this process too, have names."""
    return {t for t in threading.enumerate() if not t.name.startswith("neso-")}


def no_more_threads(url, use):
    with DecoupledModelClient(url, "threads_three") as client:  # what stays for good is there now
        list(client.infer_sample(ONE))
    gc.collect()
    before = clients()
    over.clear()
    try:
        for _ in range(ROUNDS):
            use()
        gc.collect()
        wait_until(lambda: clients() <= before)
    finally:
        over.set()
        wait_until(lambda: running == 0)


def read_all(url):
    with DecoupledModelClient(url, "threads_three") as client:
        for _ in range(2):
            assert [a["y"][0] for a in client.infer_sample(ONE)] == [1, 2, 3]


def broken_off(url):
    with DecoupledModelClient(url, "threads_endless") as client:
        for _ in client.infer_sample(ONE):
            break


def closed_stream(url):
    with DecoupledModelClient(url, "threads_endless") as client:
        answers = client.infer_sample(ONE)
        next(answers)
        answers.close()
        next(client.infer_sample(ONE))  # the client is free again


def never_read(url):
    with DecoupledModelClient(url, "threads_endless") as client:
        client.infer_sample(ONE)
        next(client.infer_sample(ONE))  # what nobody has any more does not keep the client busy


def closed_under_its_reader(url):
    client = DecoupledModelClient(url, "threads_endless")
    answers = client.infer_sample(ONE)
    next(answers)
    client.close()
    with pytest.raises(PyTritonClientInferenceServerError):
        list(answers)


def client_not_closed(url):
    client = DecoupledModelClient(url, "threads_endless")
    next(client.infer_sample(ONE))


def client_in_a_cycle(url):
    client = DecoupledModelClient(url, "threads_endless")
    client.itself = client
    client.answers = client.infer_sample(ONE)
    next(client.answers)


def read_all_not_closed(url):
    assert len(list(DecoupledModelClient(url, "threads_three").infer_sample(ONE))) == 3


@pytest.mark.parametrize(
    "use",
    [
        read_all,
        broken_off,
        closed_stream,
        never_read,
        closed_under_its_reader,
        client_not_closed,
        client_in_a_cycle,
        read_all_not_closed,
    ],
)
def test_threads_end(url, use):
    no_more_threads(url, lambda: use(url))
