"""What the numbers of a model say about requests that end otherwise than most: statistics and metrics, both of one record."""

from __future__ import annotations

import json
import queue
import re

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
from repository import Gate, Sent, X, ensemble, python_model, until
from sequences import CONTROLS
from server import Server


def statistics(server, model):
    return server.get(f"/v2/models/{model}/stats").json["model_stats"][0]


def counters(server, name, **labels):
    """The samples of a family as {labels: value}, of those with these labels."""
    found = {}
    for line in server.metrics().splitlines():
        if m := re.fullmatch(name + r"\{(.*)\} (\S+)", line):
            have = dict(re.findall(r'(\w+)="([^"]*)"', m[1]))
            if labels.items() <= have.items():
                found[have.get("reason") or have["version"]] = float(m[2])
    return found


# Answers once while it executes, and ends when its gate is open: after execute for inputs above 0.
SLOW = """
import threading
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            sender = request.get_response_sender()
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", value)]))
            if value[0, 0] > 0:
                threading.Thread(target=self.end, args=(sender,)).start()
            else:
                self.end(sender)

    def end(self, sender):
        import time
        GATE
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def test_the_time_of_a_decoupled_model_is_that_of_inference(tmp_path):
    gate = Gate(tmp_path)
    python_model(tmp_path / "repo", "slow", extra="model_transaction_policy { decoupled: true }")
    (tmp_path / "repo" / "slow" / "1" / "model.py").write_text(SLOW.replace("GATE", gate.execute))
    with Server(tmp_path / "repo") as s:
        answers: queue.Queue = queue.Queue()
        client = tgrpc.InferenceServerClient(s.grpc)
        client.start_stream(lambda result, error: answers.put(error or result))
        for n, value in ((1, 0), (2, 1)):
            gate.close()
            tensor = tgrpc.InferInput("INPUT0", [1, 1], "FP32")
            tensor.set_data_from_numpy(np.full((1, 1), value, np.float32))
            client.async_stream_infer("slow", [tensor], enable_empty_final_response=True)
            assert answers.get(timeout=60).as_numpy("OUTPUT0")[0, 0] == value
            gate.come()
            gate.open()
            assert answers.get(timeout=60).get_response().parameters["triton_final_response"].bool_param
            assert until(lambda n=n: statistics(s, "slow")["inference_stats"]["success"]["count"] == n)
        stats = statistics(s, "slow")
        client.stop_stream()
        client.close()
        phases = stats["inference_stats"]
        assert phases["compute_output"] == {"count": 2, "ns": 0} and phases["compute_infer"]["ns"] > 0, phases
        assert [b["compute_output"] for b in stats["batch_stats"]] == [{"count": 2, "ns": 0}], stats["batch_stats"]
        assert counters(s, "nv_inference_compute_output_duration_us", model="slow") == {"1": 0}


QUEUE = "dynamic_batching { default_queue_policy { max_queue_size: 9 } }"
FORK = """platform: "ensemble"
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1, -1 ] } ]
output [ { name: "A" data_type: TYPE_FP32 dims: [ -1, -1 ] }, { name: "B" data_type: TYPE_FP32 dims: [ -1, -1 ] } ]
ensemble_scheduling { step [
  { model_name: "fails" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "A" } },
  { model_name: "waits" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "B" } } ] }
"""


def test_a_step_that_ends_because_another_failed_is_no_cancellation(tmp_path):
    repo, busy, failing = tmp_path / "repo", Gate(tmp_path, "busy"), Gate(tmp_path, "failing")
    python_model(repo, "fails", execute=f"{failing.execute}\n        raise ValueError('no')")
    python_model(repo, "waits", execute=busy.execute, extra=QUEUE)
    (repo / "fork" / "1").mkdir(parents=True)
    (repo / "fork" / "config.pbtxt").write_text(FORK)
    with Server(repo) as s:
        first = Sent(s, "waits")
        busy.come()
        both = Sent(s, "fork")  # its second step waits behind the first request
        failing.come()
        assert until(lambda: counters(s, "nv_inference_pending_request_count", model="waits") == {"1": 1})
        failing.open()
        assert until(lambda: counters(s, "nv_inference_request_failure", model="waits")["BACKEND"] == 1)
        busy.open()
        assert (first.status(), both.status()) == (200, 500)
        assert counters(s, "nv_inference_request_failure", model="waits") == {
            "BACKEND": 1,
            "CANCELED": 0,
            "OTHER": 0,
            "REJECTED": 0,
        }
        assert counters(s, "nv_inference_request_failure", model="fork")["OTHER"] == 1


def test_an_ensemble_has_no_queue(tmp_path):
    """Its steps wait, and say so themselves."""
    repo, gate = tmp_path / "repo", Gate(tmp_path)
    python_model(repo, "one", add=1)
    python_model(repo, "two", execute=gate.execute, extra=QUEUE)
    ensemble(repo, "both", "one", "two")
    with Server(repo) as s:
        first = Sent(s, "two")
        gate.come()
        behind = Sent(s, "both")
        assert until(lambda: counters(s, "nv_inference_pending_request_count", model="two") == {"1": 1})
        gate.open()
        assert (first.status(), behind.status()) == (200, 200)
        assert s.infer("both", X).status == 200
        assert statistics(s, "both")["inference_stats"]["queue"] == {"count": 2, "ns": 0}
        assert statistics(s, "two")["inference_stats"]["queue"]["ns"] > 0


# Counts down from its input, a step each time it sees a sequence, which it knows by its correlation ID; notes the batches.
COUNTDOWN = """
import json
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.left = {}

    def execute(self, requests):
        import time
        with open(NOTES, "a") as notes:
            notes.write(json.dumps([r.correlation_id() for r in requests]) + "\\n")
        GATE
        answers = []
        for request in requests:
            sequence = request.correlation_id()
            if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
                self.left[sequence] = int(pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()[0, 0])
            sender = request.get_response_sender() if DECOUPLED else None
            if sequence not in self.left:  # stands for nothing: its answer goes nowhere
                response = pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", np.array([[-1]], np.float32))])
            else:
                self.left[sequence] -= 1
                response = pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", np.array([[self.left[sequence]]], np.float32))])
            again = self.left.get(sequence, 0) > 0
            if again:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            if DECOUPLED:
                sender.send(response, 0 if again else pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            else:
                answers.append(None if again else response)
        return None if DECOUPLED else answers
"""


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize("strategy", ["direct { }", "oldest { max_candidate_sequences: 4 }"])
def test_iterative_sequences_share_their_batches(tmp_path, decoupled, strategy):
    """A place without a request is one whose sequence has ended, and each execution of a request counts."""
    gate, notes = Gate(tmp_path), tmp_path / "notes"
    python_model(
        tmp_path / "repo",
        "count",
        extra="max_batch_size: 4\n"
        f"model_transaction_policy {{ decoupled: {str(decoupled).lower()} }}\n"
        f"sequence_batching {{ iterative_sequence: true {strategy} {CONTROLS % 'TYPE_UINT64'} }}",
    )
    config = tmp_path / "repo" / "count" / "config.pbtxt"
    config.write_text(config.read_text().replace("dims: [ -1, -1 ]", "dims: [ 1 ]"))
    code = (
        COUNTDOWN.replace("GATE", gate.execute).replace("DECOUPLED", str(decoupled)).replace("NOTES", repr(str(notes)))
    )
    (tmp_path / "repo" / "count" / "1" / "model.py").write_text(code)
    with Server(tmp_path / "repo") as s:
        answers: queue.Queue = queue.Queue()
        client = tgrpc.InferenceServerClient(s.grpc)
        client.start_stream(lambda result, error: answers.put(error or result))
        for steps in (6, 9):
            tensor = tgrpc.InferInput("INPUT0", [1, 1], "FP32")
            tensor.set_data_from_numpy(np.full((1, 1), steps, np.float32))
            client.async_stream_infer("count", [tensor], request_id=str(steps), enable_empty_final_response=True)
            if steps == 6:
                gate.come()  # the second sequence begins while the first one runs
        pending = lambda: counters(s, "nv_inference_pending_request_count", model="count")  # noqa: E731
        assert until(lambda: pending() == {"1": 1})
        gate.open()
        got: dict = {"6": [], "9": []}
        finals = 0
        while finals < 2:
            answer = answers.get(timeout=60)
            assert not isinstance(answer, Exception), answer.message()
            response = answer.get_response()
            if response.outputs:
                got[response.id].append(int(answer.as_numpy("OUTPUT0")[0, 0]))
            finals += response.parameters["triton_final_response"].bool_param
        client.stop_stream()
        client.close()
        every = {"6": [5, 4, 3, 2, 1, 0], "9": [8, 7, 6, 5, 4, 3, 2, 1, 0]}
        assert got == (every if decoupled else {"6": [0], "9": [0]})
        batches = [json.loads(line) for line in notes.read_text().splitlines()]
        if strategy.startswith("direct"):
            assert batches == [[1]] + 5 * [[1, 2]] + 4 * [[0, 2]], batches
        # An execution counts when it has ended, which is after its last answer.
        assert until(lambda: statistics(s, "count")["execution_count"] == len(batches)), statistics(s, "count")
        stats = statistics(s, "count")
        assert stats["inference_count"] == 15 and stats["inference_stats"]["success"]["count"] == 15, stats
        counted = {phase: v["count"] for phase, v in stats["inference_stats"].items()}
        assert counted == {
            "success": 15, "fail": 0, "queue": 15, "compute_input": 15, "compute_infer": 15, "compute_output": 15,
            "cache_hit": 0, "cache_miss": 0,
        }  # fmt: skip
        whole, parts = stats["inference_stats"]["success"]["ns"], stats["inference_stats"]
        assert parts["compute_infer"]["ns"] < whole and parts["queue"]["ns"] < whole, parts
        assert counters(s, "nv_inference_count", model="count") == {"1": 15}
        assert counters(s, "nv_inference_request_success", model="count") == {"1": 15}


def test_a_model_without_sequences_that_wants_a_request_again_is_told(tmp_path):
    """The request that asked fails; it ended the server."""
    python_model(
        tmp_path,
        "again",
        execute=(
            "[r.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE) for r in requests]; return [None "
            "for _ in requests]"
        ),
    )
    with Server(tmp_path) as s:
        for _ in range(2):
            r = s.infer("again", X)
            assert (
                r.status == 400
                and "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured" in r.error
            )


def test_a_model_that_fails_to_load_has_the_series_of_failures(tmp_path):
    """As with Triton: four reasons at 0, and nothing else before it has been loaded once."""
    python_model(tmp_path, "m")
    good = (tmp_path / "m" / "1" / "model.py").read_text()
    (tmp_path / "m" / "1" / "model.py").write_text(
        good.replace(
            "    def execute",
            "    def initialize(self, args):\n        raise RuntimeError('not this way')\n\n    def execute",
            1,
        )
    )
    with Server(tmp_path, "--model-control-mode=explicit") as s:

        def series():
            return sorted(line.partition("{")[0] for line in s.metrics().splitlines() if 'model="m"' in line)

        assert series() == []
        for _ in range(2):
            assert s.post("/v2/repository/models/m/load").status == 400
            assert series() == ["nv_inference_request_failure"] * 4
            assert set(counters(s, "nv_inference_request_failure", model="m").values()) == {0}
        (tmp_path / "m" / "1" / "model.py").write_text(good)
        assert s.post("/v2/repository/models/m/load").status == 200
        assert {"nv_inference_request_success", "nv_inference_count"} < set(series())


def test_counters_live_as_long_as_the_server(tmp_path):
    """A reload loses nothing, not even the request in flight; what is unloaded keeps its series. Statistics begin with each load."""
    repo, gate = tmp_path / "repo", Gate(tmp_path)
    python_model(repo, "m", execute=gate.execute)
    explicit = "--model-control-mode=explicit"
    with Server(repo, explicit, "--load-model=m", "--metrics-config=summary_latencies=true") as s:

        def counted():
            """The counter, the count of its summary, and the statistics."""
            total = counters(s, "nv_inference_request_success", model="m")["1"]
            assert counters(s, "nv_inference_exec_count", model="m") == {"1": total}
            assert counters(s, "nv_inference_request_summary_us_count", model="m") == {"1": total}
            assert counters(s, "neso_request_duration_seconds_count", model="m") == {"1": total}
            answer = s.get("/v2/models/m/stats")
            return total, answer.json["model_stats"][0]["inference_stats"]["success"][
                "count"
            ] if answer.status == 200 else None

        gate.open()
        for _ in range(3):
            assert s.infer("m", X).status == 200
        assert until(lambda: counted() == (3, 3))
        gate.close()
        flying = Sent(s, "m")
        gate.come()
        python_model(repo, "m", execute=gate.execute, add=1)
        assert s.post("/v2/repository/models/m/load").status == 200
        assert counted() == (3, 0)
        gate.open()
        assert flying.status() == 200
        assert until(lambda: counted() == (4, 0))
        assert s.infer("m", X).json["outputs"][0]["data"] == [2]
        assert until(lambda: counted() == (5, 1))
        assert s.post("/v2/repository/models/m/unload").status == 200
        assert until(lambda: "successfully unloaded 'm'" in s.log())
        assert counted() == (5, None)
        assert counters(s, "nv_inference_pending_request_count", model="m") == {"1": 0}
        assert s.post("/v2/repository/models/m/load").status == 200
        assert s.infer("m", X).status == 200
        assert until(lambda: counted() == (6, 1))
