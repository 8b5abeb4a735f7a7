"""--model-control-mode=on-demand: requests load their models, and idle ones leave when memory is needed."""

from __future__ import annotations

import concurrent.futures
import queue
import shutil
import signal
import subprocess
import threading

import numpy as np
import onnx
import pytest
import tritonclient.grpc as tgrpc
import tritonclient.http as thttp
from bls import ask, value, write
from onnx import helper, numpy_helper
from repository import Gate, Sent, X, answer, ensemble, identity_model, metric, python_model, until
from sequences import ACCUMULATE, Grpc, add_model
from server import BINARY, ROOT, Server, descendants

ON_DEMAND = "--model-control-mode=on-demand"
LARGE = "self.x = b'x' * (100 << 20)"  # with the interpreter 130 MB
TWO_FIT = (ON_DEMAND, "--model-memory-limit=320M", "--on-demand-min-residency-secs=0")


def parameter(name, value):
    return f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}'


def index(server):
    return {m["name"]: (m.get("state", ""), m.get("reason", "")) for m in server.post("/v2/repository/index").json}


def count(server, what):
    """How often the log has a text."""
    return server.log().count(what)


def inputs(client):
    x = client.InferInput("INPUT0", [1, 1], "FP32")
    x.set_data_from_numpy(np.ones((1, 1), np.float32))
    return [x]


def test_a_storm_loads_once_and_the_least_used_leaves(tmp_path):
    """Python and ONNX models, both protocols: who waits is served by one load, and what is known of a model survives its eviction."""
    for name in "abc":
        python_model(tmp_path, name, init=LARGE)
    identity_model(tmp_path, "identity_any_fp32")
    with Server(tmp_path, *TWO_FIT) as s:
        assert index(s)["a"] == ("", "not loaded yet")
        assert s.get("/v2/models/a/ready").status == 400 and s.get("/v2/health/ready").status == 200
        assert not count(s, "loading: a:1"), "to ask whether a model is ready loads nothing"

        def ask_once(module, address):
            with module.InferenceServerClient(address) as client:  # that of HTTP belongs to its thread
                return client.infer("a", inputs(module)).as_numpy("OUTPUT0").item()

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            ways = [(thttp, s.http), (tgrpc, s.grpc)] * 8
            assert list(pool.map(lambda way: ask_once(*way), ways)) == [1.0] * 16
        with thttp.InferenceServerClient(s.http) as h, tgrpc.InferenceServerClient(s.grpc) as g:
            assert count(s, "loading: a:1") == 1
            assert index(s)["a"] == ("READY", "loaded on demand")
            assert g.infer("identity_any_fp32", inputs(tgrpc)).as_numpy("OUTPUT0").tolist() == [[1.0]]
            before = h.get_model_metadata("b"), g.get_model_config("b", as_json=True)
            assert answer(s, "a") == 1
            assert answer(s, "c") == 1  # b was not used since it was described
            assert index(s)["b"] == ("UNAVAILABLE", "evicted: memory was needed")
            assert s.get("/v2/models/b/ready").status == 400
            assert (h.get_model_metadata("b"), g.get_model_config("b", as_json=True)) == before
            assert count(s, "loading: b:1") == 1, "what is known of a model that has been in needs no load"
            assert answer(s, "b") == 1 and until(lambda: index(s)["a"][1] == "evicted: memory was needed")
        assert metric(s, "neso_on_demand_loads_total", outcome="loaded") == 5
        assert metric(s, "neso_on_demand_evictions_total", reason="memory") == 2
        assert metric(s, "neso_on_demand_models", state="in") == 3
        assert f"neso_on_demand_memory_limit_bytes {float(320 << 20):.10g}" in s.metrics()
        assert s.infer("nope", X).status == 404
        assert (
            s.post("/v2/models/b/versions/7/infer", X).error == "Request for unknown model: 'b' version 7 is not found"
        )


def test_no_request_is_lost_when_many_models_share_little_memory(tmp_path):
    for i in range(12):
        python_model(tmp_path, f"m{i}", init="self.x = b'x' * (40 << 20)", add=i)
    order = np.random.default_rng(7).integers(0, 12, 100).tolist()
    with Server(tmp_path, ON_DEMAND, "--model-memory-limit=300M", "--on-demand-min-residency-secs=0.05") as s:
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            assert list(pool.map(lambda i: answer(s, f"m{i}"), order)) == [i + 1 for i in order]
        assert metric(s, "neso_on_demand_evictions_total", reason="memory") > 5
        assert until(lambda: len(descendants(s.process.pid)) <= 8), "the processes of models that left have ended"


def test_who_stays(tmp_path):
    """Pinned models, busy ones, those with sequences that have not ended; the idle time; faults in the parameters."""
    gate = Gate(tmp_path)
    models = tmp_path / "models"
    python_model(models, "pinned", init=LARGE, extra=parameter("on_demand_pin", "true"))
    python_model(models, "busy", init=LARGE, execute=gate.execute)
    python_model(models, "other", init=LARGE, extra=parameter("on_demand_idle_secs", "0.2"))
    python_model(models, "odd", extra=parameter("on_demand_idle_secs", "soon"))
    add_model(models, "sums", code=ACCUMULATE.replace("self.sums = {}", f"self.sums = {{}}\n        {LARGE}"))
    with Server(models, *TWO_FIT, "--load-model=pinned", "--on-demand-timeout-secs=2") as s:
        assert index(s)["pinned"] == ("READY", "loaded by request, pinned")
        sent = Sent(s, "busy")
        gate.come()
        refused = s.infer("other", X)
        assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1, refused
        assert refused.error.startswith(
            "model 'other' is not loaded: the request has waited 2s (--on-demand-timeout-secs)"
        )
        gate.open()
        assert sent.status() == 200
        assert answer(s, "other") == 1
        assert index(s)["busy"] == ("UNAVAILABLE", "evicted: memory was needed")
        assert until(lambda: index(s)["other"] == ("UNAVAILABLE", "evicted: idle"))
        client = Grpc(s)

        def send(number, **flags):
            return client.infer("sums", number, 5, **flags).as_numpy("OUT").item()

        assert send(1, start=True) == 1
        assert s.infer("other", X).status == 503, "a sequence that has not ended is not lost"
        assert send(2) == 3 and send(3, end=True) == 6
        assert answer(s, "other") == 1
        odd = s.infer("odd", X)
        assert (
            odd.status == 503
            and "parameter 'on_demand_idle_secs' of model 'odd' is 'soon', expected a number" in odd.error
        ), odd
        assert index(s)["pinned"][0] == "READY"


def test_ensembles_and_models_that_call_others(tmp_path):
    """An ensemble comes with its steps; a call of a model loads its callee, or fails at once where only the caller is in the way."""
    for name in ("x", "y", "z"):
        python_model(tmp_path, name, init="self.x = b'x' * (60 << 20)", add=1)
    ensemble(tmp_path, "both", "x", "y")
    for name, init in (("small", "pass"), ("large", LARGE)):
        write(tmp_path, name, "return self.reply(self.value(self.call('callee', x)) + 1)", init=init)
    write(tmp_path, "callee", "return self.reply(x * 10)", init=LARGE)
    with Server(tmp_path, ON_DEMAND, "--model-memory-limit=220M", "--on-demand-min-residency-secs=0") as s:
        assert answer(s, "both") == 3
        assert index(s)["x"] == ("READY", "loaded on demand as a step of an ensemble")
        assert answer(s, "z") == 2  # one of the steps has to leave, and the ensemble with it
        assert index(s)["both"][0] == "UNAVAILABLE"
        assert answer(s, "both") == 3
        assert value(s, "small", 4) == [41] and value(s, "callee", 4) == [40]
        r = s.infer("large", ask(4))
        assert r.status == 500 and "there is no memory for model 'callee': it needs about" in r.error, r
        assert "--model-memory-limit" in r.error


def test_loads_that_fail_and_waits_that_end(tmp_path):
    gate = tmp_path / "gate"
    gate.touch()
    models = tmp_path / "models"
    python_model(models, "broken", init="raise ValueError('no weights here')")
    python_model(models, "slow", init=f"import os\n        while os.path.exists({str(gate)!r}): time.sleep(0.005)")
    python_model(models, "fine")
    options = ("--on-demand-max-waiting=3", "--on-demand-load-count=2")
    with Server(models, ON_DEMAND, *options) as s, tgrpc.InferenceServerClient(s.grpc) as g:
        first = s.infer("broken", X)
        assert first.status == 503 and "model 'broken' could not be loaded, and is tried again in 1s" in first.error, (
            first
        )
        assert "no weights here" in first.error and first.headers["retry-after"] == "1"
        again = s.infer("broken", X)
        assert again.status == 503 and count(s, "loading: broken:1") == 1, "it is not loaded for each request"
        with pytest.raises(Exception, match="no weights here"):
            g.infer("broken", inputs(tgrpc))
        assert "load failed: " in index(s)["broken"][1] and s.get("/v2/health/ready").status == 200
        assert s.post("/v2/repository/models/broken/load", {}).status == 400, (
            "the API tries at once, and says what the load says"
        )
        python_model(models, "broken")  # repaired
        assert s.post("/v2/repository/models/broken/load", {}).status == 200 and answer(s, "broken") == 1

        sent = [Sent(s, "slow") for _ in range(2)]
        assert until(lambda: index(s)["slow"][0] == "LOADING")
        assert answer(s, "fine") == 1, "models that are in, or come in, do not wait for it"
        with pytest.raises(Exception, match="Deadline Exceeded"):
            g.infer("slow", inputs(tgrpc), client_timeout=0.2)
        waiting = lambda: float(s.metrics().split("\nneso_on_demand_waiting_requests ")[1].split()[0])  # noqa: E731
        assert until(lambda: waiting() == 2), "a client that has given up does not wait"
        sent.append(Sent(s, "slow"))
        assert until(lambda: waiting() == 3)
        full = s.infer("slow", X)
        assert full.status == 503 and "3 requests wait for models already (--on-demand-max-waiting)" in full.error, full
        sent.pop().close()
        assert until(lambda: waiting() == 2)
        gate.unlink()
        assert [one.status() for one in sent] == [200, 200] and count(s, "loading: slow:1") == 1


def test_loads_that_never_end_keep_nobody_out(tmp_path):
    """More models hang in `initialize` than there are threads for loads: for requests and for the API others are loaded all the same."""
    gate = tmp_path / "gate"
    gate.touch()
    models = tmp_path / "models"
    hanging = ("hang0", "hang1")
    for name in hanging:
        python_model(models, name, init=f"import os\n        while os.path.exists({str(gate)!r}): time.sleep(0.005)")
    python_model(models, "asked")
    python_model(models, "told")
    options = ("--model-load-thread-count=1", "--on-demand-load-count=1", "--on-demand-timeout-secs=1")
    with Server(models, ON_DEMAND, *options) as s:
        for name in hanging:
            assert until(lambda name=name: s.infer(name, X).status == 503 and count(s, f"loading: {name}:1"))
        assert until(lambda: s.infer("asked", X).status == 200)
        assert s.post("/v2/repository/models/told/load", {}).status == 200 and answer(s, "told") == 1
        assert "the load of a model lasts long, or hangs" in s.log()
        gate.unlink()
        assert until(lambda: all(s.infer(name, X).status == 200 for name in hanging))


def test_what_the_api_says_counts(tmp_path):
    for name in "ab":
        python_model(tmp_path, name, init=LARGE)
    with Server(tmp_path, *TWO_FIT) as s, thttp.InferenceServerClient(s.http) as h:
        h.load_model("a")
        assert index(s)["a"] == ("READY", "loaded on demand") and answer(s, "a") == 1
        h.unload_model("a")
        assert until(lambda: index(s)["a"] == ("UNAVAILABLE", "unloaded"))
        gone = s.infer("a", X)
        assert gone.status == 404 and gone.error == "Request for unknown model: 'a' has no available versions"
        assert s.get("/v2/models/a").status == 404
        h.load_model("a")
        assert answer(s, "a") == 1
        python_model(tmp_path, "new", init=LARGE, add=1)
        assert until(lambda: s.infer("new", X).status == 200), "found without a restart"
        config = h.get_model_config("b")
        config["parameters"] = {"on_demand_priority": {"string_value": "-3"}}
        h.load_model("b", config=str(config).replace("'", '"').replace("False", "false").replace("True", "true"))
        assert answer(s, "a") == 1 and answer(s, "new") == 2
        assert index(s)["b"][0] == "READY", "what came with the request could not be brought back"
        h.unload_model("b")
        assert s.infer("b", X).status == 404


def test_streams_and_stops(tmp_path):
    """A stream waits in order; a server that stops serves who waits."""
    gate = tmp_path / "gate"
    gate.touch()
    models = tmp_path / "models"
    python_model(
        models, "slow", init=f"import os\n        while os.path.exists({str(gate)!r}): time.sleep(0.005)", add=1
    )
    python_model(models, "fine")
    with Server(models, ON_DEMAND) as s:
        answers = queue.Queue()
        with tgrpc.InferenceServerClient(s.grpc) as g:
            g.start_stream(lambda result, error: answers.put(error or result.as_numpy("OUTPUT0").item()))
            g.async_stream_infer("fine", inputs(tgrpc))
            g.async_stream_infer("slow", inputs(tgrpc))
            g.async_stream_infer("fine", inputs(tgrpc))
            assert answers.get(timeout=60) == 1 and until(lambda: index(s)["slow"][0] == "LOADING")
            sent = Sent(s, "slow")
            assert until(lambda: "neso_on_demand_waiting_requests 2" in s.metrics())
            s.process.send_signal(signal.SIGTERM)
            threading.Timer(0.3, gate.unlink).start()
            assert sent.status() == 200
            assert answers.get(timeout=60) == 2
            g.stop_stream()
        assert s.process.wait(60) == 0, s.log()[-3000:]


def onnx_model(repo, name):
    """A model with 4 KB of weights."""
    nodes = [helper.make_node("MatMul", ["INPUT0", "w"], ["x"]), helper.make_node("MatMul", ["x", "v"], ["OUTPUT0"])]
    ends = [helper.make_tensor_value_info(end, onnx.TensorProto.FLOAT, ["n", 1]) for end in ("INPUT0", "OUTPUT0")]
    weights = [
        numpy_helper.from_array(np.full(shape, 1, np.float32), w) for w, shape in (("w", (1, 500)), ("v", (500, 1)))
    ]
    graph = helper.make_graph(nodes, name, ends[:1], ends[1:], weights)
    python_model(repo, name)
    config = repo / name / "config.pbtxt"
    config.write_text(config.read_text().replace('"python"', '"onnxruntime"').replace("[ -1, -1 ]", "[ -1, 1 ]"))
    (repo / name / "1" / "model.py").unlink()
    file = repo / name / "1" / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file


def test_what_is_damaged_is_told_and_comes_back_when_mended(tmp_path):
    """Weights that are cut off, code that ends or kills its process while it loads: each who waits is told why, the pause is kept, and
    the next request after the repair loads it."""
    weights = onnx_model(tmp_path, "onnx")
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    python_model(tmp_path, "exits", init="import os\n        os._exit(7)")
    python_model(tmp_path, "dies", init="import os\n        os.kill(os.getpid(), 9)")
    python_model(tmp_path, "odd")
    code = tmp_path / "odd" / "1" / "model.py"
    code.write_text("this is no Python\n")
    python_model(tmp_path, "fine")
    texts = {
        "onnx": "model.onnx",
        "exits": "exited with code 7",
        "dies": "killed by SIGKILL",
        "odd": "invalid syntax",
    }
    with Server(tmp_path, ON_DEMAND) as s, concurrent.futures.ThreadPoolExecutor(24) as pool:
        sent = {name: [pool.submit(s.infer, name, X) for _ in range(6)] for name in texts}
        assert answer(s, "fine") == 1
        for name, text in texts.items():
            for one in sent[name]:
                told = one.result(60)
                assert told.status == 503 and int(told.headers["retry-after"]) >= 1, told
                assert told.error.startswith(f"model '{name}' could not be loaded, and is tried again in"), told
                assert text in told.error, told
            assert count(s, f"loading: {name}:1") == 1
            assert index(s)[name][1].startswith("load failed: ")
        weights.write_bytes(whole)
        for name in ("exits", "dies", "odd"):
            python_model(tmp_path, name)
        for name in texts:
            assert until(lambda name=name: s.infer(name, X).status == 200)
            assert index(s)[name] == ("READY", "loaded on demand") and count(s, f"loading: {name}:1") == 2
        assert answer(s, "fine") == 1


def test_labels_of_a_model_that_is_out(tmp_path):
    """Which version has a label is in the model's directory: a request that names one has the model loaded, as any other."""
    for version in (1, 2):
        python_model(tmp_path, "m", version, add=version, extra="version_policy { all { } }")
        python_model(tmp_path, "plain", version, extra="version_policy { all { } }")
    (tmp_path / "m" / "rollout.yaml").write_text("labels: {stable: 1, canary: 2}\nweights: {stable: 1}\n")
    with Server(tmp_path, ON_DEMAND, "--on-demand-idle-secs=1") as s, tgrpc.InferenceServerClient(s.grpc) as g:

        def out():
            return until(lambda: index(s).get("m") == ("UNAVAILABLE", "evicted: idle"))

        told = s.get("/v2/models/m/versions/stable/stats")
        assert told.status == 503 and "which version has the label 'stable' is known once it is" in told.error, told
        assert s.get("/v2/models/m/versions/stable/ready").status == 400 and not count(s, "loading: m:1")
        assert s.post("/v2/models/m/versions/canary/infer", X).json["model_version"] == "2" and out()
        assert g.infer("m", inputs(tgrpc), model_version="stable").get_response().model_version == "1" and out()
        assert s.infer("m", X).json["model_version"] == "1"
        missing = s.post("/v2/models/plain/versions/canary/infer", X)
        assert missing.status == 404 and "'plain' has no version with the label 'canary'" in missing.error, missing
        assert s.post("/v2/models/plain/versions/canary/infer", X).status == 404  # it is in, and has no rules
        assert s.post("/v2/models/nope/versions/canary/infer", X).status == 404


def test_a_step_back_outlasts_an_eviction(tmp_path):
    """A version that was stepped back from gets no requests again because the model has left memory and comes back."""
    python_model(tmp_path, "bad", 1, extra="version_policy { all { } }")
    python_model(
        tmp_path, "bad", 2, execute='raise pb_utils.TritonModelException("no")', extra="version_policy { all { } }"
    )
    (tmp_path / "bad" / "rollout.yaml").write_text(
        "weights: {1: 1, 2: 99}\nstep_back: {from: 2, window: 60s, min_requests: 3, max_error_rate: 0.1}\n"
    )
    with Server(tmp_path, ON_DEMAND, "--on-demand-idle-secs=1") as s:

        def out():
            return until(lambda: index(s).get("bad") == ("UNAVAILABLE", "evicted: idle"))

        assert until(lambda: s.infer("bad", X).status == 500 and "stepped back" in s.log())
        for _ in range(2):
            assert [s.infer("bad", X).status for _ in range(10)] == [200] * 10
            assert s.get("/v2/repository/models/bad/rollout").json["stepped_back"]["version"] == "2" and out()
        # Whoever unloads it, and loads it again, begins with the file.
        assert s.post("/v2/repository/models/bad/unload").status == 200
        assert s.post("/v2/repository/models/bad/load").status == 200
        assert "stepped_back" not in s.get("/v2/repository/models/bad/rollout").json


def test_what_is_set_is_told_while_the_model_is_out(tmp_path):
    """Alerts and scripts look at shares and counts: these do not come and go with a model's memory."""
    for version in (1, 2):
        python_model(tmp_path, "m", version, extra="version_policy { all { } }")
    (tmp_path / "m" / "rollout.yaml").write_text(
        "labels: {stable: 1, canary: 2}\nweights: {stable: 3, canary: 1}\nmirror: {to: canary}\n"
        "step_back: {from: canary, max_error_rate: 0.5}\n"
    )
    with Server(tmp_path, ON_DEMAND, "--on-demand-idle-secs=1") as s:

        def told():
            lines = [line for line in s.metrics().splitlines() if line.startswith("neso_rollout_")]
            return s.get("/v2/repository/models/m/rollout").json, sorted(lines)

        def served():
            return all(s.infer("m", X).status == 200 for _ in range(10))

        early = s.get("/v2/repository/models/m/rollout")
        assert early.status == 503 and "known once it has been loaded" in early.error, early
        assert s.get("/v2/repository/models/nope/rollout").status == 404 and not count(s, "loading: m:1")
        assert served() and until(lambda: index(s).get("m") == ("UNAVAILABLE", "evicted: idle"))
        document, lines = told()
        assert document["rules"]["weights"] == {"stable": 3, "canary": 1} and document["primary"] == "1", document
        assert [v["share"] for v in document["versions"]] == [0.75, 0.25]
        assert [v["labels"] for v in document["versions"]] == [["stable"], ["canary"]]
        assert sum(v["requests"]["weight"] for v in document["versions"] if "weight" in v["requests"]) == 10
        for version, share in (("1", 0.75), ("2", 0.25)):
            assert metric(s, "neso_rollout_share", model="m", version=version) == share
            assert metric(s, "neso_rollout_stepped_back", model="m", version=version) == 0
        assert told() == (document, lines) and count(s, "loading: m:1") == 1, "to ask loads nothing"
        assert s.post("/v2/repository/models/m/unload").status == 200
        assert s.get("/v2/repository/models/m/rollout").status == 404, "who unloads a model ends its rules"


def test_a_version_that_does_not_load_leaves_those_that_were_in(tmp_path):
    """What is put on the disk while a model is out, and cannot be loaded, takes nothing from clients that were served before."""
    every = "version_policy { all { } }"
    python_model(tmp_path, "latest", 1, add=1)
    python_model(tmp_path, "ruled", 1, add=1, extra=every)
    rules = tmp_path / "ruled" / "rollout.yaml"
    rules.write_text("labels: {stable: 1}\nweights: {stable: 1}\n")
    ensemble(tmp_path, "around", "latest")
    with Server(tmp_path, ON_DEMAND, "--on-demand-idle-secs=1") as s:

        def states(name):
            told = s.post("/v2/repository/index").json
            return {m["version"]: (m["state"], m.get("reason", "")) for m in told if m["name"] == name}

        def out(name):
            return until(lambda: states(name)["1"] == ("UNAVAILABLE", "evicted: idle"))

        def version(name):
            reply = s.infer(name, X)
            return reply.json["model_version"] if reply.status == 200 else reply.error

        assert version("latest") == version("ruled") == version("around") == "1"
        assert out("around") and out("latest") and out("ruled")
        for name in ("latest", "ruled"):
            python_model(tmp_path, name, 2, init='raise RuntimeError("no weights")', extra=every * (name == "ruled"))
        rules.write_text("labels: {stable: 1, canary: 2}\nweights: {stable: 1, canary: 1}\n")
        for _ in range(2):
            assert version("latest") == "1" and version("ruled") == "1"
            assert s.post("/v2/models/ruled/versions/stable/infer", X).json["model_version"] == "1"
            one, two = states("ruled")["1"], states("ruled")["2"]
            assert one[0] == "READY" and two[0] == "UNAVAILABLE" and "no weights" in two[1], (one, two)
            assert out("latest") and out("ruled")
        assert version("around") == "1"  # brings its step with it
        assert "'latest' comes back with the versions that it had when it left, [1]" in s.log()
        # Who asks for a load is told, and the model stays as it is.
        failed = s.post("/v2/repository/models/latest/load")
        assert failed.status == 400 and "no weights" in failed.error, failed
        assert version("latest") == "1"
        # What is mended comes in with the next load.
        assert out("around") and out("latest") and out("ruled")
        for name in ("latest", "ruled"):
            python_model(tmp_path, name, 2, add=2, extra=every * (name == "ruled"))
        assert version("latest") == "2"
        assert s.post("/v2/models/ruled/versions/canary/infer", X).json["model_version"] == "2"


def test_vectors_of_one_request_for_a_model_that_is_out(tmp_path):
    """Whether its model is known or not: all texts of a request go to the version that the weights give it once."""
    shutil.copytree(ROOT / "examples" / "openai" / "letters", tmp_path / "letters")
    shutil.copytree(tmp_path / "letters" / "1", tmp_path / "letters" / "2")
    with (tmp_path / "letters" / "config.pbtxt").open("a") as f:
        f.write("version_policy { all { } }\n")
    (tmp_path / "letters" / "rollout.yaml").write_text("weights: {1: 1, 2: 1}\n")
    with Server(tmp_path, "--openai=true", ON_DEMAND, "--on-demand-idle-secs=1") as s:
        for _ in range(2):
            reply = s.post("/v1/embeddings", {"model": "letters", "input": ["a", "b", "c"] * 40})
            assert reply.status == 200, reply
            assert until(lambda: index(s).get("letters") == ("UNAVAILABLE", "evicted: idle"))


def test_a_limit_below_one_model(tmp_path):
    """What a model has is known once it has been in: then a request is told, and the server serves what fits."""
    python_model(tmp_path, "large", init=LARGE)
    identity_model(tmp_path, "identity_any_fp32")
    with Server(tmp_path, ON_DEMAND, "--model-memory-limit=20M", "--on-demand-min-residency-secs=0") as s:
        assert answer(s, "large") == 1
        assert until(lambda: index(s)["large"] == ("UNAVAILABLE", "evicted: memory was needed"))
        refused = s.infer("large", X)
        assert refused.status == 503 and refused.error.startswith(
            "there is no memory for model 'large': it needs about 1"
        ), refused
        assert refused.error.endswith("and the limit is 20 MiB (--model-memory-limit)"), refused
        assert s.infer("identity_any_fp32", X).status == 200 and s.get("/v2/health/ready").status == 200


@pytest.mark.parametrize("value", ["-1", "much", "1e30", "0.5"])
def test_limits_that_are_none(tmp_path, value):
    done = subprocess.run(
        [BINARY, "serve", f"--model-repository={tmp_path}", ON_DEMAND, f"--model-memory-limit={value}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0 and "model-memory-limit" in done.stderr, done
