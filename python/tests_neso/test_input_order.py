"""Callables that depend on the order of their inputs get the one they were bound with, whatever clients send."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

from neso import ModelConfig, Tensor, batch, sample
from neso.decorators import first_value
from neso.model_config import DynamicBatcher

AB = [Tensor((1,), np.float32, "a"), Tensor((1,), np.float32, "b")]
OUT = [Tensor((1,), np.float32, "out")]


def by_values(requests):
    answers = []
    for request in requests:
        a, b = request.values()
        answers.append({"out": a - b})
    return answers


@batch
def by_keywords(**inputs):
    a, b = inputs.values()
    return {"out": a - b}


@sample
def by_sample(**inputs):
    a, b = inputs.values()
    return {"out": a - b}


@batch
@first_value("a")
def by_first_value(**inputs):
    (name, b) = list(inputs.items())[1]
    assert name == "b"
    return {"out": inputs["a"] - b}


def by_two(requests):
    """Of three inputs the second is left out."""
    answers = []
    for request in requests:
        a, c = request.values()
        answers.append({"out": a - c})
    return answers


def ask(client, url, model, values, order, shape=(1, 1)):
    inputs = []
    for name in order:
        value = client.InferInput(name, shape, "FP32")
        value.set_data_from_numpy(np.full(shape, values[name], np.float32))
        inputs.append(value)
    with client.InferenceServerClient(url) as connection:
        return float(connection.infer(model, inputs).as_numpy("out").reshape(-1)[0])


@pytest.fixture(params=["http", "grpc"])
def front(request, triton):
    if request.param == "http":
        return http_client, triton.url.split("//")[1]
    return grpc_client, triton.grpc_url.split("//")[1]


@pytest.mark.parametrize(
    ("name", "function", "config"),
    [
        ("order_values", by_values, ModelConfig()),
        ("order_single", by_values, ModelConfig(batching=False)),
        ("order_keywords", by_keywords, ModelConfig()),
        ("order_sample", by_sample, ModelConfig(batching=False)),
        ("order_first_value", by_first_value, ModelConfig()),
    ],
)
def test_callables_see_the_declared_order(triton, front, name, function, config):
    triton.bind(name, function, AB, OUT, config=config, replace=True)
    for order in ("ab", "ba"):
        assert ask(*front, name, {"a": 10, "b": 3}, order, (1, 1) if config.batching else (1,)) == 7.0, order


def test_an_optional_input_that_is_left_out_leaves_the_others_in_order(triton, front):
    inputs = [Tensor((1,), np.float32, n, optional=n == "b") for n in "abc"]
    triton.bind("order_optional", by_two, inputs, OUT, replace=True)
    for order in ("ac", "ca"):
        assert ask(*front, "order_optional", {"a": 10, "c": 3}, order) == 7.0


@pytest.mark.parametrize("function", [by_values, by_keywords])
def test_batches_of_requests_in_both_orders(triton, front, function):
    config = ModelConfig(max_batch_size=8, batcher=DynamicBatcher(max_queue_delay_microseconds=2000))
    triton.bind("order_mixed", function, AB, OUT, config=config, replace=True)
    wrong = []

    def run(number):
        for i in range(20):
            values = {"a": number * 100.0 + i, "b": 3.0}
            got = ask(*front, "order_mixed", values, "ab" if (number + i) % 2 else "ba")
            if got != values["a"] - values["b"]:
                wrong.append((values, got))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
