"""Models that call models: errors, loops, reloads, unloads and deaths, through the built binary."""

from __future__ import annotations

import os
import signal
import threading

import pages
import pytest
from bls import ask, value, write
from repository import metric, until
from server import Server

PASS_ON = (
    "a = self.call('callee', x)\nif a.has_error():\n    return pb_utils.InferenceResponse(error=a.error())\nreturn "
    "self.reply(self.value(a))"
)
TWICE = "return self.reply(self.value(self.call('callee', x)) * 2)"


class Background:
    """A request in a thread; result waits for it."""

    def __init__(self, server, model, *values, timeout=120):
        self._answer = None
        self._thread = threading.Thread(target=self._run, args=(server, model, values or (1,), timeout), daemon=True)
        self._thread.start()

    def _run(self, server, model, values, timeout):
        self._answer = server.infer(model, ask(*values), timeout=timeout)

    def result(self, timeout=120):
        self._thread.join(timeout)
        assert self._answer is not None, "no answer"
        return self._answer


def started(path):
    assert until(path.exists), "the model never came there"


def test_errors_are_those_of_triton(tmp_path):
    write(
        tmp_path,
        "callee",
        "if x[0] == 1:\n    return pb_utils.InferenceResponse(error=pb_utils.TritonError('away', pb_utils.TritonError.UNAVAILABLE))\n"
        "if x[0] == 2:\n    raise ValueError('boom')\nreturn self.reply(x)",
    )
    write(
        tmp_path,
        "caller",
        "name, more = 'callee', {}\nif x[0] == 10:\n    name = 'nope'\nif x[0] == 11:\n    more = {'model_version': 7}\n"
        "a = self.call(name, x, **more)\nif a.has_error():\n    return "
        "pb_utils.InferenceResponse(error=a.error())\nreturn self.reply(self.value(a))",
    )
    with Server(tmp_path) as s:
        assert value(s, "caller", 0) == [0]
        # The code of an answer comes along, as in newer versions of Triton.
        r = s.infer("caller", ask(1))
        assert (r.status, r.error) == (503, "away")
        r = s.infer("caller", ask(2))
        assert r.status == 500 and "ValueError: boom" in r.error and "callee" in r.error
        # A request that does not reach a model is an internal error of the caller.
        for x, model in ((10, "nope"), (11, "callee")):
            r = s.infer("caller", ask(x))
            assert (r.status, r.error) == (
                500,
                f"Model {model} - Error when running inference: Failed for execute the inference request. Model '{model}' is not ready.",
            )


STREAM = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        open({ran!r}, "w").close()
        for r in requests:
            x = pb_utils.get_input_tensor_by_name(r, "X").as_numpy()
            answer = pb_utils.InferenceResponse([pb_utils.Tensor("Y", x + 1)])
            r.get_response_sender().send(answer, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
TENSORS = """input [{ name: "X" data_type: TYPE_INT32 dims: [-1] }]
output [{ name: "Y" data_type: TYPE_INT32 dims: [-1] }]
"""
ENSEMBLE = """platform: "ensemble"
ensemble_scheduling { step [{ model_name: "stream" model_version: -1
  input_map { key: "X" value: "X" } output_map { key: "Y" value: "Y" } }] }
"""
ASK = """import asyncio
q = pb_utils.InferenceRequest(model_name={callee!r}, inputs=[pb_utils.Tensor("X", x)], requested_output_names=["Y"])
async def ask():
    return await q.async_exec()
answer = {how}
return self.reply(self.value(next(iter(answer)) if hasattr(answer, "__next__") else answer))"""


@pytest.mark.parametrize("callee", ["stream", "ensemble"])
@pytest.mark.parametrize("how", ["q.exec()", "asyncio.run(ask())", "q.exec(decoupled=True)"])
def test_a_decoupled_callee_is_not_asked_for_one_response(tmp_path, how, callee):
    """A call for one response is refused before the model runs, also where it would have given just one."""
    ran, repo = tmp_path / "ran", tmp_path / "repo"
    for name, config in (
        ("stream", 'backend: "python"\nmodel_transaction_policy { decoupled: true }\n'),
        ("ensemble", ENSEMBLE),
    ):
        (repo / name / "1").mkdir(parents=True)
        (repo / name / "config.pbtxt").write_text(config + TENSORS)
    (repo / "stream" / "1" / "model.py").write_text(STREAM.format(ran=str(ran)))
    write(repo, "caller", ASK.format(callee=callee, how=how))
    with Server(repo) as s:
        r = s.infer("caller", ask(5))
        if "decoupled" in how:
            assert r.status == 200 and r.json["outputs"][0]["data"] == [6], r
            return
        assert r.status == 500 and (
            f"Model {callee} - Error when running inference: Model {callee} is using the decoupled. "
            "The current BLS request call doesn't support models using the decoupled transaction policy. "
            "Please use 'decoupled=True' argument to the 'exec' or 'async_exec' calls for decoupled models.'" in r.error
        ), r
        assert not ran.exists()


def test_a_model_named_by_bytes(tmp_path):
    """As an element of a BYTES tensor is, in Triton's own example; the same for model control."""
    write(
        tmp_path,
        "caller",
        "assert pb_utils.is_model_ready(b'callee')\npb_utils.unload_model(b'other')\npb_utils.load_model(b'other')\n"
        "return self.reply(self.value(self.call(np.array([b'other'], object)[0], x)))",
    )
    write(tmp_path, "callee", "return self.reply(x * 2)")
    write(tmp_path, "other", "return self.reply(x * 3)")
    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=*") as s:
        assert value(s, "caller", 5) == [15]


def test_a_reloaded_callee_is_seen_at_once(tmp_path):
    write(tmp_path, "callee", "return self.reply(x + 1)")
    write(tmp_path, "caller", TWICE)
    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=*") as s:
        assert value(s, "caller", 1) == [4]
        wrong, stop = [], threading.Event()

        def load():
            while not stop.is_set():
                r = s.infer("caller", ask(1))
                if r.status != 200 or r.json["outputs"][0]["data"] not in ([4], [202]):
                    wrong.append(r)

        threads = [threading.Thread(target=load) for _ in range(4)]
        for t in threads:
            t.start()
        write(tmp_path, "callee", "return self.reply(x + 100)")
        assert s.post("/v2/repository/models/callee/load").status == 200
        assert value(s, "caller", 1) == [202]
        stop.set()
        for t in threads:
            t.join()
        assert not wrong, wrong[:3]


def test_a_callee_stays_until_its_callers_have_ended(tmp_path):
    """Both are unloaded while a request of the caller is about to call: it is answered."""
    flag, go = tmp_path / "flag", tmp_path / "go"
    repo = tmp_path / "repo"
    write(repo, "callee", "return self.reply(x + 1)", finalize=f"open({str(tmp_path / 'ended')!r}, 'w').close()")
    write(
        repo,
        "caller",
        f"if x[0]:\n    open({str(flag)!r}, 'w').close()\n    while not os.path.exists({str(go)!r}):\n        time.sleep(0.01)\n{TWICE}",
        finalize=f"assert not os.path.exists({str(tmp_path / 'ended')!r})",
    )
    with Server(repo, "--model-control-mode=explicit", "--load-model=*") as s:
        assert value(s, "caller", 0) == [2]
        late = Background(s, "caller", 5)
        started(flag)
        for name in ("caller", "callee"):
            assert s.post(f"/v2/repository/models/{name}/unload").status == 200
        assert s.infer("callee", ask(1)).status == 404
        go.touch()
        r = late.result()
        assert r.status == 200 and r.json["outputs"][0]["data"] == [12], r
        assert until(lambda: "successfully unloaded 'callee'" in s.log()), s.log()
        log = s.log()
        assert log.rindex("successfully unloaded 'callee'") > log.rindex("successfully unloaded 'caller'")


def test_a_callee_is_unloaded_after_its_callers_at_the_end(tmp_path):
    for name in ("zz_callee", "aa_callee"):
        write(tmp_path, name, "return self.reply(x + 1)")
    write(
        tmp_path,
        "caller",
        "return self.reply(self.value(self.call('aa_callee', self.value(self.call('zz_callee', x)))))",
    )
    with Server(tmp_path) as s:
        assert value(s, "caller", 1) == [3]
        assert s.stop() == 0
        log = s.log()
        for name in ("zz_callee", "aa_callee"):
            assert log.index(f"successfully unloaded '{name}'") > log.index("successfully unloaded 'caller'"), log


RECURSION = "return self.reply(self.value(self.call({model!r}, x - 1)) + 1 if x[0] > 0 else x)"


def test_recursion_ends(tmp_path):
    write(tmp_path, "self", RECURSION.format(model="self"), config="instance_group { count: 3 }")
    with Server(tmp_path) as s:
        assert value(s, "self", 0) == [0]
        assert value(s, "self", 2, timeout=60) == [2]  # three instances are enough
        r = s.infer("self", ask(50))
        assert r.status == 500 and "call each other in a circle" in r.error, r
        assert value(s, "self", 2) == [2]  # and all of them are free again


def test_models_that_wait_for_each_other(tmp_path):
    """Two models with one instance each that call each other at the same time."""
    wait = "time.sleep(0.5)\n"
    write(tmp_path, "a", wait + RECURSION.format(model="b"))
    write(tmp_path, "b", wait + RECURSION.format(model="a"))
    with Server(tmp_path) as s:
        requests = [Background(s, "a", 1), Background(s, "b", 1)]
        answers = [r.result(120) for r in requests]
        for r in answers:
            assert r.status == 200 or "call each other in a circle" in r.error, r
        assert value(s, "a", 1) == [1] and value(s, "b", 1) == [1]


def test_a_loop_through_an_ensemble_ends(tmp_path):
    write(tmp_path, "m", "return self.reply(self.value(self.call('e', x - 1)) + 1 if x[0] > 0 else x)")
    (tmp_path / "e" / "1").mkdir(parents=True)
    (tmp_path / "e" / "config.pbtxt").write_text(
        'platform: "ensemble"\ninput { name: "X" data_type: TYPE_INT32 dims: [ -1 ] }\n'
        'output { name: "Y" data_type: TYPE_INT32 dims: [ -1 ] }\n'
        'ensemble_scheduling { step { model_name: "m" model_version: -1 input_map { key: "X" value: "X" } '
        'output_map { key: "Y" value: "Y" } } }\n'
    )
    with Server(tmp_path) as s:
        assert value(s, "e", 0) == [0]
        r = s.infer("e", ask(1))
        assert r.status == 500 and "call each other in a circle" in r.error, r
        assert value(s, "e", 0) == [0]


@pytest.mark.parametrize("instances", [1, 2])
def test_callees_that_need_what_their_callers_hold(tmp_path, instances):
    """Each caller holds a unit of the resource while it waits; when all units are held so, the newest call ends."""
    group = 'instance_group {{ count: {} rate_limiter {{ resources {{ name: "R" global: true count: 1 }} }} }}'
    write(tmp_path / "repo", "callee", "return self.reply(x + 1)", config=group.format(1))
    # Both have begun before either calls.
    meet = (
        f"if x[0]:\n    open({str(tmp_path)!r} + f'/{{os.getpid()}}.in', 'w').close()\n    while len([f for f in "
        f"os.listdir({str(tmp_path)!r}) if f.endswith('.in')]) < {instances}:\n        time.sleep(0.005)\n"
    )
    write(tmp_path / "repo", "caller", meet + PASS_ON, config=group.format(instances))
    with Server(tmp_path / "repo", "--rate-limit=execution_count", f"--rate-limit-resource=R:{instances}") as s:
        assert value(s, "callee", 1) == [2]
        found = [b.result(120) for b in [Background(s, "caller", 1) for _ in range(instances)]]
        bad = [r.error for r in found if r.status != 200]
        assert len(bad) == 1 and "waits for resource 'R' of the rate limiter" in bad[0], found
        assert value(s, "callee", 1) == [2]


@pytest.mark.parametrize("dying", ["caller", "callee"])
def test_a_death_in_the_middle_of_a_call(tmp_path, dying):
    flag, pid = tmp_path / "flag", tmp_path / "pid"
    repo = tmp_path / "repo"
    write(repo, "callee", (f"if x[0] == 7:\n    open({str(flag)!r}, 'w').close()\n    while not request.is_cancelled():\n        "
        "time.sleep(0.01)\nreturn self.reply(x)"),
          init="self.note = None" if dying != "callee" else f"open({str(pid)!r}, 'w').write(str(os.getpid()))")  # fmt: skip
    write(
        repo,
        "caller",
        PASS_ON,
        init="pass" if dying != "caller" else f"open({str(pid)!r}, 'w').write(str(os.getpid()))",
    )
    with Server(repo) as s:
        assert value(s, "caller", 1) == [1]
        request = Background(s, "caller", 7)
        started(flag)
        os.kill(int(pid.read_text()), signal.SIGKILL)
        r = request.result()
        assert r.status == 500 and "SIGKILL" in r.error and dying in r.error, r
        assert until(lambda: s.get(f"/v2/models/{dying}/ready").status == 200)
        # The callee has heard that nobody waits for it any more.
        assert value(s, "caller", 2) == [2]


def test_a_call_under_way_when_its_model_is_unloaded(tmp_path):
    """Under load: every answer is right or names the reason, nothing hangs, and it works again after a load."""
    write(tmp_path, "callee", "time.sleep(0.005)\nreturn self.reply(x + 1)", config="instance_group { count: 2 }")
    write(tmp_path, "caller", PASS_ON, config="instance_group { count: 4 }")
    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=*") as s:
        wrong, seen, stop = [], set(), threading.Event()

        def load():
            while not stop.is_set():
                r = s.infer("caller", ask(1))
                seen.add(r.status)
                if r.status != 200 and "is not ready" not in r.error and "has no available versions" not in r.error:
                    wrong.append(r)

        threads = [threading.Thread(target=load) for _ in range(8)]
        for t in threads:
            t.start()
        for _ in range(5):
            assert s.post("/v2/repository/models/callee/unload").status == 200
            assert until(lambda: s.infer("caller", ask(1)).status == 500 and 500 in seen)
            assert s.post("/v2/repository/models/callee/load").status == 200
            assert until(lambda: s.infer("caller", ask(1)).status == 200 and 200 in seen)
        stop.set()
        for t in threads:
            t.join()
        assert not wrong, wrong[:3]
        assert seen == {200, 500}
        assert value(s, "caller", 1) == [2]


def test_priorities_and_full_queues_of_a_callee(tmp_path):
    """A call has its level in the callee's queue; when that is full the call ends with its error."""
    repo, gate, running = tmp_path / "repo", tmp_path / "gate", tmp_path / "running"
    write(
        repo,
        "callee",
        "self.order.append(int(x[0]))\n"
        f"open({str(running)!r}, 'w').close()\n"
        f"while os.path.exists({str(gate)!r}):\n    time.sleep(0.005)\n"
        "return self.reply([request.priority(), len(self.order)])",
        init="self.order = []",
        config="dynamic_batching { priority_levels: 2 default_priority_level: 2 default_queue_policy { max_queue_size: 1 } }",
    )
    write(
        repo,
        "caller",
        PASS_ON.replace("'callee', x", "'callee', x[:1], priority=int(x[1])"),
        config="instance_group { count: 4 }",
    )
    with Server(repo) as s:
        gate.touch()
        first = Background(s, "caller", 0, 0)
        started(running)

        def queued(n):
            return until(lambda: metric(s, "nv_inference_pending_request_count", model="callee", version="1") == n)

        low = Background(s, "caller", 1, 2)
        assert queued(1)
        high = Background(s, "caller", 2, 1)
        assert queued(2)
        full = s.infer("caller", ask(3, 2))
        assert full.status == 500 and full.error.endswith("Exceeds maximum queue size"), full  # as Triton has it
        gate.unlink()
        found = [b.result().json["outputs"][0]["data"] for b in (first, low, high)]
        assert found == [[2, 1], [2, 3], [1, 2]]


# The name and the permissions of the mapping that an address lies in.
MAPPED = """
def mapped(array):
    address = array.__array_interface__["data"][0]
    for line in open("/proc/self/maps"):
        span, allowed, _, _, _, *name = line.split()
        first, last = (int(x, 16) for x in span.split("-"))
        if first <= address < last:
            return f"{allowed} {' '.join(name)}"
"""


@pages.needed
def test_large_tensors_of_a_call_are_in_shared_memory(tmp_path):
    """Both sides read them where the server has put them; what they write there they see alone."""
    write(
        tmp_path,
        "callee",
        MAPPED + "where = mapped(x)\nassert where.startswith('rw-p /memfd:'), where\nreturn self.reply(x + 1)",
    )
    write(
        tmp_path,
        "caller",
        MAPPED + "big = self.value(self.call('callee', np.arange(1 << 18)))\nwhere = mapped(big)\n"
        "assert where.startswith('rw-p /memfd:'), where\n"
        "return self.reply([big.size, int(big[0]), int(big[-1])])",
    )
    with Server(tmp_path) as s:
        for _ in range(3):
            assert value(s, "caller") == [1 << 18, 1, 1 << 18]


def test_versions_below_minus_one_are_none(tmp_path):
    """-1 means the latest, as in Triton; what is below is a version that does not exist."""
    write(tmp_path, "callee", "return self.reply(x)")
    write(
        tmp_path,
        "caller",
        (
            "a = self.call('callee', x, model_version=int(x[0]))\nif a.has_error():\n    return "
            "pb_utils.InferenceResponse(error=a.error())\nreturn self.reply(self.value(a))"
        ),
    )
    with Server(tmp_path) as s:
        assert value(s, "caller", -1) == [-1]
        assert value(s, "caller", 1) == [1]
        for version in (-2, -7, 0, 5):
            r = s.infer("caller", ask(version))
            assert (r.status, r.error) == (
                500,
                "Model callee - Error when running inference: Failed for execute the inference request. Model 'callee' is not ready.",
            )
