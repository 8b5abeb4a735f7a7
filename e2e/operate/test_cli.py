"""The command line: checks, help, links, mistakes, sockets."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import time

import pytest
from repository import identity_model
from server import BINARY, MODELS, ROOT, Server


def neso(*args, **kw):
    return subprocess.run([BINARY, *args], capture_output=True, text=True, timeout=60, **kw)


def test_config_check_good():
    r = neso("config", "check", str(MODELS))
    assert r.returncode == 0, r.stdout + r.stderr
    assert neso("config", "check", str(ROOT / "examples" / "models")).returncode == 0


def test_config_check_reports_every_fault(tmp_path):
    d = tmp_path / "m"
    (d / "1").mkdir(parents=True)
    (d / "config.pbtxt").write_text(
        'backend: "python"\nmax_batch_size: -1\ninput [\n  { name: "A" dims: [ -1 ] },\n  { name: "B" data_type: '
        "TYPE_FP23 dims: [ 0 ] }\n]\nmax_batch_sizes: 3\n"
    )
    r = neso("config", "check", str(tmp_path))
    out = r.stdout + r.stderr
    assert r.returncode == 1
    for line in (2, 4, 5, 7):
        assert f"config.pbtxt:{line}" in out, out
    assert "max_batch_size" in out and "data_type" in out and "did you mean" in out, out


@pytest.mark.parametrize("form", ["pbtxt", "json", "yaml"])
def test_config_show(form):
    r = neso("config", "show", str(MODELS / "add_sub"), "--format", form)
    assert r.returncode == 0 and "INPUT0" in r.stdout, r
    if form == "json":
        assert json.loads(r.stdout)["max_batch_size"] == 8


@pytest.mark.parametrize("text", ["max_batch_sise: 4\nmax_batch_size: -1\n", "max_batch_size: -1\n"])
def test_config_show_tells_the_faults_of_config_check(tmp_path, text):
    """All of them, in its order, whether they are of the text or of what it says."""
    (tmp_path / "m").mkdir()
    inputs = 'input { name: "X" data_type: TYPE_FP32 dims: [ 0 ] }\n'
    (tmp_path / "m" / "config.pbtxt").write_text('backend: "python"\n' + text + inputs)
    check, show = neso("config", "check", str(tmp_path / "m")), neso("config", "show", str(tmp_path / "m"))
    assert check.returncode == show.returncode == 1
    faults = [line.strip() for line in check.stdout.splitlines() if "config.pbtxt" in line and "hint:" not in line]
    assert len(faults) == 2 + text.count("\n") and "at least one version" in check.stdout, check
    told = [line.strip().removeprefix("neso: ") for line in show.stderr.splitlines()]
    assert [line for line in told if line in faults] == faults, (faults, show)


def test_help_and_version():
    for args in (("--help",), ("serve", "--help"), ("config", "--help"), ("config", "check", "--help")):
        r = neso(*args)
        assert r.returncode == 0 and r.stdout, (args, r)
    assert "--model-repository" in neso("serve", "--help").stdout
    assert neso("version").stdout.strip()


def test_link_named_tritonserver(tmp_path):
    link = tmp_path / "tritonserver"
    link.symlink_to(BINARY)
    r = subprocess.run([link, "--help"], capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and "Usage: tritonserver [options]" in r.stderr
    r = subprocess.run([link], capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and "--model-repository must be specified" in r.stderr, r


MISTAKES = {
    "unknown option": (["--no-such-option=1"], "unrecognized option '--no-such-option'"),
    "near miss": (["--modle-repository=x"], "did you mean '--model-repository'"),
    "ambiguous": (["--http-=1"], "ambiguous"),
    "no such file": (["no_such_path"], "Unexpected argument: no_such_path (it does not exist: expected a model file,"),
    "file behind options": (
        ["--http-port=0", __file__],
        "(paths of models stand in front of the options: neso serve /",
    ),
    "not a number": (["--http-port=x"], "Invalid option value. Got x, expected a whole number"),
    "not a boolean": (["--allow-http=maybe"], "invalid value for bool option: maybe"),
    "no argument": (["--http-port"], "requires an argument"),
    "same port": (
        ["--http-port=7000", "--grpc-port=7000"],
        "cannot listen to HTTP requests and GRPC requests at the same address and port",
    ),
    "load without explicit": (["--load-model=x"], "requires setting '--model-control-mode=explicit'"),
    "no repository": ([], "--model-repository must be specified, or a model file or directory: neso serve PATH"),
    "missing repository": (
        ["--model-repository=/no/such/dir"],
        "failed to stat file /no/such/dir: no such file or directory (expected a directory of models)",
    ),
    "file as repository": (
        [f"--model-repository={__file__}"],
        f"repository path is not a valid directory: {__file__} is a file (expected a directory of models)",
    ),
    "log format": (["--log-format=xml"], "invalid argument for --log-format"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case):
    args, text = MISTAKES[case]
    r = neso("serve", *args)
    assert r.returncode == 1 and text in r.stderr, r.stderr


def test_options_of_triton_without_effect_are_reported_once(tmp_path):
    identity_model(tmp_path, "m")
    with Server(tmp_path, "--http-thread-count=4", "--pinned-memory-pool-byte-size=0", "--http-thread-c", "3") as s:
        log = s.log()
        assert log.count("option=--http-thread-count") == 1 and log.count("option=--pinned-memory-pool-byte-size") == 1
        assert "options=" in log.splitlines()[0] and "--http-thread-c 3" in log.splitlines()[0], (
            "the first line says how the server was started"
        )


def test_unix_sockets(tmp_path):
    identity_model(tmp_path / "models", "m")
    path = str(tmp_path / "http.sock")
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(path)  # as a killed server leaves it
    server = subprocess.Popen(
        [
            BINARY,
            "serve",
            f"--model-repository={tmp_path / 'models'}",
            f"--http-address=unix:{path}",
            "--allow-grpc=false",
            "--metrics-address=127.0.0.1",
            "--metrics-port=0",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        status = None
        while status != 200 and server.poll() is None:
            c = http.client.HTTPConnection("x")
            c.sock = socket.socket(socket.AF_UNIX)
            try:
                c.sock.connect(path)
                c.request("GET", "/v2/health/ready")
                status = c.getresponse().status
            except OSError:
                time.sleep(0.01)  # polling another process: there is nothing to wait on
            finally:
                c.close()
        assert status == 200
    finally:
        server.terminate()
        _, err = server.communicate(timeout=120)
    assert server.returncode == 0, err
    assert not os.path.exists(path)


def test_port_zero_is_any_port(tmp_path):
    identity_model(tmp_path, "m")
    server = subprocess.Popen(
        [
            BINARY,
            f"--model-repository={tmp_path}",
            "--http-address=127.0.0.1",
            "--http-port=0",
            "--grpc-address=127.0.0.1",
            "--grpc-port=0",
            "--metrics-port=0",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in server.stderr:
            if "Started HTTPService at 127.0.0.1:" in line:
                port = int(line.rsplit(":", 1)[1].strip().strip('"'))
                assert port > 0
                break
        else:
            pytest.fail("no line says where the server listens")
    finally:
        server.terminate()
        server.communicate(timeout=120)
