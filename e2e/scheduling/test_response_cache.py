"""The response cache through the built binary: the peer's numbers, reloads, a Redis that goes away."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import threading

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
from repository import Sent, until
from server import BINARY, Server, free_port

MODEL = """import os
import time
import triton_python_backend_utils as pb_utils

runs = 0


class TritonPythonModel:
    def execute(self, requests):
        global runs
        answers = []
        for r in requests:
            runs += 1
            x = pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy()
            while os.path.exists({gate!r}):
                time.sleep(0.005)
            if x.flat[0] < 0:
                answers.append(pb_utils.InferenceResponse(error=pb_utils.TritonError("negative")))
                continue
            wanted = r.requested_output_names()
            out = {{"OUTPUT0": x * {factor}, "RUN": x * 0 + runs}}
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor(n, out[n]) for n in out if n in wanted]))
        return answers
"""
IO = """max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "RUN" data_type: TYPE_FP32 dims: [ -1 ] }
"""
CACHED = "response_cache { enable: true }\n"
ENSEMBLE = """platform: "ensemble"
ensemble_scheduling { step { model_name: "STEP" model_version: -1
  input_map { key: "INPUT0" value: "INPUT0" }
  output_map { key: "OUTPUT0" value: "OUTPUT0" }
  output_map { key: "RUN" value: "RUN" } } }
"""
LOCAL = "--cache-config=local,size=1048576"
EXPLICIT = ("--model-control-mode=explicit", "--load-model=*")


def model(repo, name, extra=CACHED, gate="", factor=2):
    (repo / name / "1").mkdir(parents=True, exist_ok=True)
    (repo / name / "config.pbtxt").write_text('backend: "python"\n' + IO + extra)
    (repo / name / "1" / "model.py").write_text(MODEL.format(gate=str(gate), factor=factor))


def ensemble(repo, name, step, extra=CACHED):
    (repo / name / "1").mkdir(parents=True)
    (repo / name / "config.pbtxt").write_text(ENSEMBLE.replace("STEP", step) + IO + extra)


def body(*values, shape=None, **more):
    one = {"name": "INPUT0", "datatype": "FP32", "shape": shape or [1, len(values)], "data": list(values)}
    return {"inputs": [one], **more}


def ask(s, name, *values, **more):
    r = s.infer(name, body(*values, **more))
    assert r.status == 200, r
    return {o["name"]: o["data"] for o in r.json["outputs"]}


def counts(s, name):
    v = s.get(f"/v2/models/{name}/stats").json["model_stats"][0]
    return {
        "inferences": v["inference_count"],
        "executions": v["execution_count"],
        "batches": [(b["batch_size"], b["compute_infer"]["count"]) for b in v["batch_stats"]],
        **{k: d["count"] for k, d in v["inference_stats"].items()},
    }


def metric(s, name, labels=""):
    found = re.findall(rf"^{name}{re.escape(labels)} (\S+)$", s.metrics(), re.M)
    return float(found[0]) if found else None


def series(s, name):
    """What is sent to both servers; they agree on all of it."""
    for _ in range(3):
        assert ask(s, name, 1, 2)["OUTPUT0"] == [2, 4]
    for _ in range(2):
        assert ask(s, name, 1, 2, 3, 4, shape=[4, 1])["OUTPUT0"] == [2, 4, 6, 8]
    ask(s, name, 7)
    ask(s, name, 1, 2, id="another id", parameters={"priority": 1})


# What Triton 2.51 says after the series.
PEER = {
    "inferences": 6, "executions": 3, "batches": [(1, 2), (4, 1)],
    "success": 7, "fail": 0, "queue": 7, "compute_input": 3, "compute_infer": 3, "compute_output": 3, "cache_hit": 4, "cache_miss": 3,
}  # fmt: skip
PEER_METRICS = {
    "nv_inference_request_success": 7, "nv_inference_count": 6, "nv_inference_exec_count": 3,
    "nv_cache_num_hits_per_model": 4, "nv_cache_num_misses_per_model": 3,
    "nv_cache_hit_summary_per_model_count": 4, "nv_cache_miss_summary_per_model_count": 3, "nv_inference_queue_summary_us_count": 7,
    "nv_inference_compute_infer_summary_us_count": 3, "nv_inference_request_summary_us_count": None,
}  # fmt: skip
PEER_CACHE = {
    "nv_cache_num_entries": 3, "nv_cache_num_hits": 4, "nv_cache_num_misses": 3, "nv_cache_num_lookups": 7, "nv_cache_num_evictions": 0,
}  # fmt: skip


@pytest.mark.parametrize("kind", ["default", "dynamic", "ensemble"])
def test_numbers_are_the_peers(tmp_path, kind):
    model(tmp_path, "m", {"default": CACHED, "dynamic": CACHED + "dynamic_batching { }\n", "ensemble": ""}[kind])
    name = "m"
    if kind == "ensemble":
        name = "e"
        ensemble(tmp_path, "e", "m")
    with Server(tmp_path, LOCAL, "--metrics-config=summary_latencies=true") as s:
        series(s, name)
        assert until(lambda: counts(s, name) == PEER), counts(s, name)
        labels = f'{{model="{name}",version="1"}}'

        def shown():
            return {k: metric(s, k, labels) for k in PEER_METRICS} | {k: metric(s, k) for k in PEER_CACHE}

        assert until(lambda: shown() == PEER_METRICS | PEER_CACHE), shown()
        assert 0 < metric(s, "nv_cache_util") < 1
        text = s.metrics()
        for kind in ("hit", "miss"):
            assert f"nv_cache_{kind}_duration_per_model{labels}" in text
        assert "# TYPE nv_cache_num_hits gauge" in text and "# TYPE nv_cache_num_hits_per_model counter" in text
        stats = s.get(f"/v2/models/{name}/stats").json["model_stats"][0]["inference_stats"]
        assert stats["cache_hit"]["ns"] > 0 and stats["success"]["ns"] > stats["cache_miss"]["ns"] > 0
        with tgrpc.InferenceServerClient(s.grpc) as client:
            g = client.get_inference_statistics(name, as_json=True)["model_stats"][0]["inference_stats"]
            assert (int(g["cache_hit"]["count"]), int(g["cache_miss"]["count"])) == (4, 3)
            i = tgrpc.InferInput("INPUT0", [1, 2], "FP32")
            i.set_data_from_numpy(np.array([[1, 2]], np.float32))
            assert client.infer(name, [i]).as_numpy("OUTPUT0").tolist() == [[2, 4]]
        assert metric(s, "nv_cache_num_hits") == 5  # over another protocol, the same answer


def test_different_requests_do_not_share_an_answer(tmp_path):
    """Triton's key leaves out shape, datatype, parameters and requested outputs."""
    model(tmp_path, "m")
    with Server(tmp_path, LOCAL, "--log-verbose=1") as s:
        assert ask(s, "m", 1, 2) == {"OUTPUT0": [2, 4], "RUN": [1, 1]}
        assert ask(s, "m", 1, 2, outputs=[{"name": "OUTPUT0"}]) == {"OUTPUT0": [2, 4]}
        assert ask(s, "m", 1, 2, shape=[2, 1])["RUN"] == [3, 3]
        assert ask(s, "m", 1, 2, parameters={"x": 1})["RUN"] == [4, 4]
        assert ask(s, "m", 1, 2, outputs=[{"name": "RUN"}, {"name": "OUTPUT0"}])["RUN"] == [1, 1]  # all of them
        r = ask(s, "m", 1, 2, outputs=[{"name": "OUTPUT0", "parameters": {"classification": 1}}])
        assert r == {"OUTPUT0": ["4.000000:1"]}  # made of the answer that is kept
        assert ask(s, "m", 1, 2, outputs=[{"name": "OUTPUT0"}]) == {"OUTPUT0": [2, 4]}
        for _ in range(2):  # errors are not kept
            r = s.infer("m", body(-1))
            assert (r.status, r.error) == (500, "negative")
        assert until(lambda: counts(s, "m")["fail"] == 2)
        assert until(lambda: s.log().count("cache=hit") == 3)


def test_a_reload_begins_anew(tmp_path):
    """Triton goes on with the old answers, also of an ensemble whose step is loaded anew."""
    model(tmp_path, "m")
    ensemble(tmp_path, "e", "m")
    with Server(tmp_path, LOCAL, *EXPLICIT) as s:
        for name in ("m", "e"):
            assert ask(s, name, 1)["OUTPUT0"] == ask(s, name, 1)["OUTPUT0"] == [2]
        model(tmp_path, "m", factor=20)
        assert s.post("/v2/repository/models/m/load").status == 200
        for name in ("m", "e"):
            assert ask(s, name, 1)["OUTPUT0"] == ask(s, name, 1)["OUTPUT0"] == [20]


def test_no_room(tmp_path):
    model(tmp_path, "m")
    with Server(tmp_path, "--cache-config=local,size=4096") as s:
        for n in range(20):
            assert ask(s, "m", n)["OUTPUT0"] == [2 * n]
        assert metric(s, "nv_cache_num_evictions") > 0
        assert 0 < metric(s, "nv_cache_num_entries") < 20 and metric(s, "nv_cache_util") <= 1
        for _ in range(3):
            assert ask(s, "m", *range(2000))["OUTPUT0"][3] == 6
        assert s.log().count("is greater than total cache size: 4096") == 1


def test_without_a_cache(tmp_path):
    model(tmp_path, "m")
    model(tmp_path, "off", "")
    with Server(tmp_path) as s:
        assert [ask(s, "m", 1)["RUN"] for _ in range(2)] == [[1], [2]]
        assert s.log().count("asks for the response cache, and the server has none") == 1
        assert metric(s, "nv_cache_num_hits_per_model", '{model="m",version="1"}') == 0  # as the peer
        assert "nv_cache_util" not in s.metrics()
    with Server(tmp_path, "--response-cache-byte-size=1048576", "--cache-directory=/nowhere") as s:
        assert [ask(s, "m", 1)["RUN"] for _ in range(2)] == [[1], [1]]
        assert [ask(s, "off", 1)["RUN"] for _ in range(2)] == [[1], [2]]
        assert metric(s, "nv_cache_num_lookups") == 2
        assert 'nv_cache_num_hits_per_model{model="off"' not in s.metrics()


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ("--cache-config=local", "No cache specified. --cache-config option format is <cache name>,<setting>=<value>. Got local"),
        ("--cache-config=size=10", "No cache specified. --cache-config option format is <cache name>,<setting>=<value>. Got size=10"),
        ("--cache-config=local,size=", "--cache-config option format is '<cache name>,<setting>=<value>'. Got local,size="),
        ("--cache-config=local,size=9999 --cache-config=redis,host=h",
         "found multiple cache configurations, but only a single cache is currently supported"),
        ("--cache-config=local,size=abc",
         ("creating server: Invalid argument - Failed to initialize LocalCache: --cache-config local,size=abc is "
            "not a number")),
        ("--cache-config=local,what=1", "Failed to initialize LocalCache: config didn't contain a valid 'size' field."),
        ("--cache-config=nosuch,x=1", "unable to find 'libtritoncache_nosuch.so' for cache"),
        ("--cache-config=redis,host=h",
         "Failed to initialize RedisCache, didn't specify address. Must at a minimum specify 'host' and 'port'"),
        ("--cache-config=redis,host=h --cache-config=redis,port=x", "--cache-config redis,port=x is not a number from 1 to 65535"),
        ("--response-cache-byte-size=abc", 'Bad option: "--response-cache-byte-size".\nInvalid option value. Got abc'),
        ("--response-cache-byte-size=-5", 'Bad option: "--response-cache-byte-size".'),
    ],
)  # fmt: skip
def test_bad_options(tmp_path, options, want):
    command = [
        BINARY,
        "serve",
        f"--model-repository={tmp_path}",
        "--http-address=127.0.0.1",
        f"--http-port={free_port()}",
    ]
    command += ["--allow-grpc=false", "--allow-metrics=false", *options.split()]
    r = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and want in r.stdout + r.stderr, r.stdout + r.stderr


@pytest.mark.parametrize(
    ("extra", "want"),
    [
        ("sequence_batching { }\n",
         ("Response Cache does not currently support model m with sequence batching scheduler. Please disable the "
            "response cache.")),
        ("model_transaction_policy { decoupled: true }\n",
         ("Response Cache does not currently support model m with 'decoupled' transaction policy. Please disable "
            "the response cache.")),
        ('parameters { key: "coalesce_identical_requests" value { string_value: "maybe" } }\n',
         "parameter 'coalesce_identical_requests' is 'maybe', expected true or false"),
    ],
)  # fmt: skip
def test_refused_configurations(tmp_path, extra, want):
    model(tmp_path, "m", CACHED + extra)
    with Server(tmp_path, LOCAL, "--model-control-mode=explicit") as s:
        r = s.post("/v2/repository/models/m/load")
        assert r.status in (400, 500) and want in r.error, r


COALESCE = 'parameters { key: "coalesce_identical_requests" value { string_value: "true" } }\n'


@pytest.mark.parametrize("extra", [COALESCE, COALESCE + CACHED], ids=["alone", "with the cache"])
def test_identical_requests_share_an_execution(tmp_path, extra):
    gate = tmp_path / "gate"
    gate.touch()
    model(tmp_path / "models", "m", extra, gate)
    with Server(tmp_path / "models", LOCAL) as s:
        sent = [Sent(s, "m", body(n)) for n in (1,) * 8 + (2,)]
        for _ in range(20):  # nothing tells how many have come; these come after them
            assert s.get("/v2/health/ready").status == 200
        gate.unlink()
        assert [r.status() for r in sent] == [200] * 9

        def all_counted():
            now = counts(s, "m")
            shared = metric(s, "neso_coalesced_requests_total", '{model="m",version="1"}')
            # One that came late nevertheless is executed by itself.
            return now["executions"] in (2, 3) and now["success"] == now["executions"] + shared + now["cache_hit"] == 9

        assert until(all_counted), (counts(s, "m"), s.metrics())


class Redis:
    """A real redis-server on a free loopback port; ended by its process id."""

    def __init__(self, directory):
        binary = shutil.which("redis-server")
        if binary is None:
            pytest.skip(
                "no redis-server: `make setup` as root installs it, else the package redis-server of the system does"
            )
        self.port = free_port()
        self.command = [
            binary,
            "--bind",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
            str(directory),
        ]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        assert until(lambda: self.cli("ping") == "PONG")

    def cli(self, *words):
        r = subprocess.run(["redis-cli", "-p", str(self.port), *words], capture_output=True, text=True, timeout=60)
        return r.stdout.strip()

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(60)


@pytest.fixture
def redis(tmp_path_factory):
    r = Redis(tmp_path_factory.mktemp("redis"))
    yield r
    r.kill()


def options(redis, *more):
    # A Redis that a busy machine leaves without time for a while is not one that hangs.
    patient = [f"{k}_timeout=60000" for k in ("connect", "socket", "wait") if not any(k in m for m in more)]
    return [f"--cache-config=redis,{k}" for k in ("host=127.0.0.1", f"port={redis.port}", *patient, *more)]


def test_servers_share_redis(tmp_path, redis):
    for place in ("a", "b", "other"):
        model(tmp_path / place, "m", factor=3 if place == "other" else 2)
    with Server(tmp_path / "a", *options(redis)) as a:
        series(a, "m")
        assert until(lambda: counts(a, "m") == PEER), counts(a, "m")
        assert until(lambda: redis.cli("dbsize") == "3")
        with Server(tmp_path / "b", *options(redis)) as b:
            series(b, "m")
            now = counts(b, "m")
            assert (now["cache_hit"], now["cache_miss"], now["executions"]) == (7, 0, 0), now
            assert metric(b, "neso_response_cache_hits_total") == 7 and metric(b, "neso_response_cache_up") == 1
    with Server(tmp_path / "other", *options(redis)) as c:  # the same name, another model
        assert ask(c, "m", 1, 2)["OUTPUT0"] == [3, 6]
        assert until(lambda: redis.cli("dbsize") == "4")
        for k in redis.cli("keys", "*").split():
            redis.cli("set", k, "nonsense")
        assert ask(c, "m", 1, 2)["OUTPUT0"] == [3, 6]
        assert until(lambda: "holds a value that is no response" in c.log())


def test_redis_goes_and_comes_back(tmp_path, redis):
    model(tmp_path, "m")
    with Server(tmp_path, *options(redis)) as s:
        assert ask(s, "m", 1)["RUN"] == ask(s, "m", 1)["RUN"] == [1]
        stop, failed, done = threading.Event(), [], []

        def load():
            while not stop.is_set():
                r = s.infer("m", body(5))
                done.append(r)
                if r.status != 200 or r.json["outputs"][0]["data"] != [10]:
                    failed.append(r)

        threads = [threading.Thread(target=load) for _ in range(4)]
        for t in threads:
            t.start()
        try:
            for round in (1, 2):
                redis.kill()
                assert until(lambda: metric(s, "neso_response_cache_up") == 0)
                before = len(done)
                assert until(lambda before=before: len(done) > before + 50)  # served without it
                redis.start()
                assert until(lambda: metric(s, "neso_response_cache_up") == 1)
                hits = metric(s, "neso_response_cache_hits_total")
                assert until(lambda hits=hits: metric(s, "neso_response_cache_hits_total") > hits)  # used again
                # Once for each time, not for each request; one that failed late may have said it once more.
                went = s.log().count("does not answer")
                assert round <= went <= 5 * round, s.log()
                assert until(lambda went=went: s.log().count("answers again") >= went)
        finally:
            stop.set()
            for t in threads:
                t.join()
        assert not failed, failed[:3]
        assert "failed to dial" not in s.log()


def test_a_redis_that_hangs_delays_nobody_for_long(tmp_path, redis):
    model(tmp_path, "m")
    with Server(tmp_path, *options(redis, "socket_timeout=1000")) as s:
        ask(s, "m", 1)
        assert until(lambda: metric(s, "neso_response_cache_up") == 1)
        before = metric(s, "neso_response_cache_failures_total")
        redis.process.send_signal(signal.SIGSTOP)
        for n in range(30):
            ask(s, "m", n + 10)
        # One request has waited, not thirty.
        assert 1 <= metric(s, "neso_response_cache_failures_total") - before <= 3
        redis.process.send_signal(signal.SIGCONT)
        assert until(lambda: metric(s, "neso_response_cache_up") == 1)


def test_wrong_password_is_an_error_at_start(tmp_path, redis):
    model(tmp_path, "m")
    assert redis.cli("config", "set", "requirepass", "secret") == "OK"
    with pytest.raises(RuntimeError, match="Failed to initialize RedisCache: .*WRONGPASS"):
        Server(tmp_path, *options(redis, "password=x"))
    with Server(tmp_path, *options(redis), env={"TRITONCACHE_REDIS_PASSWORD": "secret"}) as s:
        assert ask(s, "m", 1)["RUN"] == ask(s, "m", 1)["RUN"] == [1]


def test_start_without_redis(tmp_path, redis):
    model(tmp_path, "m")
    redis.kill()
    with Server(tmp_path, *options(redis)) as s:
        assert [ask(s, "m", 1)["RUN"] for _ in range(2)] == [[1], [2]]
        redis.start()
        assert until(lambda: metric(s, "neso_response_cache_up") == 1)
        runs = [ask(s, "m", 1)["RUN"] for _ in range(2)]
        assert runs[0] == runs[1], json.dumps(runs)
