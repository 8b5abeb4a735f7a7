"""A request is an instance's when that begins it: until then it goes elsewhere, may be cancelled, survives, and counts as pending."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
from repository import Sent, metric, until
from server import Server

# IN says what to do: below 0 wait until the file `gate` is gone, and then die (-2) or go on (-1); otherwise sleep so many
# milliseconds. Each value that has begun is noted in the file `begun`.
MODEL = """import os
import time

import triton_python_backend_utils as pb_utils

PLACE = {place!r}


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for r in requests:
            x = pb_utils.get_input_tensor_by_name(r, "IN").as_numpy()
            value = int(x.flat[0])
            if value:
                with open(PLACE + "/begun", "a") as f:
                    f.write(str(value) + "\\n")
            while value < 0 and os.path.exists(PLACE + "/gate"):
                time.sleep(0.005)
            if value == -2:
                os._exit(3)
            time.sleep(max(0, value % 1000) / 1000)
            answer = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)])
            if {decoupled}:
                sender = r.get_response_sender()
                sender.send(answer)
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            answers.append(answer)
        return None if {decoupled} else answers
"""

SCHEDULERS = {
    "none": "",
    "dynamic": "dynamic_batching { }\n",
    "decoupled": "model_transaction_policy { decoupled: true }\n",
    "oldest": "sequence_batching { oldest { max_candidate_sequences: 1 } }\n",
}


class Model:
    """A model whose begun requests the test sees, and whose requests below 0 it holds."""

    def __init__(self, place, kind, instances=1, extra=""):
        self.place, self.kind, self.repository = place, kind, place / "models"
        self.gate, self.noted = place / "gate", place / "begun"
        (self.repository / "m" / "1").mkdir(parents=True)
        code = MODEL.format(place=str(place), decoupled=kind == "decoupled")
        (self.repository / "m" / "1" / "model.py").write_text(code)
        (self.repository / "m" / "config.pbtxt").write_text(
            'backend: "python"\nmax_batch_size: 1\n'
            'input { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }\noutput { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }\n'
            f"instance_group [ {{ count: {instances} kind: KIND_CPU }} ]\n" + SCHEDULERS[kind] + extra
        )
        self.gate.touch()
        self.sequences = iter(range(1, 1 << 30))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.gate.unlink(missing_ok=True)  # whatever has failed, nobody is held for ever

    def begun(self) -> list[int]:
        return [int(v) for v in self.noted.read_text().split()] if self.noted.exists() else []

    def body(self, value, end=True):
        body = {"inputs": [{"name": "IN", "datatype": "INT32", "shape": [1, 1], "data": [value]}]}
        if self.kind == "oldest":
            body["parameters"] = {
                "sequence_id": next(self.sequences),
                "sequence_start": True,
                "sequence_end": end,
            }
        return body

    def ask(self, server, value):
        """The status of one request; for a decoupled model over a stream, whose answer has been taken."""
        if self.kind != "decoupled":
            return server.infer("m", self.body(value)).status
        done = threading.Event()
        failed = []
        with tgrpc.InferenceServerClient(server.grpc) as client:
            tensor = tgrpc.InferInput("IN", [1, 1], "INT32")
            tensor.set_data_from_numpy(np.array([[value]], np.int32))
            client.start_stream(lambda result, error: (failed.append(error) if error else None, done.set()))
            client.async_stream_infer("m", [tensor])
            assert done.wait(120)
            client.stop_stream()
        return 500 if failed else 200

    def make_quick(self, server, pool):
        """Many quick requests at once: now they are sent ahead, where they ever are."""
        for _ in range(4):
            assert set(pool.map(lambda _: self.ask(server, 0), range(32))) == {200}


@pytest.mark.parametrize("quick_before", [False, True])
@pytest.mark.parametrize("kind", SCHEDULERS)
def test_what_waits_goes_to_the_idle_instance(tmp_path, kind, quick_before):
    m = Model(tmp_path, kind, instances=2)
    with Server(m.repository) as s, ThreadPoolExecutor(16) as pool, m:
        if quick_before:
            m.make_quick(s, pool)
        with ThreadPoolExecutor(1) as slow, m:
            held = slow.submit(m.ask, s, -1)
            assert until(lambda: -1 in m.begun())
            # All of them are answered while the other instance is still held.
            quick = [pool.submit(m.ask, s, 20) for _ in range(16)]
            assert [q.result(120) for q in quick] == [200] * 16
            assert not held.done()
            m.gate.unlink()
            assert held.result() == 200


def innocents(m, server, pool, bad):
    """One request that the model has begun, and eight that wait behind it: their statuses after what is done to the one. Also
    how often that took: where the one has its time, a busy machine may let it pass before all eight are there."""
    m.make_quick(server, pool)
    for rounds in range(1, 10):
        m.noted.unlink(missing_ok=True)
        doomed = pool.submit(m.ask, server, bad)
        assert until(lambda: bad in m.begun())
        behind = [pool.submit(m.ask, server, 1) for _ in range(8)]
        pending = lambda: metric(server, "nv_inference_pending_request_count", model="m", version="1")  # noqa: E731
        if until(lambda: pending() == 8 or doomed.done()) and not doomed.done():  # noqa: B023
            return doomed, behind, rounds
        assert doomed.result() == 500 and [b.result() for b in behind] == [200] * 8
    raise AssertionError("eight requests take longer than the time of one")


@pytest.mark.parametrize("kind", ["none", "dynamic"])
def test_a_crash_takes_only_what_was_begun(tmp_path, kind):
    m = Model(tmp_path, kind)
    with Server(m.repository) as s, ThreadPoolExecutor(16) as pool, m:
        doomed, behind, _ = innocents(m, s, pool, -2)
        m.gate.unlink()
        assert doomed.result() == 500
        assert [b.result() for b in behind] == [200] * 8
        assert m.begun() == [-2] + [1] * 8


@pytest.mark.parametrize("kind", ["none", "dynamic"])
def test_two_crashes_in_a_row_take_two_requests(tmp_path, kind):
    """The second death without a success between: the worker starts after a while, for which the others wait."""
    m = Model(tmp_path, kind)
    with Server(m.repository) as s, ThreadPoolExecutor(16) as pool, m:
        doomed = pool.submit(m.ask, s, -2)
        assert until(lambda: -2 in m.begun())
        second = pool.submit(m.ask, s, -2)
        assert until(lambda: metric(s, "nv_inference_pending_request_count", model="m", version="1") == 1)
        behind = [pool.submit(m.ask, s, 1) for _ in range(4)]
        assert until(lambda: metric(s, "nv_inference_pending_request_count", model="m", version="1") == 5)
        m.gate.unlink()
        assert doomed.result() == 500 and second.result() == 500
        assert [b.result() for b in behind] == [200] * 4


@pytest.mark.parametrize("kind", ["none", "dynamic"])
def test_the_time_of_an_execution_ends_only_that(tmp_path, kind):
    limit = 'parameters { key: "EXECUTION_TIMEOUT_SECONDS" value: { string_value: "3" } }\n'
    m = Model(tmp_path, kind, extra=limit)
    with Server(m.repository) as s, ThreadPoolExecutor(16) as pool, m:
        doomed, behind, _ = innocents(m, s, pool, -1)
        assert doomed.result() == 500
        assert [b.result() for b in behind] == [200] * 8


@pytest.mark.parametrize("kind", ["none", "dynamic"])
def test_the_queue_waits_for_what_replaces_a_hung_instance(tmp_path, kind):
    m = Model(tmp_path, kind)
    with Server(m.repository, "--instance-hang-timeout=3") as s, ThreadPoolExecutor(16) as pool, m:
        doomed, behind, rounds = innocents(m, s, pool, -1)
        assert doomed.result() == 500
        assert [b.result() for b in behind] == [200] * 8
        assert metric(s, "neso_instance_hangs_total", model="m", version="1") == rounds


@pytest.mark.parametrize("kind", ["none", "dynamic"])
def test_who_has_gone_is_not_run(tmp_path, kind):
    m = Model(tmp_path, kind)
    with Server(m.repository) as s, ThreadPoolExecutor(16) as pool, m:
        m.make_quick(s, pool)
        held = pool.submit(m.ask, s, -1)
        assert until(lambda: -1 in m.begun())
        waiting = [Sent(s, "m", m.body(1000 * (i + 1))) for i in range(6)]

        def pending(n):
            return until(lambda: metric(s, "nv_inference_pending_request_count", model="m", version="1") == n)

        assert pending(6)
        for w in waiting[::2]:
            w.close()
        assert pending(3)
        m.gate.unlink()
        assert [w.status() for w in waiting[1::2]] == [200] * 3
        assert held.result() == 200
        assert sorted(m.begun()) == [-1, 2000, 4000, 6000]


def durations(server):
    stats = server.get("/v2/models/m/stats").json["model_stats"][0]["inference_stats"]
    return {k: int(v["ns"]) for k, v in stats.items()}, {k: int(v["count"]) for k, v in stats.items()}


@pytest.mark.parametrize("kind", ["none", "dynamic", "decoupled"])
def test_what_waits_counts_as_waiting(tmp_path, kind):
    m = Model(tmp_path, kind)
    with Server(m.repository) as s, ThreadPoolExecutor(16) as pool, m:
        m.make_quick(s, pool)
        (before, _), asked = durations(s), 4
        held = pool.submit(m.ask, s, -1)
        assert until(lambda: -1 in m.begun())
        others = [pool.submit(m.ask, s, 100) for _ in range(asked - 1)]
        assert until(lambda: metric(s, "nv_inference_pending_request_count", model="m", version="1") == asked - 1)
        m.gate.unlink()
        assert [r.result() for r in (held, *others)] == [200] * asked
        assert metric(s, "nv_inference_pending_request_count", model="m", version="1") == 0
        after, count = durations(s)
        assert count["success"] == count["queue"] == 4 * 32 + asked
        spent = {k: after[k] - before[k] for k in after}
        # Three of 100 ms, of which one, two and three others were waited for.
        assert spent["compute_infer"] >= 300e6 and spent["queue"] >= 300e6, json.dumps(spent)
        assert spent["success"] >= spent["queue"] + spent["compute_infer"]
        assert spent["compute_output"] < spent["compute_infer"]
