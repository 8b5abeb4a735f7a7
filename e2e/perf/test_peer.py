"""neso perf against the real Triton: what it counts, writes and validates there.

PEER names a virtual environment with nvidia-pytriton==0.7.0 (that of `make differential` and of bench/ is found
without). PERF_ANALYZER names NVIDIA's perf_analyzer, whose files ours are then compared with; LIBRARIES may name a
directory with what it links.
"""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import urllib.request

import pytest
from repository import place
from server import ROOT
from test_perf import QUICK, UNSTABLE, perf, rows

sys.path.append(str(ROOT / "bench"))
import peer as peers
import servers

BATCHING = """backend: "python"
max_batch_size: 8
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
"""
MODELS = {
    "echo": (BATCHING, "y = x"),
    "sum": (
        BATCHING
        + 'sequence_batching { control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }\n'
        + 'control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } } }\n',
        'n = int(get(r, "ID").flat[0])\n            self.sums[n] = x if get(r, "START").flat[0] else self.sums.get(n, 0) + x\n'
        "            y = self.sums[n]",
    ),
    "count": (
        BATCHING.replace("max_batch_size: 8", "max_batch_size: 0") + "model_transaction_policy { decoupled: true }\n",
        None,
    ),
}
CODE = """import numpy as np
import triton_python_backend_utils as pb

def get(r, name):
    return pb.get_input_tensor_by_name(r, name).as_numpy()

class TritonPythonModel:
    def initialize(self, args):
        self.sums = {{}}

    def execute(self, requests):
        answers = []
        for r in requests:
            x = get(r, "X")
            {body}
            answers.append(pb.InferenceResponse([pb.Tensor("Y", y)]))
        return answers
"""
COUNT = """import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            sender = r.get_response_sender()
            for i in range(int(pb.get_input_tensor_by_name(r, "X").as_numpy().flat[0])):
                sender.send(pb.InferenceResponse([pb.Tensor("Y", np.array([i], np.int32))]))
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
COLUMNS = (
    "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,Server Compute Infer,"
    "Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency"
)


@pytest.fixture(scope="module")
def triton(tmp_path_factory):
    """The real server with our models."""
    directory = tmp_path_factory.mktemp("peer")
    try:
        peer = peers.Peer(os.environ.get("PEER") or ROOT / ".tools" / "peer")
    except peers.PeerMissing as missing:
        pytest.skip(
            f"there is no real Triton: PEER names an environment with nvidia-pytriton=={peers.VERSION} ({missing})"
        )
    for name, (config, body) in MODELS.items():
        code = CODE.format(body=body) if body else COUNT
        place(directory / "models" / name, {"config.pbtxt": config, "1/model.py": code})
    command = [
        *peer.command(peer.backends(directory / "backends")),
        f"--backend-config=python,shm-region-prefix-name=e2e{os.getpid()}",
    ]
    server = servers.Server("peer", command, peer.environment(os.environ), directory / "models", directory / "log")
    server.start()
    try:
        yield server
    finally:
        server.stop()


def at(triton, protocol):
    return ("-i", protocol, "-u", triton.grpc_address if protocol == "grpc" else triton.http_address)


def status(triton):
    with urllib.request.urlopen(triton.url("/v2/systemsharedmemory/status"), timeout=60) as reply:
        return json.load(reply)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_counts_and_files(triton, tmp_path, protocol):
    """Its own count agrees with ours; the CSV and JSON files are perf_analyzer's."""
    args = (
        "--request-count",
        40,
        "--concurrency-range",
        4,
        "-b",
        2,
        "-f",
        tmp_path / "o.csv",
        "--profile-export-file",
        tmp_path / "e.json",
    )
    r = perf("-m", "echo", *at(triton, protocol), *args)
    assert r.returncode == 0 and "Request count: 40\n" in r.stdout and "Inference count: 80\n" in r.stdout, r
    [row] = rows(tmp_path / "o.csv")
    assert (
        ",".join(row) == COLUMNS and float(row["Server Compute Infer"]) > 0 and float(row["Inferences/Second"]) > 0
    ), row
    export = json.loads((tmp_path / "e.json").read_text())
    [experiment] = export["experiments"]
    assert set(export) == {"experiments", "version", "service_kind", "endpoint"} and export["service_kind"] == "triton"
    assert experiment["experiment"] == {"mode": "concurrency", "value": 4} and len(experiment["requests"]) == 40
    for request in experiment["requests"]:
        assert request["response_outputs"] == [{"Y": request["request_inputs"]["X"]}]
        assert request["timestamp"] < request["response_timestamps"][0]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_windows_and_rates(triton, protocol):
    r = perf("-m", "echo", *at(triton, protocol), *QUICK, "--concurrency-range", "1:3:2", "--format=json")
    assert r.returncode in (0, UNSTABLE), r
    results = json.loads(r.stdout)["results"]
    assert [x["load"] for x in results] == [1, 3] and all(x["requests"] > 0 and not x["failed"] for x in results), (
        results
    )
    assert all(x["server"][0]["inferences"] >= x["requests"] for x in results), results
    args = ("--request-rate-range", 200, "--request-distribution", "poisson", "--request-count", 200)
    r = perf("-m", "echo", *at(triton, protocol), *args)
    assert r.returncode == 0 and "Request count: 200\n" in r.stdout, r


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_shared_memory(triton, protocol):
    r = perf(
        "-m",
        "echo",
        *at(triton, protocol),
        "--shared-memory",
        "system",
        "--request-count",
        40,
        "--concurrency-range",
        4,
    )
    assert r.returncode == 0 and "Request count: 40\n" in r.stdout, r
    assert status(triton) == [], "regions are left registered"


@pytest.mark.parametrize("protocol, more", [("http", ()), ("grpc", ()), ("grpc", ("--streaming",))])
def test_sequences(triton, tmp_path, protocol, more):
    """Sequences with expected outputs: each begins, goes on and ends at the server as it does here."""
    data = tmp_path / "d.json"
    steps, sums = [{"X": [n]} for n in (1, 2, 3)], [{"Y": [n]} for n in (1, 3, 6)]
    data.write_text(json.dumps({"data": [steps, steps[:2]], "validation_data": [sums, sums[:2]]}))
    args = ("--input-data", data, "--num-of-sequences", 3, "--sequence-id-range", "100:200", "--request-count", 60)
    r = perf("-m", "sum", *at(triton, protocol), *more, *args)
    assert r.returncode == 0 and "Request count: 60\n" in r.stdout and "Sequence count: " in r.stdout, r
    sums[1]["Y"] = [4]
    data.write_text(json.dumps({"data": [steps], "validation_data": [sums]}))
    r = perf("-m", "sum", *at(triton, protocol), *more, *args)
    assert r.returncode == 99 and "requests: unexpected output" in r.stdout, r


def test_decoupled(triton, tmp_path):
    """Every response of a stream counts, and is in the export."""
    data = tmp_path / "n.json"
    data.write_text('{"data": [{"X": [5]}, {"X": [7]}]}')
    args = (
        "--input-data",
        data,
        "--concurrency-range",
        2,
        "--request-count",
        20,
        "--profile-export-file",
        tmp_path / "e.json",
    )
    r = perf("-m", "count", *at(triton, "grpc"), "--streaming", *args)
    assert r.returncode == 0 and "Request count: 20\n" in r.stdout and "Response Throughput" in r.stdout, r
    [experiment] = json.loads((tmp_path / "e.json").read_text())["experiments"]
    assert sorted(len(x["response_timestamps"]) for x in experiment["requests"]) == [5] * 10 + [7] * 10
    r = perf("-m", "count", *at(triton, "http"), "--input-data", data, "--request-count", 2)
    assert r.returncode == 99 and "decoupled" in r.stdout + r.stderr, r


def test_metrics(triton):
    args = ("--collect-metrics", "--metrics-url", f"127.0.0.1:{triton.metrics}/metrics", "--metrics-interval", 20)
    r = perf("-m", "echo", *at(triton, "http"), *QUICK, *args)
    assert r.returncode in (0, UNSTABLE) and "  Server Prometheus Metrics: \n" in r.stdout, r


def test_mistakes(triton):
    for protocol in ("http", "grpc"):
        r = perf("-m", "nobody", *at(triton, protocol))
        assert r.returncode == 99 and "unknown model: 'nobody'" in r.stderr, r
        r = perf("-m", "echo", *at(triton, protocol), "-b", 9)
        assert r.returncode == 99 and re.search("batch size .*9|9.*batch|batch size > ", r.stderr), r


@pytest.mark.skipif("PERF_ANALYZER" not in os.environ, reason="PERF_ANALYZER names no perf_analyzer of NVIDIA's")
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_files_of_both(triton, tmp_path, protocol):
    """NVIDIA's program, given the same command line, writes the same columns and keys."""
    theirs = os.environ["PERF_ANALYZER"]
    said = {}
    for name in ("ours", "theirs"):
        o, e = tmp_path / f"{name}.csv", tmp_path / f"{name}.json"
        args = [
            "-m",
            "echo",
            *at(triton, protocol),
            "-p",
            "200",
            "-s",
            "999",
            "-r",
            "3",
            "--concurrency-range",
            "2",
            "--verbose-csv",
        ]
        args += ["-f", o, "--profile-export-file", e]
        if name == "ours":
            assert perf(*args).returncode in (0, UNSTABLE)
        else:
            environment = {**os.environ, "LD_LIBRARY_PATH": os.environ.get("LIBRARIES", "")}
            subprocess.run([theirs, *map(str, args)], check=True, capture_output=True, timeout=120, env=environment)
        with o.open() as f:
            columns = next(csv.reader(f))
        export = json.loads(e.read_text())
        experiment = export["experiments"][0]
        said[name] = (columns, list(export), list(experiment), experiment["experiment"], set(experiment["requests"][0]))
    assert said["ours"] == said["theirs"]
