"""What the server signals, and what ends with a worker: models of user nobody that forge, and models that leave processes behind."""

from __future__ import annotations

import json
import re
import subprocess

import nobody
import pytest
from repository import X, place, python_model, until
from server import Server, alive, kill

EXPLICIT = ("--model-control-mode=explicit", "--load-model=*")

# An interpreter that a model brings along, and that says of a process of somebody else that it has forked it.
FORGER = """import os, runpy, sys
sys.argv = sys.argv[1:]
os.fork = lambda: {victim}
runpy.run_path(sys.argv[0], run_name="__main__")
"""

GRAB = """import ctypes, json, os
        libc, told = ctypes.CDLL(None, use_errno=True), {"parent": os.getppid(), "got": 0, "errors": []}
        pidfd = libc.syscall(434, os.getppid(), 0)
        for fd in range(64):
            if libc.syscall(438, pidfd, fd, 0) >= 0:
                told["got"] += 1
            else:
                told["errors"].append(ctypes.get_errno())
        try:
            told["fds"] = os.listdir(f"/proc/{os.getppid()}/fd")
        except OSError as e:
            told["fds"] = type(e).__name__
        print("TOLD " + json.dumps(told), flush=True)"""

# Leaves a process in a session of its own, whose parent is gone: {leave} says how.
LEAVE = {
    "session": 'subprocess.Popen(["sleep", "1000"], start_new_session=True).pid',
    "daemon": 'int(subprocess.run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"], capture_output=True, text=True).stdout)',
    "forked": "forked()",
}
FORKED = """
        def forked():
            import time
            r, w = os.pipe()
            if os.fork() == 0:
                os.setsid()
                pid = os.fork()
                if pid == 0:
                    os.environ.clear()
                    for fd in range(3, 1024):
                        if fd != w:
                            try: os.close(fd)
                            except OSError: pass
                    os.write(w, str(os.getpid()).encode())
                    os.close(w)
                    time.sleep(1000)
                os._exit(0)
            os.close(w)
            return int(os.read(r, 32))"""


def told(s):
    assert until(lambda: "\n" in s.log().partition("TOLD ")[2]), s.log()[-2000:]
    text = s.log().split("TOLD ", 1)[1].replace('\\"', '"').replace("\\\\", "\\")
    return json.JSONDecoder().raw_decode(text)[0]


def left(s, n):
    """The n-th worker that has left a process behind, and that process. (What a worker printed last is also in the news of its end.)"""

    def found():
        return list(dict.fromkeys(re.findall(r"LEFT (\d+) (\d+) ", s.log())))

    assert until(lambda: len(found()) >= n), s.log()[-2000:]
    return map(int, found()[n - 1])


@nobody.needs_root
def test_forged_child(tmp_path):
    """A zygote that reports a process which is not its child: the load fails, and that process lives."""
    repo = tmp_path / "models"
    repo.mkdir()
    python_model(repo, "good")
    with subprocess.Popen(["sleep", "1000"]) as victim:
        try:
            forger = FORGER.format(victim=victim.pid)
            environment = (
                'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/python" } }'
            )
            options = (
                "--model-control-mode=explicit",
                "--load-model=good",
                "--backend-config=python,stub-timeout-seconds=5",
            )
            with nobody.served(repo, *options) as s:
                python = next(o for o in s.process.args if o.startswith("--python=")).split("=", 1)[1]
                python_model(repo, "evil", extra=environment)
                place(
                    repo / "evil",
                    {"python": f'#!/bin/sh\nexec {python} {repo}/evil/forger.py "$@"\n', "forger.py": forger},
                )
                (repo / "evil" / "python").chmod(0o755)
                r = s.post("/v2/repository/models/evil/load", {})
                assert r.status == 400 and "none of its own" in r.error, r
                assert s.infer("good", X).status == 200
                assert victim.poll() is None
            assert victim.poll() is None
        finally:
            victim.kill()


@nobody.needs_root
def test_zygote_is_out_of_reach(tmp_path):
    """A model of user nobody gets none of the descriptors of the process that its own was forked from."""
    python_model(tmp_path / "models", "m", init=GRAB)
    with nobody.served(tmp_path / "models") as s:
        t = told(s)
        assert t["got"] == 0 and 1 in t["errors"] and t["fds"] == "PermissionError", t
        assert t["parent"] != s.process.pid and s.infer("m", X).status == 200


@pytest.mark.parametrize("zygote", ["1", "0"])
@pytest.mark.parametrize("how", LEAVE)
def test_processes_that_a_model_leaves(tmp_path, how, zygote):
    """They end with the worker: when it is killed, when its model is unloaded, when the server ends."""
    init = f"import os, subprocess{FORKED}\n        print('LEFT', os.getpid(), {LEAVE[how]}, 'behind', flush=True)"
    python_model(tmp_path, "m", init=init)
    with Server(tmp_path, *EXPLICIT, env={"NESO_PYTHON_ZYGOTE": zygote}) as s:
        worker, first = left(s, 1)
        assert alive(first)
        kill(worker)
        assert until(lambda: not alive(first))
        _, second = left(s, 2)
        assert until(lambda: s.infer("m", X).status == 200)
        assert alive(second)
        assert s.post("/v2/repository/models/m/unload", {}).status == 200
        assert until(lambda: not alive(second))
        assert s.post("/v2/repository/models/m/load", {}).status == 200
        _, third = left(s, 3)
        assert alive(third)
        assert s.stop() == 0
        assert not alive(third)


def test_processes_that_hide(tmp_path):
    """What a model hides from the end of its worker ends with the server."""
    hide = "resource.setrlimit(resource.RLIMIT_RTTIME, (1 << 40, 1 << 40))"
    init = f"import os, resource, subprocess\n        {hide}\n        print('LEFT', os.getpid(), {LEAVE['daemon']}, 'behind', flush=True)"
    python_model(tmp_path, "m", init=init)
    with Server(tmp_path, *EXPLICIT) as s:
        _, hidden = left(s, 1)
        assert s.post("/v2/repository/models/m/unload", {}).status == 200
        assert s.stop() == 0
        assert not alive(hidden)


@pytest.mark.parametrize("how", ["print(line)", "pb_utils.Logger.log_info(line)"])
def test_a_model_that_logs_without_end(tmp_path, how):
    """What it writes is bounded, and the log says how much it lacks."""
    flood = f"line = 'x' * 1000\n        for _ in range(100_000): {how}"  # 100 MB
    python_model(tmp_path, "m", execute=flood)
    with Server(tmp_path) as s:
        assert s.infer("m", X).status == 200
        assert until(lambda: "lines were dropped" in s.log())
        assert s.stop() == 0
        log = s.log()
        written, dropped = log.count("x" * 1000), sum(map(int, re.findall(r"dropped=(\d+)", log)))
        assert written + dropped == 100_000 and len(log) < 50 << 20, (written, dropped, len(log))
