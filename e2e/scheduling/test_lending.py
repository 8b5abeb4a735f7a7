"""Large tensors between models in workers: who reads what was written where, and what is left of it afterwards.

The models look up their own inputs in /proc/self/maps: the same inode is the same memory.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pages
import pytest
import tritonclient.grpc as tgrpc
from repository import until
from server import Server, descendants

pytestmark = pages.needed

MIB = 1 << 20
COUNT = MIB // 8
MODEL = """import os
import time

import numpy as np
import triton_python_backend_utils as pb_utils


def mapping(array):
    at = array.ctypes.data
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, protection, _, _, inode = line.split()[:5]
            begin, end = (int(x, 16) for x in span.split("-"))
            if begin <= at < end:
                return [int(inode), int(protection == "rw-p"), int(array.flags.writeable), os.getpid()]


def tensor(values, name="Y"):
    return pb_utils.Tensor(name, np.asarray(values, np.int64))


class TritonPythonModel:
    def initialize(self, args):
        self.kept = []

    def call(self, model, values):
        q = pb_utils.InferenceRequest(model_name=model, inputs=[tensor(values, "X")], requested_output_names=["Y"])
        answer = q.exec()
        if answer.has_error():
            raise pb_utils.TritonModelException(answer.error().message())
        return pb_utils.get_output_tensor_by_name(answer, "Y").as_numpy()

    def execute(self, requests):
        return [pb_utils.InferenceResponse([tensor(self.one(r, pb_utils.get_input_tensor_by_name(r, "X").as_numpy()))]) for r in requests]

    def one(self, request, x):
        {body}
"""
MAKE = f"return np.full({COUNT}, x[0])"  # 1 MiB
LOOK = "return [*mapping(x), x[0], x[-1], len(x)]"


def write(repo, name, body):
    (repo / name / "1").mkdir(parents=True, exist_ok=True)
    (repo / name / "config.pbtxt").write_text(
        'backend: "python"\n'
        'input { name: "X" data_type: TYPE_INT64 dims: [ -1 ] }\n'
        'output { name: "Y" data_type: TYPE_INT64 dims: [ -1 ] }\n'
    )
    (repo / name / "1" / "model.py").write_text(MODEL.format(body="\n        ".join(body.splitlines())))


def chain(repo, name, *steps, outputs=("Y",)):
    """An ensemble; a step is a model, its input and its output."""
    (repo / name / "1").mkdir(parents=True)
    text = ",\n".join(
        f'{{ model_name: "{m}" model_version: -1 input_map {{ key: "X" value: "{x}" }} output_map {{ key: "Y" value: "{y}" }} }}'
        for m, x, y in steps
    )
    declared = "".join(f'output {{ name: "{y}" data_type: TYPE_INT64 dims: [ -1 ] }}\n' for y in outputs)
    (repo / name / "config.pbtxt").write_text(
        'platform: "ensemble"\ninput { name: "X" data_type: TYPE_INT64 dims: [ -1 ] }\n'
        f"{declared}ensemble_scheduling {{ step [ {text} ] }}\n"
    )


def infer(server, model, *values):
    body = {"inputs": [{"name": "X", "datatype": "INT64", "shape": [len(values)], "data": list(values)}]}
    r = server.infer(model, body, timeout=120)
    assert r.status == 200, r
    return {o["name"]: o["data"] for o in r.json["outputs"]}


def shared(pid):
    """Inode and protection of each piece of the server's shared memory that a process has mapped."""
    try:
        text = Path(f"/proc/{pid}/maps").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return set()  # it has ended
    lines = [line.split() for line in text.splitlines() if "memfd:neso" in line]
    return {(int(line[4]), line[1]) for line in lines}


def writers(server, inode):
    """The workers that write a piece of memory."""
    return [pid for pid in descendants(server.process.pid) if (inode, "rw-s") in shared(pid)]


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def reload(server, repo, name, body):
    write(repo, name, body)
    r = server.post(f"/v2/repository/models/{name}/load", timeout=120)
    assert r.status == 200, r


def lent(value):
    """Whether it lies in shared memory of which the model sees what it writes there, and nobody else."""
    inode, private, writeable = value[:3]
    return inode and private == 1 and writeable == 1


@pytest.fixture
def repo(tmp_path):
    write(tmp_path, "make", MAKE)
    write(tmp_path, "look", LOOK)
    return tmp_path


def test_a_step_reads_what_the_step_before_it_wrote(repo):
    chain(repo, "both", ("make", "X", "t"), ("look", "t", "Y"))
    with Server(repo) as s:
        for value in (7, 8):
            y = infer(s, "both", value)["Y"]
            assert lent(y) and y[4:] == [value, value, COUNT]
            (maker,) = writers(s, y[0])
            assert maker != y[3]


def test_a_tensor_for_two_steps_is_one(repo):
    write(repo, "look2", LOOK)
    chain(repo, "fan", ("make", "X", "t"), ("look", "t", "Y"), ("look2", "t", "Z"), outputs=("Y", "Z"))
    chain(repo, "direct", ("look", "X", "Y"), ("look2", "X", "Z"), outputs=("Y", "Z"))
    with Server(repo) as s, tgrpc.InferenceServerClient(s.grpc) as client:
        out = infer(s, "fan", 3)
        assert lent(out["Y"]) and lent(out["Z"]) and out["Y"][0] == out["Z"][0] and out["Y"][3] != out["Z"][3]
        x = tgrpc.InferInput("X", [COUNT], "INT64")
        x.set_data_from_numpy(np.arange(COUNT))
        r = client.infer("direct", [x])
        y, z = r.as_numpy("Y"), r.as_numpy("Z")
        assert y[4:].tolist() == z[4:].tolist() == [0, COUNT - 1, COUNT]
        assert y[0] == z[0] and y[3] != z[3] and y[1] == z[1] == y[2] == z[2] == 1


def test_calls_read_what_the_other_model_wrote(repo):
    write(
        repo,
        "caller",
        "got = self.call('make', [x[0]])\nmine = np.full(len(got), x[0] + 1)\n"
        "return [*mapping(got), got[0], got[-1], len(got), *self.call('look', mine)]",
    )
    with Server(repo) as s:
        for value in (7, 8):
            y = infer(s, "caller", value)["Y"]
            answer, request = y[:7], y[7:]
            assert lent(answer) and answer[4:] == [value, value, COUNT]
            assert lent(request) and request[4:] == [value + 1, value + 1, COUNT]
            assert writers(s, answer[0]) != [answer[3]] and len(writers(s, answer[0])) == 1
            assert writers(s, request[0]) == [answer[3]]  # the caller's own


def wait_body(path):
    """A step that says that it runs, waits for a file, and reads its input again."""
    return (
        f"open({str(path / 'runs')!r}, 'w').close()\n"
        f"while not os.path.exists({str(path / 'go')!r}) and not request.is_cancelled():\n    time.sleep(0.005)\n"
        + LOOK
    )


class Background:
    def __init__(self, *args):
        self.value = None
        self._thread = threading.Thread(target=self._run, args=args, daemon=True)
        self._thread.start()

    def _run(self, *args):
        self.value = infer(*args)

    def result(self):
        self._thread.join(120)
        assert self.value is not None, "no answer"
        return self.value


def test_the_lender_dies_while_its_memory_is_read(repo, tmp_path_factory):
    files = tmp_path_factory.mktemp("files")
    write(repo, "look", wait_body(files))
    chain(repo, "both", ("make", "X", "t"), ("look", "t", "Y"))
    with Server(repo) as s:
        call = Background(s, "both", 5)
        assert until((files / "runs").exists)
        (reader,) = (p for p in descendants(s.process.pid) if any(m[1] == "r--s" for m in shared(p)) and lent_to(s, p))
        ((inode, maker),) = lent_to(s, reader)
        os.kill(maker, signal.SIGKILL)
        assert until(lambda: not writers(s, inode))
        (files / "go").touch()
        y = call.result()["Y"]
        assert y[:2] == [inode, 1] and y[4:] == [5, 5, COUNT]
        # Nothing refers to the dead worker's memory any more.
        assert until(lambda: inode not in {m[0] for m in shared(reader) | shared(s.process.pid)})
        again = infer(s, "both", 6)["Y"]
        assert lent(again) and again[0] != inode and again[3] == reader


def lent_to(server, pid):
    """What a worker reads that another one writes, and which."""
    return [(inode, writers(server, inode)[0]) for inode, p in shared(pid) if p == "r--s" and writers(server, inode)]


def test_the_borrower_dies_while_it_reads(repo, tmp_path_factory):
    files = tmp_path_factory.mktemp("files")
    write(repo, "look", wait_body(files))
    chain(repo, "both", ("make", "X", "t"), ("look", "t", "Y"))
    with Server(repo) as s:
        r = []
        body = {"inputs": [{"name": "X", "datatype": "INT64", "shape": [1], "data": [5]}]}
        call = threading.Thread(target=lambda: r.append(s.infer("both", body, timeout=120)))
        call.start()
        assert until((files / "runs").exists)
        (reader,) = (p for p in descendants(s.process.pid) if lent_to(s, p))
        ((inode, maker),) = lent_to(s, reader)
        os.kill(reader, signal.SIGKILL)
        call.join(120)
        assert r[0].status == 500 and "look" in r[0].error
        (files / "go").touch()
        assert until(lambda: s.infer("both", body, timeout=120).status == 200)
        y = infer(s, "both", 6)["Y"]
        # The block was free again: the maker needed no further memory.
        assert y[0] == inode and y[3] != reader and writers(s, inode) == [maker]


def test_a_lender_that_is_reloaded_while_its_memory_is_kept(repo):
    """The memory stays as long as a model keeps a tensor in it, and no longer."""
    write(
        repo,
        "keeper",
        "if x[0]:\n    self.kept.append(self.call('make', [x[0]]))\nelse:\n    self.kept.clear()\n"
        "return [*(mapping(self.kept[0]) if self.kept else [0, 0, 0, os.getpid()]), *(k[-1] for k in self.kept)]",
    )
    explicit = ("--model-control-mode=explicit", "--load-model=keeper", "--load-model=make")
    with Server(repo, *explicit) as s:
        y = infer(s, "keeper", 5)["Y"]
        assert lent(y) and y[4:] == [5]
        inode, keeper = y[0], y[3]
        (maker,) = writers(s, inode)
        reload(s, repo, "make", MAKE.replace("x[0])", "x[0] + 100)"))
        assert until(lambda: not writers(s, inode))
        assert until(lambda: maker not in descendants(s.process.pid))
        y = infer(s, "keeper", 6)["Y"]
        assert y == [inode, 1, 1, keeper, 5, 106]
        infer(s, "keeper", 0)
        assert until(lambda: inode not in {m[0] for m in shared(keeper) | shared(s.process.pid)})


def test_a_cancelled_step_leaves_nothing(repo, tmp_path_factory):
    files = tmp_path_factory.mktemp("files")
    write(repo, "look", wait_body(files))
    chain(repo, "both", ("make", "X", "t"), ("look", "t", "Y"))
    explicit = ("--model-control-mode=explicit", "--load-model=both")
    with Server(repo, *explicit) as s, tgrpc.InferenceServerClient(s.grpc) as client:
        x = tgrpc.InferInput("X", [1], "INT64")
        x.set_data_from_numpy(np.array([5]))
        ended = threading.Event()
        call = client.async_infer("both", [x], callback=lambda result, error: ended.set())
        assert until((files / "runs").exists)
        (reader,) = (p for p in descendants(s.process.pid) if lent_to(s, p))
        ((inode, maker),) = lent_to(s, reader)
        call.cancel()
        assert ended.wait(60)
        (files / "go").touch()
        y = infer(s, "both", 6)["Y"]
        assert y[0] == inode and y[4:] == [6, 6, COUNT]
        os.kill(maker, signal.SIGKILL)
        assert until(lambda: inode not in {m[0] for m in shared(reader) | shared(s.process.pid)})


def test_reloads_leave_no_mapping_and_no_descriptor(repo):
    """200 of them, of a model that lends and of one that borrows."""
    write(
        repo,
        "caller",
        "mine = np.full(len(self.call('make', x)), x[0])\nreturn [*self.call('look', mine), os.getpid()]",
    )
    explicit = ("--model-control-mode=explicit", "--load-model=caller", "--load-model=make", "--load-model=look")
    with Server(repo, *explicit) as s:

        def pids():
            y = infer(s, "caller", 1)["Y"]
            assert lent(y)
            return s.process.pid, y[-1], y[3]  # the server, the caller, the one that looks

        def count():
            return [(len(shared(p)), descriptors(p)) for p in pids()]

        def again(n):
            reload(s, repo, "make", f"{MAKE}  # {n}")
            reload(s, repo, "look", f"{LOOK}  # {n}")
            y = infer(s, "caller", n)["Y"]
            assert lent(y) and y[4:7] == [n, n, COUNT]
            return y[3]

        first, want = pids()[2], count()
        looked = {again(n) for n in range(1, 101)}
        assert len(looked) == 100 and first not in looked  # each reload was one
        assert until(lambda: all(m <= n and d <= e + 9 for (m, d), (n, e) in zip(count(), want)), 60), (count(), want)
