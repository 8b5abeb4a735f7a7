"""What loads has a longer time slice, and steps aside for what serves; what serves has the usual one, with all that it has started."""

from __future__ import annotations

import json
import mmap
import os
import pathlib
import struct

import pytest
from harness import EXIT, HELLO, INIT, LOAD, Process
from test_zygote import LOAD_BODY, Child, exited, zygote  # noqa: F401 (a fixture)

from neso_worker.aside import SLICE_NS, Aside


def slice_of(thread):
    found = Aside()._read(thread)
    return found and found[5]


pytestmark = pytest.mark.skipif(not slice_of(0), reason="this kernel knows no time slices of single threads")

# Says what its slice is wherever it runs code of the model. A thread and a process that it has begun while it was loaded live on.
SOURCE = """
import json, os, pathlib, subprocess, sys, threading
from neso_worker.aside import Aside
import triton_python_backend_utils as pb_utils

said = {}
end = threading.Event()
mine = []

def slice_of(thread=0):
    return Aside()._read(thread)[5]

said["import"] = slice_of()

def life():
    mine.append(threading.get_native_id())
    end.wait()

class TritonPythonModel:
    def initialize(self, args):
        said["initialize"] = slice_of()
        self.thread = threading.Thread(target=life)
        self.thread.start()
        self.child = subprocess.Popen([sys.executable, "-c", "import sys, subprocess\\n"
            "p = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)\\n"
            "print(p.pid, flush=True)\\nsys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.grandchild = int(self.child.stdout.readline())

    def execute(self, requests):
        said["execute"] = slice_of()
        said["thread"] = slice_of(mine[0])
        said["child"] = slice_of(self.child.pid)
        said["grandchild"] = slice_of(self.grandchild)
        return [pb_utils.InferenceResponse([]) for _ in requests]

    def finalize(self):
        said["finalize"] = slice_of()
        end.set()
        self.child.communicate()
        pathlib.Path(__file__).with_name("said").write_text(json.dumps(said))
"""


def check(path, usual):
    said = json.loads(path.with_name("said").read_text())
    assert {name for name, value in said.items() if value == SLICE_NS} == {"import", "initialize", "finalize"}
    assert {name for name, value in said.items() if value == usual} == {"execute", "thread", "child", "grandchild"}


def load(peer, path):
    peer.call(LOAD, {**json.loads(LOAD_BODY), "model_path": str(path), "version_directory": str(path.parent)})
    peer.call(INIT, {"args": {}, "config": {}, "inputs": [], "outputs": [], "decoupled": False})
    _, error = peer.run([{"handle": 1, "inputs": []}])
    assert error is None, error
    peer.send(EXIT)


def test_forked_worker(zygote, tmp_path):  # noqa: F811
    path = pathlib.Path(tmp_path / "model.py")
    path.write_text(SOURCE)
    child = Child(zygote)
    assert slice_of(child.pid) == SLICE_NS
    load(child.peer, path)
    assert exited(zygote) == (child.pid, 0)
    check(path, slice_of(0))


def test_worker_of_its_own(tmp_path):
    path = pathlib.Path(tmp_path / "model.py")
    path.write_text(SOURCE)
    worker = Process("--worker")
    kind, *_ = worker.peer.receive()
    assert kind == HELLO
    load(worker.peer, path)
    worker.end()
    check(path, slice_of(0))


def test_other_policies_are_left_alone():
    """Whoever runs the server by another policy, or with a longer slice, knows why."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
            aside = Aside()
            aside.begin()
            aside.end()
            status = int(os.sched_getscheduler(0) != os.SCHED_BATCH or aside._usual != 0)
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize("aside", [True, False])
def test_who_waits_for_the_processor_has_it_first(aside):
    """Of two that compute on one processor the one that steps aside lets the other one in at once; any other keeps its slice."""
    counted = mmap.mmap(-1, 8)  # by the other one, as long as it runs
    read = lambda: struct.unpack_from("q", counted)[0]  # noqa: E731
    usual = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [min(usual)])
    other = os.fork()
    if other == 0:
        number = 0
        while True:
            number += 1
            struct.pack_into("q", counted, 0, number)
    try:
        loads = Aside()
        if aside:
            loads.begin()
        let_in = 0
        for _ in range(400 if aside else 40):  # others may have their turn before it
            before = read()
            loads.give_way()
            let_in += read() != before
            if let_in > 20:
                break
        assert let_in > 20 if aside else let_in < 10, let_in
        loads.end()
    finally:
        os.kill(other, 9)
        os.waitpid(other, 0)
        os.sched_setaffinity(0, usual)
