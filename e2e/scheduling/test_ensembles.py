"""Ensembles of Python models under the official clients: death, reload and cancellation of steps."""

from __future__ import annotations

import queue
import threading

import numpy as np
import tritonclient.grpc as tgrpc
from repository import X, answer, ensemble, metric, python_model, until
from server import Server, descendants, kill

STREAM = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            sender = r.get_response_sender()
            for i in range(int(pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy()[0, 0])):
                if r.is_cancelled():
                    break
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", np.full((1, 1), i, np.float32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


EACH = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor(t.name().replace("IN", "OUT"), t.as_numpy() + 1) for t in r.inputs()])
            for r in requests
        ]
"""
EACH_CONFIG = """backend: "python"
input [ {{ name: "IN0" data_type: TYPE_FP32 dims: [ 1 ] optional: true }}, {{ name: "IN1" data_type: TYPE_FP32 dims: [ 1 ] {} }} ]
output [ {{ name: "OUT0" data_type: TYPE_FP32 dims: [ 1 ] }}, {{ name: "OUT1" data_type: TYPE_FP32 dims: [ 1 ] }} ]
"""
CONNECTED = """platform: "ensemble"
input [ {{ name: "IN0" data_type: TYPE_FP32 dims: [ 1 ] optional: true }}, {{ name: "IN1" data_type: TYPE_FP32 dims: [ 1 ] optional: true }} ]
output [ {{ name: "OUT0" data_type: TYPE_FP32 dims: [ 1 ] }}, {{ name: "OUT1" data_type: TYPE_FP32 dims: [ 1 ] }} ]
ensemble_scheduling {{ step [
  {{ model_name: "each" model_version: -1 input_map {{ key: "IN0" value: "IN0" }} input_map {{ key: "IN1" value: "IN1" }}
    output_map {{ key: "OUT0" value: "t0" }} output_map {{ key: "OUT1" value: "t1" }} }},
  {{ model_name: "{}" model_version: -1 input_map {{ key: "IN0" value: "t0" }} input_map {{ key: "IN1" value: "t1" }}
    output_map {{ key: "OUT0" value: "OUT0" }} output_map {{ key: "OUT1" value: "OUT1" }} }} ] }}
"""


def test_an_output_that_a_step_leaves_out(tmp_path):
    """A model answers with an output for each input that it was given: the next step goes without the optional inputs that are missing."""
    for name, optional in (("each", "optional: true"), ("needy", "")):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "1" / "model.py").write_text(EACH)
        (tmp_path / name / "config.pbtxt").write_text(EACH_CONFIG.format(optional))
    for name, second in (("loose", "each"), ("tight", "needy")):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "config.pbtxt").write_text(CONNECTED.format(second))

    def ask(model, *given, of=()):
        body = {"inputs": [{"name": f"IN{i}", "datatype": "FP32", "shape": [1], "data": [i]} for i in given]}
        r = s.infer(model, {**body, "outputs": [{"name": name} for name in of]} if of else body)
        return {o["name"]: o["data"][0] for o in r.json["outputs"]} if r.status == 200 else r.error

    with Server(tmp_path) as s:
        assert ask("loose", 0, 1) == ask("tight", 0, 1) == {"OUT0": 2, "OUT1": 3}
        assert ask("loose", 0, of=["OUT0"]) == {"OUT0": 2} and ask("loose", 1, of=["OUT1"]) == {"OUT1": 3}
        assert ask("tight", 1, of=["OUT1"]) == {"OUT1": 3}
        lacking = "unexpected deadlock, at least one output is not set while no more ensemble steps can be made"
        assert lacking in ask("tight", 0, of=["OUT0"]) and lacking in ask("loose", 0)
        assert "model 'each' returned no output 'OUT1'" in s.log()
    with Server(tmp_path, "--strict-outputs=true") as s:
        assert "returned no output 'OUT1'" in ask("tight", 0, of=["OUT0"])
        assert "returned no output 'OUT1'" in ask("loose", 0)


def test_a_step_that_dies_is_an_error_and_comes_back(tmp_path):
    python_model(tmp_path, "one", add=1)
    python_model(
        tmp_path,
        "two",
        init="self.calls = 0",
        execute="import os; self.calls += 1; self.calls == 3 and os._exit(3)",
        add=10,
    )
    ensemble(tmp_path, "both", "one", "two")
    ensemble(tmp_path, "outer", "both", "one")
    with Server(tmp_path) as s:
        assert answer(s, "both") == 12 and answer(s, "outer") == 13
        r = s.infer("outer", X)
        assert (
            r.status == 500 and r.error.startswith("in ensemble 'outer', in ensemble 'both', ") and "code 3" in r.error
        )
        assert until(lambda: s.infer("outer", X).status == 200)


def test_nothing_fails_while_steps_are_reloaded_and_killed_workers_return(tmp_path):
    for name in ("one", "two"):
        python_model(tmp_path, name, add=1)
    ensemble(tmp_path, "both", "one", "two")
    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=both") as s:
        wrong, stop = [], threading.Event()

        def ask():
            while not stop.is_set():
                r = s.infer("both", X)
                if r.status != 200:
                    wrong.append(r)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for t in threads:
            t.start()
        for i in range(2, 5):
            python_model(tmp_path, "one", add=i)
            assert s.post("/v2/repository/models/one/load").status == 200
            assert s.post("/v2/repository/models/both/load").status == 200
        stop.set()
        for t in threads:
            t.join()
        assert not wrong, wrong[:3]
        assert answer(s, "both") == 6
        for pid in descendants(s.process.pid):
            kill(pid)
        assert until(lambda: s.infer("both", X).status == 200)


def test_a_stream_through_an_ensemble_keeps_its_order(tmp_path):
    python_model(tmp_path, "many", extra="model_transaction_policy { decoupled: true }")
    (tmp_path / "many" / "1" / "model.py").write_text(STREAM)
    python_model(tmp_path, "more", add=1, extra="instance_group { count: 3 }")
    ensemble(tmp_path, "stream", "many", "more")
    with Server(tmp_path) as s:
        answers = queue.Queue()
        client = tgrpc.InferenceServerClient(s.grpc)
        client.start_stream(lambda result, error: answers.put(error or result))
        tensor = tgrpc.InferInput("INPUT0", [1, 1], "FP32")
        tensor.set_data_from_numpy(np.full((1, 1), 300, np.float32))
        client.async_stream_infer("stream", [tensor], enable_empty_final_response=True)
        values = []
        while True:
            r = answers.get(timeout=60)
            assert not isinstance(r, Exception), r
            if r.as_numpy("OUTPUT0") is None:
                break
            values.append(int(r.as_numpy("OUTPUT0")[0, 0]))
        assert values == list(range(1, 301))

        # A client that leaves stops the producer, and the instance serves the next one.
        tensor.set_data_from_numpy(np.full((1, 1), 1e9, np.float32))
        client.async_stream_infer("stream", [tensor])
        answers.get(timeout=60)
        client.stop_stream(cancel_requests=True)
        client.close()
        client = tgrpc.InferenceServerClient(s.grpc)
        client.start_stream(lambda result, error: answers.put(error or result))
        tensor.set_data_from_numpy(np.full((1, 1), 1, np.float32))
        client.async_stream_infer("stream", [tensor], request_id="after")
        while True:
            r = answers.get(timeout=60)
            if not isinstance(r, Exception) and r.get_response().id == "after":
                break
        client.stop_stream()
        client.close()


def test_a_full_queue_of_a_step_is_an_error(tmp_path):
    """Triton's ensemble never answers then. What is in the queue is served; the next request finds room again."""
    gate, running = tmp_path / "gate", tmp_path / "running"
    python_model(tmp_path / "repo", "one", add=1)
    python_model(
        tmp_path / "repo",
        "two",
        init="import os; self.os = os",
        execute=f"open({str(running)!r}, 'w').close()\n        while self.os.path.exists({str(gate)!r}): time.sleep(0.005)",
        extra="dynamic_batching { default_queue_policy { max_queue_size: 1 } }",
    )
    ensemble(tmp_path / "repo", "both", "one", "two")
    with Server(tmp_path / "repo") as s:
        gate.touch()
        got = queue.Queue()

        def send():
            got.put(s.infer("both", X).status)

        threads = [threading.Thread(target=send)]
        threads[0].start()
        assert until(running.exists)
        threads.append(threading.Thread(target=send))
        threads[1].start()
        assert until(lambda: metric(s, "nv_inference_pending_request_count", model="two", version="1") == 1)
        for _ in range(3):
            r = s.infer("both", X)
            assert r.status == 503 and r.error.startswith("in ensemble 'both', "), r
            assert "Exceeds maximum queue size" in r.error, r
        gate.unlink()
        for t in threads:
            t.join()
        assert [got.get(), got.get()] == [200, 200]
        assert answer(s, "both") == 2
