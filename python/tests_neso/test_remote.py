"""RemoteTriton: callables of one process behind the server of another, joined over either front end."""

from __future__ import annotations

import asyncio
import re
import threading
import urllib.error

import numpy as np
import pytest
from conftest import config
from program import Program, alive, infer, ready, reserved, wait_until

from neso import ModelClient, RemoteTriton, Tensor, Triton, batch
from neso._remote import connect as join
from neso.client import PyTritonClientInvalidUrlError
from neso.exceptions import PyTritonInvalidOperationError, PyTritonRuntimeError
from neso.triton import TritonSecurityConfig

X = [Tensor((-1,), np.float32, "x")]
Y = [Tensor((-1,), np.float32, "y")]


@batch
def triple(x):
    return {"y": 3 * x}


@pytest.fixture(params=["http", "grpc"])
def url(request, triton):
    return triton.url if request.param == "http" else triton.grpc_url


def test_binding_before_and_after_joining(triton, url):
    remote = RemoteTriton(url, access_token=triton.get_access_token())
    assert not remote.is_connected()
    assert remote.is_alive()  # nothing is bound: as scripts for PyTriton expect
    remote.bind("early", triple, X, Y)
    assert not remote.is_alive()
    with remote:
        remote.bind("late", triple, X, Y)
        assert remote.is_connected()
        assert remote.is_alive()
        assert [infer(triton.url, name) for name in ("early", "late")] == [9.0, 9.0]
        with ModelClient(url, "early", access_token=triton.get_access_token()) as client:
            assert client.infer_batch(np.ones((2, 2), np.float32))["y"].tolist() == [[3.0] * 2] * 2
        assert remote.client("late").infer_sample(np.ones(1, np.float32))["y"].tolist() == [3.0]
        remote.unbind("late")
        assert not ready(triton.url, "late")
    assert not ready(triton.url, "early")
    assert triton.is_alive()
    with remote:  # and again
        assert infer(triton.url, "early") == 9.0


def test_without_the_token(triton, url):
    with pytest.raises(PyTritonRuntimeError, match=r"restricted.*access_token="):
        RemoteTriton(url).connect()
    with pytest.raises(PyTritonRuntimeError, match=r"restricted.*access_token="):
        RemoteTriton(url, access_token="wrong").connect()


@pytest.mark.parametrize("end", ["http", "grpc"])
def test_a_server_without_restrictions_or_with_one_front_end(end):
    other = {"http": "grpc", "grpc": "http"}[end]
    security = TritonSecurityConfig(restricted_endpoints=[])
    with Triton(config=config(**{f"allow_{other}": False}), security_config=security) as triton:
        remote = RemoteTriton(triton.url)
        remote.connect()
        remote.bind("m", triple, X, Y)
        with ModelClient(triton.url, "m") as client:
            assert client.infer_sample(np.ones(1, np.float32))["y"].tolist() == [3.0]
        assert remote.stop()


def test_what_is_no_server():
    for url in ("ftp://localhost", "unix:/tmp/x", "http://localhost:port"):
        with pytest.raises(PyTritonClientInvalidUrlError, match="joined over HTTP or gRPC"):
            RemoteTriton(url)
    assert RemoteTriton("localhost").url == "http://localhost:8000"


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_server_that_never_comes(scheme, monkeypatch):
    monkeypatch.setattr("neso.triton.DEFAULT_TRITON_STARTUP_TIMEOUT_S", 0.3)
    with pytest.raises(TimeoutError, match=r"not ready after timeout\. .*refused"):
        RemoteTriton(f"{scheme}://127.0.0.1:1").connect()


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_while_it_waits_it_says_why(scheme, monkeypatch, capsys):
    monkeypatch.setattr("neso.utils.announce.SLOW_AFTER", 0.1)
    monkeypatch.setattr("neso.utils.announce.SLOW_EVERY", 0.1)
    enough = threading.Event()

    def connect(url, access_token):
        if enough.is_set():
            raise InterruptedError
        return join(url, access_token)

    monkeypatch.setattr("neso._remote.connect", connect)
    raised = []

    def wait():
        try:
            RemoteTriton(f"{scheme}://127.0.0.1:1").connect()
        except InterruptedError as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    said = []

    def told():
        said.append(capsys.readouterr().err)
        return "refused" in "".join(said)

    try:
        wait_until(told, 60)
    finally:
        enough.set()
        thread.join(60)
    assert raised
    assert f"Waiting for the server at {scheme}://127.0.0.1:1: " in "".join(said)


def test_a_guest_that_comes_before_the_server():
    """It waits for the server, whose ports are chosen beforehand."""
    security = TritonSecurityConfig(access_token="known")
    with reserved() as port:
        remote = RemoteTriton(f"http://127.0.0.1:{port}", access_token="known")
        remote.bind("m", triple, X, Y)
        guest = threading.Thread(target=remote.connect)
        guest.start()
        with Triton(config=config(http_port=port), security_config=security) as triton:
            guest.join(60)
            assert infer(triton.url) == 9.0
            remote.stop()


def test_the_end_of_the_server_is_the_end_of_serve():
    triton = Triton(config=config())
    triton.run()
    remote = RemoteTriton(triton.grpc_url, access_token=triton.get_access_token())
    remote.bind("m", triple, X, Y)
    raised = []

    def serve():
        try:
            remote.serve()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    wait_until(lambda: ready(triton.url, "m"))
    triton.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(raised[0], PyTritonRuntimeError)
    assert not remote.is_alive()


def test_a_killed_guest_takes_its_models_along(triton):
    triton.bind("host", triple, X, Y)
    text = f"""
        remote = RemoteTriton({triton.grpc_url!r}, access_token={triton.get_access_token()!r})
        remote.bind("guest", double, X, Y)
        remote.connect()
        print(json.dumps({{"urls": [], "pids": []}}), flush=True)
        time.sleep(600)
        """
    with Program(text) as program:
        assert infer(triton.url, "guest") == 6.0
        program.process.kill()
        program.process.wait()
        wait_until(lambda: not ready(triton.url, "guest"))
    assert infer(triton.url, "host") == 9.0
    assert alive(triton._server.pid)
    triton.bind("guest", triple, X, Y)  # the name is free again
    assert infer(triton.url, "guest") == 9.0


def test_a_name_that_another_process_serves(triton):
    """The last one who binds a name serves it, as with PyTriton; afterwards nobody does."""
    triton.bind("clash", triple, X, Y)
    with RemoteTriton(triton.url, access_token=triton.get_access_token()) as remote:
        remote.bind("clash", lambda rs: [{"y": r["x"] * 5} for r in rs], X, Y)
        assert infer(triton.url, "clash") == 15.0
    assert not ready(triton.url, "clash")
    triton.bind("clash", triple, X, Y, replace=True)
    assert infer(triton.url, "clash") == 9.0


@pytest.mark.parametrize("form", ["function", "coroutine", "async_generator"])
def test_stop_gives_up_what_does_not_come_back(triton, form, caplog, capsys, monkeypatch):
    """After a time that the user may choose, and it says which callable that was and where."""
    monkeypatch.setattr("neso.utils.announce.SLOW_AFTER", 0.01)
    inside, go = threading.Event(), threading.Event()

    def function(requests):
        inside.set()
        go.wait(600)
        return [{"y": r["x"]} for r in requests]

    async def coroutine(requests):
        inside.set()
        await asyncio.sleep(600)

    async def async_generator(requests):
        inside.set()
        await asyncio.sleep(600)
        yield [{"y": r["x"]} for r in requests]

    remote = RemoteTriton(triton.url, access_token=triton.get_access_token(), exit_timeout_secs=0.5)
    remote.bind("stuck", locals()[form], X, Y)
    remote.bind("beside", triple, X, Y)
    remote.connect()
    refused = []

    def ask():
        try:
            infer(triton.url, "stuck")
        except urllib.error.HTTPError as error:
            refused.append(error.code)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        assert inside.wait(60)
        said = rf"the callable of `stuck`, at {re.escape(__file__)}:\d+ in {form}"
        connection = remote._server.connection
        leave, lines, waited = connection.leave, [], []

        def told():
            lines.append(capsys.readouterr().err)
            return re.search(rf"Waiting for what is in flight: \d+ s so far \({said}\)", "".join(lines))

        def late(timeout):
            wait_until(told)
            waited.append(timeout)
            leave(timeout)

        monkeypatch.setattr(connection, "leave", late)
        assert remote.stop()
        assert waited == [0.5]
        asking.join(60)
        assert refused == [503]
        end = "Left behind" if form == "function" else "Cancelled"
        wait_until(lambda: re.search(rf"{end}, as it has not come back: {said}\n", caplog.text))
        assert "beside" not in caplog.text.partition("as it has not come back")[2]
    finally:
        go.set()
    assert not ready(triton.url, "stuck")
    assert not ready(triton.url, "beside")


def test_a_client_needs_a_bound_model(triton):
    with pytest.raises(PyTritonInvalidOperationError, match="is not bound"):
        triton.client("nothing")
    with pytest.raises(PyTritonInvalidOperationError, match="not running"):
        RemoteTriton(triton.url).client("nothing")
