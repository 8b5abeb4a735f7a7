"""What a model.py of NVIDIA's Python backend asks of the server: other models, their loading, metrics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
from libraries import have_host
from nvidia import python_backend
from server import Server

IO = """input { name: "X" data_type: TYPE_INT32 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ -1 ] }
"""
HEAD = """import asyncio
import json

import numpy as np
import triton_python_backend_utils as pb_utils


def ask(model, x, **more):
    tensors = [pb_utils.Tensor("X", x)]
    return pb_utils.InferenceRequest(model_name=model, inputs=tensors, requested_output_names=["Y"], **more)


def value(response):
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return pb_utils.get_output_tensor_by_name(response, "Y").as_numpy()


def answer(y):
    return pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.asarray(y, np.int32))])


def given(request):
    return pb_utils.get_input_tensor_by_name(request, "X").as_numpy()

"""
TWICE = """
class TritonPythonModel:
    def execute(self, requests):
        return [answer(2 * given(r)) for r in requests]
"""
COUNTS = """
class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            sender = r.get_response_sender()
            for i in range(int(given(r)[0])):
                sender.send(answer([i]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
CALLS = """
class TritonPythonModel:
    def execute(self, requests):
        return [answer(value(ask("twice", given(r)).exec()) + 1) for r in requests]
"""
MANY = """
class TritonPythonModel:
    def execute(self, requests):
        return [answer([y for part in ask("counts", given(r)).exec(decoupled=True) for y in self.of(part)]) for r in requests]

    def of(self, part):
        if part.has_error():
            raise pb_utils.TritonModelException(part.error().message())
        return value(part) if part.output_tensors() else []
"""
AWAITS = """
class TritonPythonModel:
    async def execute(self, requests):
        for r in requests:
            calls = [ask("twice", given(r) + i).async_exec() for i in range(8)]
            both = [value(one) for one in await asyncio.gather(*calls)]
            r.get_response_sender().send(answer(np.concatenate(both)), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
FAILS = """
class TritonPythonModel:
    def execute(self, requests):
        return [answer(value(ask(str(given(r)[0]), given(r)).exec())) for r in requests]
"""
MEASURES = """
class TritonPythonModel:
    def initialize(self, args):
        self.family = pb_utils.MetricFamily(name="seen_total", description="Seen", kind=pb_utils.MetricFamily.COUNTER)
        self.seen = self.family.Metric(labels={"model": "measures"})
        self.other = pb_utils.MetricFamily(name="level", description="Level", kind=pb_utils.MetricFamily.GAUGE)
        self.level = self.other.Metric(labels={"model": "measures"})

    def execute(self, requests):
        for r in requests:
            self.seen.increment(2)
            self.level.set(float(given(r)[0]))
        return [answer([self.seen.value(), self.level.value()]) for r in requests]
"""
CONTROLS = """
class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for r in requests:
            before = pb_utils.is_model_ready("later")
            pb_utils.load_model("later")
            during = pb_utils.is_model_ready("later", "1")
            y = value(ask("later", given(r)).exec())
            pb_utils.unload_model("later")
            answers.append(answer([before, during, *y]))
        return answers
"""
MODELS = {
    "twice": TWICE,
    "counts": COUNTS,
    "calls": CALLS,
    "many": MANY,
    "awaits": AWAITS,
    "fails": FAILS,
    "measures": MEASURES,
    "controls": CONTROLS,
    "later": TWICE,
}


def write(repository: Path, name: str, code: str, theirs: bool) -> None:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "1" / "model.py").write_text(HEAD + code)
    config = f'backend: "python"\n{IO}'
    if theirs:
        config += 'runtime: "libtriton_python.so"\n'
    if name in ("counts", "awaits"):
        config += "model_transaction_policy { decoupled: true }\n"
    (repository / name / "config.pbtxt").write_text(config)


@pytest.fixture(scope="module", params=["to theirs", "to ours"])
def served(request, tmp_path_factory):
    """All models that call are theirs; those that are called theirs or ours."""
    top = tmp_path_factory.mktemp("peer")
    libs, environment = python_backend(top)
    have_host()
    for name, code in MODELS.items():
        write(top / "models", name, code, request.param == "to theirs" or name not in ("twice", "counts", "later"))
    load = [f"--load-model={name}" for name in MODELS if name != "later"]
    options = ["--model-control-mode=explicit", f"--backend-directory={libs}", *load]
    with Server(top / "models", *options, env=environment) as s:
        yield s


def ask(s, name, *data):
    return s.infer(name, {"inputs": [{"name": "X", "datatype": "INT32", "shape": [len(data)], "data": list(data)}]})


def answered(s, name, *data):
    r = ask(s, name, *data)
    assert r.status == 200, r
    return r.json["outputs"][0]["data"]


@pytest.mark.parametrize("size", [1, 3, 5000])
def test_exec(served, size):
    assert answered(served, "calls", *range(size)) == [2 * i + 1 for i in range(size)]


@pytest.mark.parametrize("n", [0, 1, 500])
def test_exec_of_a_decoupled_model(served, n):
    assert answered(served, "many", n) == list(range(n))


def test_async_exec(served):
    with tgrpc.InferenceServerClient(served.grpc) as client:
        got = []
        client.start_stream(lambda result, error: got.append((result, error)))
        x = tgrpc.InferInput("X", [1], "INT32")
        x.set_data_from_numpy(np.array([5], np.int32))
        client.async_stream_infer("awaits", [x])
        client.stop_stream()
    assert len(got) == 1 and got[0][1] is None, got
    assert got[0][0].as_numpy("Y").tolist() == [2 * (5 + i) for i in range(8)]


def test_errors(served):
    r = ask(served, "fails", 7)
    assert r.status == 500 and "Model '7' is not ready" in r.error, r
    r = ask(served, "calls")
    assert r.status in (200, 400), r


def test_metrics(served):
    assert answered(served, "measures", 5) == [2, 5]
    assert answered(served, "measures", 7) == [4, 7]
    text = served.metrics()
    assert 'seen_total{model="measures"} 4' in text and 'level{model="measures"} 7' in text, text


def test_load_model(served):
    for _ in range(2):
        assert answered(served, "controls", 4) == [0, 1, 8]
