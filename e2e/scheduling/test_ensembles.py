"""Ensembles of Python models under the official clients: death, reload and cancellation of steps."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
from repository import X, answer, ensemble, metric, python_model, until
from server import ROOT, Server, descendants, kill

sys.path.insert(0, str(ROOT / "python"))
from neso import AsyncioDecoupledModelClient, DecoupledModelClient  # noqa: E402

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
input [ {{ name: "IN0" data_type: TYPE_FP32 dims: [ 1 ] optional: true }},
  {{ name: "IN1" data_type: TYPE_FP32 dims: [ 1 ] {} }} ]
output [ {{ name: "OUT0" data_type: TYPE_FP32 dims: [ 1 ] }}, {{ name: "OUT1" data_type: TYPE_FP32 dims: [ 1 ] }} ]
"""
CONNECTED = """platform: "ensemble"
input [ {{ name: "IN0" data_type: TYPE_FP32 dims: [ 1 ] optional: true }},
  {{ name: "IN1" data_type: TYPE_FP32 dims: [ 1 ] optional: true }} ]
output [ {{ name: "OUT0" data_type: TYPE_FP32 dims: [ 1 ] }}, {{ name: "OUT1" data_type: TYPE_FP32 dims: [ 1 ] }} ]
ensemble_scheduling {{ step [
  {{ model_name: "each" model_version: -1 input_map {{ key: "IN0" value: "IN0" }} input_map {{ key: "IN1" value: "IN1" }}
    output_map {{ key: "OUT0" value: "t0" }} output_map {{ key: "OUT1" value: "t1" }} }},
  {{ model_name: "{}" model_version: -1 input_map {{ key: "IN0" value: "t0" }} input_map {{ key: "IN1" value: "t1" }}
    output_map {{ key: "OUT0" value: "OUT0" }} output_map {{ key: "OUT1" value: "OUT1" }} }} ] }}
"""


# Sends a response for each digit of IN: with OUT0 where that has bit 0 set, and OUT1 where it has bit 1 set.
SOME = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            sender = r.get_response_sender()
            for digit in str(int(pb_utils.get_input_tensor_by_name(r, "IN").as_numpy()[0])):
                outputs = [pb_utils.Tensor(f"OUT{i}", np.float32([digit])) for i in (0, 1) if int(digit) >> i & 1]
                sender.send(pb_utils.InferenceResponse(outputs))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
SOME_CONFIG = """{}
input [ {{ name: "IN" data_type: TYPE_FP32 dims: [ 1 ] }} ]
output [ {{ name: "OUT0" data_type: TYPE_FP32 dims: [ 1 ] }}, {{ name: "OUT1" data_type: TYPE_FP32 dims: [ 1 ] }} ]
"""
OF_SOME = """ensemble_scheduling {{ step [
  {{ model_name: "some" model_version: -1 input_map {{ key: "IN" value: "IN" }} output_map {{ key: "OUT0" value: "{0}0" }}
    output_map {{ key: "OUT1" value: "{0}1" }} }}
  {1} ] }}
"""
THEN = """, {{ model_name: "{}" model_version: -1 input_map {{ key: "IN0" value: "t0" }} input_map {{ key: "IN1" value: "t1" }}
  output_map {{ key: "OUT0" value: "OUT0" }} output_map {{ key: "OUT1" value: "OUT1" }} }}"""


def test_outputs_that_a_decoupled_step_leaves_out(tmp_path):
    """Each response of the step is one of the ensemble with what there is, also with nothing; what a later step needs is an error."""
    for name, optional in (("each", "optional: true"), ("needy", "")):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "1" / "model.py").write_text(EACH)
        (tmp_path / name / "config.pbtxt").write_text(EACH_CONFIG.format(optional))
    (tmp_path / "some" / "1").mkdir(parents=True)
    (tmp_path / "some" / "1" / "model.py").write_text(SOME)
    config = SOME_CONFIG.format('backend: "python" model_transaction_policy { decoupled: true }')
    (tmp_path / "some" / "config.pbtxt").write_text(config)
    for name, tensor, then in (
        ("direct", "OUT", ""),
        ("loose", "t", THEN.format("each")),
        ("tight", "t", THEN.format("needy")),
    ):
        (tmp_path / name / "1").mkdir(parents=True)
        config = SOME_CONFIG.format('platform: "ensemble"') + OF_SOME.format(tensor, then)
        (tmp_path / name / "config.pbtxt").write_text(config)

    def ask(client, model, digits):
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        i = tgrpc.InferInput("IN", [1], "FP32")
        i.set_data_from_numpy(np.float32([digits]))
        client.async_stream_infer(model, [i], enable_empty_final_response=True)
        got = []
        while True:
            result, error = answers.get(timeout=120)
            if error is not None:
                client.stop_stream(cancel_requests=True)
                return [*got, error.message()]
            p = result.get_response()
            if p.outputs or not p.parameters["triton_final_response"].bool_param:
                got.append({o.name: float(result.as_numpy(o.name)[0]) for o in p.outputs})
            if p.parameters["triton_final_response"].bool_param:
                client.stop_stream()
                return got

    with Server(tmp_path) as s, tgrpc.InferenceServerClient(s.grpc) as client:
        some = [{"OUT0": 1}, {"OUT1": 2}, {}, {"OUT0": 3, "OUT1": 3}]
        assert ask(client, "some", 1203) == ask(client, "direct", 1203) == some
        more = [{name: n + 1 for name, n in r.items()} for r in some]
        # The last one may be the final response itself, and is nothing then when it has no outputs.
        assert ask(client, "loose", 1203) == more and ask(client, "loose", 31) == [more[3], more[0]]
        assert ask(client, "tight", 33) == [more[3], more[3]]
        assert "missing required input(s) ['IN1']" in ask(client, "tight", 301)[-1]


def test_an_output_that_a_step_leaves_out(tmp_path):
    """A model answers with an output for each input that it was given: what comes next goes without those that are
    missing, as far as it can."""
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

    with Server(tmp_path, "--log-verbose=1") as s:
        assert ask("loose", 0, 1) == ask("tight", 0, 1) == {"OUT0": 2, "OUT1": 3}
        assert ask("loose", 0, of=["OUT0"]) == {"OUT0": 2} and ask("loose", 1, of=["OUT1"]) == {"OUT1": 3}
        assert ask("tight", 1, of=["OUT1"]) == {"OUT1": 3}
        assert "Composing models" not in s.log()
        assert (
            ask("loose", 0) == ask("loose", 0, of=["OUT0", "OUT1"]) == {"OUT0": 2}
            and ask("loose", 0, of=["OUT1"]) == {}
        )
        assert s.log().count("Composing models did not output tensor OUT1") == 3
        assert ask("loose") == ask("loose", of=["OUT0"]) == {} and ask("tight", 1) == {"OUT1": 3}
        for outputs in ([], ["OUT0"], ["OUT1"]):
            for given, n, names in (([0], 1, "'IN0'"), ([], 0, "")):
                assert ask("tight", *given, of=outputs) == (
                    f"in ensemble 'tight', [request id: <id_unknown>] expected number of inputs between 1 and 2 but got {n} inputs "
                    f"for model 'needy'. Got input(s) [{names}], but missing required input(s) ['IN1']. Please "
                    "provide all required input(s)."
                )
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
            if r.as_numpy("OUTPUT0") is not None:
                values.append(int(r.as_numpy("OUTPUT0")[0, 0]))
            if r.get_response().parameters["triton_final_response"].bool_param:
                break
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


FINALS = """import json

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            do, sender = json.loads(r.parameters()), r.get_response_sender()
            for i in range(do["n"]):
                if do.get("fails") == i:
                    made = pb_utils.InferenceResponse(error=pb_utils.TritonError(f"no answer {i}"))
                else:
                    made = pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", np.full((1, 1), i, np.float32))])
                sender.send(made, FINAL if do["with"] and i == do["n"] - 1 else 0)
            if not do["with"] or not do["n"]:
                sender.send(flags=FINAL)
"""


@pytest.fixture(scope="module")
def finals(tmp_path_factory):
    repository = tmp_path_factory.mktemp("finals")
    python_model(repository, "many", extra="model_transaction_policy { decoupled: true }")
    (repository / "many" / "1" / "model.py").write_text(FINALS)
    python_model(repository, "more", add=1)
    ensemble(repository, "alone", "many")
    ensemble(repository, "first", "many", "more")
    ensemble(repository, "behind", "more", "many")
    with Server(repository) as s:
        yield s


def test_the_last_response_of_a_decoupled_ensemble_is_final(finals):
    """Where the step says final with its last response, so does the ensemble; where it says so later, that is a response without outputs.

    What a step has answered before it fails is the ensemble's answer, as Triton's.
    """
    tensor = tgrpc.InferInput("INPUT0", [1, 1], "FP32")
    tensor.set_data_from_numpy(np.zeros((1, 1), np.float32))

    def ask(client, answers, model, **do):
        """The value, or None, of each message and whether it was final; an error ends them."""
        client.async_stream_infer(model, [tensor], enable_empty_final_response=True, parameters=do)
        got = []
        while not got or not got[-1][1]:
            answer = answers.get(timeout=60)
            if isinstance(answer, Exception):
                return [*got, answer.message()]
            value = answer.as_numpy("OUTPUT0")
            final = answer.get_response().parameters["triton_final_response"].bool_param
            got.append((None if value is None else int(value[0, 0]), final))
        return got

    with tgrpc.InferenceServerClient(finals.grpc) as client:
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put(error or result))
        for model, add in (("many", 0), ("alone", 0), ("first", 1), ("behind", 0)):
            for n in (0, 1, 2, 5):
                wanted = [(i + add, False) for i in range(n)]
                wanted[-1:] = [(n - 1 + add, True)] if n else [(None, True)]
                assert ask(client, answers, model, n=n, **{"with": True}) == wanted, (model, n)
                # Whether the end of the step comes before the answer of the one behind it is chance.
                apart = [(i + add, False) for i in range(n)] + [(None, True)]
                got = ask(client, answers, model, n=n, **{"with": False})
                assert got in ([apart, wanted] if model == "first" else [apart]), (model, n)
        for model in ("alone", "behind"):
            for n in (1, 2, 5):
                got = ask(client, answers, model, n=n, fails=n - 1, **{"with": True})
                assert got == [*((i, False) for i in range(n - 1)), f"in ensemble '{model}', no answer {n - 1}"]
        client.stop_stream()


@pytest.mark.parametrize("together", [True, False])
def test_our_clients_give_the_answer_that_is_final(finals, together):
    zero, url = np.zeros((1, 1), np.float32), f"grpc://{finals.grpc}"
    asked = {"parameters": {"n": 3, "with": together}}
    for model in ("many", "alone"):
        with DecoupledModelClient(url, model) as client:
            for _ in range(2):
                assert [int(a["OUTPUT0"][0, 0]) for a in client.infer_sample(zero, **asked)] == [0, 1, 2]

        async def ask(model=model):
            async with AsyncioDecoupledModelClient(url, model) as client:
                return [int(a["OUTPUT0"][0, 0]) async for a in client.infer_sample(zero, **asked)]

        assert asyncio.run(ask()) == [0, 1, 2]


def test_a_step_without_its_optional_input(tmp_path):
    """The identity backend's output for an optional input that is not there is zeros, which a step can be left to."""
    io = 'name: "%s" data_type: TYPE_FP32 dims: [ %d ]'
    (tmp_path / "identity" / "1").mkdir(parents=True)
    (tmp_path / "identity" / "config.pbtxt").write_text(
        f"""backend: "identity"
max_batch_size: 4
input [ {{ {io % ("INPUT0", 2)} optional: true }}, {{ {io % ("INPUT1", -1)} optional: true }} ]
output [ {{ {io % ("OUTPUT0", 2)} }}, {{ {io % ("OUTPUT1", -1)} }} ]
"""
    )
    (tmp_path / "pipeline" / "1").mkdir(parents=True)
    (tmp_path / "pipeline" / "config.pbtxt").write_text(
        f"""platform: "ensemble"
max_batch_size: 4
input {{ {io % ("INPUT0", 2)} }}
output [ {{ {io % ("OUTPUT0", 2)} }}, {{ {io % ("OUTPUT1", -1)} }} ]
ensemble_scheduling {{ step [
  {{ model_name: "identity" model_version: -1 input_map {{ key: "INPUT0" value: "INPUT0" }}
    output_map {{ key: "OUTPUT0" value: "between" }} }},
  {{ model_name: "identity" model_version: -1 input_map {{ key: "INPUT1" value: "between" }}
     output_map [ {{ key: "OUTPUT0" value: "OUTPUT0" }}, {{ key: "OUTPUT1" value: "OUTPUT1" }} ] }} ] }}
"""
    )
    given = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    tensor = tgrpc.InferInput("INPUT0", [3, 2], "FP32")
    tensor.set_data_from_numpy(given)
    with Server(tmp_path) as s, tgrpc.InferenceServerClient(s.grpc) as client:
        result = client.infer("pipeline", [tensor])
        assert result.as_numpy("OUTPUT0").tolist() == [[0, 0]] * 3
        assert result.as_numpy("OUTPUT1").tolist() == given.tolist()
        alone = client.infer("identity", [tensor])
        assert alone.as_numpy("OUTPUT1").tolist() == [[0]] * 3, "one element where the configuration leaves it open"
