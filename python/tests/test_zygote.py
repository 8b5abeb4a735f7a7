"""The zygote forks workers that are as good as fresh processes, and reports how they end."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import time

import harness
import numpy as np
import pytest
from harness import EXIT, EXITED, FORK, FORKED, HELLO, INIT, LOAD, Ended, In, Peer, Process

SOURCE = """
import os, random, sys
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        print("printed by", os.environ.get("WHO"))
        values = [random.getrandbits(31), int(np.random.randint(1 << 31))]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array(values))]) for _ in requests]
"""


LOAD_BODY = json.dumps(
    {
        "model_directory": "",
        "name": "m",
        "version": 1,
        "config": {},
        "complete": False,
        "inputs": ["IN"],
        "outputs": ["OUT"],
        "inline_limit": 8192,
    }
)


class Child:
    def __init__(self, zygote, env=None, cwd=None):
        ours, theirs = socket.socketpair()
        dours, dtheirs = socket.socketpair()
        self.output, write = os.pipe()
        zygote.peer.send(FORK, {"env": env or {}, "cwd": cwd or ""}, 7)
        socket.send_fds(zygote.peer.descriptors, [b"\0"], [theirs.fileno(), dtheirs.fileno(), write])
        for end in (theirs, dtheirs):
            end.close()
        os.close(write)
        kind, _, number, body = zygote.peer.receive()
        assert (kind, number) == (FORKED, 7)
        (self.pid,) = struct.unpack("<I", body)
        self.peer = Peer(ours, dours)
        kind, _, _, body = self.peer.receive()
        assert kind == HELLO and json.loads(body)["pid"] == self.pid

    def load(self, path):
        self.peer.call(LOAD, {**json.loads(LOAD_BODY), "model_path": str(path), "version_directory": str(path.parent)})
        self.peer.call(INIT, {"args": {}, "config": {}, "inputs": ["IN"], "outputs": ["OUT"], "decoupled": False})

    def run(self):
        responses, error = self.peer.run([{"handle": 1, "inputs": [In(0, np.zeros(1, np.int8))]}])
        assert error is None, error
        return responses[0].outputs[0].array().tolist()


@pytest.fixture
def zygote():
    process = Process("--zygote")
    kind, *_ = process.peer.receive()
    assert kind == HELLO
    yield process
    process.end()
    assert process.process.returncode == 0


def exited(zygote):
    kind, _, _, body = zygote.peer.receive()
    assert kind == EXITED
    return struct.unpack("<Ii", body)


def test_children(zygote, tmp_path):
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    children = [Child(zygote, {"WHO": f"child-{n}"}, str(tmp_path)) for n in range(2)]
    for child in children:
        child.load(path)
    first, second = (child.run() for child in children)
    assert first[0] != second[0] and first[1] != second[1], "children draw the same random numbers"
    for child in children:
        assert os.getpgid(child.pid) == child.pid
        assert os.readlink(f"/proc/{child.pid}/cwd") == str(tmp_path)
    # What is printed arrives while the worker lives.
    assert os.read(children[1].output, 1000) == b"printed by child-1\n"

    os.kill(children[0].pid, signal.SIGINT)  # ignored
    assert children[0].run()
    os.kill(children[0].pid, signal.SIGKILL)
    pid, status = exited(zygote)
    assert pid == children[0].pid and os.WTERMSIG(status) == signal.SIGKILL
    with pytest.raises(Ended):
        children[0].peer.receive()

    children[1].peer.send(EXIT)
    pid, status = exited(zygote)
    assert (pid, status) == (children[1].pid, 0)


def test_child_collects_garbage(zygote, tmp_path):
    path = tmp_path / "model.py"
    path.write_text(SOURCE.replace("values = [", "import gc; values = [gc.isenabled()] or ["))
    child = Child(zygote)
    child.load(path)
    assert child.run() == [1]


def test_compiled_ahead(tmp_path, monkeypatch):
    """Sources that were unpacked for this server are compiled beside numpy's import."""
    packages = [tmp_path / name for name in ("neso_worker", "neso_runtime")]
    for package in packages:
        shutil.copytree(os.path.join(harness.ROOT, package.name), package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(harness, "PACKAGE", str(packages[0]))
    process = Process("--zygote", {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": ""})
    kind, *_ = process.peer.receive()
    assert kind == HELLO
    # Nobody waits for the child that does it, and nothing is left of it.
    pid = str(process.process.pid)
    children = pathlib.Path("/proc") / pid / "task" / pid / "children"
    deadline = time.monotonic() + 60
    while children.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for package in [*packages, tmp_path / "neso_runtime" / "gpu"]:
        compiled = {name.split(".")[0] for name in os.listdir(package / "__pycache__")}
        assert compiled >= {name[:-3] for name in os.listdir(package) if name.endswith(".py")}
    process.end()


def test_child_has_no_other_descriptors(zygote):
    child = Child(zygote)
    open_now = {os.readlink(f"/proc/{child.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{child.pid}/fd")}
    sockets = [name for name in open_now if name.startswith("socket:")]
    assert len(sockets) == 2, open_now
    child.peer.close()
    assert exited(zygote) == (child.pid, 0)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_children_end_with_the_zygote(zygote, tmp_path):
    """A child sees the end of its own channel; one whose model never comes back is ended by the zygote."""
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    quick, stuck = Child(zygote), Child(zygote)
    quick.load(path)
    assert quick.run()
    hang = tmp_path / "hang.py"
    hang.write_text("print('here', flush=True)\nwhile True:\n    pass\n")
    stuck.peer.send(LOAD, {**json.loads(LOAD_BODY), "model_path": str(hang), "version_directory": str(tmp_path)}, 1)
    assert os.read(stuck.output, 100) == b"here\n"
    quick.peer.close()
    stuck.peer.close()
    zygote.end()
    assert not alive(quick.pid) and not alive(stuck.pid)


def test_a_child_that_ends_with_the_server_leaves_no_other_behind(zygote, tmp_path):
    """Nobody can be told of the one any more; the other, which never comes back, is ended all the same."""
    quick, stuck = Child(zygote), Child(zygote)
    hang = tmp_path / "hang.py"
    hang.write_text("print('here', flush=True)\nwhile True:\n    pass\n")
    stuck.peer.send(LOAD, {**json.loads(LOAD_BODY), "model_path": str(hang), "version_directory": str(tmp_path)}, 1)
    assert os.read(stuck.output, 100) == b"here\n"
    zygote.peer.control.shutdown(socket.SHUT_RD)
    quick.peer.close()
    deadline = time.monotonic() + 60
    while alive(quick.pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    stuck.peer.close()
    zygote.end()
    assert not alive(stuck.pid)
