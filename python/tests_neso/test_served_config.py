"""Every field of ModelConfig and DynamicBatcher in what the server says it serves, and what the queue then does."""

from __future__ import annotations

import base64
import json
import threading
import urllib.request

import numpy as np
import pytest
from conftest import config
from program import wait_until

from neso import (
    DynamicBatcher,
    FuturesModelClient,
    ModelClient,
    ModelConfig,
    QueuePolicy,
    Tensor,
    TimeoutAction,
    Triton,
)
from neso.client import PyTritonClientInferenceServerError
from neso.exceptions import PyTritonBadParameterError
from neso.model_config.common import ModelWarmup, WarmupInput, generate_warmup_data

X = [Tensor((-1,), np.float32, "x")]
Y = [Tensor((-1,), np.float32, "y")]
ONE = np.ones(1, np.float32)


def echo(requests):
    return [{"y": r["x"]} for r in requests]


def served(triton, name):
    with urllib.request.urlopen(f"{triton.url}/v2/models/{name}/config") as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def cached():
    with Triton(config=config(cache_config=["local,size=1048576"])) as started:
        yield started


POLICY = {
    "timeout_action": "DELAY",
    "default_timeout_microseconds": 7,
    "allow_timeout_override": True,
    "max_queue_size": 9,
}
BATCHER = DynamicBatcher(
    max_queue_delay_microseconds=1234,
    preferred_batch_size=[2, 4],
    priority_levels=3,
    default_priority_level=2,
    default_queue_policy=QueuePolicy(TimeoutAction.DELAY, 7, True, 9),
    priority_queue_policy={1: QueuePolicy(max_queue_size=5)},
)


def numbers(value):
    """64-bit numbers of the protocol's JSON may be text."""
    if isinstance(value, dict):
        return {k: numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [numbers(v) for v in value]
    return int(value) if isinstance(value, str) and value.isdigit() else value


@pytest.mark.parametrize(
    ("settings", "path", "wanted"),
    [
        (ModelConfig(max_batch_size=17), "max_batch_size", 17),
        (ModelConfig(batching=False), "max_batch_size", 0),
        (ModelConfig(), "max_batch_size", 4),
        (ModelConfig(), "dynamic_batching.max_queue_delay_microseconds", 0),
        (ModelConfig(decoupled=True), "model_transaction_policy.decoupled", True),
        (ModelConfig(), "model_transaction_policy.decoupled", False),
        (ModelConfig(max_batch_size=8, batcher=BATCHER), "dynamic_batching.max_queue_delay_microseconds", 1234),
        (ModelConfig(max_batch_size=8, batcher=BATCHER), "dynamic_batching.preferred_batch_size", [2, 4]),
        (ModelConfig(batcher=DynamicBatcher(preserve_ordering=True)), "dynamic_batching.preserve_ordering", True),
        (ModelConfig(max_batch_size=8, batcher=BATCHER), "dynamic_batching.priority_levels", 3),
        (ModelConfig(max_batch_size=8, batcher=BATCHER), "dynamic_batching.default_priority_level", 2),
        (ModelConfig(max_batch_size=8, batcher=BATCHER), "dynamic_batching.default_queue_policy", POLICY),
        (
            ModelConfig(max_batch_size=8, batcher=BATCHER),
            "dynamic_batching.priority_queue_policy.1.max_queue_size",
            5,
        ),
    ],
)
def test_fields(triton, settings, path, wanted):
    triton.bind("fields", echo, X, Y, config=settings, replace=True)
    value = served(triton, "fields")
    for key in path.split("."):
        value = value.get(key, {})
    assert (numbers(value) or 0) == wanted  # what has its default may be left out


def test_the_response_cache(cached):
    cached.bind("kept", echo, X, Y, config=ModelConfig(response_cache=True))
    assert served(cached, "kept")["response_cache"]["enable"] is True


def test_tensors_instances_versions_and_trace_config(triton):
    tensors = {
        "inputs": [
            Tensor((2, -1), np.float16),
            Tensor((1,), bytes, "text", optional=True),
            Tensor((4,), np.bool_, "flag"),
        ],
        "outputs": [Tensor((3,), np.int64), Tensor((-1,), np.object_, "names")],
    }
    triton.bind("described", [echo] * 3, **tensors, model_version=5, config=ModelConfig(batching=False))
    told = served(triton, "described")
    inputs = [(t["name"], t["data_type"], numbers(t["dims"]), t.get("optional", False)) for t in told["input"]]
    assert inputs == [
        ("INPUT_1", "TYPE_FP16", [2, -1], False),
        ("text", "TYPE_STRING", [1], True),
        ("flag", "TYPE_BOOL", [4], False),
    ]
    outputs = [(t["name"], t["data_type"], numbers(t["dims"])) for t in told["output"]]
    assert outputs == [("OUTPUT_1", "TYPE_INT64", [3]), ("names", "TYPE_STRING", [-1])]
    assert [(g["count"], g["kind"]) for g in told["instance_group"]] == [(3, "KIND_CPU")]
    with urllib.request.urlopen(f"{triton.url}/v2/models/described") as answer:
        assert json.load(answer)["versions"] == ["5"]


def test_the_clients_read_it_back(triton):
    triton.bind("back", echo, X, Y, config=ModelConfig(max_batch_size=8, batcher=BATCHER), replace=True)
    for url in (triton.url, triton.grpc_url):
        with ModelClient(url, "back") as client:
            assert client.model_config.batcher == BATCHER
            assert client.model_config.max_batch_size == 8


def test_warm_up_runs_before_the_model_is_served(triton):
    seen = []

    def keep(requests):
        seen.append([r["x"].shape for r in requests])
        return echo(requests)

    warm = ModelWarmup("w", 2, {"x": WarmupInput(np.float32, (3,), zero_data=True)}, 2)
    triton.bind("warm", keep, X, Y, config=ModelConfig(model_warmup=[warm]))
    assert seen == [[(2, 3)], [(2, 3)]]


class Held:
    """A callable that waits when it is called first, so that requests queue up behind that call."""

    def __init__(self):
        self.inside, self.go, self.order = threading.Event(), threading.Event(), []

    def __call__(self, requests):
        if not self.inside.is_set():
            self.inside.set()
            self.go.wait(60)
        self.order += [float(r["x"][0, 0]) for r in requests]
        return echo(requests)


def pending(triton, name):
    """How many requests of a model wait."""
    with urllib.request.urlopen(f"http://127.0.0.1:{triton.metrics_port}/metrics") as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("nv_inference_pending_request_count") and f'model="{name}"' in line:
                return int(float(line.split()[-1]))
    return 0


@pytest.mark.parametrize("scheme", ["http", "grpc", "in process"])
def test_urgent_requests_overtake(triton, scheme):
    held = Held()
    batcher = DynamicBatcher(priority_levels=3, default_priority_level=2)
    triton.bind("levels", held, X, Y, config=ModelConfig(max_batch_size=1, batcher=batcher), replace=True)
    client = {
        "http": lambda: ModelClient(triton.url, "levels"),
        "grpc": lambda: ModelClient(triton.grpc_url, "levels"),
        "in process": lambda: triton.client("levels"),
    }[scheme]()
    threads = []

    def ask(value, **options):
        threads.append(threading.Thread(target=client.infer_sample, args=(ONE * value,), kwargs=options))
        threads[-1].start()

    ask(0)
    assert held.inside.wait(60)
    for count, (value, options) in enumerate([(3, {"priority": 3}), (2, {}), (1, {"priority": 1})], 1):
        ask(value, **options)
        wait_until(lambda count=count: pending(triton, "levels") >= count)
    held.go.set()
    for thread in threads:
        thread.join()
    assert held.order == [0, 1, 2, 3]
    if scheme != "in process":
        client.close()


def test_the_queue_is_bounded(triton):
    held = Held()
    batcher = DynamicBatcher(default_queue_policy=QueuePolicy(max_queue_size=2))
    triton.bind("bounded", held, X, Y, config=ModelConfig(max_batch_size=1, batcher=batcher))
    with FuturesModelClient(triton.url, "bounded") as client:
        futures = [client.infer_sample(ONE)]
        assert held.inside.wait(60)
        for count in (1, 2):
            futures.append(client.infer_sample(ONE))
            wait_until(lambda count=count: pending(triton, "bounded") >= count)
        with pytest.raises(PyTritonClientInferenceServerError, match="maximum queue size"):
            client.infer_sample(ONE).result()
        held.go.set()
        assert [f.result()["y"].tolist() for f in futures] == [[1.0]] * 3


@pytest.mark.parametrize("given", ["policy", "client"])
def test_requests_that_waited_too_long(triton, given):
    held = Held()
    policy = QueuePolicy(TimeoutAction.REJECT, 20_000 if given == "policy" else 60_000_000, allow_timeout_override=True)
    batcher = DynamicBatcher(default_queue_policy=policy)
    triton.bind("late", held, X, Y, config=ModelConfig(max_batch_size=1, batcher=batcher), replace=True)
    with FuturesModelClient(triton.grpc_url, "late") as client:
        # The policy is for it too: should it be late itself it is asked again.
        first = client.infer_sample(ONE, timeout=60_000_000)
        while not held.inside.wait(0.05):
            if first.done():
                first = client.infer_sample(ONE, timeout=60_000_000)
        late = client.infer_sample(ONE) if given == "policy" else client.infer_sample(ONE, timeout=20_000)
        with pytest.raises(PyTritonClientInferenceServerError, match=r"(?i)timeout|timed out"):
            late.result()
        held.go.set()
        assert first.result()["y"].tolist() == [1.0]


def test_delayed_requests_are_answered_last(triton):
    held = Held()
    policy = QueuePolicy(TimeoutAction.DELAY, 60_000_000, allow_timeout_override=True)
    batcher = DynamicBatcher(default_queue_policy=policy)
    triton.bind("delayed", held, X, Y, config=ModelConfig(max_batch_size=1, batcher=batcher))
    with FuturesModelClient(triton.url, "delayed") as client:
        futures = [client.infer_sample(ONE * 0)]
        assert held.inside.wait(60)
        # Its time is over before anybody can ask whether it waits.
        futures.append(client.infer_sample(ONE, timeout=1))
        wait_until(lambda: pending(triton, "delayed") >= 1)
        futures.append(client.infer_sample(ONE * 2))
        wait_until(lambda: pending(triton, "delayed") >= 2)
        held.go.set()
        for future in futures:
            future.result()
    assert held.order == [0, 2, 1]


def test_trace_config_is_shown():
    entries = ["mode=opentelemetry", "opentelemetry,url=http://127.0.0.1:9/v1/traces"]
    from neso._model import Model
    from neso.decorators import TritonContext

    model = Model("m", 1, echo, X, Y, ModelConfig(), TritonContext(), False, entries)
    shown = model.server_config["parameters"]["trace-config"]["string_value"]
    assert json.loads(base64.b64decode(shown)) == entries


@pytest.mark.parametrize(
    ("array", "batch", "rows"),
    [
        (np.arange(3), 2, [[0, 1, 2], [0, 1, 2]]),  # a sample
        (np.arange(9).reshape(3, 3), 2, [[0, 1, 2], [3, 4, 5]]),  # more than a batch
        (np.arange(6).reshape(2, 3), 3, [[0, 1, 2], [3, 4, 5], [0, 1, 2]]),  # fewer
    ],
)
def test_warmup_from_a_file(triton, tmp_path, monkeypatch, array, batch, rows):
    """PyTriton's rules: a path is of the process that binds, and an array of rows is cut or repeated to the batch."""
    np.save(tmp_path / "x.npy", array)
    monkeypatch.chdir(tmp_path)
    seen = []

    def keep(requests):
        seen.append(requests[0]["x"])
        return [{"y": np.zeros((batch, 1), np.float32)}]

    warm = ModelWarmup("w", batch, {"x": WarmupInput(np.float32, (3,), input_data_file="x.npy")}, 1)
    inputs, outputs = [Tensor((3,), np.float32, "x")], [Tensor((1,), np.float32, "y")]
    triton.bind("warm_file", keep, inputs, outputs, config=ModelConfig(model_warmup=[warm]), replace=True)
    (got,) = seen
    assert got.dtype == np.float32 and got.tolist() == rows


def test_warmup_from_a_file_of_another_shape(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 4)))
    wrong = WarmupInput(np.float32, (3,), input_data_file=str(tmp_path / "x.npy"))
    with pytest.raises(PyTritonBadParameterError, match=r"shape \(2, 4\), expected \(3,\)"):
        generate_warmup_data(wrong, 2)
