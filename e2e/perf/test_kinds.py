"""neso perf with a server of its own, with requests that join while others stream, and what sequences allow."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
from pathlib import Path

import pytest
from server import MODELS, Server, descendants
from test_perf import PATIENCE, SHAPE, at, begin, perf, rows

COUNTER = """
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            sender = r.get_response_sender()
            for i in range(int(pb.get_input_tensor_by_name(r, "N").as_numpy()[0])):
                sender.send(pb.InferenceResponse([pb.Tensor("OUT", np.array([i], np.int32))]))
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
CONFIGS = {
    "counter": """backend: "python"
input [ { name: "N" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
model_transaction_policy { decoupled: true }
instance_group [ { count: 2 } ]
""",
    "sequence": """backend: "identity"
max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ]
sequence_batching { }
""",
    "cached(1)": """backend: "identity"
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ]
response_cache { enable: true }
""",
    "slow": """backend: "sleep"
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ]
parameters { key: "sleep_ms" value { string_value: "6000" } }
""",
}
LOCAL = ("--service-kind", "triton_c_api", "--triton-server-directory", "/opt/tritonserver")


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("models")
    for name, config in CONFIGS.items():
        (directory / name / "1").mkdir(parents=True)
        (directory / name / "config.pbtxt").write_text(config)
    (directory / "counter" / "1" / "model.py").write_text(COUNTER)
    (directory / "n.json").write_text('{"data": [{"N": [5]}, {"N": [7]}]}')
    return directory


@pytest.fixture(scope="module")
def streaming(repository):
    with Server(repository, "--cache-config=local,size=1048576") as s:
        yield s


@pytest.fixture(autouse=True)
def interpreter(monkeypatch):
    monkeypatch.setenv("NESO_PYTHON", sys.executable)


def test_in_process(tmp_path):
    """The server runs within the generator: nothing of a network is said, and its own count agrees."""
    r = perf(
        *LOCAL,
        "--model-repository",
        MODELS,
        "-m",
        "identity_any_fp32",
        *SHAPE,
        "--request-count",
        50,
        "--concurrency-range",
        3,
    )
    assert r.returncode == 0 and "Service Kind: TRITON_C_API\n" in r.stdout and "Inference count: 50\n" in r.stdout, r
    assert "HTTP time" not in r.stdout and "usec a request, of generator and server" in r.stdout, r
    assert "--triton-server-directory has no effect" in r.stderr, r
    r = perf(*LOCAL, "--model-repository", MODELS, "-m", "identity_any_fp32", *SHAPE, "-b", 2, "--request-count", 5)
    assert r.returncode == 99 and "can not specify batch size > 1 as the model does not support batching" in r.stderr, r


def test_in_process_outputs(tmp_path):
    """Answers are compared with what is expected, and are in the export."""
    data, one, wrong = (
        tmp_path / "d.json",
        {"content": [1.5, 2], "shape": [1, 2]},
        {"content": [1.5, 3], "shape": [1, 2]},
    )
    data.write_text(
        json.dumps({"data": [{"INPUT0": one}] * 2, "validation_data": [{"OUTPUT0": one}, {"OUTPUT0": wrong}]})
    )
    r = perf(
        *(*LOCAL, "--model-repository", MODELS, "-m", "identity_any_fp32", "--input-data", data, "--request-count", 10),
        *("--profile-export-file", tmp_path / "e.json", "-f", tmp_path / "o.csv"),
    )
    assert (
        r.returncode == 99
        and "Failed: 5 requests: unexpected output" in r.stdout
        and len(rows(tmp_path / "o.csv")) == 1
    ), r
    [experiment] = json.loads((tmp_path / "e.json").read_text())["experiments"]
    assert [x["response_outputs"] for x in experiment["requests"]] == [[{"OUTPUT0": [1.5, 2]}]] * 5


def outputs(export: Path):
    """The profile export has every response of a stream, not one of them."""
    [experiment] = json.loads(export.read_text())["experiments"]
    for request in experiment["requests"]:
        n = len(request["response_timestamps"])
        assert n in (5, 7) and request["response_outputs"] == [{"OUT": i} for i in range(n)], request


def test_in_process_streams(repository, tmp_path):
    """Decoupled models and sequences."""
    r = perf(
        *LOCAL,
        "--model-repository",
        repository,
        "-m",
        "counter",
        "--input-data",
        repository / "n.json",
        "--request-count",
        6,
        "--profile-export-file",
        tmp_path / "e.json",
    )
    assert r.returncode == 0 and "Request count: 6\n" in r.stdout and "Response Throughput" in r.stdout, r
    outputs(tmp_path / "e.json")
    r = perf(*LOCAL, "--model-repository", repository, "-m", "sequence", "--request-count", 100, "--sequence-length", 5)
    assert r.returncode == 0 and "Sequence count: " in r.stdout, r


@pytest.mark.parametrize(
    "args, text",
    [
        (("-m", "nobody", "--model-repository", MODELS), "nobody does not exist: expected the directory of a model"),
        (("-m", "x", "--model-repository", "/nowhere"), "/nowhere/x does not exist"),
        (("-m", "x"), "--model-repository should not be empty when using service-kind=triton_c_api."),
        (
            ("-m", "identity_any_fp32", "-x", "one", "--model-repository", MODELS),
            "expected a version, a number from 1 on",
        ),
        (("-m", "identity_any_fp32", "-x", 9, *SHAPE, "--model-repository", MODELS), "failed to get model metadata"),
        (("-m", "identity_any_fp32", "--model-repository", MODELS, "--shape", "INPUT9:1"), "no input 'INPUT9'"),
    ],
)
def test_in_process_mistakes(args, text):
    r = perf(*LOCAL, *args)
    assert r.returncode == 99 and text in r.stderr, r


def test_in_process_broken(tmp_path):
    """A model that cannot be loaded is said with its reason."""
    (tmp_path / "bad" / "1").mkdir(parents=True)
    (tmp_path / "bad" / "config.pbtxt").write_text('backend: "python"\n')
    (tmp_path / "bad" / "1" / "model.py").write_text("raise ValueError('not today')\n")
    r = perf(*LOCAL, "--model-repository", tmp_path, "-m", "bad")
    assert r.returncode == 99 and "not today" in r.stderr, r


@pytest.mark.parametrize("model", ["sequence", "counter"])
def test_in_process_interrupted(repository, tmp_path, model):
    """Ctrl-C keeps what was measured, and ends the processes of models with the generator."""
    data = ("--input-data", repository / "n.json") if model == "counter" else ()
    p = begin(
        *LOCAL, "--model-repository", repository, "-m", model, "--concurrency-range", 2, *data, "-f", tmp_path / "o.csv"
    )
    workers = descendants(p.pid)
    assert bool(workers) == (model == "counter")
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=PATIENCE)
    assert p.returncode == 130 and "(not stable, interrupted)" in out and len(rows(tmp_path / "o.csv")) == 1, (out, err)
    assert not [pid for pid in workers if Path(f"/proc/{pid}/exe").exists()]


def test_in_process_dies(repository):
    """Without a chance to end them, too: the workers of a generator that is killed go with it."""
    p = begin(*LOCAL, "--model-repository", repository, "-m", "counter", "--input-data", repository / "n.json")
    pids = [os.pidfd_open(pid) for pid in descendants(p.pid)]
    p.kill()
    p.communicate(timeout=PATIENCE)
    for fd in pids:
        assert select.select([fd], [], [], 60)[0], "a worker lives on"
        os.close(fd)
    assert pids


def test_batch_of_sequences(streaming):
    """As the peer has it."""
    r = perf("-m", "sequence", *at(streaming, "http"), "-b", 2)
    assert r.returncode == 99 and "can not specify batch size > 1 when using a sequence model" in r.stderr, r


def periodic(server, repository, tmp_path, *args):
    return perf(
        *("-m", "counter", *at(server, "grpc"), "--streaming", "--input-data", repository / "n.json"),
        *("--profile-export-file", tmp_path / "e.json", *args),
    )


def test_periodic(streaming, repository, tmp_path):
    """Each request once: two begin, and two more join each time those before have had three responses."""
    r = periodic(streaming, repository, tmp_path, "--periodic-concurrency-range", "2:6:2", "--request-period", 3)
    assert r.returncode == 0 and "Periodic concurrency\n" in r.stdout and "Request count: 6\n" in r.stdout, r
    [experiment] = json.loads((tmp_path / "e.json").read_text())["experiments"]
    assert experiment["experiment"] == {"mode": "concurrency", "value": 1}
    requests = sorted(experiment["requests"], key=lambda x: x["timestamp"])
    assert sorted(len(x["response_timestamps"]) for x in requests) == [5, 5, 5, 7, 7, 7]
    outputs(tmp_path / "e.json")
    for joined, before in ((requests[2:4], requests[:2]), (requests[4:], requests[2:4])):
        third = max(x["response_timestamps"][2] for x in before)
        assert all(x["timestamp"] >= third for x in joined)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_decoupled_needs_a_stream(streaming, repository, protocol):
    """It is said before anything is sent."""
    r = perf("-m", "counter", *at(streaming, protocol), "--input-data", repository / "n.json", "--request-count", 2)
    assert r.returncode == 99 and "Decoupled models must be run with `--streaming`" in r.stderr and not r.stdout, r


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_cache(streaming, tmp_path, protocol):
    """A model with a response cache, whose name has what a URL would escape, has the peer's columns and lines of it."""
    model = ("-m", "cached(1)", *at(streaming, protocol))
    r = perf(*model, "--request-count", 20, "-f", tmp_path / "o.csv")
    assert r.returncode == 0 and re.search(r"Cache hit count: (19|20)\n", r.stdout), r
    [row] = rows(tmp_path / "o.csv")
    assert {"Server Cache Hit", "Server Cache Miss"} < set(row), row


def test_windows_without_an_answer(streaming):
    """The peer's status says that the windows were too short."""
    r = perf("-m", "slow", *at(streaming, "http"), "-p", 20, "-r", 3, runs=1)
    assert r.returncode == 3 and "it needs a longer window" in r.stderr, r


def test_periodic_too_few(streaming, repository, tmp_path):
    """A request that ends before its period is a failure, and the end."""
    r = periodic(streaming, repository, tmp_path, "--periodic-concurrency-range", "1:4", "--request-period", 6)
    assert r.returncode == 99 and "request period not reached: the last response was number 5" in r.stdout + r.stderr, r


@pytest.mark.parametrize(
    "args, text",
    [
        (("3",), "Both <start> and <end> values must be provided."),
        (("5:2",), "The <start> must be <= <end>."),
        (("1:4:2",), "The <step> value must be a factor of the range size (<end> - <start>)."),
    ],
)
def test_periodic_mistakes(tmp_path, args, text):
    r = perf(
        "-m",
        "x",
        "-i",
        "grpc",
        "--streaming",
        "--profile-export-file",
        tmp_path / "e",
        "--periodic-concurrency-range",
        *args,
    )
    assert r.returncode == 99 and text in r.stderr, r
