"""Models that write to their inputs while others read them: each sees its own, as with Triton, whatever the size."""

from __future__ import annotations

import pytest
from repository import until
from server import Server, descendants
from test_lending import COUNT, MAKE, Background, chain, infer, lent, write

# Writes to its input, says so, and answers with it.
ADDS = """x += 1
if os.path.exists({wait!r}):
    open({done!r}, "w").close()
return x"""
# Reads, waits until the others have written, and reads again.
READS = """
before = x.copy()
while os.path.exists({wait!r}) and not os.path.exists({done!r}):
    time.sleep(0.005)
return [*mapping(x), before[0], int((before == x).all()), len(x)]"""
LOOK = "return [*mapping(x), x[0], x[-1], len(x)]"


@pytest.fixture
def repo(tmp_path):
    write(tmp_path, "make", MAKE)
    write(tmp_path, "look", LOOK)
    return tmp_path


def test_steps_that_write_while_another_one_reads(repo, tmp_path_factory):
    """The first two of three steps write in place, a branch beside them reads the same tensor before and after."""
    files = tmp_path_factory.mktemp("files")
    places = {"wait": str(files / "wait"), "done": str(files / "done")}
    write(repo, "adds", ADDS.format(**places))
    write(repo, "adds2", "x *= 2\nreturn x")
    write(repo, "reads", READS.format(**places))
    steps = (("make", "X", "t"), ("adds", "t", "u"), ("adds2", "u", "v"), ("look", "v", "Y"), ("reads", "t", "Z"))
    chain(repo, "branches", *steps, outputs=("Y", "Z"))
    with Server(repo) as s:
        for value in range(1, 8):
            (files / "done").unlink(missing_ok=True)
            (files / "wait").touch()
            out = infer(s, "branches", value)
            assert out["Y"][4:] == [(value + 1) * 2] * 2 + [COUNT]
            assert lent(out["Z"]) and out["Z"][4:] == [value, 1, COUNT]


def test_a_block_that_is_used_again(repo):
    """Of what one request's model wrote the next one's sees nothing; one that writes now and then, too."""
    write(
        repo,
        "some",
        "seen = [x[0], x[-1], int((x == x[0]).all())]\nif seen[0] % 3 == 0:\n    x[:] = -1\nreturn [*seen, x[0]]",
    )
    chain(repo, "both", ("make", "X", "t"), ("some", "t", "Y"))
    with Server(repo) as s:
        for value in range(1, 20):
            assert infer(s, "both", value)["Y"] == [value, value, 1, -1 if value % 3 == 0 else value]


def test_what_a_callee_writes_its_caller_does_not_see(repo):
    """Nor the other way round; the answer that the callee made of its input is what it has written."""
    write(repo, "adds", "x += 1\nreturn x")
    write(
        repo,
        "caller",
        "mine = np.full(len(self.call('make', x)), x[0])\nfirst = self.call('adds', mine)\nsecond = self.call('adds', first)\n"
        "first += 10\nsecond += 100\n"
        "return [v for a in (mine, first, second) for v in (a[0], int((a == a[0]).all()))]",
    )
    with Server(repo) as s:
        for value in range(5):
            assert infer(s, "caller", value)["Y"] == [value, 1, value + 11, 1, value + 102, 1]


def test_a_model_that_keeps_its_inputs_and_writes_to_them(repo):
    """They stay what it made of them while their memory's neighbours are used again."""
    write(
        repo,
        "keeper",
        "self.kept.append(x)\nx += 1\nfor k in self.kept[:-1]:\n    k += 100\n"
        "found = [v for k in self.kept for v in (k[0], int((k == k[0]).all()))]\n"
        "if len(self.kept) == 4:\n    self.kept.clear()\nreturn found",
    )
    chain(repo, "both", ("make", "X", "t"), ("keeper", "t", "Y"))
    with Server(repo) as s:
        for round in range(3):
            for n in range(4):
                want = [value for k in range(n + 1) for value in (round * 10 + k + 1 + 100 * (n - k), 1)]
                assert infer(s, "both", round * 10 + n)["Y"] == want


DECOUPLED = """import asyncio

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        await asyncio.gather(*map(self.answer, requests))

    async def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        sender = request.get_response_sender()
        for n in range(3):
            x += 1
            await sender.send_async(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]))
            await asyncio.sleep(0)
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def test_decoupled_and_asynchronous(repo):
    write(repo, "stream", "")
    (repo / "stream" / "1" / "model.py").write_text(DECOUPLED)
    with (repo / "stream" / "config.pbtxt").open("a") as config:
        config.write("model_transaction_policy { decoupled: true }\n")
    write(
        repo,
        "caller",
        "x = np.full(len(self.call('make', x)), x[0])\nmine = tensor(x, 'X')\n"
        "q = [pb_utils.InferenceRequest(model_name='stream', inputs=[mine], requested_output_names=['Y']) for _ in range(2)]\n"
        "streams = [r.exec(decoupled=True) for r in q]\n"
        "got = [pb_utils.get_output_tensor_by_name(a, 'Y').as_numpy() for s in streams for a in s if a.output_tensors()]\n"
        "return [*(a[0] for a in got), *(int((a == a[0]).all()) for a in got), x[0], x[-1]]",
    )
    with Server(repo) as s:
        for value in range(4):
            want = [value + n for n in (1, 2, 3)] * 2
            assert infer(s, "caller", value)["Y"] == [*want, *[1] * 6, value, value]


def test_a_model_that_writes_and_dies(repo, tmp_path_factory):
    """What it wrote goes with it: a reader beside it, and its successor, see what was sent."""
    files = tmp_path_factory.mktemp("files")
    go = str(files / "go")
    write(repo, "dies", f"x[:] = -1\nif not os.path.exists({go!r}):\n    os._exit(3)\nreturn [x[0]]")
    write(repo, "reads", READS.format(wait=str(files), done=go))
    chain(repo, "branches", ("make", "X", "t"), ("reads", "t", "Z"), outputs=("Z",))
    write(
        repo,
        "caller",
        "mine = np.full(len(self.call('make', x)), x[0])\n"
        "q = [pb_utils.InferenceRequest(model_name=m, inputs=[t], requested_output_names=['Y']) for m in ('dies', 'look')"
        " for t in [tensor(mine, 'X')]]\n"
        "dies, look = (r.exec() for r in q)\n"
        "found = pb_utils.get_output_tensor_by_name(look, 'Y').as_numpy()\n"
        "return [int(dies.has_error()), *found[4:], mine[0]]",
    )
    with Server(repo) as s:
        call = Background(s, "branches", 6)
        pids = descendants(s.process.pid)
        assert infer(s, "caller", 5)["Y"] == [1, 5, 5, COUNT, 5]
        (files / "go").touch()
        assert call.result()["Z"][4:] == [6, 1, COUNT]
        assert until(lambda: infer(s, "caller", 5)["Y"][0] == 0)
        assert infer(s, "caller", 7)["Y"] == [0, 7, 7, COUNT, 7]
        assert descendants(s.process.pid) != pids


def test_two_inputs_that_are_one_tensor(repo):
    """A write to one does not show in the other."""
    write(
        repo,
        "two",
        "z = pb_utils.get_input_tensor_by_name(request, 'Z').as_numpy()\nx += 1\nz *= 3\n"
        "return [v for a in (x, z) for v in (a[0], int((a == a[0]).all()))]",
    )
    with (repo / "two" / "config.pbtxt").open("a") as config:
        config.write('input { name: "Z" data_type: TYPE_INT64 dims: [ -1 ] }\n')
    chain(repo, "both", ("make", "X", "t"), ("two", "t", "Y"))
    config = repo / "both" / "config.pbtxt"
    once = 'input_map { key: "X" value: "t" }'
    config.write_text(config.read_text().replace(once, once + ' input_map { key: "Z" value: "t" }'))
    with Server(repo) as s:
        for value in range(1, 5):
            assert infer(s, "both", value)["Y"] == [value + 1, 1, value * 3, 1]


def anonymous(pid):
    """KiB of pages in shared memory of the server that a process has for itself alone."""
    total, inside = 0, False
    with open(f"/proc/{pid}/smaps") as maps:
        for line in maps:
            if "-" in line.split()[0]:
                inside = "memfd:neso" in line
            elif inside and line.startswith("Anonymous:"):
                total += int(line.split()[1])
    return total


def test_what_was_written_takes_no_memory_afterwards(repo):
    write(repo, "adds", "x += 1\nreturn [x[0], os.getpid()]")
    chain(repo, "both", ("make", "X", "t"), ("adds", "t", "Y"))
    with Server(repo) as s:
        for value in range(10):
            found, pid = infer(s, "both", value)["Y"]
            assert found == value + 1
        assert until(lambda: anonymous(pid) == 0)
