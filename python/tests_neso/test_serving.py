"""Bound callables behind a real server, asked by every kind of client."""

from __future__ import annotations

import asyncio
import json
import pathlib
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest
from conftest import config
from program import infer, wait_until

from neso import (
    AsyncioDecoupledModelClient,
    AsyncioModelClient,
    DecoupledModelClient,
    FuturesModelClient,
    ModelClient,
    ModelConfig,
    Tensor,
    Triton,
    _running,
    batch,
)
from neso.client import (
    PyTritonClientClosedError,
    PyTritonClientInferenceServerError,
    PyTritonClientInvalidUrlError,
    PyTritonClientModelDoesntSupportBatchingError,
    PyTritonClientQueueFullError,
    PyTritonClientTimeoutError,
    PyTritonClientValueError,
)
from neso.exceptions import PyTritonInvalidOperationError, PyTritonRuntimeError, PyTritonUnrecoverableError
from neso.triton import RemoteTriton

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def tensor(name, dtype=np.float32):
    return Tensor((-1,), dtype, name)


@batch
def add_sub(a, b):
    return {"add": a + b, "sub": a - b}


def add_sub_requests(requests):
    return [{"add": r["a"] + r["b"], "sub": r["a"] - r["b"]} for r in requests]


def count(requests):
    for i in range(3):
        yield [{"y": r["x"] + i} for r in requests]


def echo(requests):
    """The parameters of each request."""
    return [{"y": np.array([[json.dumps(r.parameters).encode()]] * len(r["x"]), dtype=object)} for r in requests]


@pytest.fixture(scope="module")
def served():
    with Triton(config=config(http_header_forward_pattern="x-.*", grpc_header_forward_pattern="x-.*")) as triton:
        two = {"inputs": [tensor("a"), tensor("b")], "outputs": [tensor("add"), tensor("sub")]}
        triton.bind("batch", add_sub, **two, config=ModelConfig(max_batch_size=16))
        triton.bind("requests", add_sub_requests, **two, config=ModelConfig(max_batch_size=16))
        triton.bind("single", add_sub_requests, **two, config=ModelConfig(batching=False))
        triton.bind("count", count, [tensor("x")], [tensor("y")], config=ModelConfig(decoupled=True))
        triton.bind("echo", echo, [tensor("x")], [tensor("y", bytes)])
        yield triton


@pytest.fixture(params=["http", "grpc"])
def url(request, served):
    return served.url if request.param == "http" else served.grpc_url


@pytest.mark.parametrize("model", ["batch", "requests"])
def test_sample_and_batch(url, model):
    with ModelClient(url, model) as client:
        assert client.infer_sample(X[0], X[1])["sub"].tolist() == (X[0] - X[1]).tolist()
        assert client.infer_batch(a=X, b=X, priority=0, timeout=10_000_000)["add"].tolist() == (2 * X).tolist()
        assert client.is_batching_supported


def test_a_model_without_batches(url):
    with ModelClient(url, "single") as client:
        assert client.infer_sample(X[0], X[0])["add"].tolist() == (2 * X[0]).tolist()
        with pytest.raises(PyTritonClientModelDoesntSupportBatchingError, match="doesn't support batching"):
            client.infer_batch(X, X)


def test_parameters_and_headers(url):
    with ModelClient(url, "echo") as client:
        answer = client.infer_sample(X[0], parameters={"p": 1, "t": True}, headers={"x-h": "v", "other": "w"})
        assert json.loads(answer["y"][0]) == {"p": 1, "t": True, "x-h": "v"}


def test_clients_check_their_arguments(served):
    with ModelClient(served.url, "batch") as client:
        for call, text in (
            (lambda: client.infer_sample(), "Provide input data"),
            (lambda: client.infer_sample(X[0], b=X[0]), "Use either positional"),
            (lambda: client.infer_sample(X[0], X[0], parameters=3), "must be a dictionary"),
            (lambda: client.infer_sample(X[0], X[0], headers={3: "a"}), "key must be a string"),
            (lambda: client.infer_sample(X[0], X[0], parameters={"a": 1.5}), "string, integer or boolean"),
            (lambda: client.infer_sample(X[0], X[0], priority=-1), "priority must be a number"),
        ):
            with pytest.raises(PyTritonClientValueError, match=text):
                call()
        with pytest.raises(RuntimeError, match="Unicode inputs are not supported"):
            client.infer_sample(np.array(["a"]), X[0])
    with pytest.raises(PyTritonClientClosedError, match="ModelClient is closed"):
        client.infer_sample(X[0], X[0])
    for wrong in ("ftp://localhost", "http://localhost:port", "http:///x"):
        with pytest.raises(PyTritonClientInvalidUrlError, match="Invalid url"):
            ModelClient(wrong, "m")


def test_a_server_that_is_not_there():
    with pytest.raises(PyTritonClientTimeoutError, match="to be ready timed out"):
        ModelClient("http://127.0.0.1:1", "m", lazy_init=False, init_timeout_s=0.2)


def test_a_client_of_a_client_keeps_the_scheme(served):
    with ModelClient(served.grpc_url, "batch", access_token="t") as first:
        first.infer_sample(X[0], X[0])
        with ModelClient.from_existing_client(first) as second:
            assert second.infer_sample(X[0], X[0])["add"].tolist() == (2 * X[0]).tolist()


def test_one_client_on_many_threads(url):
    with ModelClient(url, "batch") as client:
        wrong = []

        def ask(value):
            for _ in range(20):
                got = client.infer_sample(X[0] * value, X[0])["add"]
                if got.tolist() != (X[0] * value + X[0]).tolist():
                    wrong.append(got)

        threads = [threading.Thread(target=ask, args=(v,)) for v in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong


def test_futures(url):
    with FuturesModelClient(url, "batch", max_workers=4) as client:
        futures = [client.infer_sample(X[0] * i, X[0]) for i in range(10)]
        assert [f.result()["add"][1] for f in futures] == [i + 1 for i in range(10)]
        assert client.model_config().result().model_name == "batch"
    with pytest.raises(PyTritonClientClosedError):
        client.infer_sample(X[0], X[0])
    with pytest.raises(ValueError, match="max_workers"):
        FuturesModelClient(url, "batch", max_workers=0)


def test_a_full_queue_of_futures(served):
    hold, running = threading.Event(), threading.Event()
    with FuturesModelClient(served.url, "batch", max_workers=1, max_queue_size=1, non_blocking=True) as client:
        first = client._submit(lambda: (running.set(), hold.wait()), (), {})
        running.wait()
        client.infer_sample(X[0], X[0])
        with pytest.raises(PyTritonClientQueueFullError, match="Queue is full"):
            client.infer_sample(X[0], X[0])
        hold.set()
        first.result()


def test_asyncio(url):
    async def ask():
        async with AsyncioModelClient(url, "batch", lazy_init=False) as client:
            return await asyncio.gather(*[client.infer_sample(X[0] * i, X[0]) for i in range(4)])

    assert [a["add"][1] for a in asyncio.run(ask())] == [1, 2, 3, 4]


def test_streams(served):
    with DecoupledModelClient(served.grpc_url, "count") as client:
        assert [a["y"].tolist() for a in client.infer_sample(X[0])] == [(X[0] + i).tolist() for i in range(3)]
        answers = client.infer_batch(X)
        next(answers)
        with pytest.raises(PyTritonClientInferenceServerError, match="already in progress"):
            client.infer_batch(X)
        answers.close()  # what still comes must not reach the next request
        assert [a["y"].tolist() for a in client.infer_batch(10 * X)] == [(10 * X + i).tolist() for i in range(3)]
    with pytest.raises(
        PyTritonClientValueError, match="only supported for grpc protocol: write the URL as grpc://host:port"
    ):
        DecoupledModelClient(served.url, "count")
    with (
        ModelClient(served.url, "count") as wrong,
        pytest.raises(PyTritonClientInferenceServerError, match="decoupled"),
    ):
        wrong.infer_sample(X[0])


def test_a_batch_generator_streams(triton):
    @batch
    def steps(x):
        for i in range(3):
            yield {"y": x + i}

    triton.bind("steps", steps, [tensor("x")], [tensor("y")], config=ModelConfig(decoupled=True), strict=True)
    with DecoupledModelClient(triton.grpc_url, "steps") as client:
        assert [a["y"].tolist() for a in client.infer_batch(X)] == [(X + i).tolist() for i in range(3)]


def test_asyncio_streams(served):
    async def ask():
        async with AsyncioDecoupledModelClient(served.grpc_url, "count") as client:
            return [a["y"].tolist() async for a in client.infer_sample(X[0])]

    assert asyncio.run(ask()) == [(X[0] + i).tolist() for i in range(3)]


def test_without_a_port(served):
    client = served.client("batch")
    assert client.infer_sample(X[0], X[1])["sub"].tolist() == (X[0] - X[1]).tolist()
    assert client.infer_batch(X, X)["add"].tolist() == (2 * X).tolist()
    assert len(list(served.client("count").infer_sample(X[0]))) == 3
    with pytest.raises(PyTritonClientInferenceServerError):
        client.infer_sample(X[0], X[0].astype(np.int32))


def test_errors_reach_the_client_without_the_traceback(triton):
    def fail(requests):
        raise ValueError("bad thing 42")

    triton.bind("fail", fail, [tensor("x")], [tensor("y")])
    with ModelClient(triton.url, "fail") as client:
        with pytest.raises(PyTritonClientInferenceServerError, match="ValueError: bad thing 42") as caught:
            client.infer_sample(X[0])
        assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda x: {"y": x.astype(np.float64)}, "invalid type. Returned: float64"),
        (lambda x: {"y": x[..., None]}, "invalid shapes"),
        (lambda x: {"y": x[:1]}, "1 rows for a batch of 2"),
        (lambda x: {}, "Output `y` is missing"),
        (lambda x: {"y": x, "z": x}, "`z` is not defined"),
        (lambda x: None, "response=None"),
        (lambda x: {"y": x.tolist()}, "numpy arrays"),
    ],
)
def test_strict(triton, answer, text):
    triton.bind(
        "strict", lambda rs: [answer(r["x"]) for r in rs], [tensor("x")], [tensor("y")], strict=True, replace=True
    )
    with ModelClient(triton.url, "strict") as client, pytest.raises(PyTritonClientInferenceServerError, match=text):
        client.infer_batch(X)


def test_models_come_and_go(triton):
    triton.bind("come", lambda rs: [{"y": r["x"] + 1} for r in rs], [tensor("x")], [tensor("y")])
    with ModelClient(triton.url, "come") as client:
        assert client.infer_sample(X[0])["y"][0] == 1
        triton.bind("come", lambda rs: [{"y": r["x"] + 2} for r in rs], [tensor("x")], [tensor("y")], replace=True)
        assert client.infer_sample(X[0])["y"][0] == 2
        triton.unbind("come")
        with pytest.raises(PyTritonClientInferenceServerError):
            client.infer_sample(X[0])


def test_rollout(triton):
    """Versions of a callable have labels and shares, by a call; a guest changes them too."""

    def version(number):
        @batch
        def f(x):
            return {"y": 0 * x + number}

        return f

    def answered(path="m"):
        return int(infer(triton.url, path))

    x, y = [Tensor((-1,), np.float32, "x")], [Tensor((-1,), np.float32, "y")]
    for number in (1, 2):
        triton.bind("m", version(number), x, y, model_version=number)
    said = triton.rollout("m", {"labels": {"stable": 1, "canary": 2}, "weights": {"stable": 1}})
    assert said["rules"]["labels"] == {"stable": 1, "canary": 2} and said["primary"] == "1", said
    assert [answered(p) for p in ("m", "m/versions/canary", "m/versions/stable")] == [1, 2, 1]
    with RemoteTriton(triton.url, access_token=triton.get_access_token()) as guest:
        assert guest.rollout("m", "weights: {canary: 1}")["primary"] == "2"
    assert answered() == 2 and triton.rollout("m")["versions"][1]["share"] == 1
    for model, change, text in (
        ("m", {"labels": {"a": 9}}, "version 9 is not loaded"),
        ("m", "{", "the request: "),
        ("nobody", None, "'nobody' is not found"),
    ):
        with pytest.raises(PyTritonRuntimeError, match=text):
            triton.rollout(model, change)
    triton.unbind("m", 2)
    assert answered() == 1, "the rules do not hold without the version: the latest one answers"
    with pytest.raises(PyTritonInvalidOperationError, match="not running"):
        Triton(config=config()).rollout("m")


def test_inputs_belong_to_the_callable(triton):
    kept = []

    @batch
    def keep(x):
        x += 1
        kept.append(x)
        return {"y": x}

    triton.bind("keep", keep, [tensor("x")], [tensor("y")])
    with ModelClient(triton.url, "keep") as client:
        for rows in (1, 2):
            big = np.full((rows, 50_000), rows, np.float32)
            assert client.infer_batch(big)["y"][0, 0] == rows + 1
    assert [k[0, 0] for k in kept] == [2, 3]


def test_restricted_parts_need_the_token(triton):
    place = f"{triton.url}/v2/models/stats"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(place)
    token = triton.get_access_token()
    assert urllib.request.urlopen(urllib.request.Request(place, headers={"triton-access-token": token})).status == 200


def test_restricted_calls_need_the_token(triton):
    import tritonclient.grpc as grpc

    from neso.client.auth import create_auth_headers

    client = grpc.InferenceServerClient(triton.grpc_url.split("//")[1])
    with pytest.raises(grpc.InferenceServerException, match="restricted, expecting header"):
        client.get_inference_statistics()
    client.get_inference_statistics(headers=create_auth_headers(triton.get_access_token(), "grpc"))
    assert client.is_server_live()
    client.close()


def test_start_stop_and_start_again():
    triton = Triton(config=config())
    triton.bind("m", lambda rs: [{"y": r["x"]} for r in rs], [tensor("x")], [tensor("y")])
    assert not triton.stop()
    for _ in range(2):
        triton.run()
        assert triton.is_alive()
        assert triton.is_connected()
        with ModelClient(triton.url, "m") as client:
            client.infer_sample(X[0])
        assert triton.stop()
        assert not triton.is_alive()
        assert not triton.stop()


def test_a_taken_port_is_an_error(triton):
    with pytest.raises(PyTritonRuntimeError, match="did not start"):
        Triton(config=config(http_port=triton.http_port)).run()


def test_a_port_of_another_triton_of_the_process(triton):
    """A script's server is never stopped for another one, held or not."""
    with pytest.raises(PyTritonRuntimeError, match=r"another Triton of this process, at http://.*stop\(\) ends"):
        Triton(config=config(grpc_port=triton.grpc_port)).run()
    assert triton in Triton.running()
    with Triton(config=config()) as other:
        assert other in Triton.running()
    assert other not in Triton.running()


def test_what_still_refers_to_a_triton():
    """A server makes room for another one only when nothing of the user's refers to its object."""
    listed, value, key = [Triton(config=config())], {"a": Triton(config=config())}, {Triton(config=config()): "a"}
    # Not within the assertion: pytest keeps what that is made of.
    left = [_running.is_left(listed[0]), _running.is_left(value["a"]), _running.is_left(next(iter(key)))]
    assert left == [False, False, False]
    left = _running.is_left(Triton(config=config()))
    assert left


def test_an_unrecoverable_error_stops_the_server():
    def fail(requests):
        raise PyTritonUnrecoverableError("over")

    triton = Triton(config=config())
    triton.bind("m", fail, [tensor("x")], [tensor("y")])
    serving = threading.Thread(target=triton.serve)
    serving.start()
    wait_until(triton.is_connected)  # once it is stopped, serve would start it again
    with ModelClient(triton.url, "m") as client, pytest.raises(PyTritonClientInferenceServerError, match="over"):
        client.infer_sample(X[0])
    serving.join(60)
    assert not serving.is_alive()
    assert not triton.is_alive()


def test_another_process_binds(triton):
    with RemoteTriton(triton.url, access_token=triton.get_access_token()) as remote:
        remote.bind("remote", lambda rs: [{"y": r["x"] * 2} for r in rs], [tensor("x")], [tensor("y")])
        with ModelClient(triton.url, "remote") as client:
            assert client.infer_sample(X[0])["y"].tolist() == (2 * X[0]).tolist()
    with pytest.raises(PyTritonRuntimeError, match=r"restricted|Forbidden"):
        RemoteTriton(triton.url).connect()


SCRIPT = """
import sys
import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import Tensor
from pytriton.triton import Triton, TritonConfig

@batch
def double(x):
    return {"y": 2 * x}

ends = {"http_address": "127.0.0.1", "grpc_address": "127.0.0.1", "http_port": 0, "grpc_port": 0, "metrics_port": 0}
triton = Triton(config=TritonConfig(**ends))
triton.bind("double", double, [Tensor((-1,), np.float32, "x")], [Tensor((-1,), np.float32, "y")])
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_script_with_bindings_is_served_until_a_signal(tmp_path, name):
    import signal

    script = pathlib.Path(tmp_path / "script.py")
    script.write_text(SCRIPT)
    process = subprocess.Popen([sys.executable, "-m", "neso", str(script)], stderr=subprocess.PIPE, text=True)
    try:
        lines = iter(process.stderr.readline, "")
        curl = next(line for line in lines if "curl" in line)
        assert "/v2/models/double/infer" in curl
        url = curl.split()[2]
        body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [4]}]}).encode()
        assert json.load(urllib.request.urlopen(url, body))["outputs"][0]["data"] == [8.0]
        process.send_signal(getattr(signal, name))
        threading.Thread(target=process.stderr.read, daemon=True).start()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def test_response_cache():
    calls = []

    @batch
    def double(x):
        calls.append(len(x))
        return {"y": 2 * x}

    with Triton(config=config(cache_config=["local,size=1048576"])) as triton:
        cached = ModelConfig(max_batch_size=16, response_cache=True)
        triton.bind("double", double, [tensor("x")], [tensor("y")], config=cached)
        triton.run()
        for protocol in ("http", "grpc"):
            with ModelClient(triton.url if protocol == "http" else triton.grpc_url, "double") as client:
                for _ in range(3):
                    np.testing.assert_array_equal(client.infer_batch(X)["y"], 2 * X)
        assert calls == [2]


def test_a_function_of_a_decoupled_model_gives_one_response(triton):
    def plain(requests):
        return [{"y": r["x"] * 2} for r in requests]

    async def later(requests):
        return [{"y": r["x"] * 2} for r in requests]

    for name, function in (("plain", plain), ("later", later)):
        triton.bind(f"one-{name}", function, [tensor("x")], [tensor("y")], config=ModelConfig(decoupled=True))
        with DecoupledModelClient(triton.grpc_url, f"one-{name}") as client:
            assert [a["y"].tolist() for a in client.infer_batch(X)] == [(2 * X).tolist()]
        assert [a["y"].tolist() for a in triton.client(f"one-{name}").infer_batch(X)] == [(2 * X).tolist()]


def test_an_error_that_cannot_be_told(triton):
    class MuteError(Exception):
        def __str__(self):
            raise RuntimeError("nothing to say")

    def fail(requests):
        raise MuteError

    triton.bind("mute", fail, [tensor("x")], [tensor("y")])
    with ModelClient(triton.url, "mute") as client:
        with pytest.raises(PyTritonClientInferenceServerError, match="message: MuteError: <exception str"):
            client.infer_sample(X[0])


def test_objects_that_begin_with_bytes(triton):
    def mixed(requests):
        return [{"y": np.array([[b"a", "b", 3]], dtype=object)} for r in requests]

    triton.bind("mixed", mixed, [tensor("x")], [tensor("y", bytes)])
    with ModelClient(triton.url, "mixed") as client:
        assert client.infer_batch(X[:1])["y"].tolist() == [[b"a", b"b", b"3"]]


@pytest.mark.skipif(
    not hasattr(np, "dtypes") or not hasattr(np.dtypes, "StringDType"), reason="numpy 1 has no StringDType"
)
@pytest.mark.parametrize("strict", [False, True])
def test_strings_of_numpy_2(triton, strict):
    texts = np.array([["a", "ż☃", ""]], dtype=np.dtypes.StringDType())
    triton.bind("strings", lambda rs: [{"y": texts}], [tensor("x")], [tensor("y", bytes)], strict=strict, replace=True)
    with ModelClient(triton.url, "strings") as client:
        assert client.infer_batch(X[:1])["y"].tolist() == [[b"a", "ż☃".encode(), b""]]
        with pytest.raises(RuntimeError, match="Unicode inputs are not supported"):
            client.infer_batch(texts)
