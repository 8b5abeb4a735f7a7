"""A load that changes how many instances a bound model has: which callables serve, and what they run meanwhile."""

from __future__ import annotations

import concurrent.futures
import json
import threading
import urllib.request

import numpy as np
from program import wait_until

from neso import ModelClient, ModelConfig, Tensor, batch
from neso.constants import TRITON_ACCESS_HEADER

X = [Tensor((-1,), np.float32, "x")]
Y = [Tensor((1,), np.int64, "y")]


class Callables:
    """Functions that answer with their number; an x below 0 is held until the gate is open."""

    def __init__(self, count):
        self.gate, self.lock, self.holds = threading.Event(), threading.Lock(), []
        self.all = [self.function(i) for i in range(count)]

    def function(self, number):
        def serve(requests):
            if requests[0]["x"][0] < 0:
                with self.lock:
                    self.holds.append(number)
                assert self.gate.wait(120)
            return [{"y": np.array([number])} for _ in requests]

        return serve


def call(triton, path, body=None):
    token = {TRITON_ACCESS_HEADER: triton.get_access_token()}
    request = urllib.request.Request(triton.url + path, body and json.dumps(body).encode(), token)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read() or b"{}")


def change(triton, name, count):
    """Loads the model with so many instances."""
    config = call(triton, f"/v2/models/{name}/config")
    config["instance_group"] = [{"name": name, "kind": "KIND_CPU", "count": count}]
    call(triton, f"/v2/repository/models/{name}/load", {"parameters": {"config": json.dumps(config)}})
    assert call(triton, f"/v2/models/{name}/config")["instance_group"][0]["count"] == count


def ask(triton, name, x=1.0):
    with ModelClient(triton.grpc_url, name, inference_timeout_s=120) as client:
        return int(client.infer_sample(np.array([x], np.float32))["y"][0])


def test_which_callables_serve(triton):
    """Each instance has the callable that fewest have, and keeps it: so they share however many there are."""
    functions, name = Callables(2), "in_place"
    triton.bind(name, functions.all, X, Y, config=ModelConfig(batching=False))

    def together(count):
        """Which callables run so many requests at the same time."""
        functions.gate.clear()
        functions.holds.clear()
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            try:
                asked = [pool.submit(ask, triton, name, -1.0) for _ in range(count)]
                wait_until(lambda: len(functions.holds) == count)
            finally:
                functions.gate.set()
            return sorted(a.result(120) for a in asked)

    assert together(2) == [0, 1]
    change(triton, name, 4)
    assert together(4) == [0, 0, 1, 1]
    change(triton, name, 1)
    assert {ask(triton, name) for _ in range(4)} == {0}
    change(triton, name, 3)
    assert together(3) in ([0, 0, 1], [0, 1, 1])
    change(triton, name, 2)
    assert together(2) == [0, 1]
    statistics = call(triton, f"/v2/models/{name}/stats")["model_stats"][0]
    assert statistics["inference_count"] == 2 + 4 + 4 + 3 + 2


def test_what_runs_lives_on(triton):
    functions, name = Callables(1), "in_place_running"
    triton.bind(name, functions.all[0], X, Y, config=ModelConfig(batching=False))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        try:
            held = pool.submit(ask, triton, name, -1.0)
            wait_until(lambda: functions.holds == [0])
            change(triton, name, 2)
            assert ask(triton, name) == 0  # of the instance that has come
            fewer = pool.submit(change, triton, name, 1)
            wait_until(lambda: call(triton, f"/v2/models/{name}/config")["instance_group"][0]["count"] == 1)
            assert not held.done()
        finally:
            functions.gate.set()
        assert held.result(120) == 0
        fewer.result(120)
    assert ask(triton, name) == 0


def test_binding_anew_loses_no_request(triton):
    """A callable in another's place, of any form, and a version that comes and goes."""
    name, over, failures, answers = "in_place_anew", threading.Event(), [], [0, 0, 0]

    def answering(number):
        return lambda requests: [{"y": np.array([number])} for _ in requests]

    @batch
    def gathered(x):
        return {"y": np.full((len(x), 1), 100, np.int64)}

    async def later(requests):
        return [{"y": np.array([200])} for _ in requests]

    def hammer(k):
        try:
            with ModelClient((triton.url, triton.grpc_url)[k % 2], name, inference_timeout_s=120) as client:
                while not over.is_set():
                    client.infer_sample(np.ones(1, np.float32))
                    answers[k] += 1
        except Exception as e:
            failures.append(repr(e))

    def ready():
        try:
            while not over.is_set():
                call(triton, f"/v2/models/{name}/ready")
                answers[2] += 1
        except Exception as e:
            failures.append(repr(e))

    triton.bind(name, answering(1), X, Y)
    threads = [threading.Thread(target=hammer, args=(k,)) for k in (0, 1)] + [threading.Thread(target=ready)]
    for t in threads:
        t.start()
    try:
        for n, function in enumerate([answering(2), gathered, later, [answering(3), answering(4)], answering(5)] * 2):
            triton.bind(name, function, X, Y, config=ModelConfig(max_batch_size=4 + n % 2), replace=True)
            if n == 5:
                triton.bind(name, answering(6), X, Y, model_version=2)
            if n == 8:
                triton.unbind(name, 2)
            seen = list(answers)
            wait_until(lambda seen=seen: failures or all(a > b + 1 for a, b in zip(answers, seen)))
    finally:
        over.set()
        for t in threads:
            t.join(60)
    assert not failures
