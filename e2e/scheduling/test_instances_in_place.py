"""A load that changes only instance_group adds and removes instances beside those that run: what these hold lives on."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
import tritonclient.grpc as tgrpc
from onnx import helper
from repository import metric, until
from server import Server, alive
from tritonclient.utils import InferenceServerException

# Answers with the sum of what its sequence has sent and with the pid of its process. IN below 0 waits until the file
# `gate` is gone, of 0 it
# says so.
MODEL = """import os
import time

import numpy as np
import triton_python_backend_utils as pb_utils

PLACE = {place!r}


def say(*words):
    with open(PLACE + "/said", "a") as f:
        f.write(" ".join(map(str, words)) + "\\n")


class TritonPythonModel:
    def initialize(self, args):
        self.name, self.sums = args["model_instance_name"], {{}}
        if os.path.exists(PLACE + "/broken"):
            raise RuntimeError("this instance cannot be made")
        while os.path.exists(PLACE + "/slow"):
            time.sleep(0.005)
        say("initialize", os.getpid())

    def execute(self, requests):
        answers = []
        for r in requests:
            x = int(pb_utils.get_input_tensor_by_name(r, "IN").as_numpy().flat[0])
            if x < 0:
                say("holds", os.getpid())
            if x == 0:
                say("zero", os.getpid())
                if os.path.exists(PLACE + "/cold"):
                    raise RuntimeError("this instance does not become warm")
            while x < 0 and os.path.exists(PLACE + "/gate"):
                time.sleep(0.005)
            self.sums[r.correlation_id()] = self.sums.get(r.correlation_id(), 0) + x
            out = [self.sums[r.correlation_id()], os.getpid()]
            answer = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([out], np.int64))])
            if {decoupled}:
                sender = r.get_response_sender()
                sender.send(answer)
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            answers.append(answer)
        return None if {decoupled} else answers

    def finalize(self):
        say("finalize", os.getpid())
"""

SCHEDULERS = {
    "none": "",
    "dynamic": "dynamic_batching { }\n",
    "decoupled": "model_transaction_policy { decoupled: true }\n",
    "direct": "sequence_batching { direct { } max_sequence_idle_microseconds: 600000000 }\n",
    "oldest": "sequence_batching { oldest { max_candidate_sequences: 2 } max_sequence_idle_microseconds: 600000000 }\n",
}


class Model:
    """The model m, whose instances say when they begin and end."""

    def __init__(self, place, kind="none", extra=""):
        self.place, self.kind, self.extra, self.repository = place, kind, SCHEDULERS[kind] + extra, place / "models"
        (self.repository / "m" / "1").mkdir(parents=True)
        code = MODEL.format(place=str(place), decoupled=kind == "decoupled")
        (self.repository / "m" / "1" / "model.py").write_text(code)

    def configure(self, *groups, extra=""):
        text = (
            'backend: "python"\nmax_batch_size: 2\n'
            'input { name: "IN" data_type: TYPE_INT64 dims: [ 1 ] }\noutput { name: "OUT" data_type: TYPE_INT64 dims: [ 2 ] }\n'
        )
        for g in groups:
            text += "instance_group { %s }\n" % (g if isinstance(g, str) else f"count: {g} kind: KIND_CPU")
        new = self.place / "config.new"
        new.write_text(text + self.extra + extra)
        os.replace(new, self.repository / "m" / "config.pbtxt")

    def load(self, server, *groups, extra=""):
        self.configure(*groups, extra=extra)
        with tgrpc.InferenceServerClient(server.grpc) as client:
            client.load_model("m")

    def said(self, word) -> list[int]:
        file = self.place / "said"
        lines = file.read_text().splitlines() if file.exists() else []
        return [int(pid) for said, pid in map(str.split, lines) if said == word]

    def running(self) -> set[int]:
        return set(self.said("initialize")) - set(self.said("finalize"))

    @contextlib.contextmanager
    def file(self, name):
        path = self.place / name
        path.touch()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def serve(m, *flags):
    return Server(m.repository, "--model-control-mode=explicit", "--load-model=m", *flags)


def infer(server, x=1, model="m", **kw):
    """The two numbers of the answer of a unary request."""
    with tgrpc.InferenceServerClient(server.grpc) as client:
        tensor = tgrpc.InferInput("IN", [1, 1], "INT64")
        tensor.set_data_from_numpy(np.array([[x]], np.int64))
        return [int(v) for v in client.infer(model, [tensor], **kw).as_numpy("OUT")[0]]


def stream(server, x=1):
    """The same of a request over a stream, whose last answer has been taken."""
    answers, done = [], threading.Event()

    def take(result, error):
        answers.append(error or [int(v) for v in result.as_numpy("OUT")[0]])
        done.set()

    with tgrpc.InferenceServerClient(server.grpc) as client:
        tensor = tgrpc.InferInput("IN", [1, 1], "INT64")
        tensor.set_data_from_numpy(np.array([[x]], np.int64))
        client.start_stream(take)
        client.async_stream_infer("m", [tensor])
        assert done.wait(120)
        client.stop_stream()
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]


ASK = {"none": infer, "dynamic": infer, "decoupled": stream}


@pytest.mark.parametrize("kind", ASK)
def test_what_runs_lives_on(tmp_path, kind):
    """An execution that goes on neither keeps instances from coming, nor ends with its instance's place."""
    m, ask = Model(tmp_path, kind), ASK[kind]
    m.configure(1)
    with serve(m) as s, ThreadPoolExecutor(4) as pool, m.file("gate"):
        (first,) = m.running()
        held = pool.submit(ask, s, -1)
        assert until(lambda: m.said("holds"))
        m.load(s, 3)
        assert len(m.running()) == 3 and first in m.running()
        assert {ask(s)[1] for _ in range(4)} <= m.running() - {first}  # the new ones serve
        assert s.get("/v2/models/m/config").json["instance_group"][0]["count"] == 3
        load = pool.submit(m.load, s, "count: 2 kind: KIND_MODEL")  # the three go, two others come
        assert until(lambda: len(m.said("initialize")) == 5 and len(m.said("finalize")) == 2)
        assert s.get("/v2/models/m/ready").status == 200
        assert ask(s)[1] in m.running() - {first}
        assert alive(first) and not held.done() and not load.done()
        (tmp_path / "gate").unlink()
        assert held.result(60)[1] == first
        load.result(60)
        assert len(m.running()) == 2 and first not in m.running()
        assert until(lambda: not alive(first))
        assert (
            metric(s, "nv_inference_request_success", model="m", version="1")
            == s.get("/v2/models/m/stats").json["model_stats"][0]["inference_stats"]["success"]["count"]
            > 5
        )


@pytest.mark.parametrize("kind", ["direct", "oldest"])
def test_sequences_keep_instance_and_state(tmp_path, kind):
    m = Model(tmp_path, kind)
    m.configure(3)
    with serve(m) as s:
        begun = [infer(s, 10 * i, sequence_id=i, sequence_start=True) for i in (1, 2)]
        assert [total for total, _ in begun] == [10, 20]
        one, two = (pid for _, pid in begun)
        assert one != two
        (idle,) = m.running() - {one, two}
        m.load(s, 5)
        assert infer(s, 1, sequence_id=1) == [11, one]
        m.load(s, "count: 1 kind: KIND_MODEL")  # answers, though sequences go on
        assert m.running() & {one, two, idle} == {one, two}
        assert infer(s, 1, sequence_id=1) == [12, one]
        assert infer(s, 2, sequence_id=2) == [22, two]
        three = infer(s, 5, sequence_id=3, sequence_start=True)
        assert three[1] not in (one, two)
        m.load(s, 1, "count: 1 kind: KIND_MODEL")  # another one comes while two still leave
        assert infer(s, 1, sequence_id=1, sequence_end=True) == [13, one]
        assert until(lambda: one not in m.running() and not alive(one))
        assert infer(s, 2, sequence_id=2) == [24, two]
        assert infer(s, 5, sequence_id=3) == [10, three[1]]
        assert infer(s, 2, sequence_id=2, sequence_end=True) == [26, two]
        assert until(lambda: two not in m.running())
        assert infer(s, 5, sequence_id=3, sequence_end=True) == [15, three[1]]
        assert len(m.running()) == 2
        s.post("/v2/repository/models/m/unload")
        assert until(lambda: not m.running())


def test_unload_while_sequences_hold_what_leaves(tmp_path):
    m = Model(tmp_path, "oldest")
    m.configure(2)
    with serve(m) as s:
        _, pid = infer(s, 1, sequence_id=1, sequence_start=True)
        m.load(s, "count: 1 kind: KIND_MODEL")
        assert pid in m.running()
        assert s.post("/v2/repository/models/m/unload").status == 200
        assert until(lambda: not m.running() and not alive(pid))


@pytest.mark.parametrize("kind", ["none", "dynamic", "oldest"])
def test_an_instance_that_cannot_be_made(tmp_path, kind):
    m = Model(tmp_path, kind)
    m.configure(2)
    with serve(m) as s:
        before = m.running()
        begun = infer(s, 7, sequence_id=1, sequence_start=True) if kind == "oldest" else None
        with m.file("broken"), pytest.raises(InferenceServerException) as failed:
            m.load(s, 4)
        text = failed.value.message()
        assert text.startswith(
            "load failed for model 'm': version 1 is at READY state: Internal: RuntimeError: this instance cannot be made"
        )
        assert m.running() == before and s.get("/v2/models/m/ready").status == 200
        assert s.get("/v2/models/m/config").json["instance_group"][0]["count"] == 2
        index = s.post("/v2/repository/index").json
        assert index[0]["state"] == "READY" and "this instance cannot be made" in index[0]["reason"]
        if begun:
            assert infer(s, 1, sequence_id=1, sequence_end=True) == [8, begun[1]]
        else:
            assert infer(s)[1] in before
        m.load(s, 4)
        assert before < m.running() and len(m.running()) == 4
        assert not s.post("/v2/repository/index").json[0].get("reason")


def test_requests_and_unload_while_an_instance_comes(tmp_path):
    m = Model(tmp_path)
    m.configure(1)
    with serve(m) as s, ThreadPoolExecutor(2) as pool:
        with m.file("slow"):
            load = pool.submit(m.load, s, 2)
            assert until(lambda: "loading: m:1" in s.log().split("successfully loaded", 1)[1])
            assert infer(s)[1] in m.running()
            unload = pool.submit(s.post, "/v2/repository/models/m/unload")
            assert infer(s)[1] in m.running()
            assert not load.done() and not unload.done()  # one after the other
        load.result(60)
        assert unload.result(60).status == 200
        assert until(lambda: not m.running()) and len(m.said("finalize")) == 2


def test_what_differs_otherwise_is_loaded_anew(tmp_path):
    m = Model(tmp_path)
    m.configure(1)
    with serve(m) as s:
        seen = m.running()
        for groups, extra, anew in [
            ((2,), "", False),
            (('name: "other" count: 2 kind: KIND_CPU',), "", False),
            (('name: "a" count: 1 kind: KIND_CPU', 'name: "b" count: 1 kind: KIND_CPU'), "", False),
            ((2,), "version_policy { all { } }\n", False),
            ((2,), "# a remark\n", False),
            ((2,), 'parameters { key: "k" value { string_value: "v" } }\n', True),
            ((3,), "", True),
            ((3,), "dynamic_batching { }\n", True),
        ]:
            m.load(s, *groups, extra=extra)
            count = 3 if groups == (3,) else 2
            assert until(lambda count=count: len(m.running()) == count)
            assert (not seen & m.running()) == anew, (groups, extra)
            seen = m.running()
        (m.repository / "m" / "labels.txt").write_text("x")
        m.load(s, 2, extra="dynamic_batching { }\n")
        assert until(lambda: len(m.running()) == 2)
        assert not seen & m.running()


def test_a_configuration_in_the_request(tmp_path):
    m = Model(tmp_path)
    m.configure(1)
    with serve(m) as s, tgrpc.InferenceServerClient(s.grpc) as client:
        first = m.running()
        config = client.get_model_config("m", as_json=True)["config"]
        config["instance_group"][0]["count"] = 2
        client.load_model("m", config=json.dumps(config))
        assert first < m.running() and len(m.running()) == 2
        m.load(s, 1)
        assert m.running() == first
        assert until(lambda: s.log().count("instances changed") == 2)
        assert re.search(r"instances changed.* model=m version=1 added=1 removed=0\b", s.log()), s.log()
        assert re.search(r"instances changed.* model=m version=1 added=0 removed=1\b", s.log()), s.log()


def test_the_text_of_a_configuration_in_the_request(tmp_path):
    """A byte order mark is skipped, as in files; what is wrong is said of the parameter."""
    m = Model(tmp_path)
    m.configure(1)
    with serve(m) as s:
        config = s.get("/v2/models/m/config").json
        config["instance_group"] = [{"count": 2, "kind": "KIND_CPU"}]

        def load(text):
            return s.post("/v2/repository/models/m/load", {"parameters": {"config": text}})

        assert (r := load("\ufeff" + json.dumps(config))).status == 200, r.error
        assert len(m.running()) == 2
        r = load('{"max_batch_size": "many"}')
        assert r.status == 500 and "parameters.config, field max_batch_size" in r.error, r.error
        r = load('{"max_batch_size": 4')
        assert r.status == 500 and "parameters.config: expected a JSON object" in r.error, r.error


def test_resources_follow(tmp_path):
    m = Model(tmp_path, "dynamic")
    needs = 'count: %d kind: KIND_CPU rate_limiter { resources [ { name: "R" count: %d } ] }'
    m.configure(needs % (1, 2))
    with serve(m, "--rate-limit=execution_count", "--rate-limit-resource=R:10") as s:
        m.load(s, needs % (2, 8))  # of another kind than before: that one goes
        assert len(m.running()) == 2
        assert {infer(s)[1] for _ in range(6)} <= m.running()
        before = m.running()
        with pytest.raises(InferenceServerException, match='Resource count for "R" is limited to 10'):
            m.load(s, needs % (2, 32))
        assert m.running() == before and infer(s)[1] in before
        m.load(s, needs % (1, 8))
        assert m.running() < before and infer(s)[1] in m.running()


LIMITED = 'count: %d kind: KIND_CPU rate_limiter { resources [ { name: "R" count: 1 } ] }'


def resource(server, what="resource"):
    return metric(server, f"neso_rate_limit_{what}_units", resource="R", device="0")


@pytest.mark.parametrize("kind", ASK)
def test_the_first_limited_instances_come_and_the_last_go(tmp_path, kind):
    m, ask = Model(tmp_path, kind), ASK[kind]
    m.configure(1)
    with serve(m, "--rate-limit=execution_count") as s, ThreadPoolExecutor(4) as pool, m.file("gate"):
        (first,) = m.running()
        held = [pool.submit(ask, s, -1)]
        assert until(lambda: m.said("holds") == [first])
        m.load(s, 1, LIMITED % 2)
        come = m.running() - {first}
        assert len(come) == 2 and first in m.running()
        held.append(pool.submit(ask, s, -1))
        assert until(lambda: len(m.said("holds")) == 2)
        held.append(pool.submit(ask, s, 1))  # an instance is idle, but not what it needs
        assert until(lambda: metric(s, "nv_inference_pending_request_count", model="m", version="1") == 1)
        assert resource(s) == resource(s, "resource_used") == 1
        load = pool.submit(m.load, s, 1)
        assert until(lambda: len(m.said("finalize")) == 1)
        assert s.get("/v2/models/m/ready").status == 200
        assert resource(s, "resource_used") == 1 and not any(h.done() for h in held)
        (tmp_path / "gate").unlink()
        pids = [h.result(60)[1] for h in held]
        assert pids[0] == first and pids[1] in come and pids[2] == first
        load.result(60)
        assert m.running() == {first} and ask(s)[1] == first
        assert until(lambda: resource(s) is None)
        assert metric(s, "nv_inference_request_success", model="m", version="1") == 4


@pytest.mark.parametrize("kind", ["direct", "oldest"])
def test_sequences_when_limited_instances_come_and_go(tmp_path, kind):
    m = Model(tmp_path, kind)
    m.configure(1)
    with serve(m, "--rate-limit=execution_count") as s:
        total, one = infer(s, 10, sequence_id=1, sequence_start=True)
        m.load(s, 1, LIMITED % 1)
        total, two = infer(s, 20, sequence_id=2, sequence_start=True)
        assert one != two and total == 20
        assert infer(s, 1, sequence_id=1) == [11, one]
        m.load(s, 1)  # answers, though a sequence goes on
        assert infer(s, 2, sequence_id=2) == [22, two] and resource(s) == 1
        assert infer(s, 1, sequence_id=1) == [12, one]
        m.load(s, 1, LIMITED % 1)  # another one comes while the former still leaves
        _, three = infer(s, 5, sequence_id=3, sequence_start=True)
        assert three not in (one, two)
        assert infer(s, 2, sequence_id=2, sequence_end=True) == [24, two]
        assert until(lambda: m.running() == {one, three})
        m.load(s, 1)
        assert infer(s, 5, sequence_id=3, sequence_end=True) == [10, three]
        assert until(lambda: m.running() == {one} and resource(s) is None)
        assert infer(s, 1, sequence_id=1, sequence_end=True) == [13, one]


def test_those_that_come_are_warmed_up(tmp_path):
    sample = 'inputs { key: "IN" value { data_type: TYPE_INT64 dims: [ 1 ] zero_data: true } }'
    m = Model(tmp_path, extra=f'model_warmup {{ name: "zero" batch_size: 1 count: 2 {sample} }}\n')
    m.configure(1)
    with serve(m) as s:
        (first,) = m.running()
        assert m.said("zero") == [first, first]
        m.load(s, 3)
        come = m.running() - {first}
        assert len(come) == 2 and sorted(m.said("zero")[2:]) == sorted([*come, *come])
        before = m.running()
        with m.file("cold"), pytest.raises(InferenceServerException, match="failed to run warmup sample 'zero'"):
            m.load(s, 4)
        assert m.running() == before and s.get("/v2/models/m/ready").status == 200
        assert infer(s)[1] in before
        assert s.get("/v2/models/m/stats").json["model_stats"][0]["inference_count"] == 1


@pytest.mark.parametrize("limited", ["", "limited"])
@pytest.mark.parametrize("kind", ["none", "dynamic", "oldest", "decoupled"])
def test_many_changes_under_load(tmp_path, kind, limited):
    """Nothing fails, sequences keep their sums, and no process is left."""
    m = Model(tmp_path, kind)
    m.configure(2)
    over = threading.Event()

    def work(server, n):
        i = 0
        while not over.is_set():
            i += 1
            if kind == "oldest":
                corr = 1000 * n + i
                pids = set()
                for step in range(1, 5):
                    total, pid = infer(server, 1, sequence_id=corr, sequence_start=step == 1, sequence_end=step == 4)
                    pids.add(pid)
                    assert total == step
                assert len(pids) == 1
            else:
                ASK[kind](server)
        return i

    changes = [(n,) for n in [4, 1, 3, 2, 5, 1, 2, 1, 4, 2]]
    if limited:
        changes = [(1, LIMITED % 2), (2,), (LIMITED % 1,), (3,), (1, LIMITED % 1), (LIMITED % 2,), (2,)]
    with serve(m, "--rate-limit=execution_count") as s, ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(work, s, n) for n in range(1, 4)]
        try:
            for groups in changes:
                m.load(s, *groups)
                assert s.get("/v2/models/m/ready").status == 200
        finally:
            over.set()
        assert all(w.result(60) > 0 for w in workers)
        assert until(lambda: len(m.running()) == 2)
        s.post("/v2/repository/models/m/unload")
        assert until(lambda: not m.running())
        assert until(lambda: not any(map(alive, m.said("initialize"))))


def onnx_identity() -> bytes:
    shape = ["batch", 2]
    node = helper.make_node("Identity", ["IN"], ["OUT"])
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.INT64, shape) for name in ("IN", "OUT")]
    graph = helper.make_graph([node], "identity", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


@pytest.mark.parametrize("backend", ["identity", "onnxruntime"])
def test_instances_without_processes_and_polling(tmp_path, backend):
    """What a version has counted begins anew when it is loaded anew, and only then."""
    model = tmp_path / "models" / "m"
    (model / "1").mkdir(parents=True)
    if backend == "onnxruntime":
        (model / "1" / "model.onnx").write_bytes(onnx_identity())
    config = (
        f'backend: "{backend}"\nmax_batch_size: 2\n'
        'input { name: "IN" data_type: TYPE_INT64 dims: [ 2 ] }\noutput { name: "OUT" data_type: TYPE_INT64 dims: [ 2 ] }\n'
    )

    def configure(count):
        (tmp_path / "config.new").write_text(config + f"instance_group {{ count: {count} kind: KIND_CPU }}\n")
        os.replace(tmp_path / "config.new", model / "config.pbtxt")

    configure(1)
    body = {"inputs": [{"name": "IN", "datatype": "INT64", "shape": [1, 2], "data": [3, 4]}]}
    with (
        Server(tmp_path / "models", "--model-control-mode=poll", "--repository-poll-secs=1") as s,
        ThreadPoolExecutor(2) as pool,
    ):
        over = threading.Event()

        def work():
            n = 0
            while not over.is_set():
                assert s.infer("m", body).json["outputs"][0]["data"] == [3, 4]
                n += 1
            return n

        workers = [pool.submit(work) for _ in range(2)]
        try:
            for count in (3, 1, 2):
                configure(count)
                assert until(
                    lambda count=count: s.get("/v2/models/m/config").json["instance_group"][0]["count"] == count
                )
        finally:
            over.set()
        asked = sum(w.result(60) for w in workers)
        assert s.get("/v2/models/m/stats").json["model_stats"][0]["inference_count"] == asked > 0
