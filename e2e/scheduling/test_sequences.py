"""Sequence models under the official clients: what a Python model sees of its sequences, and what clients see."""

from __future__ import annotations

import queue
import signal
import threading

import numpy as np
import pytest
from repository import until
from sequences import ACCUMULATE, Grpc, Http, Stream, add_model, held, inputs, pending, seen
from server import Server
from tritonclient import grpc, http
from tritonclient.utils import InferenceServerException


@pytest.fixture(scope="module")
def repo(tmp_path_factory):
    repo = tmp_path_factory.mktemp("sequences") / "models"
    add_model(repo, "direct")
    add_model(repo, "oldest", strategy="oldest { max_candidate_sequences: 16 }")
    add_model(repo, "text", corrid="TYPE_STRING")
    add_model(repo, "plain", controls=False)
    add_model(repo, "one", batch=1)
    add_model(repo, "idle", batch=1, idle=200_000)
    add_model(repo, "bounded", batch=1, more='parameters { key: "max_sequence_backlog" value { string_value: "1" } }')
    add_model(repo, "crash")
    return repo


@pytest.fixture(scope="module")
def sequences(repo):
    with Server(repo) as s:
        yield s


@pytest.fixture(params=[Http, Grpc, Stream])
def client(request, sequences):
    client = request.param(sequences)
    yield client
    client.client.close()


def test_accumulates(client):
    for model in ("direct", "oldest", "plain"):
        for corr in (7, 2**62 + 5):
            totals = [
                int(client.infer(model, v, corr, start=v == 1, end=v == 4).as_numpy("OUT")[0, 0]) for v in (1, 2, 3, 4)
            ]
            assert totals == [1, 3, 6, 10], (model, corr)
        with pytest.raises(
            InferenceServerException,
            match=f"inference request for sequence 7 to model '{model}' must specify the START flag on the first request of the sequence",
        ):
            client.infer(model, 1, 7)


def test_controls_and_string_ids(client):
    r = client.infer("text", 5, "a sequence", start=True)
    assert seen(r) == [[1, 0.0, True, "a sequence", 5]]
    assert seen(client.infer("text", 6, "a sequence")) == [[0, 0.0, True, "a sequence", 6]]
    r = client.infer("text", 7, "a sequence", end=True)
    assert seen(r) == [[0, 1.0, True, "a sequence", 7]] and r.as_numpy("OUT")[0, 0] == 18
    assert seen(client.infer("direct", 7, 12, start=True, end=True)) == [[1, 1.0, True, 12, 7]]
    assert client.infer("plain", 3, "text", start=True, end=True).as_numpy("OUT")[0, 0] == 3


def test_refusals(client):
    for corr in (0, ""):
        with pytest.raises(
            InferenceServerException,
            match="inference request to model 'direct' must specify a non-zero or non-empty correlation ID",
        ):
            client.infer("direct", 1, corr, start=True)
    with pytest.raises(
        InferenceServerException,
        match="sequence batching control 'CORRID' data-type is 'BYTES', but model 'direct' expects 'UINT64'",
    ):
        client.infer("direct", 1, "text", start=True)


def test_requests_cannot_bring_controls_or_batches(sequences):
    x = {"name": "IN", "datatype": "INT32", "shape": [1, 1], "data": [1]}
    about = {"sequence_id": 99, "sequence_start": True}
    r = sequences.infer("direct", {"parameters": about, "inputs": [x, {**x, "name": "START"}]})
    assert r.status == 400 and "expected 1 inputs but got 2 inputs for model 'direct'" in r.error, r
    r = sequences.infer("direct", {"parameters": about, "inputs": [{**x, "shape": [2, 1], "data": [1, 2]}]})
    assert (
        r.status == 400
        and r.error
        == "inference request to model 'direct' must specify batch-size 1 due to requirements of sequence batcher"
    ), r
    meta = sequences.get("/v2/models/direct").json
    assert [t["name"] for t in meta["inputs"]] == ["IN"], meta
    assert "sequence" in sequences.get("/v2").json["extensions"]


def test_direct_keeps_places(sequences, repo):
    s = Stream(sequences)
    with held(repo, "direct") as come:
        s.send("direct", 10, 1, start=True)
        assert come()
        for corr in (2, 3):
            s.send("direct", corr * 10, corr, start=True)
        assert until(lambda: pending(sequences, "direct") == 2)
    rows = [seen(s.answers.get(timeout=60)[0]) for _ in range(3)]
    # The first ran alone; the others then, in their slots, with an unused one before them.
    assert rows[0] == [[1, 0.0, True, 1, 10]]
    assert rows[1] == rows[2] == [[0, 0.0, False, 0, 0], [1, 0.0, True, 2, 20], [1, 0.0, True, 3, 30]]
    for corr in (1, 2, 3):
        s.infer("direct", 0, corr, end=True)
    s.client.close()


def test_slots_without_a_request_ask_for_no_outputs(tmp_path):
    """As with Triton: a model that makes what is asked for makes nothing for them."""
    repo = tmp_path / "models"
    asked = "json.dumps([sorted(r.requested_output_names()) for r in requests])"
    add_model(repo, "direct", ACCUMULATE.replace("json.dumps(rows)", asked))
    with Server(repo, "--exit-timeout-secs=0") as server:  # sequences stay open
        s = Stream(server)
        with held(repo, "direct") as come:
            s.send("direct", 10, 1, start=True)
            assert come()
            for corr in (2, 3):
                s.send("direct", corr, corr, start=True)
            assert until(lambda: pending(server, "direct") == 2)
        both = ["OUT", "SEEN"]
        assert [seen(s.answers.get(timeout=60)[0]) for _ in range(3)] == [[both], [[], both, both], [[], both, both]]
        s.client.close()


def test_oldest_mixes_sequences(sequences, repo):
    s = Stream(sequences)
    with held(repo, "oldest") as come:
        s.send("oldest", 1, 1, start=True)
        assert come()
        s.send("oldest", 2, 1, end=True)
        for corr in (2, 3):
            s.send("oldest", corr, corr, start=True, end=True)
        assert until(lambda: pending(sequences, "oldest") == 3)
    results = [s.answers.get(timeout=60)[0] for _ in range(4)]
    assert [int(r.as_numpy("OUT")[0, 0]) for r in results] == [1, 3, 2, 3]
    assert sorted(row[3] for row in seen(results[2])) == [1, 2, 3]
    s.client.close()


def test_many_sequences_on_one_stream(sequences):
    s = Stream(sequences)
    n, steps = 60, 5
    for step in range(steps):
        for corr in range(1, n + 1):
            s.send("oldest", corr, corr, start=step == 0, end=step == steps - 1, request_id=f"{corr}/{step}")
    for _ in range(n * steps):
        result, error = s.answers.get(timeout=60)
        assert error is None, error
        corr, step = map(int, result.get_response().id.split("/"))
        assert result.as_numpy("OUT")[0, 0] == corr * (step + 1)
    s.client.close()


def test_backlog_is_bounded_and_expires(sequences):
    c = Grpc(sequences)
    c.infer("bounded", 1, 1, start=True)
    answers = queue.Queue()

    def wait(corr, timeout):
        try:
            c.client.infer("bounded", inputs(grpc, 1), sequence_id=corr, sequence_start=True, timeout=timeout)
            answers.put("served")
        except InferenceServerException as e:
            answers.put(str(e))

    wait(2, 500_000)
    assert "timeout of the corresponding sequence has been expired" in answers.get_nowait()
    waiting = threading.Thread(target=wait, args=(2, None))
    waiting.start()
    assert until(lambda: pending(sequences, "bounded") == 1)
    wait(3, None)
    assert "Exceeds maximum queue size" in answers.get_nowait()
    c.infer("bounded", 1, 1, end=True)
    waiting.join()
    assert answers.get_nowait() == "served"
    c.infer("bounded", 1, 2, end=True)


def test_idle_sequences_lose_their_slot(sequences):
    c = Http(sequences)
    c.infer("idle", 1, 1, start=True)
    c.infer("idle", 1, 2, start=True, end=True)  # waits for the slot of the first
    with pytest.raises(InferenceServerException, match="must specify the START flag"):
        c.infer("idle", 1, 1)


def test_a_vanished_client_frees_its_slot(sequences, repo):
    s = Stream(sequences)
    with held(repo, "one") as come:
        s.send("one", 1, 1, start=True)
        assert come()
        s.send("one", 1, 1)
        assert until(lambda: pending(sequences, "one") == 1)
        s.client.stop_stream(cancel_requests=True)
        assert until(lambda: pending(sequences, "one") == 0)
    c = Grpc(sequences)
    assert c.infer("one", 5, 2, start=True, end=True).as_numpy("OUT")[0, 0] == 5
    with pytest.raises(InferenceServerException, match="must specify the START flag"):
        c.infer("one", 1, 1)


def test_a_killed_worker_ends_its_sequences(sequences):
    c = Http(sequences)
    for corr in (1, 2):
        c.infer("crash", 1, corr, start=True)
    with pytest.raises(InferenceServerException, match="code 3"):
        c.infer("crash", -1, 1)
    # What the model kept in memory is gone, of all sequences: no wrong answers.
    with pytest.raises(InferenceServerException, match="must specify the START flag"):
        c.infer("crash", 1, 1)
    with pytest.raises(
        InferenceServerException,
        match="sequence 2 of model 'crash' has lost its state: the process that kept it has ended",
    ):
        c.infer("crash", 1, 2)
    with pytest.raises(InferenceServerException, match="must specify the START flag"):
        c.infer("crash", 1, 2)
    assert [int(c.infer("crash", 5, 2, start=v == 0, end=v == 1).as_numpy("OUT")[0, 0]) for v in (0, 1)] == [5, 10]


WHOLE = """platform: "ensemble"
max_batch_size: 4
input [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
ensemble_scheduling { step [ { model_name: "direct" model_version: -1
  input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } } ] }
"""


@pytest.mark.parametrize("kind", [Http, Grpc, Stream])
def test_open_sequences_end_before_the_server(tmp_path, kind):
    repo = tmp_path / "models"
    add_model(repo, "direct")
    (repo / "whole" / "1").mkdir(parents=True)
    (repo / "whole" / "config.pbtxt").write_text(WHOLE)
    with Server(repo) as s:
        c = kind(s)
        c.infer("direct", 1, 1, start=True)
        c.infer("whole", 10, 3, start=True)
        s.process.send_signal(signal.SIGTERM)
        assert until(lambda: s.get("/v2/health/ready").status != 200)
        # The log says what the server waits for, as Triton's does.
        assert until(lambda: "Model 'direct' (version 1) has 2 in-flight inferences" in s.log()), s.log()

        def refused():  # which begins a moment after it is not ready
            try:
                c.infer("direct", 1, 2, start=True, end=True)
            except InferenceServerException as e:
                text = "Server is stopping, scheduler for model has stopped accepting new inference requests"
                assert text in e.message(), e
                return True
            return False

        assert until(refused)
        assert c.infer("direct", 2, 1).as_numpy("OUT")[0, 0] == 3
        assert c.infer("direct", 3, 1, end=True).as_numpy("OUT")[0, 0] == 6
        assert c.infer("whole", 20, 3, end=True).as_numpy("OUT")[0, 0] == 30
        assert s.process.wait(60) == 0


def test_idle_sequences_end_before_the_server(tmp_path):
    """Those whose clients do not come back, by max_sequence_idle_microseconds or at the latest with the exit timeout."""
    for idle, timeout, code in ((200_000, 600, 0), (3_600_000_000, 1, 1)):
        repo = tmp_path / str(idle) / "models"
        add_model(repo, "direct", idle=idle)
        with Server(repo, f"--exit-timeout-secs={timeout}") as s:
            Http(s).infer("direct", 1, 1, start=True)
            s.process.send_signal(signal.SIGTERM)
            assert s.process.wait(60) == code, s.log()


STATEFUL = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            total = value + pb_utils.get_input_tensor_by_name(request, "SUM_IN").as_numpy().reshape(-1)[0]
            text = pb_utils.get_input_tensor_by_name(request, "TEXT_IN").as_numpy()
            longer = np.array([[b",".join([v for v in text.ravel() if v] + [str(int(value[0, 0])).encode()])]], object)
            size = pb_utils.get_input_tensor_by_name(request, "BIG_IN").as_numpy().shape[1]
            responses.append(pb_utils.InferenceResponse([
                pb_utils.Tensor("OUT", total.astype(np.int32)), pb_utils.Tensor("SEEN", np.array([[longer[0, 0] + b" %d" % size]], object)),
                pb_utils.Tensor("SUM_OUT", np.full((1, 2 if value[0, 0] == -7 else 1), total, np.int64)),
                pb_utils.Tensor("TEXT_OUT", longer), pb_utils.Tensor("BIG_OUT", np.zeros((1, size * 40), np.float32))]))
        return responses
"""

STATES = """
state [ { input_name: "SUM_IN" output_name: "SUM_OUT" data_type: TYPE_INT64 dims: [ 1 ] %s },
        { input_name: "TEXT_IN" output_name: "TEXT_OUT" data_type: TYPE_STRING dims: [ 1 ] },
        { input_name: "BIG_IN" output_name: "BIG_OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]"""


@pytest.mark.parametrize("first", [0, 1000])
def test_implicit_state(tmp_path, first):
    repo, state = tmp_path / "models", ""
    if first:
        state = 'initial_state: { name: "begin" data_type: TYPE_INT64 dims: [ 1 ] data_file: "sum" }'
    add_model(repo, "s", STATEFUL, state=STATES % state)
    if first:
        (repo / "s" / "initial_state").mkdir()
        (repo / "s" / "initial_state" / "sum").write_bytes(np.int64(first).tobytes())
    with Server(repo) as s:
        for kind in (Http, Grpc, Stream):
            c = kind(s)
            for step, (value, text) in enumerate(
                [(1, b"1 1"), (2, b"1,2 40"), (3, b"1,2,3 1600"), (4, b"1,2,3,4 64000")]
            ):
                r = c.infer("s", value, 7, start=step == 0)
                assert r.as_numpy("OUT")[0, 0] == first + sum(range(value + 1)), step
                assert r.as_numpy("SEEN")[0, 0] == text and r.as_numpy("SUM_OUT") is None
            # A state of another shape is an error; the one before it stays.
            with pytest.raises(
                InferenceServerException,
                match=r"output state 'SUM_OUT' of model 's' has shape \[1,2\], expected \[1,1\]",
            ):
                c.infer("s", -7, 7)
            assert c.infer("s", 0, 7, end=True).as_numpy("OUT")[0, 0] == first + 10
            c.client.close()


COUNT = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            given = pb_utils.get_input_tensor_by_name(request, "N_IN").as_numpy()
            left = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() - given
            n = pb_utils.Tensor("N_OUT", pb_utils.get_input_tensor_by_name(request, "N_IN").as_numpy() + 1)
            seen = b"%d of %d, flags %d" % (len(requests), request.correlation_id(), request.flags())
            seen = pb_utils.Tensor("SEEN", np.array([[seen]], object))
            response = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", left), seen, n])
            if DECOUPLED:
                if left[0, 0] > 1:
                    request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                request.get_response_sender().send(response, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if left[0, 0] <= 1 else 0)
            elif left[0, 0] == 99:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                responses.append(None)
            else:
                responses.append(response)
        return None if DECOUPLED else responses
"""
N = 'iterative_sequence: true\nstate [ { input_name: "N_IN" output_name: "N_OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]'


def test_iterative_sequences(tmp_path):
    repo = tmp_path / "models"
    decoupled = "model_transaction_policy { decoupled: true }"
    add_model(
        repo,
        "gen",
        COUNT.replace("DECOUPLED", "True"),
        strategy="oldest { max_candidate_sequences: 8 }",
        state=N,
        more=decoupled,
        controls=False,
    )
    again = COUNT.replace("DECOUPLED", "False").replace(
        "left[0, 0] == 99", "id(self) and self.__dict__.setdefault('n', []).append(1) or len(self.n) < 3"
    )
    add_model(repo, "again", again, state=N, controls=False)
    add_model(
        repo,
        "wrong",
        again,
        controls=False,
        state='state [ { input_name: "N_IN" output_name: "N_OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]',
    )
    with Server(repo) as s:
        stream = Stream(s)
        for value in (3, 4, 5):
            stream.client.async_stream_infer("gen", inputs(grpc, value), request_id=str(value))
        got = {3: [], 4: [], 5: []}
        for _ in range(12):
            result, error = stream.answers.get(timeout=60)
            assert error is None, error
            got[int(result.get_response().id)].append(int(result.as_numpy("OUT")[0, 0]))
            assert (
                f"flags {int(len(got[int(result.get_response().id)]) == 1)}" in result.as_numpy("SEEN")[0, 0].decode()
            )
        assert got == {3: [3, 2, 1], 4: [4, 3, 2, 1], 5: [5, 4, 3, 2, 1]}
        stream.client.close()
        c = Http(s)
        assert c.client.infer("again", inputs(http, 1)).as_numpy("OUT")[0, 0] == 1
        with pytest.raises(
            InferenceServerException,
            match=(
                "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured "
                "to handle such a flag."
            ),
        ):
            c.infer("wrong", 1, 1, start=True, end=True)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (
            'initial_state: { name: "b" data_type: TYPE_INT32 dims: [ 1 ] zero_data: true }',
            "The data type used for 'initial_state' field of state 'SUM_IN' does not match the state data type.",
        ),
        (
            'initial_state: { name: "b" data_type: TYPE_INT64 dims: [ 2 ] zero_data: true }',
            "'initial_state' dim for input name 'SUM_IN' doesn't match 'state' dim description. 2 != 1",
        ),
        (
            'initial_state: { name: "b" data_type: TYPE_INT64 dims: [ 1 ] data_file: "short" }',
            "initial_state setting expects 8 bytes, but the data provided from shortonly has 4 bytes.",
        ),
        ('initial_state: { name: "b" data_type: TYPE_INT64 dims: [ 1 ] data_file: "gone" }', "gone"),
        (
            "use_growable_memory: true",
            "In order to 'use_growable_memory', you must also enable 'use_single_buffer' for state input name 'SUM_IN'.",
        ),
        (
            "use_growable_memory: true use_same_buffer_for_input_output: true",
            "'use_growable_memory' can only work with KIND_GPU model instances right now. Please either change the instance type to "
            "KIND_GPU or set 'use_growable_memory' to false for state input 'SUM_IN'.",
        ),
        (
            'initial_state: { name: "b" data_type: TYPE_INT64 dims: [ 1 ] zero_data: true } }, { input_name: "SUM_IN" output_name: "B" '
            'data_type: TYPE_INT64 dims: [ 1 ] initial_state: { name: "b" data_type: TYPE_INT64 dims: [ 1 ] zero_data: true }',
            "State input name 'SUM_IN' specified more than once.",
        ),
    ],
)
def test_state_faults_at_load(tmp_path, state, text):
    repo = tmp_path / "models"
    add_model(repo, "s", STATEFUL, state=STATES % state)
    (repo / "s" / "initial_state").mkdir()
    (repo / "s" / "initial_state" / "short").write_bytes(b"1234")
    with Server(repo, "--model-control-mode=explicit") as s:
        r = s.post("/v2/repository/models/s/load", {})
        assert r.status >= 400 and text in r.error, r


@pytest.mark.parametrize(
    ("control", "text"),
    [
        (
            "kind: CONTROL_SEQUENCE_START int32_false_true: [ 0 ]",
            "sequence batching control 'int32_false_true' must have exactly 2 entries for CONTROL_SEQUENCE_START for s",
        ),
        ("kind: CONTROL_SEQUENCE_READY", "sequence batching must specify either"),
        (
            "kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_FP32",
            "unexpected data type for control CONTROL_SEQUENCE_CORRID",
        ),
    ],
)
def test_control_faults_at_load(tmp_path, control, text):
    repo = tmp_path / "models"
    add_model(repo, "s", controls=False, strategy=f'control_input {{ name: "C" control {{ {control} }} }}')
    with Server(repo, "--model-control-mode=explicit") as s:
        r = s.post("/v2/repository/models/s/load", {})
        assert r.status == 500 and text in r.error, r
