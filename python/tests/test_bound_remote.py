"""Processes that join a running server."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from bound import ADD_SUB, ROOT, Http, Refused, add_sub, bind, make_server
from harness import until

from neso._remote import _ticket, connect
from neso._server import ServerError, ServerGone

ONE = np.ones((1, 4), np.float32)


@pytest.fixture(scope="module")
def server():
    made = make_server()
    yield made
    made.stop()


@pytest.fixture
def url(server):
    return "http://" + server.addresses["http"]


def test_bind_from_outside(server, url):
    remote = connect(url)
    assert remote.addresses == server.addresses
    bind(remote, "guest", add_sub, ADD_SUB, shape="batch")
    big = np.ones((1, 100000), np.float32)
    for array in (ONE, big):
        np.testing.assert_array_equal(Http(server).infer("guest", a=array, b=array)["sum"], array + array)
    with pytest.raises(ServerError, match="not bound by this process"):
        server.unbind("guest")
    remote.unbind("guest")
    with pytest.raises(Refused, match="unknown model"):
        Http(server).infer("guest", a=ONE, b=ONE)
    bind(remote, "guest", add_sub, ADD_SUB, shape="batch")
    remote.stop()
    with pytest.raises(Refused, match="unknown model"):
        Http(server).infer("guest", a=ONE, b=ONE)
    assert server.is_alive() and not remote.is_alive()


def test_a_callable_that_stops_its_own_connection(server, url):
    """It cannot be waited for, and goes on when all else has ended."""
    remote = connect(url)
    ended = []

    def last(a, b):
        try:
            remote.stop(0.1)
            ended.append(None)
        except BaseException as error:
            ended.append(error)
        return add_sub(a, b)

    bind(remote, "last", last, ADD_SUB, shape="batch")
    with pytest.raises(Refused):
        Http(server).infer("last", a=ONE, b=ONE)
    until(lambda: ended)
    assert ended == [None] and not remote.is_alive()


def test_a_guest_cannot_stop_the_server(server, url):
    remote = connect(url)
    with pytest.raises(ServerError, match="not allowed"):
        remote.connection.control("stop")
    remote.stop()


def test_the_door(server, url):
    path, token = _ticket(url, None)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700

    def knock(shown, pairs=2):
        ends = [socket.socketpair() for _ in range(pairs)]
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(60)
            door.connect(path)
            socket.send_fds(door, [shown.encode()], [theirs.fileno() for _, theirs in ends])
            answer = door.recv(1)
        for pair in ends:
            for end in pair:
                end.close()
        return answer

    assert knock("x" * 52) == b"n"
    assert knock(token, 1) == b"n"  # uses it up
    assert knock(token) == b"n"
    _, token = _ticket(url, None)
    assert knock(token) == b"y"
    assert knock(token) == b"n"
    assert server.is_alive()


@pytest.mark.parametrize("says", [b"", b"y"])
def test_a_server_that_stands_still_may_come_to_life(tmp_path, monkeypatch, says):
    """Whoever wants to join it may try again: it is no refusal."""
    path = str(tmp_path / "door")
    monkeypatch.setattr("neso._remote._ticket", lambda url, token: (path, "t"))
    monkeypatch.setattr("neso._remote.ASK_TIMEOUT_S", 0.05)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen()
        held = []

        def answer():
            held.append(door.accept()[0])
            held.append(socket.recv_fds(held[0], 10, 2)[1])
            with contextlib.suppress(BrokenPipeError):  # it has been given up
                held[0].sendall(says)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ServerGone, match="does not answer"):
            connect("http://127.0.0.1:1")
        thread.join(60)
        held[0].close()
        for fd in held[1]:
            os.close(fd)


def test_a_killed_guest_takes_its_models_along(server, url):
    text = textwrap.dedent(f"""
        import sys, time
        sys.path[:0] = [{str(ROOT / "python")!r}, {str(ROOT / "python" / "tests")!r}]
        from bound import *
        from neso._remote import connect
        remote = connect({url!r})
        bind(remote, "mortal", add_sub, ADD_SUB, shape="batch")
        print("bound", flush=True)
        time.sleep(600)
    """)
    guest = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert guest.stdout.readline() == "bound\n"
    http = Http(server)
    assert http.infer("mortal", a=ONE, b=ONE)["sum"][0, 0] == 2
    guest.send_signal(signal.SIGKILL)
    guest.wait()
    guest.stdout.close()
    until(lambda: http.status("/v2/models/mortal/ready") != 200)
    # From the end of the connection on it is not ready, and so is the server; then it is gone.
    until(lambda: http.status("/v2/health/ready") == 200)
    assert http.status("/v2/models/mortal") != 200


def test_the_end_of_the_server_is_told():
    server = make_server()
    path, _ = _ticket("http://" + server.addresses["http"], None)
    told = threading.Event()
    remote = connect("http://" + server.addresses["http"], on_death=told.set)
    bind(remote, "m", add_sub, ADD_SUB, shape="batch")
    server.stop()
    assert server.returncode == 0 and told.wait(60) and remote.wait(60)
    with pytest.raises(ServerGone):
        remote.unbind("m")
    remote.stop()
    assert not os.path.exists(os.path.dirname(path))


def test_refusals(server):
    closed = make_server("--allow-bind=false")
    with pytest.raises(ServerError, match="--allow-bind=true"):
        connect("http://" + closed.addresses["http"])
    closed.stop()
    with pytest.raises(ServerGone):
        connect("http://127.0.0.1:1")
    with pytest.raises(ServerError, match="over HTTP"):
        connect("ftp://127.0.0.1:1")
