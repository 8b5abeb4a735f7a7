"""What pb_utils gives a model, through the built binary: metrics, requests, readiness, backends of one's own."""

from __future__ import annotations

import json
import queue
import threading

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
import tritonclient.http as thttp
from bls import ask, value, write
from repository import X, ensemble, python_model, settled, until
from server import Server, named

METRICS = """
self.families = [
    pb_utils.MetricFamily(name=f"my_{kind}", description=f"A {kind}.", kind=getattr(pb_utils.MetricFamily, kind.upper()))
    for kind in ("counter", "gauge", "histogram")
]
labels = {"model": args["model_name"], "instance": args["model_instance_name"]}
self.counter, self.gauge = (f.Metric(labels=labels) for f in self.families[:2])
self.histogram = self.families[2].Metric(labels=labels, buckets=[0.1, 1, 10])
self.shared = pb_utils.MetricFamily("shared", "s", pb_utils.MetricFamily.COUNTER)
self.total = self.shared.Metric()
"""

FAULTS = """
faults = []
def attempt(f):
    try:
        f()
        faults.append("no error")
    except Exception as error:
        faults.append(f"{type(error).__name__}: {error}")
F = pb_utils.MetricFamily
attempt(lambda: self.counter.set(1))
attempt(lambda: self.counter.increment(-1))
attempt(lambda: self.gauge.observe(1))
attempt(lambda: self.histogram.value())
attempt(lambda: F("nv_inference_count", "x", F.COUNTER))
attempt(lambda: F("my_counter", "another kind", F.GAUGE))
attempt(lambda: F("h", "h", F.HISTOGRAM).Metric())
attempt(lambda: F("h", "h", F.COUNTER).Metric(buckets=[1.0]))
attempt(lambda: F("h", "h", F.HISTOGRAM).Metric(buckets=[2.0, 1.0]))
attempt(lambda: F("h", "h", F.COUNTER).Metric(labels=["x"]))
attempt(lambda: F("h", "h", F.HISTOGRAM).Metric(buckets=(1.0,)))
def orphan():
    m = F("gone", "g", F.GAUGE).Metric()
    m.set(1)
attempt(orphan)
"""
WANT = [
    "TritonModelException: Failed to set metric value: ",
    "TritonModelException: Failed to increment metric value: ",
    "TritonModelException: Failed to observe metric value: ",
    "TritonModelException: Failed to get metric value: ",
    "TritonModelException: Error when creating MetricFamily: metric name 'nv_inference_count' belongs to the server",
    "TritonModelException: Error when creating MetricFamily: Family name already exists with different type: 'my_counter' is a counter",
    "TritonModelException: Failed to create metric. Missing required buckets.",
    "TritonModelException: Failed to create metric. Unexpected buckets found.",
    "TritonModelException: Error when creating Metric: ",
    "TritonModelException: Failed to create metric. Labels must be a dictionary.",
    "TritonModelException: Failed to create metric. Buckets must be a list.",
    "TritonModelException: Failed to set metric value: Invalid metric operation as the corresponding 'MetricFamily' has been deleted.",
]


def test_metrics_are_shown_shared_and_taken_away(tmp_path):
    body = (
        "self.counter.increment(float(x[0]))\nself.gauge.set(-2.5)\nself.gauge.increment(1)\nself.total.increment(1)\n"
        "for v in (0.05, 0.5, 0.7, 100):\n    self.histogram.observe(v)\n"
        "return self.reply(int(self.counter.value()))"
    )
    for name in ("m", "n"):
        write(tmp_path, name, body, init=METRICS)
    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=*") as s:
        assert value(s, "m", 3) == [3] and value(s, "m", 4) == [7] and value(s, "n", 1) == [1]
        page = s.metrics()
        labels = 'instance="m_0_0",model="m"'
        if labels not in page:
            labels = 'instance="m_0",model="m"'
        for line in (
            "# HELP my_counter A counter.",
            "# TYPE my_counter counter",
            "# TYPE my_gauge gauge",
            "# TYPE my_histogram histogram",
            f"my_counter{{{labels}}} 7",
            f"my_gauge{{{labels}}} -1.5",
            f'my_histogram_bucket{{{labels},le="0.1"}} 2',
            f'my_histogram_bucket{{{labels},le="1"}} 6',
            f'my_histogram_bucket{{{labels},le="10"}} 6',
            f'my_histogram_bucket{{{labels},le="+Inf"}} 8',
            f"my_histogram_count{{{labels}}} 8",
            "shared 3",
        ):
            assert line in page.splitlines(), (line, [x for x in page.splitlines() if x.startswith(("my_", "shared"))])
        assert s.post("/v2/repository/models/m/unload").status == 200
        assert until(lambda: f"my_counter{{{labels}}}" not in s.metrics()), s.metrics()
        page = s.metrics()
        assert 'model="n"' in page and "shared 3" in page.splitlines()
        assert s.post("/v2/repository/models/n/unload").status == 200
        assert until(lambda: "my_" not in s.metrics() and "shared" not in s.metrics())


# Runs a text of the client, with names that last.
RUN = """

try:
    exec(json.loads(request.parameters())["run"], globals())
except Exception as error:
    return pb_utils.InferenceResponse([], pb_utils.TritonError(f"{type(error).__name__}: {error}"))
return self.reply(1)
"""


def test_a_family_is_registered_when_it_is_made(tmp_path):
    """Its kind is taken from then on, the first description counts, its metrics live as long as it."""
    for name in ("m", "n"):
        write(tmp_path, name, RUN)
    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=*") as s:

        def run(model, text):
            r = s.infer(model, {**ask(1), "parameters": {"run": text}})
            return "" if r.status == 200 else r.error

        def page():
            return [
                line
                for line in s.metrics().splitlines()
                if line.removeprefix("# HELP ").removeprefix("# TYPE ").startswith("held")
            ]

        for model in ("m", "n"):
            assert run(model, "F = pb_utils.MetricFamily") == ""
        taken = (
            "TritonModelException: Error when creating MetricFamily: Family name already exists with different type: "
            "'held' is a counter"
        )
        assert run("m", "f = F('held', 'one', F.COUNTER)") == "" and page() == []
        assert run("n", "g = F('held', 'two', F.GAUGE)") == taken
        assert run("m", "g = F('held', 'two', F.HISTOGRAM)") == taken
        assert run("n", "g = F('held', 'two', F.COUNTER)\ng.Metric({'a': 'n'})") == ""
        shown = ["# HELP held one", "# TYPE held counter", 'held{a="n"} 0']
        assert page() == shown
        # Nobody keeps these: the family does.
        for _ in range(2):
            assert run("m", "f.Metric({'a': 'm'}).increment(1.5)") == ""
        assert page() == [*shown[:2], 'held{a="m"} 3', shown[2]]
        # Objects, models and workers that go take theirs along.
        assert run("m", "del f") == ""
        assert until(lambda: page() == shown)
        assert run("m", "g = F('held', 'two', F.GAUGE)") == taken  # the other model has it
        assert run("n", "import os; os._exit(1)") != ""
        assert until(lambda: page() == [])
        assert until(lambda: run("m", "g = F('held', 'two', F.GAUGE)") == "")


TWICE = """
if x[0] == 0:
    return pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)], parameters={"said": self.said})
sender, self.said = request.get_response_sender(), ""
sender.send(self.reply(7))
try:
    sender.send(self.reply(8), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
except pb_utils.TritonModelException as error:
    self.said = str(error)
    if x[0] == 2:
        raise
sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def test_a_second_response_is_an_error_of_the_model_alone(tmp_path):
    """The model that is not decoupled hears of it, the client has the first one."""
    write(tmp_path, "m", TWICE)
    with Server(tmp_path) as s:
        for _ in range(2):
            assert value(s, "m", 1) == [7]
            said = s.infer("m", ask(0)).json["parameters"]["said"]
            assert said == "Unable to send response. Non-decoupled model cannot send more than one response."
        r = s.infer("m", ask(2))  # the model fails behind its response, as in Triton
        assert r.status == 500 and "expected a single response, got 2" in r.error
        assert value(s, "m", 1) == [7]
        # On a stream the first one is the answer, as in Triton: what comes behind it is dropped.
        answers = queue.Queue()
        with tgrpc.InferenceServerClient(s.grpc) as client:
            client.start_stream(lambda result, error: answers.put((result, error)))
            for x in (2, 1, 2, 0):
                tensor = tgrpc.InferInput("X", [1], "INT32")
                tensor.set_data_from_numpy(np.array([x], np.int32))
                client.async_stream_infer("m", [tensor])
            got = [answers.get(timeout=60) for _ in range(4)]
            client.stop_stream()
        assert [(e, r and r.as_numpy("Y").tolist()) for r, e in got[:3]] == [(None, [7])] * 3
        assert got[3][1] is None and answers.empty()


BLOCKS = """
family = pb_utils.MetricFamily("nv_trt_llm_kv_cache_block_metrics", "blocks", pb_utils.MetricFamily.GAUGE)
self.blocks = {k: family.Metric(labels={"kv_cache_block_type": k, "model": args["model_name"]}) for k in ("max", "used", "tokens_per")}
self.family = family
"""


def test_the_load_that_balancers_ask_for(tmp_path):
    """ORCA: how full the key-value cache is, as gauges of a model say it, in a header of generate requests."""
    body = "for gauge, v in zip(self.blocks.values(), x):\n    gauge.set(float(v))\nreturn self.reply(1)"
    write(tmp_path, "llm", body, init=BLOCKS)
    write(tmp_path, "other", body, init=BLOCKS)
    write(tmp_path, "plain", "return self.reply(1)")

    def load(s, model, blocks, form="json", route="generate"):
        headers = {} if form is None else {"endpoint-load-metrics-format": form}
        r = s.post(f"/v2/models/{model}/{route}", {"X": blocks}, headers)
        return r.status, r.headers.get("endpoint-load-metrics")

    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=plain") as s:
        assert load(s, "plain", [1]) == (200, None)  # nobody says anything
        for model in ("llm", "other"):
            assert s.post(f"/v2/repository/models/{model}/load").status == 200
        # Reported as it is when the reply begins: this request's own numbers.
        assert load(s, "llm", [8, 2, 64]) == (
            200,
            'JSON {"named_metrics":{"kv_cache_utilization":0.25,"max_token_capacity":512}}',
        )
        text = "TEXT named_metrics.kv_cache_utilization={}, named_metrics.max_token_capacity={}"
        assert load(s, "llm", [3, 1, 64], "text") == (200, text.format("0.333333", 192))
        assert load(s, "llm", [4, 1, 64], "text", "generate_stream") == (200, text.format("0.250000", 256))
        assert load(s, "other", [0, 0, 16]) == (
            200,
            'JSON {"named_metrics":{"kv_cache_utilization":0.0,"max_token_capacity":0}}',
        )
        assert load(s, "llm", [4, 4, 2]) == (
            200,
            'JSON {"named_metrics":{"kv_cache_utilization":1.0,"max_token_capacity":8}}',
        )
        assert load(s, "plain", [1], "text")[1] is not None  # of others: a model in front of it has none of its own
        for form in (None, "", "xml", "JSON"):
            assert load(s, "llm", [4, 1, 64], form) == (200, None), form
        assert load(s, "llm", [-1, 2, 64]) == (200, None)  # no number of blocks
        r = s.infer("llm", ask(8, 2, 64), {"endpoint-load-metrics-format": "json"})
        assert r.status == 200 and "endpoint-load-metrics" not in r.headers
        for model in ("llm", "other"):
            assert s.post(f"/v2/repository/models/{model}/unload").status == 200
        assert until(lambda: "kv_cache" not in s.metrics())
        assert load(s, "plain", [1]) == (200, None)


def test_faults_of_metrics_are_exceptions_of_the_model(tmp_path):
    write(tmp_path, "m", FAULTS + "raise RuntimeError(json.dumps(faults))", init=METRICS)
    with Server(tmp_path) as s:
        r = s.infer("m", ask(1))
        faults = json.JSONDecoder().raw_decode(r.error, r.error.index("["))[0]
        assert len(faults) == len(WANT)
        for got, want in zip(faults, WANT):
            assert got.startswith(want), (got, want)
        assert s.get("/v2/models/m/ready").status == 200


REPORT = """
r = request
seen = {
    "id": r.request_id(), "correlation": r.correlation_id(), "flags": r.flags(), "timeout": r.timeout(), "priority": r.priority(),
    "parameters": r.parameters(), "outputs": sorted(r.requested_output_names()), "cancelled": r.is_cancelled(),
    "trace": r.trace().get_context(), "inputs": [[t.name(), t.shape(), t.triton_dtype(), t.is_cpu()] for t in r.inputs()],
}
pb_utils.Logger.log_info("SEEN " + json.dumps(seen))
q = pb_utils.InferenceRequest(
    model_name="callee", request_id="inner", correlation_id=r.correlation_id(), inputs=r.inputs(), flags=r.flags(),
    requested_output_names=["Y"], timeout=r.timeout(), trace=r.trace(), parameters={"a": 1, "b": "two", "c": True},
    preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0),
)
a = q.exec()
if a.has_error():
    return pb_utils.InferenceResponse(error=a.error())
more = json.loads(a.parameters() or "{}")
return pb_utils.InferenceResponse(a.output_tensors(), parameters={**more, "outer": True})
"""
ECHO = """
return pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)], parameters={
    "id": request.request_id(), "correlation": str(request.correlation_id()), "flags": request.flags(),
    "timeout": request.timeout(), "parameters": request.parameters(), "names": ",".join(sorted(request.requested_output_names())),
})
"""


def test_requests_and_responses_carry_everything(tmp_path):
    write(tmp_path, "caller", REPORT)
    write(tmp_path, "callee", ECHO)
    with Server(tmp_path) as s, tgrpc.InferenceServerClient(s.grpc) as client:
        tensor = tgrpc.InferInput("X", [2], "INT32")
        tensor.set_data_from_numpy(np.array([1, 2], np.int32))
        result = client.infer(
            "caller",
            [tensor],
            request_id="outer",
            timeout=500_000_000,
            parameters={"custom": "value", "number": 7, "flag": True},
        )
        assert result.as_numpy("Y").tolist() == [1, 2]
        parameters = {
            k: v.ListFields()[0][1] if v.ListFields() else 0 for k, v in result.get_response().parameters.items()
        }
        assert parameters["outer"] is True and parameters["id"] == "inner" and parameters["timeout"] == 500_000_000
        assert json.loads(parameters["parameters"]) == {"a": 1, "b": "two", "c": True}
        assert parameters["names"] == "Y"
        assert until(lambda: "SEEN" in s.log())
        line = next(x for x in s.log().splitlines() if "SEEN" in x).replace("\\", "")
        for text in ('"id": "outer"', '"custom":"value"', '"number":7', '"cancelled": false', '["X", [2], 8, true]'):
            assert text in line, line


def test_readiness_of_the_models_own(tmp_path):
    flag = tmp_path / "ready"
    repo = tmp_path / "repo"
    write(repo, "m", "return self.reply(x)")
    path = repo / "m" / "1" / "model.py"
    path.write_text(path.read_text() + f"\n    def is_ready(self):\n        return os.path.exists({str(flag)!r})\n")
    with Server(repo, wait=False) as s:
        assert until(lambda: _answers(s) and s.infer("m", ask(1)).status == 200)
        assert s.get("/v2/models/m/ready").status == 400 and s.get("/v2/health/ready").status == 400
        assert s.get("/v2/health/live").status == 200
        flag.touch()
        assert s.get("/v2/models/m/ready").status == 200 and s.get("/v2/health/ready").status == 200
        flag.unlink()
        assert s.get("/v2/models/m/ready").status == 400


def _answers(s):
    try:
        return s.get("/v2/health/live").status == 200
    except OSError:
        return False


def test_a_hanging_execute_is_bounded(tmp_path):
    python_model(
        tmp_path,
        "m",
        execute="float(pb_utils.get_input_tensor_by_name(requests[0], 'INPUT0').as_numpy()[0, 0]) < 0 and time.sleep(600)",
        extra='parameters { key: "EXECUTION_TIMEOUT_SECONDS" value { string_value: "5" } }',
    )
    with Server(tmp_path) as s:
        assert s.infer("m", X).status == 200
        r = s.infer("m", {"inputs": [{**X["inputs"][0], "data": [-1]}]})
        assert r.status == 500 and "execute did not return within 5s (EXECUTION_TIMEOUT_SECONDS)" in r.error, r
        assert s.infer("m", X).status == 200


def test_backends_in_python(tmp_path):
    repo, backends = tmp_path / "repo", tmp_path / "backends"
    write(
        backends,
        "scaler",
        "return self.reply(x * self.factor)",
        init="import helper\nself.factor = helper.factor(pb_utils.get_model_dir())",
    )
    (backends / "scaler" / "1" / "model.py").rename(backends / "scaler" / "model.py")
    (backends / "scaler" / "helper.py").write_text(
        "import os\n\n\ndef factor(folder):\n    with open(os.path.join(folder, 'factor.txt')) as f:\n        return int(f.read())\n"
    )
    for name, factor in (("twice", 2), ("thrice", 3)):
        (repo / name / "1").mkdir(parents=True)
        (repo / name / "1" / "factor.txt").write_text(str(factor))
        (repo / name / "config.pbtxt").write_text('backend: "scaler"\ninstance_group { count: 2 }\n')
    with Server(repo, f"--backend-directory={backends}", "--backend-config=python,shm-region-prefix-name=x",
                "--backend-config=python,shm-default-byte-size=1048576") as s:  # fmt: skip
        assert value(s, "twice", 4) == [8] and value(s, "thrice", 4) == [12]
        assert s.get("/v2/models/twice/config").json["backend"] == "scaler"
        assert s.log().count("setting=shm-region-prefix-name") == 1
    with Server(repo, "--exit-on-error=false", "--strict-readiness=false", wait=False) as s:
        reasons = settled(s, len(list(repo.iterdir())))
        assert all("unable to find backend library for backend 'scaler'" in r for r in reasons.values()), reasons
        assert s.infer("twice", ask(4)).status == 404


def test_decoupled_requests_at_the_same_time(tmp_path):
    """All requests are answered by threads that overlap, in whatever order they end."""
    write(
        tmp_path,
        "m",
        "sender = request.get_response_sender()\n"
        "def later():\n"
        "    for i in range(3):\n"
        "        time.sleep(0.02 * int(x[0] % 3))\n"
        "        sender.send(self.reply(x[0] * 10 + i))\n"
        "    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)\n"
        "threading.Thread(target=later).start()",
        config="model_transaction_policy { decoupled: true }\n",
    )
    path = tmp_path / "m" / "1" / "model.py"
    path.write_text(path.read_text().replace("return [self.one(r,", "[self.one(r,"))
    with Server(tmp_path) as s, tgrpc.InferenceServerClient(s.grpc) as client:
        got, errors, done = {}, [], threading.Event()

        def take(result, error):
            if error:
                errors.append(error)
                done.set()
                return
            got.setdefault(result.get_response().id, []).append(int(result.as_numpy("Y")[0]))
            if sum(map(len, got.values())) == 60:
                done.set()

        client.start_stream(take)
        for i in range(20):
            tensor = tgrpc.InferInput("X", [1], "INT32")
            tensor.set_data_from_numpy(np.array([i], np.int32))
            client.async_stream_infer("m", [tensor], request_id=str(i))
        assert done.wait(120) and not errors, (got, errors)
        client.stop_stream()
        assert got == {str(i): [10 * i, 10 * i + 1, 10 * i + 2] for i in range(20)}


def test_a_step_unloaded_under_load(tmp_path):
    """Every answer of the ensemble is right or names the reason, nothing hangs, and it works again after a load."""
    for name in ("a", "b"):
        python_model(tmp_path, name, add=1, execute="time.sleep(0.003)")
    ensemble(tmp_path, "e", "a", "b")
    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=*") as s:
        wrong, seen, stop = [], set(), threading.Event()

        def load():
            while not stop.is_set():
                r = s.infer("e", X)
                seen.add(r.status)
                if r.status == 200 and r.json["outputs"][0]["data"] != [3] or r.status not in (200, 404, 503):
                    wrong.append(r)

        threads = [threading.Thread(target=load) for _ in range(6)]
        for t in threads:
            t.start()
        for _ in range(4):
            assert s.post("/v2/repository/models/b/unload").status == 200
            assert until(lambda: s.infer("e", X).status == 404 and 404 in seen)
            assert s.post("/v2/repository/models/e/load").status == 200
            assert until(lambda: s.infer("e", X).status == 200 and 200 in seen)
        stop.set()
        for t in threads:
            t.join()
        assert not wrong, wrong[:3]
        assert 200 in seen and 404 in seen


# What must not end the worker: each answers with what was raised.
WRONG = """
import math
M = pb_utils.MetricFamily
found = []
for call in (
    lambda: pb_utils.load_model(1), lambda: pb_utils.load_model("a", config=3), lambda: pb_utils.load_model("a", files=[]),
    lambda: pb_utils.unload_model(None), lambda: pb_utils.is_model_ready(2), lambda: pb_utils.is_model_ready("a", "9" * 30),
    lambda: self.counter.increment(math.nan), lambda: self.counter.increment(-math.inf), lambda: M("no name", "d", M.GAUGE),
    lambda: self.histogram.observe(math.nan), lambda: M("h", "d", M.HISTOGRAM).Metric({"k": "v"}, [math.nan]),
):
    try:
        call()
        found.append("nothing")
    except (TypeError, pb_utils.TritonModelException) as e:
        found.append(type(e).__name__)
return pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)], parameters={"found": " ".join(found)})
"""
WRONG_INIT = """
M = pb_utils.MetricFamily
self.families = [M("wrong_c", "d", M.COUNTER), M("wrong_h", "d", M.HISTOGRAM), M("wrong_g", "d", M.GAUGE)]
self.counter = self.families[0].Metric()
self.histogram = self.families[1].Metric({"of": "none"}, [])
self.more = self.families[1].Metric({"of": "two"}, [1, float("inf")])
self.more.observe(3)
self.gauge = self.families[2].Metric()
self.gauge.set(float("-inf"))
assert self.gauge.value() == float("-inf")
"""


def test_wrong_values_are_exceptions_of_the_model(tmp_path):
    """Values that JSON has no numbers for, and arguments of another type, leave the worker as it is."""
    repo = tmp_path / "repo"
    write(repo, "wrong", WRONG, init=WRONG_INIT)
    with Server(repo) as server:
        workers = named(server.process.pid, "wrong_0")
        assert len(workers) == 1
        r = server.infer("wrong", ask(1))
        assert r.status == 200, r
        refused = "TypeError TypeError TritonModelException TypeError TypeError TritonModelException".split()
        assert r.json["parameters"]["found"].split() == refused + ["TritonModelException"] * 5
        assert named(server.process.pid, "wrong_0") == workers
        shown = server.metrics()
        assert "\nwrong_g -Inf\n" in shown and '\nwrong_h_bucket{of="none",le="+Inf"} 0\n' in shown
        assert '\nwrong_h_bucket{of="two",le="1"} 0\n' in shown and '\nwrong_h_bucket{of="two",le="+Inf"} 1\n' in shown


ADD = "x += 1\nreturn self.reply(x)"
CALLS = """
import asyncio
def ask():
    return pb_utils.InferenceRequest(model_name="add", inputs=request.inputs(), requested_output_names=["Y"]).async_exec()
async def both():
    done, _ = await asyncio.wait([ask(), ask()])
    return [self.value(f.result()) for f in done]
one, other = asyncio.run(both())
one += 10
x += 100
return self.reply([one[-1], other[-1], x[-1]])
"""
SPLIT = """platform: "ensemble"
input { name: "X" data_type: TYPE_INT32 dims: [ -1 ] }
output [ { name: "A" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "B" data_type: TYPE_INT32 dims: [ -1 ] },
  { name: "C" data_type: TYPE_INT32 dims: [ -1 ] } ]
ensemble_scheduling { step [
  { model_name: "add" model_version: -1 input_map { key: "X" value: "X" } output_map { key: "Y" value: "A" } },
  { model_name: "add" model_version: -1 input_map { key: "X" value: "X" } output_map { key: "Y" value: "B" } },
  { model_name: "add" model_version: -1 input_map { key: "X" value: "A" } output_map { key: "Y" value: "C" } } ] }
"""


COPIED = 'parameters { key: "WRITABLE_INPUTS" value { string_value: "%s" } }'


@pytest.mark.parametrize("size", [4, 100_000])
@pytest.mark.parametrize("config", ["", COPIED % "yes"], ids=["", "copied"])
def test_inputs_may_be_changed_in_place(tmp_path, size, config):
    """As in Triton; nobody else sees it: not another step, nor the model that called."""
    repo = tmp_path / "repo"
    write(repo, "add", ADD, config=config)
    write(repo, "calls", CALLS, config=config)
    (repo / "split" / "1").mkdir(parents=True)
    (repo / "split" / "config.pbtxt").write_text(SPLIT)
    with Server(repo) as server:
        for _ in range(3):
            assert value(server, "add", *range(size)) == list(range(1, size + 1))
            assert value(server, "calls", *[5] * size) == [16, 6, 105]
            r = server.infer("split", ask(*[7] * size))
            assert r.status == 200, r
            got = {o["name"]: set(o["data"]) for o in r.json["outputs"]}
            assert got == {"A": {8}, "B": {8}, "C": {9}}


def test_whether_inputs_may_be_changed_is_yes_or_no(tmp_path):
    repo = tmp_path / "repo"
    write(repo, "add", ADD, config=COPIED % "maybe")
    with Server(repo, "--exit-on-error=false", "--model-control-mode=explicit") as server:
        r = server.post("/v2/repository/models/add/load")
        assert r.status == 400 and "Incorrect value for WRITABLE_INPUTS: 'maybe' is neither yes nor no" in r.error, r


BOTH = """
x += 1
y = pb_utils.get_input_tensor_by_name(request, "Z").as_numpy()
y *= 2
return pb_utils.InferenceResponse([pb_utils.Tensor("Y", x), pb_utils.Tensor("W", y)])
"""
BOTH_CONFIG = """input [ { name: "X" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "Z" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "Y" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "W" data_type: TYPE_INT32 dims: [ -1 ] } ]
"""


@pytest.mark.parametrize("size", [4, 4096, 100_000])
def test_inputs_of_one_body_may_be_changed_in_place(tmp_path, size):
    repo = tmp_path / "repo"
    write(repo, "both", BOTH, config=BOTH_CONFIG)
    with Server(repo, "--disable-auto-complete-config") as server:
        for module, url in ((thttp, server.http), (tgrpc, server.grpc)):
            with module.InferenceServerClient(url) as client:
                tensors = [module.InferInput(name, [size], "INT32") for name in "XZ"]
                tensors[0].set_data_from_numpy(np.arange(size, dtype=np.int32))
                tensors[1].set_data_from_numpy(np.full(size, 7, np.int32))
                for _ in range(2):
                    r = client.infer("both", tensors)
                    assert r.as_numpy("Y")[-1] == size and set(r.as_numpy("W")) == {14}
