"""What worker processes may do: rights, limits, user and environment, told by real workers."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pwd
import re
import sys
from pathlib import Path

import nobody
import pytest
from nobody import python_for_all
from repository import X, place, python_model, until
from server import Server, isolated, kill

TELL = """import json, os, resource
        status = dict(l.split(":\\t", 1) for l in open("/proc/self/status").read().splitlines() if ":\\t" in l)
        told = {"nnp": status["NoNewPrivs"], "uid": status["Uid"].split(), "gid": status["Gid"].split(), "groups": status["Groups"].split(),
                "pgid": os.getpgid(0), "pid": os.getpid(), "ppgid": os.getpgid(os.getppid()), "env": dict(os.environ),
                "data": resource.getrlimit(resource.RLIMIT_DATA), "files": resource.getrlimit(resource.RLIMIT_NOFILE),
                "cpu": resource.getrlimit(resource.RLIMIT_CPU),
                "threads": [open(f"/proc/self/task/{t}/status").read().count("NoNewPrivs:\\t1") for t in os.listdir("/proc/self/task")]}
        print("TOLD " + json.dumps(told), flush=True)"""


def told(s):
    assert until(lambda: "\n" in s.log().partition("TOLD ")[2]), s.log()[-2000:]
    text = s.log().split("TOLD ", 1)[1]
    text = text.replace('\\"', '"').replace("\\\\", "\\")
    return json.JSONDecoder().raw_decode(text)[0]


def parameter(name, value):
    return f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}\n'


@pytest.mark.parametrize("zygote", ["1", "0"])
def test_limits_and_rights(tmp_path, zygote):
    limits = parameter("WORKER_MEMORY_BYTES", "1G") + parameter("WORKER_OPEN_FILES", "100")
    limits += parameter("WORKER_CPU_SECONDS", "3600")
    python_model(tmp_path, "m", init=TELL, extra=limits)
    python_model(tmp_path, "free")
    with Server(tmp_path, env={"NESO_PYTHON_ZYGOTE": zygote}) as s:
        t = told(s)
        assert t["nnp"] == "1" and set(t["threads"]) == {1}
        assert t["pgid"] == t["pid"] != t["ppgid"]
        assert t["data"] == [1 << 30] * 2 and t["files"] == [100] * 2 and t["cpu"] == [3600] * 2
        assert s.infer("m", X).status == s.infer("free", X).status == 200
        with open(f"/proc/{s.process.pid}/status") as f:
            server = f.read()
        assert "Uid:\t" in server  # the server itself keeps its rights: its threads serve on

        def few_gave_them_up():
            found = []
            for status in Path(f"/proc/{s.process.pid}/task").glob("*/status"):
                with contextlib.suppress(OSError):  # it has ended
                    found.append("NoNewPrivs:\t0" in status.read_text())
            return found.count(False) <= 1 < len(found)

        assert until(few_gave_them_up), "threads that served a start are not to stay"


@nobody.needs_root
@pytest.mark.parametrize("zygote", ["1", "0"])
def test_limits_of_another_user(tmp_path, zygote):
    """Also where root may not change the limits of other users' processes (no CAP_SYS_RESOURCE)."""
    limits = parameter("WORKER_MEMORY_BYTES", "1G") + parameter("WORKER_OPEN_FILES", "100")
    python_model(tmp_path / "models", "m", init=TELL, extra=limits + parameter("WORKER_CPU_SECONDS", "3600"))
    with nobody.served(tmp_path / "models", env={"NESO_PYTHON_ZYGOTE": zygote}) as s:
        t = told(s)
        assert t["uid"] == [str(pwd.getpwnam("nobody").pw_uid)] * 4 and t["nnp"] == "1" and t["pgid"] == t["pid"]
        assert t["data"] == [1 << 30] * 2 and t["files"] == [100] * 2 and t["cpu"] == [3600] * 2
        assert s.infer("m", X).status == 200


# An interpreter that a model brings along, and that takes no limits upon itself.
UNLIMITED = """import resource, runpy, sys
resource.setrlimit = lambda *a: None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("zygote", ["1", "0"])
@pytest.mark.parametrize("user", ["server", pytest.param("nobody", marks=nobody.needs_root)])
def test_limits_and_an_interpreter_of_the_model(tmp_path, user, zygote):
    """Code of a model, whatever of it, has its limits from the beginning."""
    repo = tmp_path / "models"
    extra = parameter("EXECUTION_ENV_PATH", "$$TRITON_MODEL_DIRECTORY/python") + parameter("WORKER_OPEN_FILES", "100")
    python_model(repo, "free")
    python_model(repo, "m", init=TELL, extra=extra)
    served = nobody.served if user == "nobody" else Server
    with served(repo, "--model-control-mode=explicit", "--load-model=free", env={"NESO_PYTHON_ZYGOTE": zygote}) as s:
        pythons = [o.split("=", 1)[1] for o in s.process.args if o.startswith("--python=")]
        script = f'#!/bin/sh\nexec {(pythons or [sys.executable])[0]} {repo}/m/unlimited.py "$@"\n'
        place(repo / "m", {"python": script, "unlimited.py": UNLIMITED})
        (repo / "m" / "python").chmod(0o755)
        assert s.post("/v2/repository/models/m/load", {}).status == 200
        assert told(s)["files"] == [100] * 2
        assert s.infer("m", X).status == s.infer("free", X).status == 200


def test_memory_limit_ends_an_allocation(tmp_path):
    python_model(
        tmp_path,
        "hungry",
        execute="bytearray(2 << 30)",
        extra=parameter("WORKER_MEMORY_BYTES", "1G"),
    )
    with Server(tmp_path) as s:
        r = s.infer("hungry", X)
        assert r.status == 500 and "MemoryError" in r.error, r
        assert s.get("/v2/health/live").status == 200


def test_cpu_limit_replaces_the_worker(tmp_path):
    python_model(
        tmp_path,
        "busy",
        init="self.spun = False",
        execute="""
        if float(pb_utils.get_input_tensor_by_name(requests[0], "INPUT0").as_numpy()[0, 0]) > 1:
            while True: pass""",
        extra=parameter("WORKER_CPU_SECONDS", "3"),
    )
    with Server(tmp_path) as s:
        r = s.infer("busy", {"inputs": [{**X["inputs"][0], "data": [2]}]}, timeout=180)
        assert r.status >= 500 and "killed by SIG" in r.error, r
        assert until(lambda: s.infer("busy", X).status == 200)


@pytest.mark.parametrize(
    ("name", "value"), [("WORKER_MEMORY_BYTES", "lots"), ("WORKER_OPEN_FILES", "3"), ("WORKER_CPU_SECONDS", "-1")]
)
def test_bad_limits(tmp_path, name, value):
    python_model(tmp_path, "m", extra=parameter(name, value))
    s = Server(tmp_path, wait=False)
    assert s.process.wait(120) == 1
    s.stop()
    assert f"Incorrect value for {name}: '{value}' is not a number from" in s.log()


SECRETS = {
    "TRITONCACHE_REDIS_PASSWORD": "s3cr3t-1",
    "AWS_SECRET_ACCESS_KEY": "s3cr3t-2",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": "s3cr3t-3",
    "AZURE_STORAGE_KEY": "s3cr3t-4",
    "GOOGLE_APPLICATION_CREDENTIALS": "s3cr3t-5",
    "NESO_ADMIN_KEY": "s3cr3t-6",
}
OPEN = {"HF_TOKEN": "for-the-model", "AWS_REGION": "eu-1", "SOME_SETTING": "yes"}


def test_environment(tmp_path):
    python_model(tmp_path, "m", init=TELL)
    with Server(tmp_path, env={**SECRETS, **OPEN}) as s:
        env = told(s)["env"]
        assert not set(SECRETS) & set(env)
        assert {k: env.get(k) for k in OPEN} == OPEN
        assert env["PATH"] == os.environ["PATH"]
        assert "s3cr3t" not in s.log()


def test_environment_by_list(tmp_path):
    python_model(tmp_path, "m", init=TELL)
    with Server(tmp_path, "--worker-env=AWS_*", "--worker-env=SOME_SETTING", env={**SECRETS, **OPEN}) as s:
        env = told(s)["env"]
    names = set(env) & (set(SECRETS) | set(OPEN))
    assert names == {"AWS_SECRET_ACCESS_KEY", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_REGION", "SOME_SETTING"}
    assert env["PATH"] == os.environ["PATH"]


@nobody.needs_root
@pytest.mark.parametrize("zygote", ["1", "0"])
def test_user(tmp_path, zygote):
    for d in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        d.chmod(d.stat().st_mode | 0o055)
    found = python_for_all(tmp_path)
    if found is None:
        pytest.skip("user nobody can run no Python with numpy here")
    python, path = found
    python_model(tmp_path / "models", "m", init=TELL)
    options = ["--worker-user=nobody", f"--python={python}", "--model-control-mode=explicit", "--load-model=m"]
    env = {"NESO_PYTHON_ZYGOTE": zygote, "PYTHONPATH": path}
    with Server(tmp_path / "models", *options, env=env) as s:
        t = told(s)
        user = pwd.getpwnam("nobody")
        assert t["uid"] == [str(user.pw_uid)] * 4 and t["gid"] == [str(user.pw_gid)] * 4
        assert "0" not in t["groups"] and t["env"]["USER"] == "nobody" and t["env"]["HOME"] == user.pw_dir
        assert s.infer("m", X).status == 200
        # Files of a load request can be read by the worker, too.
        code = (tmp_path / "models" / "m" / "1" / "model.py").read_bytes()
        config = '{"backend": "python", "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1, -1]}], '
        config += '"output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1, -1]}]}'
        load = {"parameters": {"config": config, "file:1/model.py": base64.b64encode(code).decode()}}
        r = s.post("/v2/repository/models/n/load", load)
        assert r.status == 200, r
        assert s.infer("n", X).status == 200
        # A crash is followed by a worker of the same user, and the server can end it.
        kill(t["pid"])
        assert until(lambda: s.log().count("TOLD ") >= 3 and s.infer("m", X).status == 200)
        assert s.stop() == 0


def test_unknown_user(tmp_path):
    python_model(tmp_path, "m")
    s = Server(tmp_path, "--worker-user=nobody-at-all", wait=False)
    assert s.process.wait(120) == 1
    s.stop()
    assert "--worker-user" in s.log() and "nobody-at-all" in s.log()


def isolated_model(repo):
    """A model of ONNX Runtime that runs in a worker with 200 descriptors."""
    onnx = pytest.importorskip("onnx", reason="onnx makes the model")
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Identity", ["X"], ["Y"])],
        "g",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [1, 1])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [1, 1])],
    )
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (repo / "m" / "1").mkdir(parents=True)
    onnx.save(m, repo / "m" / "1" / "model.onnx")
    config = 'backend: "onnxruntime"\n' + parameter("isolation", "process") + parameter("WORKER_OPEN_FILES", "200")
    (repo / "m" / "config.pbtxt").write_text(config)


def check_isolated(s, uid):
    found = isolated(s.process.pid)
    assert found
    for pid in found:
        status = open(f"/proc/{pid}/status").read()
        assert "NoNewPrivs:\t1" in status and re.search(f"^Uid:(\t{uid}){{4}}$", status, re.M), status
        assert b"s3cr3t" not in open(f"/proc/{pid}/environ", "rb").read()
        limits = {line[:26].strip(): line[26:].split()[1] for line in open(f"/proc/{pid}/limits")}
        assert limits["Max open files"] == "200" and 60 <= int(limits["Max realtime timeout"]).bit_length() <= 61
        assert os.getpgid(pid) == pid
    body = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [1, 1], "data": [3]}]}
    assert s.infer("m", body).status == 200


def test_isolated_backend(tmp_path):
    """A worker that is the server's own binary is confined in the same way."""
    isolated_model(tmp_path)
    with Server(tmp_path, env=SECRETS) as s:
        check_isolated(s, os.geteuid())


@nobody.needs_root
def test_isolated_backend_of_another_user(tmp_path):
    isolated_model(tmp_path / "models")
    library = nobody.onnxruntime_for_all(tmp_path)
    with nobody.served(tmp_path / "models", env={**SECRETS, "NESO_ONNXRUNTIME_LIBRARY": library}) as s:
        check_isolated(s, pwd.getpwnam("nobody").pw_uid)
