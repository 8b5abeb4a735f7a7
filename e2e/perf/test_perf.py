"""neso perf against a running server: what it prints, writes and exits with."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import threading

import pytest
from repository import place, until
from server import BINARY, MODELS, Server, free_port

SHAPE = ("--shape", "INPUT0:4,4")
MODEL = ("-m", "identity_any_fp32", *SHAPE)
QUICK = ("-p", "100", "-s", "999", "-r", "3")  # three windows of a tenth of a second, which nearly always agree
UNSTABLE = 2  # but not on a machine that stalls
NOTHING = 3  # and on one that stands still none of them may have an answer
PATIENCE = 300  # seconds, which only what hangs takes


def perf(*args, program=(BINARY, "perf"), runs=5, **kw):
    """What a run said; one of windows in which nothing was answered is begun again, for so many runs at most."""
    while True:
        r = subprocess.run([*program, *map(str, args)], capture_output=True, text=True, timeout=PATIENCE, **kw)
        runs -= 1
        if r.returncode != NOTHING or not runs:
            return r


def at(server, protocol):
    return ("-i", protocol, "-u", server.grpc if protocol == "grpc" else server.http)


def rows(path):
    return list(csv.DictReader(path.open()))


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_concurrency(server, tmp_path, protocol):
    r = perf(
        *MODEL, *at(server, protocol), *QUICK, "--concurrency-range", "1:3:2", "-f", tmp_path / "o.csv", "--verbose-csv"
    )
    assert r.returncode in (0, UNSTABLE), r
    assert re.search(
        r"Request concurrency: 1\n  Client: \n    Request count: \d+\n    Throughput: [\d.e+]+ infer/sec\n", r.stdout
    ), r.stdout
    assert "Request concurrency: 3\n" in r.stdout and "  Server: \n    Inference count: " in r.stdout, r.stdout
    assert re.search(
        r"Inferences/Second vs. Client Average Batch Latency\n"
        r"Concurrency: 1, throughput: \S+ infer/sec, latency \d+ usec( \(not stable\))?\n",
        r.stdout,
    )
    table = rows(tmp_path / "o.csv")
    assert {row["Concurrency"] for row in table} == {"1", "3"}
    assert list(table[0]) == (
        "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,Server Compute Infer,"
        "Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency,Avg latency,request/response,response wait"
    ).split(",")
    assert all(float(row["Inferences/Second"]) > 0 for row in table)


def test_exact_count(server):
    """The server's own count agrees with ours."""
    r = perf(
        "-m",
        "identity_any_int8",
        *SHAPE,
        *at(server, "http"),
        "--request-count",
        37,
        "--concurrency-range",
        4,
        "--warmup-request-count",
        5,
    )
    assert r.returncode == 0 and "Request count: 37\n" in r.stdout and "Inference count: 37\n" in r.stdout, r


def test_link(server, tmp_path):
    """A link with the name of the peer's program is it."""
    (tmp_path / "perf_analyzer").symlink_to(BINARY)
    r = perf(*MODEL, "-u", server.http, *QUICK, program=[tmp_path / "perf_analyzer"])
    assert r.returncode in (0, UNSTABLE) and "*** Measurement Settings ***" in r.stdout, r


@pytest.mark.parametrize(
    "args, text",
    [
        ((), "Failed to parse -m (model name). The value must be specified."),
        (("-m", "x", "--concurrency-range", "1:2:3:4"), "does not match <start:end:step>"),
        (("-m", "x", "--consurrency-range", "1"), "did you mean '--concurrency-range'?"),
        (
            ("-m", "x", "--request-rate-range", "1", "--concurrency-range", "1"),
            "Cannot use both RequestRate and Concurrency inference load modes.",
        ),
        (("-m", "x", "--streaming"), "Streaming is only allowed with gRPC protocol"),
        (("-m", "x", "--percentile", "100"), "in range (0, 100)"),
        (("-m", "x", "-p", "abc"), "Invalid value provided: abc"),
        (("-m", "x", "--request-count"), "Missing value"),
        (("-m", "x", "-u", ""), "-u '': expected HOST:PORT"),
        (("-m", "x", "-u", "ftp://localhost:1"), "-u ftp://localhost:1: expected HOST:PORT, http:// or https://"),
        (("-m", "x", "-u", "localhost:99999"), "expected HOST:PORT with a port from 1 to 65535"),
    ],
)
def test_mistakes(args, text):
    r = perf(*args)
    assert r.returncode == 99 and text in r.stderr, r


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_unknown_composing_models(server, protocol):
    """As perf_analyzer does it: before anything is measured."""
    at = ("-i", "grpc", "-u", server.grpc) if protocol == "grpc" else ("-u", server.http)
    for name, said in (("add_sub,UNKNOWN", "'UNKNOWN' is not found"), ("add_sub:7", "version 7 is not found")):
        r = perf(*MODEL, *at, *QUICK, f"--bls-composing-models={name}")
        assert r.returncode == 99 and "--bls-composing-models" in r.stderr and said in r.stderr, r
        assert "throughput" not in r.stdout


def test_no_server(server, tmp_path):
    port = free_port()
    r = perf("-m", "x", "-u", f"127.0.0.1:{port}")
    assert r.returncode == 99 and f"no server answers at 127.0.0.1:{port}" in r.stderr, r
    for protocol in ("http", "grpc"):
        r = perf("-m", "nobody", *at(server, protocol))
        assert r.returncode == 99 and "unknown model: 'nobody'" in r.stderr, r
    r = perf("-m", "x", "-u", f"127.0.0.1:{server.metrics_port}")
    assert r.returncode == 99 and "its answer is empty, as those of a port for metrics are" in r.stderr, r
    r = perf("-m", "identity_any_fp32", *at(server, "http"))
    assert r.returncode == 99 and "INPUT0 contains dynamic shape" in r.stderr, r
    r = perf(*MODEL, *at(server, "http"), *QUICK, "-f", tmp_path / "none" / "o.csv")
    assert r.returncode == 99 and "none: no such file" in r.stderr and not r.stdout, r
    r = perf(*MODEL, *at(server, "http"), *QUICK, "-f", "/dev/full")
    assert r.returncode == 99 and "no space left" in r.stderr, r


def test_port_that_is_no_server():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            while True:
                try:
                    c, _ = listener.accept()
                except OSError:
                    return
                c.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                c.close()

        threading.Thread(target=answer, daemon=True).start()
        for protocol in ("http", "grpc"):
            r = perf("-m", "x", "-i", protocol, "-u", f"127.0.0.1:{listener.getsockname()[1]}")
            assert r.returncode == 99 and "does not speak" in r.stderr, r


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_expected_outputs(server, tmp_path, protocol):
    """Answers are compared; what differs counts as failed, and every request is in the export."""
    data = tmp_path / "data.json"
    one = {"content": [1.5, 2], "shape": [1, 2]}
    wrong = {"content": [1.5, 3], "shape": [1, 2]}
    data.write_text(
        json.dumps({"data": [{"INPUT0": one}] * 2, "validation_data": [{"OUTPUT0": one}, {"OUTPUT0": wrong}]})
    )
    args = ("-m", "identity_any_fp32", *at(server, protocol), "--input-data", data, "--request-count", 10)
    r = perf(*args, "--profile-export-file", tmp_path / "e.json")
    assert (
        r.returncode == 99 and "Request count: 5\n" in r.stdout and "Failed: 5 requests: unexpected output" in r.stdout
    ), r
    [experiment] = json.loads((tmp_path / "e.json").read_text())["experiments"]
    assert experiment["experiment"] == {"mode": "concurrency", "value": 1} and len(experiment["requests"]) == 5
    for request in experiment["requests"]:
        assert request["request_inputs"] == {"INPUT0": [1.5, 2]} and request["response_outputs"] == [
            {"OUTPUT0": [1.5, 2]}
        ]
        assert request["timestamp"] < request["response_timestamps"][0]


@pytest.mark.parametrize("distribution", ["constant", "poisson"])
def test_rate(server, distribution):
    args = ("--request-rate-range", 200, "--request-distribution", distribution, "--request-count", 200)
    r = perf(*MODEL, *at(server, "grpc"), "--streaming", *args)
    assert r.returncode == 0 and "Request count: 200\n" in r.stdout and "Request Rate: 200, throughput: " in r.stdout, r


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_shared_memory(server, tmp_path, protocol):
    """Tensors lie in regions, which are gone afterwards."""
    args = ("--shared-memory", "system", "--request-count", 40, "--concurrency-range", 4, "-f", tmp_path / "o.csv")
    r = perf(*MODEL, *at(server, protocol), *args)
    assert r.returncode == 0 and "Request count: 40\n" in r.stdout, r
    left = server.get("/v2/systemsharedmemory/status").json
    assert not [region for region in left if region["name"].startswith("neso-perf")], left
    assert not [name for name in os.listdir("/dev/shm") if name.startswith("neso-perf")]


def test_shared_memory_too_small(server):
    """An output of unknown size has as much room as was asked for, and the server says what it needs."""
    args = ("--shared-memory", "system", "--output-shared-memory-size", 8, "--request-count", 3)
    r = perf(*MODEL, *at(server, "http"), *args)
    assert r.returncode == 99 and "Failed: 3 requests: HTTP " in r.stdout and "shared memory" in r.stdout.lower(), r


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_refused_statistics(tmp_path, monkeypatch, protocol):
    """A key that may only infer measures without the server's numbers."""
    keys = {"keys": [{"name": "k", "sha256": hashlib.sha256(b"secret").hexdigest(), "scopes": ["infer"]}]}
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    (tmp_path / "keys.json").chmod(0o600)
    tensor = '{ name: "X" data_type: TYPE_FP32 dims: [ 2 ] }'
    config = f'backend: "identity"\ninput {tensor}\noutput {tensor}\n'
    place(tmp_path / "models" / "m", {"config.pbtxt": config, "1/x": ""})
    with Server(tmp_path / "models", f"--auth-file={tmp_path}/keys.json", wait=False) as s:
        assert until(lambda: "Started Metrics Service" in s.log()), s.log()
        args = ("-m", "m", *at(s, protocol), "--request-count", 20)
        r = perf(*args)
        assert r.returncode == 99 and "this server asks for a key" in r.stderr, r
        monkeypatch.setenv("NESO_KEY", "secret")
        r = perf(*args)
        assert r.returncode == 0 and "Request count: 20\n" in r.stdout and "Server:" not in r.stdout, r
        assert "note: without the server's numbers" in r.stderr, r


def test_metrics(server):
    args = ("--collect-metrics", "--metrics-url", f"127.0.0.1:{server.metrics_port}/metrics", "--metrics-interval", 20)
    r = perf(*MODEL, *at(server, "http"), *QUICK, *args, "--verbose-csv")
    assert r.returncode in (0, UNSTABLE) and "  Server Prometheus Metrics: \n" in r.stdout, r
    args = ("--collect-metrics", "--metrics-url", server.http + "/nothing")
    r = perf(*MODEL, *at(server, "http"), *QUICK, *args)
    assert r.returncode == 99 and "the server's metrics cannot be read" in r.stderr and "404" in r.stderr, r


def begin(*args, until=r"Pass \[\d+\] throughput: [1-9]"):
    """A run that has printed so much: by default a window in which something was answered."""
    p = subprocess.Popen(
        [BINARY, "perf", "-v", "-r", "100000", "-s", "0", "-p", "50", *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    text = ""
    while not re.search(until, text):
        line = p.stdout.readline()
        assert line, (text, p.stderr.read())
        text += line
    return p


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_interrupted(server, protocol, tmp_path):
    """Ctrl-C keeps what was measured."""
    p = begin(*MODEL, *at(server, protocol), "-f", tmp_path / "o.csv")
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=PATIENCE)
    assert p.returncode == 130 and "interrupted: the report has what was measured" in err, (out, err)
    assert "(not stable, interrupted)" in out and len(rows(tmp_path / "o.csv")) == 1, (out, err)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_killed_server(protocol, tmp_path):
    """A server that is gone ends the run; what was measured is kept, and failures have their kind."""
    with Server(MODELS, "--model-control-mode=explicit", "--load-model=identity_any_fp32") as server:
        p = begin(*MODEL, *at(server, protocol), "-f", tmp_path / "o.csv", "--concurrency-range", 4)
        server.process.kill()
        out, err = p.communicate(timeout=PATIENCE)
        server.process.wait()
    # Who asks at the moment of its end is told of that, who asks later finds nobody.
    assert p.returncode == 99 and re.search("connection (refused|closed|reset)", out + err), (out, err)
    assert "cut short)" in out and len(rows(tmp_path / "o.csv")) == 1, (out, err)


def test_progress_needs_a_terminal(server):
    """A line that is written over and over is for terminals: nothing of it is in a file, and --no-progress keeps it away."""
    args = [BINARY, "perf", *MODEL, "-u", server.http, "-p", "600", "-r", "1"]
    r = subprocess.run(args, capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == UNSTABLE and "\x1b" not in r.stderr + r.stdout, r
    for more, shown in (([], True), (["--no-progress"], False)):
        ours, theirs = pty.openpty()
        try:
            r = subprocess.run([*args, *more], stdout=subprocess.PIPE, stderr=theirs, text=True, timeout=PATIENCE)
            os.close(theirs)
            text = b""
            with contextlib.suppress(OSError):  # the other end is closed
                while part := os.read(ours, 65536):
                    text += part
        finally:
            os.close(ours)
        assert (b"requests/s, mean" in text) == shown and "\x1b" not in r.stdout, text


def test_trace_settings(server):
    """--trace-level and its like are settings of the model on the server, over both protocols."""
    for protocol in ("http", "grpc"):
        r = perf(
            "-m",
            "identity_any_int16",
            *SHAPE,
            *at(server, protocol),
            "--request-count",
            2,
            "--trace-rate",
            7,
            "--log-frequency",
            9,
        )
        assert r.returncode == 0, r
        settings = server.get("/v2/models/identity_any_int16/trace/setting").json
        assert (settings["trace_rate"], settings["log_frequency"]) == ("7", "9"), settings
        server.post("/v2/models/identity_any_int16/trace/setting", {"trace_rate": None, "log_frequency": None})
