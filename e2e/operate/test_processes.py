"""What the server signals, and what ends with a worker: models of user nobody that forge, and models that leave processes behind."""

from __future__ import annotations

import ctypes
import json
import os
import re
import select
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import nobody
import pytest
from repository import Gate, X, place, python_model, until
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


SERVED = {"server": Server, "nobody": nobody.served}
users = pytest.mark.parametrize("user", ["server", pytest.param("nobody", marks=nobody.needs_root)])


@users
@pytest.mark.parametrize("zygote", ["1", "0"])
@pytest.mark.parametrize("how", LEAVE)
def test_processes_that_a_model_leaves(tmp_path, how, zygote, user):
    """They end with the worker: when it is killed, when its model is unloaded, when the server ends."""
    init = f"import os, subprocess{FORKED}\n        print('LEFT', os.getpid(), {LEAVE[how]}, 'behind', flush=True)"
    python_model(tmp_path / "models", "m", init=init)
    with SERVED[user](tmp_path / "models", *EXPLICIT, env={"NESO_PYTHON_ZYGOTE": zygote}) as s:
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


@users
def test_processes_that_hide(tmp_path, user):
    """What a model hides from the end of its worker ends with the server."""
    hide = "resource.setrlimit(resource.RLIMIT_RTTIME, (1 << 40, 1 << 40))"
    init = f"import os, resource, subprocess\n        {hide}\n        print('LEFT', os.getpid(), {LEAVE['daemon']}, 'behind', flush=True)"
    python_model(tmp_path / "models", "m", init=init)
    with SERVED[user](tmp_path / "models", *EXPLICIT) as s:
        _, hidden = left(s, 1)
        assert s.post("/v2/repository/models/m/unload", {}).status == 200
        assert s.stop() == 0
        assert not alive(hidden)


@users
def test_processes_before_the_model(tmp_path, user):
    """What an interpreter of a model's leaves before it is a worker at all ends with the server."""
    repo = tmp_path / "models"
    python_model(repo, "good")
    python_model(
        repo,
        "m",
        extra='parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/python" } }',
    )
    with SERVED[user](repo, "--model-control-mode=explicit", "--load-model=good") as s:
        pythons = [o.split("=", 1)[1] for o in s.process.args if o.startswith("--python=")]
        leave = "setsid sleep 1000 >/dev/null 2>&1 & echo LEFT $$ $! behind"
        place(repo / "m", {"python": f'#!/bin/sh\n{leave}\nexec {(pythons or [sys.executable])[0]} "$@"\n'})
        (repo / "m" / "python").chmod(0o755)
        assert s.post("/v2/repository/models/m/load", {}).status == 200
        _, first = left(s, 1)
        assert s.stop() == 0
        assert not alive(first)


# Each goes on with the writing end of a pipe, whose reader sees the end when the last of them is gone. None outlives two minutes.
GO_ON = {
    # Nobody has the same number for longer than a few milliseconds.
    "comets": """
        def go_on(end):
            for _ in range(4):
                if os.fork() == 0:
                    while time.monotonic() < end:
                        os.setsid()
                        time.sleep(0.002)
                        if os.fork(): os._exit(0)
                    os._exit(0)""",
    "many": """
        def go_on(end):
            if os.fork() == 0:
                os.setsid()
                for _ in range(150):
                    if os.fork() == 0:
                        os.setsid()
                        break
                    time.sleep(0.002)
                time.sleep(max(0, end - time.monotonic()))
                os._exit(0)""",
}


@users
@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("how", GO_ON)
def test_processes_that_fork_on(tmp_path, how, hidden, user):
    """What forks, and changes its session, while it is looked for: it ends with the worker, or, hidden from that, with the server."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    hide = "resource.setrlimit(resource.RLIMIT_RTTIME, (1 << 40, 1 << 40))" if hidden else ""
    init = f"""import os, resource{GO_ON[how]}
        {hide}
        self.pipe = os.open({str(pipe)!r}, os.O_WRONLY)
        go_on(time.monotonic() + 120)"""
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        python_model(tmp_path / "models", "m", init=init)
        with SERVED[user](tmp_path / "models", *EXPLICIT) as s:
            assert s.infer("m", X).status == 200
            assert s.post("/v2/repository/models/m/unload", {}).status == 200
            if hidden:
                assert not select.select([reader], [], [], 0)[0]
                assert s.stop() == 0
            assert select.select([reader], [], [], 60)[0] and os.read(reader, 1) == b""
            assert s.stop() == 0
    finally:
        os.close(reader)


@pytest.mark.parametrize("zygote", ["1", "0"])
def test_sockets_that_outlive_their_worker(tmp_path, zygote):
    """A process that a worker has left, and hidden, with all that it had open: the end of the worker is still seen,
    and told to whom it matters."""
    init = """import os, resource
        if os.fork() == 0:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_RTTIME, (1 << 40, 1 << 40))
            time.sleep(1000)
            os._exit(0)
        print("READY", os.getpid(), "now", flush=True)"""
    gate = Gate(tmp_path)
    python_model(tmp_path / "models", "m", init=init, execute=gate.execute)
    with Server(tmp_path / "models", env={"NESO_PYTHON_ZYGOTE": zygote}) as s, ThreadPoolExecutor() as pool:
        asked = pool.submit(s.infer, "m", X, timeout=60)
        gate.come()
        worker = int(re.findall(r"READY (\d+) now", s.log())[-1])
        kill(worker)
        r = asked.result()
        assert r.status == 500 and "SIGKILL" in r.error, r
        gate.open()
        assert until(lambda: s.infer("m", X).status == 200)
        assert s.stop() == 0


@pytest.mark.parametrize("zygote", ["1", "0"])
def test_a_worker_that_hangs_up_and_lives(tmp_path, zygote):
    """Its requests are told so, it is ended, and the instance serves again."""
    hang_up = f"""import os
        if pb_utils.get_input_tensor_by_name(requests[0], "INPUT0").as_numpy()[0, 0] == 13:
            open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
            os.closerange(3, 256)
            time.sleep(1000)"""
    python_model(tmp_path / "models", "m", execute=hang_up)
    with Server(tmp_path / "models", env={"NESO_PYTHON_ZYGOTE": zygote}) as s:
        r = s.infer("m", {"inputs": [{**X["inputs"][0], "data": [13]}]})
        assert r.status == 500 and "closed its channel and went on" in r.error, r
        assert not alive(int((tmp_path / "pid").read_text()))
        assert until(lambda: s.infer("m", X).status == 200)


def test_workers_outlive_their_zygote(tmp_path):
    """A zygote that is killed costs nobody anything: workers serve on, and finalize."""
    finalize = "\n    def finalize(self):\n        print('FINALIZED', flush=True)"
    python_model(tmp_path, "m", init="import os; print('PARENT', os.getppid(), 'now', flush=True)")
    model = tmp_path / "m" / "1" / "model.py"
    model.write_text(model.read_text() + finalize)
    with Server(tmp_path, *EXPLICIT) as s:
        assert until(lambda: "PARENT" in s.log())
        kill(int(re.findall(r"PARENT (\d+) now", s.log())[-1]))
        assert s.infer("m", X).status == 200
        assert s.post("/v2/repository/models/m/unload", {}).status == 200
        assert until(lambda: "FINALIZED" in s.log())
        assert s.post("/v2/repository/models/m/load", {}).status == 200
        assert s.infer("m", X).status == 200
        assert "worker died" not in s.log()


@users
def test_a_server_that_is_killed(tmp_path, user):
    """Workers end with it, by the hand of their zygote where a model never comes back."""
    pid = nobody.writable(tmp_path / "out") / "pid"
    stay = f"""import os
        open({str(pid) + "-"!r}, "w").write(str(os.getpid()))
        os.rename({str(pid) + "-"!r}, {str(pid)!r})
        while True: time.sleep(1)"""
    python_model(tmp_path / "models", "m", execute=stay)
    with SERVED[user](tmp_path / "models") as s, ThreadPoolExecutor() as pool:
        asked = pool.submit(s.infer, "m", X)
        assert until(pid.exists)
        worker = int(pid.read_text())
        assert alive(worker)
        s.process.kill()
        assert asked.exception() is not None
        assert until(lambda: not alive(worker))


# Tries to get at every process of its own user that it has not started.
SPY = """import ctypes, json, os, signal, subprocess
        libc, told = ctypes.CDLL(None, use_errno=True), {"seen": {}, "own": False}
        own = subprocess.Popen(["sleep", "1000"])
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                if pid in (os.getpid(), own.pid) or f"Uid:\\t{os.getuid()}\\t" not in open(f"/proc/{pid}/status").read(): continue
            except OSError:
                continue
            got = told["seen"][pid] = []
            try:
                os.kill(pid, 0)
                got.append("signal")
            except OSError: pass
            try:
                open(f"/proc/{pid}/mem", "r+b")
                got.append("memory")
            except OSError: pass
            if libc.ptrace(0x4206, pid, 0, 0) == 0:
                got.append("trace")
            handle = libc.syscall(434, pid, 0)
            if any(libc.syscall(438, handle, fd, 0) >= 0 for fd in range(64)):
                got.append("descriptors")
        own.send_signal(signal.SIGKILL)
        told["own"] = own.wait() == -9
        print("TOLD " + json.dumps(told), flush=True)"""


def landlock():
    """The version of Landlock's interface here."""
    return ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1)


@nobody.needs_root
@pytest.mark.skipif(landlock() < 6, reason="this kernel has no Landlock with scopes of signals")
@pytest.mark.parametrize("zygote", ["1", "0"])
def test_workers_of_one_user_are_apart(tmp_path, zygote):
    """A worker gets at no other process of the workers' user, and the zygote is one of them; at its own children it does."""
    python_model(tmp_path / "models", "other", init="import os; print('OTHER', os.getpid(), os.getppid(), flush=True)")
    python_model(tmp_path / "models", "spy", init=SPY)
    options = ("--model-control-mode=explicit", "--load-model=other")
    with nobody.served(tmp_path / "models", *options, env={"NESO_PYTHON_ZYGOTE": zygote}) as s:
        assert s.post("/v2/repository/models/spy/load", {}).status == 200
        t = told(s)
        worker, parent = re.search(r"OTHER (\d+) (\d+)", s.log()).groups()
        assert worker in t["seen"] and (zygote == "0" or parent in t["seen"]), t
        assert not any(t["seen"].values()) and t["own"], t
        assert s.infer("other", X).status == s.infer("spy", X).status == 200


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
