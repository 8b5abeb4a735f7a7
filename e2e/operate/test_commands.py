"""The commands that ask or tell a running server something, and the doctor."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import termios

import numpy as np
import pytest
from repository import python_model, until
from server import BINARY, MODELS, Server


@pytest.fixture(scope="module")
def server():
    with Server(
        MODELS,
        "--model-control-mode=explicit",
        "--load-model=add_sub",
        "--load-model=identity_any_bytes",
        "--load-model=identity_any_fp16",
    ) as s:
        yield s


def neso(server, *args, **kw):
    env = {**os.environ, "NESO_URL": server.http, "NESO_PYTHON": sys.executable}
    return subprocess.run([BINARY, *args], capture_output=True, text=True, timeout=180, env=env, **kw)


def ok(server, *args) -> str:
    r = neso(server, *args)
    assert r.returncode == 0, r
    return r.stdout


def test_ready(server):
    assert ok(server, "ready") == "ready\n"
    assert ok(server, "ready", "add_sub:1") == "ready\n"
    r = neso(server, "ready", "identity_any_int8")
    assert (r.returncode, r.stdout) == (1, "not ready\n") and "has loaded no such model" in r.stderr, r
    r = neso(server, "ready", "add_sub:7")
    assert (r.returncode, r.stdout) == (1, "not ready\n") and "has loaded no such model" in r.stderr, r
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        r = neso(server, "ready", "--url", f"127.0.0.1:{s.getsockname()[1]}")
    assert r.returncode == 1 and "refused" in r.stderr


def test_not_ready_says_why(tmp_path):
    python_model(tmp_path / "repo", "m", init="raise ValueError('no licence')")
    with Server(tmp_path / "repo", "--exit-on-error=false", wait=False) as s:
        assert until(lambda: "no licence" in neso(s, "ready").stderr), s.log()
        for args in ([], ["m"], ["m:1"]):
            r = neso(s, "ready", *args)
            assert (r.returncode, r.stdout) == (1, "not ready\n") and "no licence" in r.stderr, r


def test_index_load_unload(server):
    assert "identity_any_bool" in ok(server, "index")
    assert ok(server, "load", "identity_any_bool") == "loaded identity_any_bool\n"
    ready = json.loads(ok(server, "index", "--ready", "--json"))
    assert {"name": "identity_any_bool", "version": "1", "state": "READY"} in ready
    ok(server, "unload", "identity_any_bool")
    r = neso(server, "unload", "identity_any_bol")
    assert (r.returncode, r.stdout) == (1, "")
    assert "no model 'identity_any_bol', did you mean 'identity_any_bool'?" in r.stderr, r
    r = neso(server, "unload", "nope")
    assert r.returncode == 1 and r.stderr.endswith("no model 'nope'\n"), r
    r = neso(server, "load", "nope")
    assert r.returncode == 1 and "failed to load 'nope'" in r.stderr


def test_load_with_files(server, tmp_path):
    config = {
        "backend": "python",
        "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [1]}],
        "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [1]}],
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.py").write_text(
        "import triton_python_backend_utils as pb_utils\n"
        "class TritonPythonModel:\n"
        "    def execute(self, requests):\n"
        "        return [pb_utils.InferenceResponse([pb_utils.Tensor('Y', pb_utils.get_input_tensor_by_name(r, "
        "'X').as_numpy() * 2)]) for r in requests]\n"
    )
    ok(
        server,
        "load",
        "twice",
        "--config",
        str(tmp_path / "config.json"),
        "--file",
        f"1/model.py={tmp_path / 'model.py'}",
    )
    assert ok(server, "infer", "twice", "--input", "X=21") == "Y FP32 [1]\n[42]\n"
    assert json.loads(ok(server, "config", "twice"))["backend"] == "python"
    r = neso(server, "load", "twice", "--file", f"1/model.py={tmp_path / 'model.py'}")
    assert r.returncode == 1 and "--file needs --config" in r.stderr


def test_infer_forms(server, tmp_path):
    out = ok(
        server,
        "infer",
        "add_sub:1",
        "--input",
        "INPUT0=[1,2,3,4]",
        "--input",
        "INPUT1=[[5,6,7,8]]",
        "--output",
        "OUTPUT0",
    )
    assert out == "OUTPUT0 FP32 [1,4]\n[[6, 8, 10, 12]]\n"
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.float32))
    (tmp_path / "x.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    saved = tmp_path / "y.npy"
    answer = json.loads(
        ok(
            server,
            *(
                "infer",
                "add_sub",
                "--input",
                f"INPUT0=@{tmp_path / 'x.npy'}",
                "--input",
                f"INPUT1=@{tmp_path / 'x.bin'}",
            ),
            *("--json", "--id", "seven", "--save", f"OUTPUT0={saved}"),
        )
    )
    assert answer["id"] == "seven" and answer["outputs"][0] == {
        "name": "OUTPUT0",
        "datatype": "FP32",
        "shape": [1, 4],
        "data": [0, 2, 4, 6],
    }
    assert np.load(saved).tolist() == [[0, 2, 4, 6]]


def test_infer_text_and_half(server, tmp_path):
    meta = json.loads(ok(server, "config", "identity_any_bytes"))
    name = meta["input"][0]["name"]
    assert '"Grüße, Welt"' in ok(server, "infer", "identity_any_bytes", "--input", f"{name}=Grüße, Welt")
    name = json.loads(ok(server, "config", "identity_any_fp16"))["input"][0]["name"]
    np.save(tmp_path / "h.npy", np.array([0.5, -2, 65504], np.float16))
    assert "[0.5, -2, 65504]" in ok(server, "infer", "identity_any_fp16", "--input", f"{name}=@{tmp_path / 'h.npy'}")


COUNT = """
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            n = pb_utils.get_input_tensor_by_name(r, 'N').as_numpy().ravel()
            sender = r.get_response_sender()
            for i in range(int(n[0])):
                out = [pb_utils.Tensor('I', np.array([[i]], np.int32)), pb_utils.Tensor('ALL', n.reshape(1, -1))]
                sender.send(pb_utils.InferenceResponse(out))
            if n[0] == 2:
                sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError('no more')))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def test_infer_of_a_decoupled_model(server, tmp_path):
    config = {
        "backend": "python",
        "max_batch_size": 2,
        "input": [{"name": "N", "data_type": "TYPE_INT32", "dims": [-1]}],
        "output": [
            {"name": "I", "data_type": "TYPE_INT32", "dims": [1]},
            {"name": "ALL", "data_type": "TYPE_INT32", "dims": [-1]},
        ],
        "model_transaction_policy": {"decoupled": True},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.py").write_text(COUNT)
    files = ("--config", str(tmp_path / "config.json"), "--file", f"1/model.py={tmp_path / 'model.py'}")
    ok(server, "load", "count", *files)
    assert ok(server, "infer", "count", "--input", "N=[1, 7]") == (
        "response 0\nI INT32 [1,1]\n[[0]]\nALL INT32 [1,2]\n[[1, 7]]\n"
    )
    assert ok(server, "infer", "count", "--input", "N=3", "--output", "I").split() == (
        "response 0 I INT32 [1,1] [[0]] response 1 I INT32 [1,1] [[1]] response 2 I INT32 [1,1] [[2]]".split()
    )
    np.save(tmp_path / "n.npy", np.array([[3, 4]], np.int32))
    lines = ok(
        server, "infer", "count:1", "--input", f"N=@{tmp_path / 'n.npy'}", "--json", "--id", "seven"
    ).splitlines()
    assert [([o["data"] for o in json.loads(x)["outputs"]], json.loads(x)["id"]) for x in lines] == [
        ([[i], [3, 4]], "seven") for i in range(3)
    ]
    r = neso(server, "infer", "count", "--input", "N=2", "--output", "I")
    assert r.returncode == 1 and "response 1" in r.stdout and "no more" in r.stderr, r
    # Each row of a batch is a sample of its own, asked one after the other.
    r = ok(server, "infer", "count", "--input", "N=[[1],[3],[1]]", "--output", "I")
    assert r.split("\n") == [
        *("sample 0 response 0", "I INT32 [1,1]", "[[0]]"),
        *(line for i in range(3) for line in (f"sample 1 response {i}", "I INT32 [1,1]", f"[[{i}]]")),
        *("sample 2 response 0", "I INT32 [1,1]", "[[0]]", ""),
    ]
    lines = ok(server, "infer", "count", "--input", "N=[[1, 5],[3, 6]]", "--json").splitlines()
    assert [json.loads(x)["outputs"][1]["data"] for x in lines] == [[1, 5], [3, 6], [3, 6], [3, 6]]
    r = neso(server, "infer", "count", "--input", "N=[[1],[2],[1]]", "--output", "I")
    assert r.returncode == 1 and "sample 1 response 1" in r.stdout and "sample 2 response 0" in r.stdout, r
    assert r.stderr == "neso: sample 1: no more\n", r
    r = neso(server, "infer", "count", "--input", "N=1", "--save", "I=x.npy")
    assert r.returncode == 1 and "--json prints each" in r.stderr, r


@pytest.mark.parametrize(
    "args, fault",
    [
        (["infer", "add_sub"], "expected --input NAME=VALUE for each of INPUT0 FP32"),
        (["infer", "add_sub", "--input", "X=1"], "model add_sub has no such input, it has INPUT0"),
        (["infer", "add_sub", "--input", "INPUT0=a"], "--input INPUT0: expected JSON"),
        (["infer", "add_sub", "--input", "INPUT0"], "expected NAME=VALUE"),
        (["infer", "add_sub", "--input", "INPUT0=[1,2]"], "expected 2 inputs but got 1"),
        (["infer", "add_sub", "--input", "INPUT0=[1,2]", "--shape", "INPUT0=x"], "expected numbers with commas"),
        (["infer", "nope", "--input", "INPUT0=1"], "unknown model"),
        (["stats", "nope"], "nope"),
        (["ready", "--header", "x"], "expected 'Name: value'"),
        (["log", "x"], "expected NAME=VALUE"),
        (["log", "nope=1"], "the server has no setting 'nope', it has log_error, "),
        (["trace", "nope=1"], "the server has no setting 'nope', it has log_frequency, "),
        (["load"], "accepts 1 arg(s), received 0\nUsage: neso load MODEL"),
        (
            ["infer", "add_sub:-x", "--input", "INPUT0=1"],
            "add_sub:-x: expected MODEL or MODEL:VERSION, a version is a number or a label",
        ),
        (["infer", "add_sub", "--input", "INPUT0=@/nope"], "--input INPUT0: open /nope: no such file"),
        (["infer", "add_sub", "--input", "INPUT0=@/"], "--input INPUT0: read /: is a directory"),
        (["load", "add_sub", "--config", "/nope"], "--config: open /nope: no such file"),
        (["load", "--header"], "flag needs an argument: --header\nUsage"),
        (["infer", "--parmeter", "x"], "unknown flag: --parmeter, did you mean --parameter?\nUsage"),
        (["test-model", ".", "--repeat", "x"], 'invalid argument "x" for "--repeat" flag: expected a number\nUsage'),
        (["index", "x"], 'neso index takes no arguments, got "x"\nUsage'),
        (["ready", "--url", "http://"], "--url http://: expected HOST:PORT, a URL, or unix:/path"),
        (["ready", "--url", "localhost:x"], "--url localhost:x: expected HOST:PORT, a URL, or unix:/path"),
        (["load", "--nope"], "unknown flag: --nope\nUsage: neso load MODEL"),
        (["ready", "--url", "localhost:1"], "no server answers at localhost:1: connection refused\nStart one with"),
        (["ready", "--url", "unix:/nope"], "no server answers at unix:/nope: no such file"),
    ],
)
def test_mistakes_are_explained(server, args, fault):
    r = neso(server, *args)
    assert r.returncode == 1 and fault in r.stderr, r


def test_stats_and_log_settings(server):
    ok(server, "infer", "add_sub", "--input", "INPUT0=[1,2,3,4]", "--input", "INPUT1=[1,2,3,4]")
    line = next(line for line in ok(server, "stats", "add_sub").splitlines() if line.startswith("add_sub"))
    assert int(line.split()[2]) >= 1
    assert json.loads(ok(server, "stats", "add_sub", "--json"))["model_stats"][0]["name"] == "add_sub"
    assert json.loads(ok(server, "log", "log_verbose_level=1"))["log_verbose_level"] == 1
    assert json.loads(ok(server, "log"))["log_verbose_level"] == 1
    ok(server, "log", "log_verbose_level=0")


def top(server, *args, **kw):
    return neso(server, "top", f"--metrics-url=127.0.0.1:{server.metrics_port}/metrics", *args, **kw)


def test_top(server):
    r = top(server, "--count=2", "--interval=100ms")
    assert r.returncode == 0, r
    first, second = r.stdout.split("\n\n")
    assert first.startswith(server.http) and "\x1b" not in r.stdout
    machine, *table = second.splitlines()[1:]
    assert re.fullmatch(r"server \d+\.\d\d CPUs, \d+ MB; machine \d+ %, [\d.]+ GB of [\d.]+ GB(; GPU .*)?", machine), (
        machine
    )
    rows = {line.split()[0]: line.split() for line in table}
    assert rows["add_sub"][1:3] == ["1", "READY"] and rows["MODEL"][3] == "REQ/S"
    waits, cpu, memory = rows["add_sub"][-3:]
    assert waits == "0", "what waits is in the metrics"
    assert float(cpu) >= 0 and float(memory) > 0, "it has a worker"
    for wrong, fault in (
        (["--sort=nobody"], "--sort=nobody: expected one of requests, "),
        (["--interval=1ms"], "--interval=1ms: expected at least 100ms"),
        (["--count=-1"], "--count=-1: expected 0"),
        (["--url=127.0.0.1:1"], "no server answers at 127.0.0.1:1"),
        (["--metrics-url=127.0.0.1:1/metrics"], "--metrics-url: "),
    ):
        r = top(server, *wrong)
        assert r.returncode == 1 and fault in r.stderr and r.stdout == "", r


def test_top_counts_what_is_done(server):
    body = {"inputs": [{"name": n, "datatype": "FP32", "shape": [1, 4], "data": [1] * 4} for n in ("INPUT0", "INPUT1")]}
    env = {**os.environ, "NESO_URL": server.http}
    watcher = subprocess.Popen(
        [BINARY, "top", "--count=20", "--interval=500ms"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )
    try:
        for line in watcher.stdout:  # until a table has seen the requests
            if line.startswith("add_sub "):
                if float(line.split()[3]) > 0:
                    break
                assert server.infer("add_sub", body).status == 200
        else:
            raise AssertionError("no table had a request: " + watcher.stderr.read())
        watcher.send_signal(signal.SIGINT)
        rest, errors = watcher.communicate(timeout=60)
        assert (watcher.returncode, errors) == (0, "")
    finally:
        watcher.kill()
        watcher.wait()


def test_top_on_a_terminal(server):
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 30, 0, 0))
    env = {**os.environ, "NESO_URL": server.http, "TERM": "xterm"}
    p = subprocess.Popen([BINARY, "top", "--count=1", "--interval=100ms"], stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    assert p.wait(60) == 0
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert shown.startswith("\x1b[H\x1b[2J")
    lines = shown.removeprefix("\x1b[H\x1b[2J").removesuffix("\r\n").split("\r\n")
    assert len(lines) == 5 and max(map(len, lines)) <= 30 and lines[4].startswith("and "), lines


def test_top_ends_with_the_server(tmp_path):
    python_model(tmp_path, "m")
    with Server(tmp_path) as s:
        p = subprocess.Popen(
            [BINARY, "top", "--url", s.http, "--interval=100ms"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert p.stdout.readline().startswith(s.http)
    out, errors = p.communicate(timeout=120)
    assert p.returncode == 1 and errors.startswith("neso: "), errors


def test_completion(server):
    assert "complete" in ok(server, "completion", "bash")
    assert "add_sub\n" in ok(server, "__complete", "unload", "")
    assert "--http-port=\n" in ok(server, "__complete", "serve", "--http")


def test_doctor(server):
    r = neso(server, "doctor")
    assert r.returncode == 0 and "numpy" in r.stdout and "HTTP :8000" in r.stdout, r
    env = {**os.environ, "NESO_PYTHON": "/no/such/python"}
    r = subprocess.run([BINARY, "doctor"], capture_output=True, text=True, timeout=180, env=env)
    assert r.returncode == 1 and "FAIL  Python" in r.stdout and "/no/such/python" in r.stdout, r


def test_an_input_that_is_no_json(server, tmp_path):
    rubbish = tmp_path / "x.json"
    rubbish.write_bytes(bytes(range(256)) * 20)
    r = neso(server, "infer", "add_sub", "--input", f"INPUT0=@{rubbish}")
    assert (
        r.returncode == 1 and f"--input INPUT0: {rubbish}: expected JSON, got " in r.stderr and len(r.stderr) < 500
    ), r
