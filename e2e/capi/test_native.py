"""Backend libraries of our own in neso-host: what they are given, what they answer, and what becomes of those that misbehave."""

from __future__ import annotations

import queue
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
import tritonclient.http as thttp
from libraries import IO, backend, have_host, model
from repository import metric, until
from server import Server, descendants

SEQUENCE = """sequence_batching { max_sequence_idle_microseconds: 60000000
  state [ { input_name: "STATE_IN" output_name: "STATE_OUT" data_type: TYPE_INT32 dims: [ 1 ]
    initial_state { name: "zero" data_type: TYPE_INT32 dims: [ 1 ] zero_data: true } } ] }
"""
DECOUPLED = "model_transaction_policy { decoupled: true }\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    have_host()
    top = tmp_path_factory.mktemp("native")
    repo, libs = top / "models", top / "backends"
    backend(libs, "ident", "identity.c")
    backend(libs, "behave", "behave.c")
    backend(libs, "throws", "throws.cc")
    model(repo, "ident", "ident", "instance_group [ { count: 2 kind: KIND_CPU } ]\n")
    model(repo, "behave", "behave")
    model(repo, "batched", "ident", "dynamic_batching { max_queue_delay_microseconds: 100 }\n")
    model(repo, "other", "behave", 'parameters { key: "EXECUTION_TIMEOUT_SECONDS" value { string_value: "0.5" } }\n')
    model(repo, "waits", "behave", 'parameters { key: "EXECUTION_TIMEOUT_SECONDS" value { string_value: "2" } }\n')
    model(repo, "leaks", "behave", 'parameters { key: "WORKER_MEMORY_BYTES" value { string_value: "512M" } }\n')
    model(repo, "throws", "throws")
    model(repo, "stale", "behave")
    for count in (8, 9):
        both = [(way, name, k) for way, name in (("input", "IN"), ("output", "OUT")) for k in range(count)]
        io = "".join(f'{way} [ {{ name: "{name}{k}" data_type: TYPE_INT32 dims: [ -1 ] }} ]\n' for way, name, k in both)
        model(repo, f"wide_{count}", "ident", io=io)
    model(repo, "many", "behave", DECOUPLED)
    model(repo, "sum", "behave", SEQUENCE)
    model(
        repo, "completes", "behave", 'parameters { key: "complete_it" value { string_value: "1" } }\n', io="", batch=0
    )
    for name in ("shared_a", "shared_b"):
        model(repo, name, "ident", 'parameters { key: "isolation" value { string_value: "shared" } }\n')
    with Server(repo, f"--backend-directory={libs}") as s:
        yield s
    log = s.log()
    assert s.process.returncode == 0, log[-3000:]
    order = [line for line in re.findall(r"order: (\w+)[^\n]* model=ident\b", log)]
    assert order == [
        *("Initialize", "GetBackendAttribute", "ModelInitialize", "ModelInstanceInitialize", "ModelInstanceInitialize"),
        *("ModelInstanceFinalize", "ModelInstanceFinalize", "ModelFinalize", "Finalize"),
    ]


def ask(s, name="behave", do="", data=(1, 2, 3), **parameters):
    body = {"inputs": [{"name": "IN0", "datatype": "INT32", "shape": [1, len(data)], "data": list(data)}]}
    if do:
        parameters["do"] = do
    return s.infer(name, body | {"parameters": parameters} if parameters else body)


def answered(s, name="behave"):
    """The model serves; a process that died has been started anew."""
    r = ask(s, name)
    assert r.status == 200 and r.json["outputs"][0]["data"] == [1, 2, 3], r


@pytest.mark.parametrize("form", ["http", "grpc"])
@pytest.mark.parametrize("size", [0, 1, 7, 2047, 2048, 2049, 300_000])
def test_identity(served, form, size):
    data = np.arange(size, dtype=np.int32).reshape(1, size)
    kind = {"http": thttp, "grpc": tgrpc}[form]
    with kind.InferenceServerClient(getattr(served, form)) as client:
        given = kind.InferInput("IN0", data.shape, "INT32")
        given.set_data_from_numpy(data)
        for _ in range(3):
            np.testing.assert_array_equal(client.infer("ident", [given]).as_numpy("OUT0"), data)


def test_many_at_once(served):
    """Requests of several clients, batched, each get their own."""
    done = queue.Queue()
    with tgrpc.InferenceServerClient(served.grpc) as client:
        for i in range(400):
            data = np.full((1 + i % 3, 1 + i % 2 * 5000), i, np.int32)
            given = tgrpc.InferInput("IN0", data.shape, "INT32")
            given.set_data_from_numpy(data)
            client.async_infer("batched", [given], lambda result, error, want=data: done.put((result, error, want)))
        for _ in range(400):
            result, error, want = done.get(timeout=60)
            assert error is None, error
            np.testing.assert_array_equal(result.as_numpy("OUT0"), want)


def test_request_is_described(served):
    body = {
        "id": "mine",
        "parameters": {"do": "describe", "n": -7, "yes": True, "half": 0.5, "timeout": 5000000},
        "inputs": [{"name": "IN0", "datatype": "INT32", "shape": [1, 1], "data": [5]}],
        "outputs": [{"name": "OUT0"}],
    }
    r = served.infer("behave", body)
    assert r.status == 200, r
    told = r.json["parameters"]
    assert told["id"] == "mine" and told["output"] == "OUT0" and told["outputs"] == 1 and told["timeout"] == 5000000
    assert (told["got_n"], told["got_yes"], told["got_half"], told["got_do"]) == (-7, True, 0.5, "describe")
    assert r.json["outputs"][0]["data"] == [5]


@pytest.mark.parametrize("size", [0, 3, 5000])
def test_pieces_of_an_input(served, size):
    """There is one, for every host policy; what is asked for behind it is null, and no error."""
    r = ask(served, do="pieces", data=[1] * size)
    assert r.status == 200, r
    told = r.json["parameters"]
    one = f"memory of {4 * size} bytes" if size else "null of 0 bytes"
    assert told == {
        **{"count": int(size > 0), "same": True, "on_cpu": True, "first": one, "first_of_none": one},
        **{"first_of_other": one, "behind": "null of 0 bytes"},
        **{"first_attributes": one, "behind_attributes": "null of 0 bytes"},
    }


def test_errors_of_the_backend(served):
    r = ask(served, do="error")
    assert (r.status, r.error) == (404, "nothing there")
    r = ask(served, do="error_return")
    assert (r.status, r.error) == (501, "not this batch")


def test_answers_after_the_return(served):
    r = ask(served, do="late")
    assert r.status == 200 and r.json["outputs"][0]["data"] == [99], r


def test_completion(served):
    config = served.get("/v2/models/completes/config").json
    assert (
        config["max_batch_size"] == 4
        and config["input"][0]["name"] == "IN0"
        and config["output"][0]["data_type"] == "TYPE_INT32"
    )
    answered(served, "completes")


def test_decoupled(served):
    answers = queue.Queue()
    given = tgrpc.InferInput("IN0", [1, 2], "INT32")
    given.set_data_from_numpy(np.array([[4, 5]], np.int32))
    with tgrpc.InferenceServerClient(served.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("many", [given], parameters={"do": "many"}, enable_empty_final_response=True)
        count = 0
        while True:
            result, error = answers.get(timeout=60)
            assert error is None, error
            if result.get_response().parameters["triton_final_response"].bool_param:
                break
            assert result.as_numpy("OUT0").tolist() == [[4, 5]]
            count += 1
        assert count == 1000
        client.stop_stream()


STALE = {
    "the request": [
        *("stale count", "stale id", "stale correlation id", "stale trace", "stale input", "stale input by index"),
        *("stale output", "another kind", "released count"),
    ],
    "the input": ["stale properties", "stale buffer", "released input"],
}


def test_what_was_released_is_not_read(served):
    """Nor while another request has its place, nor by the functions that are answered without a call of Go."""
    for k in range(3):
        r = ask(served, "stale", "stale", [k])
        assert r.status == 200 and r.json["outputs"][0]["data"] == [k], r
    for what, which in STALE.items():
        for name in which:
            line = f"{name}: {what} has been deleted, or never was one"
            want = 3 if name.startswith("released") else 2
            assert until(lambda line=line, want=want: served.log().count(line) == want), served.log()[-3000:]


def test_read_while_it_is_released(served):
    """A thread that reads a request which another one releases has what is the request's, or an error."""
    for k in range(2, 300):
        r = ask(served, "stale", "shows", list(range(k)))
        assert r.status == 200 and r.json["outputs"][0]["data"] == list(range(k)), r
    assert ask(served, "stale", "shows", [1]).status == 200
    assert until(lambda: "reads: done" in served.log()), served.log()[-3000:]
    assert "of another request" not in served.log()


@pytest.mark.parametrize("count", [8, 9])
def test_many_inputs(served, count):
    """As many as are read without a call of Go, and one more."""
    names = [f"{k}" for k in range(count)]
    data = {n: [int(n), 7] for n in names}
    r = served.infer(
        f"wide_{count}",
        {"inputs": [{"name": f"IN{n}", "datatype": "INT32", "shape": [1, 2], "data": data[n]} for n in names]},
    )
    assert r.status == 200, r
    assert {o["name"]: o["data"] for o in r.json["outputs"]} == {f"OUT{n}": data[n] for n in names}


def test_state(served):
    for sequence in (7, 8):
        for k, want in enumerate([10, 20, 30]):
            r = ask(served, "sum", "sum", [10], sequence_id=sequence, sequence_start=k == 0, sequence_end=k == 2)
            assert r.status == 200 and r.json["outputs"][0]["data"] == [want], r


def test_one_process_for_a_library(served):
    answered(served, "shared_a")
    answered(served, "shared_b")
    hosts = [pid for pid in descendants(served.process.pid) if "neso-host" in open(f"/proc/{pid}/comm").read()]
    assert len(hosts) == 14  # one for each of thirteen models, and one for two


DEATHS = {
    "crash": "SIGSEGV",
    "abort": "SIGABRT",
    "exit": "exited with code 3",
    "overrun_far": "beyond the end of the memory that TRITONBACKEND_OutputBuffer gave it",
    "overrun_large": "beyond the end of the memory that TRITONBACKEND_OutputBuffer gave it",
}


@pytest.mark.parametrize("do", DEATHS)
def test_a_death_is_told(served, do):
    """The request fails with the cause, other models serve on, and so does a new process of the same model."""
    r = ask(served, do=do)
    assert r.status == 500 and DEATHS[do] in r.error, r
    answered(served, "ident")
    answered(served)


def test_inputs_are_there_to_be_read(served):
    r = ask(served, do="write_input", data=[5] * 5000)
    assert r.status == 500 and "wrote to the memory of an input" in r.error, r
    answered(served)


def test_a_library_that_throws(served):
    r = ask(served, "throws")
    assert r.status == 500 and "thrown out of execute" in r.error, r
    answered(served)


def test_a_library_that_hangs(served):
    r = ask(served, "other", "hang")
    assert r.status == 500 and "execute did not return within 500ms" in r.error, r
    answered(served, "other")


def test_a_library_that_leaks(served):
    """It has what WORKER_MEMORY_BYTES gives it, and the machine the rest."""
    r = ask(served, "leaks", "leak")
    assert r.status == 500 and "SIGABRT" in r.error, r
    assert 300 < int(re.search(r"behave: no memory after (\d+) MiB", r.error)[1]) < 512, r
    answered(served, "leaks")


def test_what_waits_survives(served):
    """Quick requests are sent ahead; those that a library has not begun when it hangs count as pending, and are served by the
    next process."""
    with ThreadPoolExecutor(64) as pool:
        for _ in range(4):
            assert {r.status for r in pool.map(lambda _: ask(served, "waits"), range(256))} == {200}
        before = served.log().count("it hangs")
        doomed = pool.submit(ask, served, "waits", "hang")
        assert until(lambda: served.log().count("it hangs") > before)
        behind = [pool.submit(ask, served, "waits", data=[k]) for k in range(48)]
        assert until(lambda: metric(served, "nv_inference_pending_request_count", model="waits", version="1") == 48)
        assert not doomed.done()
        for k, r in enumerate(behind):
            assert r.result().status == 200 and r.result().json["outputs"][0]["data"] == [k], r.result()
        assert doomed.result().status == 500 and "execute did not return within 2s" in doomed.result().error, (
            doomed.result()
        )


MISUSES = {
    "overrun": "backend 'behave' broke its contract: it wrote beyond the 60 bytes of output 'OUT0'",
    "wrong_size": "backend 'behave' broke its contract: output 'OUT0' has 8 bytes, its datatype INT32 and shape [1,100] take 400",
    "never": "backend 'behave' broke its contract: it released a request without a final response, and nothing is left to send one with",
}


@pytest.mark.parametrize("do", MISUSES)
def test_a_misuse_fails_its_request(served, do):
    r = ask(served, do=do)
    assert (r.status, r.error) == (500, MISUSES[do])
    answered(served)


MISUSES_TOLD = [
    (
        "twice",
        ["twice: backend 'behave' broke its contract: it answered a request that has had its final response"],
    ),
    ("release_twice", ["release twice: the request has been deleted, or never was one"]),
    ("after_release", ["after release: the request has been deleted, or never was one"]),
    (
        "misuse",
        [
            "null: the request has been deleted, or never was one",
            "made up: the request has been deleted, or never was one",
            "index: [request id: <id_unknown>] out of bounds index 77: request has 1 inputs",
            "name: [request id: <id_unknown>] unknown request input name NONE",
            "datatype: datatype 55 of output 'OUT0' is unknown",
            "kind: the output has been deleted, or never was one",
            "deleted: the response has been deleted, or never was one",
        ],
    ),
]


@pytest.mark.parametrize(("do", "told"), MISUSES_TOLD)
def test_a_misuse_is_an_error(served, do, told):
    """What the library did wrong is answered with an error, and what it did right is not lost."""
    r = ask(served, do=do)
    assert r.status == 200 and r.json["outputs"][0]["data"] == [1, 2, 3], r
    for line in told:  # which comes by another way than the answer
        assert until(lambda line=line: line in served.log()), served.log()[-2000:]


def test_more_than_one_response(tmp_path):
    """What a model that is not decoupled sends beyond one response goes on: who expects one is told, who takes many gets them."""
    have_host()
    backend(tmp_path / "backends", "wants", "wants.c")
    io = IO + 'output [ { name: "OUT1" data_type: TYPE_INT32 dims: [ -1 ] } ]\n'
    model(tmp_path / "models", "wants", "wants", "", io)
    with Server(tmp_path / "models", f"--backend-directory={tmp_path / 'backends'}") as s:

        def asked(do, **more):
            inputs = [{"name": "IN0", "datatype": "INT32", "shape": [1, 2], "data": [1, 2]}]
            return s.infer("wants", {"inputs": inputs, "parameters": {"do": do}, **more})

        r = asked("many 3")
        assert r.status == 500 and r.error == "expected a single response, got 3", r
        r = s.post("/v2/models/wants/generate_stream", {"IN0": [1, 2], "do": "many 3"})
        assert r.body.count(b"data: ") == 3, r
        r = asked("both", outputs=[{"name": "OUT0"}])
        assert [o["name"] for o in r.json["outputs"]] == ["OUT1", "OUT0"], r
        assert asked("many 1").status == 200
