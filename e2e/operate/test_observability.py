"""Statistics, metrics, logs."""

from __future__ import annotations

import json
import re

from repository import Sent, X, identity_model, metric, python_model, until
from server import Server
from tritonclient.grpc import InferenceServerClient


def test_statistics_over_both_protocols(tmp_path):
    python_model(
        tmp_path, "m", execute="assert pb_utils.get_input_tensor_by_name(requests[0], 'INPUT0').as_numpy()[0, 0] > 0"
    )
    with Server(tmp_path) as s:
        for _ in range(3):
            assert s.infer("m", X).status == 200
        assert s.infer("m", {"inputs": [{**X["inputs"][0], "data": [-1]}]}).status == 500
        assert s.infer("m", {"inputs": []}).status == 400  # refused at once: counted nowhere

        def executions():
            return s.get("/v2/models/m/stats").json["model_stats"][0]["execution_count"]

        assert until(lambda: executions() == 4)  # an execution is counted when its requests have been answered
        h = s.get("/v2/models/m/stats").json["model_stats"][0]
        with InferenceServerClient(s.grpc) as client:
            g = client.get_inference_statistics("m", as_json=True)["model_stats"][0]
        for stats in (h, g):
            number = {k: int(v.get("count", 0)) for k, v in stats["inference_stats"].items()}
            assert (number["success"], number["fail"], number["queue"], number["compute_infer"]) == (3, 1, 3, 3), stats
            assert int(stats["inference_count"]) == 3 and int(stats["execution_count"]) == 4
            assert int(stats["last_inference"]) > 1_600_000_000_000
            assert int(stats["batch_stats"][0]["batch_size"]) == 1
            assert int(stats["inference_stats"]["compute_infer"]["ns"]) > 0
        assert s.get("/v2/models/stats").json["model_stats"][0]["name"] == "m"
        assert s.get("/v2/models/nope/stats").status == 400


def test_memory_of_workers(tmp_path):
    identity_model(tmp_path, "none")
    keeps = "import os; import numpy as np; self.held = np.ones(16 << 20, np.float32); "
    keeps += "open(os.path.join(args['model_repository'], 'pid_' + str(os.getpid())), 'w').close()"
    python_model(tmp_path, "m", init=keeps, extra="instance_group { count: 2 kind: KIND_CPU }")

    def resident(path):
        text = open(f"/proc/{path.name.removeprefix('pid_')}/status").read()
        return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) << 10

    with Server(tmp_path) as s, InferenceServerClient(s.grpc) as client:
        assert s.infer("m", X).status == 200
        workers = [resident(path) for path in (tmp_path / "m").glob("pid_*")]
        assert len(workers) == 2 and min(workers) > 64 << 20
        h = s.get("/v2/models/m/stats").json["model_stats"][0]["memory_usage"]
        (g,) = client.get_inference_statistics("m").model_stats[0].memory_usage
        assert [(u["type"], u["id"]) for u in h] == [("CPU", 0)] and (g.type, g.id) == ("CPU", 0)
        for size in (h[0]["byte_size"], g.byte_size):
            assert abs(size - sum(workers)) < 8 << 20, (size, workers)
        assert s.get("/v2/models/none/stats").json["model_stats"][0]["memory_usage"] == []
        assert not client.get_inference_statistics("none").model_stats[0].memory_usage


def test_warmup_is_counted_apart(tmp_path):
    warmup = (
        'model_warmup { name: "w" batch_size: 1 count: 3 inputs { key: "INPUT0" value { data_type: TYPE_FP32 dims: [ '
        "1, 2 ] random_data: true } } }"
    )
    python_model(tmp_path, "m", extra=warmup)
    for option, inferences, warmups in (("false", 0, 3), ("true", 3, 0)):
        with Server(tmp_path, f"--warmup-in-statistics={option}", "--log-verbose=1") as s:
            for i in (1, 2, 3):
                assert f"model 'm' is running warmup sample 'w' for iteration {i}" in s.log()
            assert s.get("/v2/models/m/stats").json["model_stats"][0]["inference_count"] == inferences
            assert f'neso_warmup_runs_total{{model="m",version="1"}} {warmups}' in s.metrics()


def test_metrics(tmp_path):
    identity_model(tmp_path, "m")
    with Server(tmp_path, "--metrics-config=summary_latencies=true") as s:
        for _ in range(5):
            s.infer("m", X)
        wanted = {
            'nv_inference_request_success{model="m",version="1"} 5',
            'nv_inference_count{model="m",version="1"} 5',
            'nv_inference_exec_count{model="m",version="1"} 5',
            'nv_inference_pending_request_count{model="m",version="1"} 0',
            'neso_request_duration_seconds_count{model="m",version="1"} 5',
            'neso_batch_size_count{model="m",version="1"} 5',
            'nv_inference_request_summary_us_count{model="m",version="1"} 5',
        }
        assert until(lambda: wanted <= set(s.metrics().splitlines())), wanted - set(s.metrics().splitlines())
        assert re.search(r"^nv_cpu_memory_total_bytes \d{8,}$", s.metrics(), re.M)


OWN = re.compile(r"^neso_\w+_bucket", re.M)
FIRST = "nv_inference_first_response_histogram_ms_bucket"


def test_paths_of_the_metrics_port(tmp_path):
    """As Triton's: 200 for every path, /metrics/ is /metrics, and nothing but GET."""
    identity_model(tmp_path, "m")
    with Server(tmp_path) as s:
        for path in ("/metrics", "/metrics/", "/metrics?a=1"):
            r = s.get(path, port=s.metrics_port)
            assert r.status == 200 and b"nv_inference_count" in r.body, path
        for path in ("/", "/metric", "/metrics/x", "/v2/health/ready"):
            r = s.get(path, port=s.metrics_port)
            assert r.status == 200 and r.headers["content-type"] == "text/plain; charset=utf-8"
            assert r.body == b"", r
        r = s.post("/metrics", port=s.metrics_port)
        assert r.status == 405 and r.error == "Method Not Allowed"


def test_own_histograms_come_with_the_first_request(tmp_path):
    for name in ("idle", "busy"):
        identity_model(tmp_path, name)
    with Server(tmp_path) as s:
        assert 'nv_inference_request_success{model="idle",version="1"} 0' in s.metrics()
        assert not OWN.search(s.metrics())
        s.infer("busy", X)
        assert until(lambda: 'neso_request_duration_seconds_count{model="busy",version="1"} 1' in s.metrics())
        assert not [line for line in s.metrics().splitlines() if OWN.match(line) and 'model="idle"' in line]
    with Server(tmp_path, "--metrics-config=neso_histograms=false") as s:
        s.infer("busy", X)
        assert until(lambda: 'nv_inference_request_success{model="busy",version="1"} 1' in s.metrics())
        assert not OWN.search(s.metrics())
    fewer = ["--metrics-config=neso_idle=false", "--metrics-config=neso_versions=false"]
    with Server(tmp_path, *fewer, "--metrics-config=neso_max_series=1000") as s:
        assert 'model="' not in s.metrics()
        s.infer("busy", X)
        assert until(lambda: 'nv_inference_request_success{model="busy"} 1' in s.metrics())
        assert 'model="idle"' not in s.metrics() and "neso_metrics_versions_left_out 0" in s.metrics()


def test_buckets_of_first_responses(tmp_path):
    identity_model(tmp_path, "plain")
    identity_model(tmp_path, "own")
    control = (
        'metric_control { metric_identifier { family: "nv_inference_first_response_histogram_ms" } histogram_options '
        "{ buckets: [ %s ] } }"
    )
    with (tmp_path / "own" / "config.pbtxt").open("a") as f:
        f.write(f"model_metrics {{ {control % '-1, 0.0, 0.000001, 250, 30.5, 250'} }}\n")
    identity_model(tmp_path, "many")
    with (tmp_path / "many" / "config.pbtxt").open("a") as f:
        f.write(f"model_metrics {{ {control % ', '.join(str(i) for i in range(1, 61))} }}\n")

    def bounds(s, model):
        lines = [line for line in s.metrics().splitlines() if line.startswith(FIRST + f'{{model="{model}"')]
        return [re.search(r'le="([^"]*)"', line)[1] for line in lines]

    with Server(tmp_path, "--metrics-config=histogram_latencies=true") as s:
        assert bounds(s, "plain") == ["100", "500", "2000", "5000", "+Inf"]
        assert bounds(s, "own") == ["-1", "0", "1e-06", "30.5", "250", "+Inf"]
        assert bounds(s, "many") == [*(str(i) for i in range(1, 61)), "+Inf"]
        for model in ("own", "many"):
            s.infer(model, X)
            line = f'{FIRST}{{model="{model}",version="1",le="+Inf"}} 1'
            assert until(lambda line=line: line in s.metrics()), s.metrics()
        assert f'{FIRST}{{model="own",version="1",le="-1"}} 0' in s.metrics()
        sums = [line for line in s.metrics().splitlines() if line.startswith(FIRST.replace("_bucket", "_sum"))]
        assert len(sums) == 3 and all(re.search(r"} \d+$", line) for line in sums), sums


def test_requests_behind_a_delay_are_pending(tmp_path):
    """The backend `identity` with a delay runs one batch after the other: what waits for its turn has not begun."""
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "config.pbtxt").write_text(
        'backend: "identity" max_batch_size: 4 instance_group { kind: KIND_CPU }'
        'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }'
        'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }'
        'parameters { key: "execute_delay_ms" value { string_value: "60000" } }'
    )
    with Server(tmp_path) as s:
        sent = [Sent(s, "m") for _ in range(4)]
        line = 'nv_inference_pending_request_count{model="m",version="1"} '
        assert until(lambda: line + "3" in s.metrics(), timeout=20), [
            x for x in s.metrics().splitlines() if "pending" in x
        ]
        s.process.kill()
        for r in sent:
            r.close()


def test_access_lines_and_log_settings(tmp_path):
    identity_model(tmp_path, "m")
    with Server(tmp_path, "--log-format=json") as s:
        s.infer("m", {**X, "id": "one"})
        assert s.post("/v2/logging", {"log_verbose_level": 1}).json["log_verbose_level"] == 1
        s.infer("m", {**X, "id": "two"})
        with InferenceServerClient(s.grpc) as client:
            assert client.get_log_settings(as_json=True)["settings"]["log_verbose_level"]["uint32_param"] == 1
        assert until(lambda: '"two"' in s.log())
        lines = [json.loads(x) for x in s.log().splitlines() if x.startswith("{")]
        access = [x for x in lines if x.get("request_id") in ("one", "two")]
        assert [x["request_id"] for x in access] == ["two"], access
        assert access[0]["model"] == "m" and {"receive", "queue", "input", "infer", "output", "total"} <= set(
            access[0]
        ), access
        assert s.post("/v2/logging", {"log_format": "zz"}).status == 503
        assert s.post("/v2/logging", {"log_file": "x"}).status == 501


def test_table_of_models(tmp_path):
    identity_model(tmp_path, "m")
    with Server(tmp_path) as s:
        assert until(lambda: "| m     | 1       | READY  |" in s.log()), s.log()


def test_an_idle_model_has_few_series(tmp_path):
    """docs/operate/observability.md says how many; a thousand models that nobody calls are a thousand times that."""
    identity_model(tmp_path, "plain")
    python_model(tmp_path, "batching", extra="dynamic_batching { }")

    def series(server, model):
        return sum(f'model="{model}"' in line for line in server.metrics().splitlines() if line[0] != "#")

    with Server(tmp_path) as s:
        assert series(s, "plain") <= 19 and series(s, "batching") <= 29
        assert s.infer("batching", X).status == 200
        assert until(lambda: series(s, "batching") > 100)  # the histograms
        assert series(s, "plain") <= 19
    with Server(tmp_path, "--metrics-config=neso_histograms=false") as s:
        assert s.infer("batching", X).status == 200
        assert until(lambda: metric(s, "nv_inference_count", model="batching", version="1") == 1)
        assert series(s, "batching") <= 29
