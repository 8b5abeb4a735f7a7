"""Sequences when something goes wrong beneath them, and what closes their batches, through the built binary."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading

import pytest
from repository import metric, until
from sequences import ACCUMULATE, Grpc, Http, Stream, add_model, pending, seen
from server import Server, alive
from tritonclient.utils import InferenceServerException

WAITING = ACCUMULATE.replace("self.sums = {}", "self.sums = {}\n        open('GATE.pid', 'w').write(str(os.getpid()))")


class Behind(threading.Thread):
    """A request that another thread waits for, with a client of its own: those of HTTP stay in their thread."""

    def __init__(self, kind, server, *a, **kw):
        super().__init__()
        self.kind, self.server, self.a, self.kw, self.error = kind, server, a, kw, None
        self.start()

    def run(self):
        client = self.kind(self.server)
        try:
            self.total = client.infer(*self.a, **self.kw).as_numpy("OUT")[0, 0]
        except InferenceServerException as e:
            self.error = e.message()
        client.client.close()

    def wait(self):
        self.join(60)
        assert not self.is_alive()
        return self


@pytest.mark.parametrize("kind", [Http, Grpc, Stream])
@pytest.mark.parametrize("strategy", ["direct { }", "oldest { max_candidate_sequences: 1 }"], ids=["direct", "oldest"])
def test_a_worker_killed_in_the_middle_of_a_sequence(tmp_path, kind, strategy):
    repo, gate = tmp_path / "models", tmp_path / "m.gate"
    add_model(repo, "m", WAITING, batch=1, strategy=strategy)
    with Server(repo) as s:
        c = kind(s)
        assert c.infer("m", 1, 1, start=True).as_numpy("OUT")[0, 0] == 1
        gate.touch()
        running = Behind(kind, s, "m", 2, 1)
        assert until((tmp_path / "m.gate.in").exists)
        # The only slot is taken: this one stands in the backlog.
        waiting = Behind(kind, s, "m", 5, 2, start=True)
        assert until(lambda: pending(s, "m") == 1)
        pid = int((tmp_path / "m.gate.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        assert until(lambda: not alive(pid))
        # At once, not with the sequence's idle time, which is an hour, nor when the model is back.
        assert "SIGKILL" in running.wait().error
        gate.unlink()
        # The slot is free, the model is back.
        assert waiting.wait().error is None and waiting.total == 5
        assert until(lambda: s.get("/v2/models/m/ready").status == 200)
        assert int((tmp_path / "m.gate.pid").read_text()) != pid
        with pytest.raises(InferenceServerException, match="must specify the START flag"):
            c.infer("m", 1, 1)
        assert c.infer("m", 6, 2, end=True).as_numpy("OUT")[0, 0] == 11
        assert c.infer("m", 3, 1, start=True, end=True).as_numpy("OUT")[0, 0] == 3


KEPT = """
import os, time
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        open('GATE.pid', 'w').write(str(os.getpid()))

    def execute(self, requests):
        while os.path.exists('GATE'):
            open('GATE.in', 'w').close()
            time.sleep(0.005)
        responses = []
        for request in requests:
            total = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            total = total + pb_utils.get_input_tensor_by_name(request, "SUM_IN").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", total), pb_utils.Tensor("SUM_OUT", total)]))
        return responses
"""


def test_state_of_the_server_outlives_a_killed_worker(tmp_path):
    """What a model keeps in implicit state is not lost with its process: the sequence goes on where it was."""
    repo, gate = tmp_path / "models", tmp_path / "m.gate"
    state = 'state [ { input_name: "SUM_IN" output_name: "SUM_OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]'
    add_model(repo, "m", KEPT, batch=2, controls=False, state=state)
    with Server(repo) as s:
        c = Http(s)
        for corr in (1, 2):
            assert c.infer("m", corr, corr, start=True).as_numpy("OUT")[0, 0] == corr
        gate.touch()
        running = Behind(Http, s, "m", 10, 1)
        assert until((tmp_path / "m.gate.in").exists)
        pid = int((tmp_path / "m.gate.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        assert until(lambda: not alive(pid))
        gate.unlink()
        assert "SIGKILL" in running.wait().error
        assert until(lambda: s.get("/v2/models/m/ready").status == 200)
        assert [int(c.infer("m", 10, corr, end=True).as_numpy("OUT")[0, 0]) for corr in (1, 2)] == [11, 12]


# Says when it has heard that nobody waits for it any more.
HEARING = WAITING.replace(
    "            time.sleep(0.005)",
    "            if requests[0].is_cancelled():\n                open('GATE.gone', 'w').close()\n            time.sleep(0.005)",
)


@pytest.mark.parametrize("kind", ["http", "stream"])
@pytest.mark.parametrize("strategy", ["direct { }", "oldest { max_candidate_sequences: 1 }"], ids=["direct", "oldest"])
def test_a_client_that_goes_away_gives_its_slot_back(tmp_path, kind, strategy):
    repo, gate = tmp_path / "models", tmp_path / "m.gate"
    add_model(repo, "m", HEARING, batch=1, strategy=strategy)
    with Server(repo) as s:
        gate.touch()
        if kind == "http":
            body = {
                "parameters": {"sequence_id": 1, "sequence_start": True},
                "inputs": [{"name": "IN", "datatype": "INT32", "shape": [1, 1], "data": [1]}],
            }
            connection = http.client.HTTPConnection("127.0.0.1", s.http_port)
            connection.request("POST", "/v2/models/m/infer", json.dumps(body))
        else:
            stream = Stream(s)
            stream.send("m", 1, 1, start=True)
        assert until((tmp_path / "m.gate.in").exists)
        waiting = Behind(Grpc, s, "m", 5, 2, start=True)
        assert until(lambda: pending(s, "m") == 1)
        connection.close() if kind == "http" else stream.client.stop_stream(cancel_requests=True)
        assert until((tmp_path / "m.gate.gone").exists)
        gate.unlink()
        assert waiting.wait().error is None and waiting.total == 5
        c = Grpc(s)
        with pytest.raises(InferenceServerException, match="must specify the START flag"):
            c.infer("m", 1, 1)
        assert c.infer("m", 1, 2, end=True).as_numpy("OUT")[0, 0] == 6


# An hour: what these batches wait for is not time.
HOUR = "max_queue_delay_microseconds: 3600000000"


def closed(server, reason):
    return metric(server, "neso_batch_closed_total", model="m", reason=reason, version="1")


@pytest.mark.parametrize(
    ("strategy", "reason"),
    [
        (f"oldest {{ max_candidate_sequences: 4 preferred_batch_size: [ 2 ] {HOUR} }}", "preferred"),
        (f"direct {{ minimum_slot_utilization: 0.5 {HOUR} }}", "utilization"),
    ],
    ids=["preferred size", "slot utilization"],
)
def test_batches_wait_for_enough_sequences(tmp_path, strategy, reason):
    repo = tmp_path / "models"
    add_model(repo, "m", strategy=strategy)
    with Server(repo) as s:
        stream = Stream(s)
        for step in range(3):
            stream.send("m", 1, 1, start=step == 0, end=step == 2)
            assert until(lambda: pending(s, "m") == 1)
            # Whoever comes second makes the batch that both have waited for.
            stream.send("m", 1, 2, start=step == 0, end=step == 2)
            both = [stream.answers.get(timeout=60) for _ in range(2)]
            assert all(error is None and len(seen(result)) == 2 for result, error in both), both
        assert closed(s, reason) == 3, s.metrics()


def test_more_sequences_than_candidates_wait(tmp_path):
    repo = tmp_path / "models"
    add_model(repo, "m", batch=8, strategy="oldest { max_candidate_sequences: 2 }")
    with Server(repo) as s:
        c = Http(s)
        for corr in (1, 2):
            c.infer("m", corr, corr, start=True)
        waiting = Behind(Http, s, "m", 3, 3, start=True, end=True)
        assert until(lambda: pending(s, "m") == 1)
        assert c.infer("m", 5, 1).as_numpy("OUT")[0, 0] == 6
        assert pending(s, "m") == 1 and waiting.is_alive()
        assert c.infer("m", 5, 2, end=True).as_numpy("OUT")[0, 0] == 7
        assert waiting.wait().total == 3
        c.infer("m", 5, 1, end=True)
