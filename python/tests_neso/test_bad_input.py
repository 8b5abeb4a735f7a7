"""Callables that do what they should not, and ports that are taken: clear errors, and the other models go on."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import socket
import sys
import threading
import urllib.error

import numpy as np
import pytest
from conftest import config
from program import Program, alive, infer, ready, wait_until

from neso import DecoupledModelClient, ModelClient, ModelConfig, Tensor, Triton, batch, sample
from neso.client import PyTritonClientInferenceServerError, PyTritonClientTimeoutError
from neso.exceptions import PyTritonRuntimeError

X = [Tensor((-1,), np.float32, "x")]
Y = [Tensor((-1,), np.float32, "y")]
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def beside(triton):
    """A server with a model that must go on."""
    triton.bind("other", lambda requests: [{"y": 2 * r["x"]} for r in requests], X, Y)
    return triton


def refused(url, model, text):
    """Asks once and expects an error that says so."""
    with ModelClient(url, model) as client, pytest.raises(PyTritonClientInferenceServerError, match=text):
        client.infer_sample(ROWS[0])


def ragged(x):
    return np.array([np.zeros(2), np.zeros(3)], dtype=object)


class Strange:
    """Nothing that an answer may be."""


# What a callable gives for one request, and what the client is told. ``each`` answers request by request.
ANSWERS = [
    (lambda rs: None, "must be list of response dicts"),
    (lambda rs: 7, "must be list of response dicts"),
    (lambda rs: "a text", "Got outputs=a text instead"),
    (lambda rs: {"y": rs[0]["x"]}, r"(?s)must be list of response dicts.*@batch"),
    (lambda rs: [], r"\(0\) does not match number of requests \(1\)"),
    (lambda rs: [{"y": rs[0]["x"]}] * 3, r"\(3\) does not match number of requests \(1\)"),
    (lambda rs: [None], "Got response=None instead"),
    (lambda rs: [rs[0]["x"][:1]], r"Got response=\[\[?[0-9.]"),
    (lambda rs: [{7: rs[0]["x"]}], "Not all keys .* are string"),
    (lambda rs: [{"y": rs[0]["x"].tolist()}], "are numpy arrays"),
    (lambda rs: [{"y": ragged(rs[0]["x"])}], "Only bytes as objects dtype are supported"),
    (lambda rs: [{"y": np.array([[Strange()]])}], "Only bytes as objects dtype are supported"),
    (lambda rs: [{"y": np.array([["text"]], dtype=object)}], "Use string/byte-string instead of object"),
    (lambda rs: [{"y": rs[0]["x"].astype(complex)}], "Only bool, numeric, string, unicode and object arrays"),
    (lambda rs: [{"y": np.array([[b"text"]])}], "cannot be converted|invalid type"),
    (lambda rs: 1 // 0, "ZeroDivisionError"),
    (lambda rs: sys.exit(3), "SystemExit: 3"),
    (lambda rs: iter(()).__next__(), "StopIteration"),
    (lambda rs: (_ for _ in ()), r"yields none: bind it with config=ModelConfig\(decoupled=True\)"),
    (lambda rs: ([{"y": r["x"]} for r in rs] for _ in "ab"), r"yields more: bind it with config=ModelConfig\(dec"),
]


@pytest.mark.parametrize("strict", [False, True], ids=["loose", "strict"])
@pytest.mark.parametrize(("answer", "text"), ANSWERS)
def test_wrong_answers(beside, answer, text, strict):
    beside.bind("wrong", answer, X, Y, strict=strict, replace=True)
    with ModelClient(beside.url, "wrong") as client, pytest.raises(PyTritonClientInferenceServerError, match=text):
        client.infer_batch(ROWS)
    assert ready(beside.url, "wrong")
    assert infer(beside.url, "other") == 6.0


# The same under @batch, where the server splits what comes back.
BATCH_ANSWERS = [
    (lambda x: None, "Unsupported output type"),
    (lambda x: x, "Unsupported output type"),
    (lambda x: [], "Outputs length different"),
    (lambda x: [x, x], "Outputs length different"),
    (lambda x: {"y": None}, "are numpy arrays"),
    (lambda x: {"y": x[:1]}, "different batch sizes"),
    (lambda x: {"y": np.float32(1)}, "are numpy arrays"),
    (lambda x: {"y": np.array(1.0)}, "different batch sizes|batch"),
    (lambda x: {"y": ragged(x)}, "Only bytes as objects dtype are supported"),
    (lambda x: {"y": np.array(["a", "b"])}, "cannot be converted"),
    (lambda x: [].pop(), "IndexError: pop from empty list"),
    (lambda x: sys.exit("enough"), "SystemExit: enough"),
]


@pytest.mark.parametrize(("answer", "text"), BATCH_ANSWERS)
def test_wrong_batches(beside, answer, text):
    beside.bind("wrong", batch(answer), X, Y, replace=True)
    with ModelClient(beside.url, "wrong") as client, pytest.raises(PyTritonClientInferenceServerError, match=text):
        client.infer_batch(ROWS)
    assert infer(beside.url, "other") == 6.0


def test_a_stream_that_fails_has_given_what_came_before(beside):
    def stream(requests):
        yield [{"y": r["x"]} for r in requests]
        raise ValueError("no more")

    beside.bind("stream", stream, X, Y, config=ModelConfig(decoupled=True))
    with DecoupledModelClient(beside.grpc_url, "stream") as client:
        answers = client.infer_batch(ROWS)
        assert next(answers)["y"].tolist() == ROWS.tolist()
        with pytest.raises(PyTritonClientInferenceServerError, match="ValueError: no more"):
            next(answers)
    assert infer(beside.url, "other") == 6.0


@pytest.mark.parametrize(
    "call",
    [
        functools.partial(lambda factor, requests: [{"y": factor * r["x"]} for r in requests], 2),
        batch(lambda x: [2 * x]),
        [lambda requests: [{"y": 2 * r["x"]} for r in requests]] * 2,
    ],
    ids=["partial", "batch", "list"],
)
def test_forms_of_callables(beside, call):
    beside.bind("form", call, X, Y, replace=True)
    assert infer(beside.url, "form") == 6.0


def test_objects_methods_and_coroutines(beside):
    class Model:
        def __call__(self, requests):
            return [{"y": 2 * r["x"]} for r in requests]

        def method(self, requests):
            return self(requests)

        @batch
        def rows(self, x):
            return {"y": 2 * x}

        async def later(self, requests):
            return self(requests)

        def once(self, requests):
            yield self(requests)

        async def once_later(self, requests):
            yield self(requests)

        @staticmethod
        def static(requests):
            return [{"y": 2 * r["x"]} for r in requests]

    model = Model()
    for form in (model, model.method, model.rows, model.later, model.once, model.once_later, Model.static):
        beside.bind("form", form, X, Y, replace=True)
        assert infer(beside.url, "form") == 6.0

    @sample
    def one(x):
        return {"y": 2 * x}

    beside.bind("single", one, X, Y, config=ModelConfig(batching=False))
    with ModelClient(beside.grpc_url, "single") as client:
        assert client.infer_sample(ROWS[0])["y"].tolist() == (2 * ROWS[0]).tolist()


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"x": ROWS.astype(np.int64)}, "INT64"),
        ({"x": ROWS.reshape(2, 3, 1)}, "shape"),
        ({"z": ROWS}, "unexpected inference input 'z'|but got|expected"),
        ({"x": np.zeros((99, 3), np.float32)}, "batch"),
        ({"x": ROWS, "z": ROWS}, "z|inputs"),
    ],
)
def test_clients_hear_what_is_wrong_with_their_inputs(beside, arrays, text):
    for url in (beside.url, beside.grpc_url):
        with ModelClient(url, "other") as client, pytest.raises(PyTritonClientInferenceServerError, match=text):
            client.infer_batch(**arrays)


def test_a_mistyped_output_is_said_once(beside, caplog):
    beside.bind("mistyped", batch(lambda x: {"z": x}), X, Y)
    with ModelClient(beside.url, "mistyped") as client:
        assert client.infer_batch(ROWS) == {} == client.infer_batch(ROWS)
    beside.unbind("mistyped")
    said = [r.getMessage() for r in caplog.records if "mistyped" in r.getMessage()]
    assert len(said) == 1 and "returns `z`, which is none of its outputs (`y`)" in said[0]


@pytest.mark.parametrize("form", ["requests", "batch"])
@pytest.mark.parametrize(
    ("answer", "text", "got"),
    [
        (lambda x: {}, "does not return `y`", {}),
        (lambda x: {"y": x[:, :2]}, r"returns `y` with the shape (2, 2), not (-1, 3)", {"y": (2, 2)}),
        (lambda x: {"y": x[..., None]}, r"returns `y` with the shape (2, 3, 1), not (-1, 3)", {"y": (2, 3, 1)}),
    ],
    ids=["missing", "size", "rank"],
)
def test_what_pytriton_lets_pass_is_said_once(beside, caplog, answer, text, got, form):
    """Without strict: scripts may rely on it."""
    function = batch(answer) if form == "batch" else lambda requests: [answer(**r) for r in requests]
    beside.bind("let_pass", function, X, [Tensor((3,), np.float32, "y")])
    try:
        with ModelClient(beside.url, "let_pass") as client:
            for _ in range(2):
                assert {name: value.shape for name, value in client.infer_batch(ROWS).items()} == got
    finally:
        beside.unbind("let_pass")
    (said,) = [r.getMessage() for r in caplog.records if "The callable of model `let_pass`" in r.getMessage()]
    assert text in said and "strict=True" in said


@pytest.mark.parametrize("form", ["requests", "batch"])
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda x: {}, "Output `y` is missing"),
        (lambda x: {"y": x[:, :2]}, r"invalid shapes at one or more positions. Returned: \(2,\). Expected: \(3,\)"),
        (lambda x: {"y": x[..., None]}, r"invalid shapes. Returned: \(3, 1\). Expected: \(3,\)"),
        (lambda x: {"y": x[:1]}, "rows for a batch of|different batch sizes"),
        (
            lambda x: {"y": x.astype(np.float64)},
            r"invalid type. Returned: float64 \(f\). Expected: <class",
        ),
        (lambda x: {"y": x, "z": x}, "Returned output `z` is not defined"),
    ],
    ids=["missing", "size", "rank", "rows", "dtype", "unknown"],
)
def test_strict_lets_nothing_pass(beside, answer, text, form):
    function = batch(answer) if form == "batch" else lambda requests: [answer(**r) for r in requests]
    beside.bind("strict", function, X, [Tensor((3,), np.float32, "y")], strict=True)
    try:
        with ModelClient(beside.url, "strict") as client:
            with pytest.raises(PyTritonClientInferenceServerError, match=text):
                client.infer_batch(ROWS)
    finally:
        beside.unbind("strict")


def test_empty_arrays_are_arrays(beside):
    with ModelClient(beside.url, "other") as client:
        assert client.infer_sample(np.zeros(0, np.float32))["y"].shape == (0,)


def test_models_without_inputs_and_outputs_are_served(beside):
    """As PyTriton does: ready, though nothing can be asked of them."""
    beside.bind("empty", lambda requests: [{} for _ in requests], [], [])
    assert ready(beside.url, "empty")
    assert infer(beside.url, "other") == 6.0
    beside.unbind("empty")


def test_a_callable_that_never_comes_back(caplog):
    """Its clients are released, readiness shows it, the others go on, and the server still stops."""
    hold = threading.Event()

    def stuck(requests):
        hold.wait()
        return [{"y": r["x"]} for r in requests]

    def answers(model):
        """None where it is late, as on a machine that stands still for a while."""
        with contextlib.suppress(urllib.error.HTTPError):
            return infer(triton.url, model)

    with Triton(config=config(inference_timeout_s=0.3, exit_timeout_secs=1)) as triton:
        triton.bind("stuck", stuck, X, Y)
        triton.bind("other", lambda requests: [{"y": 2 * r["x"]} for r in requests], X, Y)
        assert ready(triton.url, "stuck")
        refused(triton.url, "stuck", r"time|0\.3 s")
        assert not ready(triton.url, "stuck")
        wait_until(lambda: answers("other") == 6.0)
        assert triton.is_alive()
        hold.set()  # it comes back after all
        wait_until(lambda: ready(triton.url, "stuck"))
        wait_until(lambda: answers("stuck") == 3.0)
        hold.clear()
        refused(triton.url, "stuck", r"time|0\.3 s")
        assert triton.stop()
    assert re.search(rf"Left behind, .*: the callable of `stuck`, at {re.escape(__file__)}:\d+ in stuck", caplog.text)
    hold.set()


def test_a_program_with_a_stuck_callable_ends():
    text = """
        triton = Triton(config=config(inference_timeout_s=0.2, exit_timeout_secs=1))
        triton.bind("stuck", lambda requests: threading.Event().wait(), X, Y)
        triton.run()
        try:
            ModelClient(triton.url, "stuck").infer_sample(np.ones(1, np.float32))
        except Exception as error:
            say(triton, error=str(error))
        """
    with Program(text) as program:
        assert "stuck" in program.told["error"] or "time" in program.told["error"]
        assert program.end()[0] == 0
        wait_until(lambda: not alive(program.pids[0]))


def test_a_callable_that_ends_its_process_takes_only_its_own_models_along(beside):
    """The process of another program, joined to this server."""
    text = f"""
        remote = RemoteTriton({beside.url!r}, access_token={beside.get_access_token()!r})
        remote.bind("abrupt", lambda requests: os._exit(7), X, Y)
        remote.bind("along", double, X, Y)
        remote.connect()
        print(json.dumps({{"urls": [remote.url], "pids": []}}), flush=True)
        time.sleep(600)
        """
    with Program(text) as program:
        assert infer(beside.url, "along") == 6.0
        refused(beside.url, "abrupt", "ended")
        assert program.end()[0] == 7
    wait_until(lambda: not ready(beside.url, "along"))
    assert infer(beside.url, "other") == 6.0


def test_a_callable_that_ends_its_own_servers_process():
    text = """
        triton = Triton(config=config())
        triton.bind("m", lambda requests: os._exit(7), X, Y)
        triton.run()
        say(triton)
        time.sleep(600)
        """
    with Program(text) as program:
        refused(program.urls[0], "m", "ended|gone|closed")
        assert program.end()[0] == 7
        wait_until(lambda: not alive(program.pids[0]))


def test_a_callable_that_kills_the_server():
    killed = []
    triton = Triton(config=config())
    triton.bind("m", lambda requests: os.kill(killed[0], signal.SIGKILL), X, Y)
    triton.run()
    killed.append(triton._server.pid)
    with (
        ModelClient(triton.url, "m") as client,
        pytest.raises(PyTritonClientTimeoutError, match=r"closed|reset|refused"),
    ):
        client.infer_sample(ROWS[0])
    wait_until(lambda: not triton.is_alive())
    assert triton.stop()


@pytest.mark.parametrize("end", ["http", "grpc", "metrics"])
def test_taken_ports(end):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        triton = Triton(config=config(**{f"{end}_port": port}))
        triton.bind("m", lambda requests: [], X, Y)
        with pytest.raises(PyTritonRuntimeError, match=rf"(?s)did not start.*:{port}.*in use"):
            triton.run()
        assert not triton.is_alive()
        assert not triton.is_connected()
        assert not triton.stop()


def test_ports_that_are_none():
    with pytest.raises(PyTritonRuntimeError, match="did not start"):
        Triton(config=config(http_port=70000)).run()
    with pytest.raises(PyTritonRuntimeError, match="did not start"):
        Triton(config=config(log_file="/no/such/folder/log")).run()


def test_errors_show_the_traceback_where_asked():
    def fail(requests):
        raise ValueError("inside")

    with Triton(config=config(expose_tracebacks=True)) as triton:
        triton.bind("m", fail, X, Y)
        with (
            ModelClient(triton.url, "m") as client,
            pytest.raises(PyTritonClientInferenceServerError, match=r"(?s)Traceback.*in fail.*ValueError: inside"),
        ):
            client.infer_sample(ROWS[0])


def test_the_log_has_the_traceback(beside, caplog):
    def fail(requests):
        raise ValueError("only in the log")

    beside.bind("fail", fail, X, Y)
    with ModelClient(beside.url, "fail") as client, pytest.raises(PyTritonClientInferenceServerError) as caught:
        client.infer_sample(ROWS[0])
    assert "only in the log" in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert any(r.exc_info and "only in the log" in str(r.exc_info[1]) for r in caplog.records)


def test_a_traceback_is_shown_once(capfd, caplog):
    def fail(requests):
        raise ValueError("shown once")

    with Triton(config=config()) as triton:
        triton.bind("list", fail, X, Y)
        triton.bind("batch", batch(fail_rows), X, Y)
        triton.run()
        for name in ("list", "batch"):
            with pytest.raises(PyTritonClientInferenceServerError, match="shown once"):
                triton.client(name).infer_sample(ROWS[0])
    told = [r.getMessage() for r in caplog.records if r.exc_info]
    for name in ("list", "batch"):
        assert sum(f"model `{name}`" in message for message in told) == 1, told
    # The server that other tests share writes to the same place, and may do so after its answer.
    written = capfd.readouterr().err.splitlines()
    for name in ("list", "batch"):
        lines = [line for line in written if "failed to execute" in line and f" instance={name}_0_0 " in line]
        assert len(lines) == 1, written
        assert "shown once" in lines[0] and "raceback" not in lines[0]


def fail_rows(x):
    raise ValueError("shown once")


def test_parameters_are_what_they_were(beside):
    def echo(requests):
        return [{"y": np.array([[json.dumps(r.parameters).encode()]], dtype=object)} for r in requests]

    beside.bind("echo", echo, X, [Tensor((1,), bytes, "y")])
    given = {"text": 'a"b\\c ☃', "number": -5, "big": 2**40, "yes": True, "no": False, "nothing": ""}
    for url in (beside.url, beside.grpc_url):
        with ModelClient(url, "echo") as client:
            assert json.loads(client.infer_sample(ROWS[0], parameters=given)["y"][0]) == given
