"""Starts and ends: of the server, of this process, in order and by force."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from bound import ADD_SUB, ANY_PORTS, BINARY, ROOT, Http, Refused, add_sub, bind, make_server
from harness import until

from neso._server import Server, ServerError, ServerGone

ONE = np.ones((1, 4), np.float32)


def gone(pid):
    """Waits until a process is no more, or only waits to be reaped."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat") as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def test_start_stop_again_in_one_process():
    threads = threading.active_count()
    for _ in range(3):
        server = make_server()
        assert server.is_alive() and set(server.addresses) == {"http", "grpc", "metrics"}
        bind(server, "m", add_sub, ADD_SUB, shape="batch")
        assert Http(server).infer("m", a=ONE, b=ONE)["sum"][0, 0] == 2
        server.stop()
        server.stop()
        assert not server.is_alive() and server.returncode == 0 and gone(server.pid)
    until(lambda: threading.active_count() <= threads)


def test_two_servers_side_by_side():
    servers = [make_server() for _ in range(2)]
    for i, server in enumerate(servers):
        bind(server, "m", lambda a, b, i=i: (a * 0 + i, b), ADD_SUB, shape="batch")
    assert [Http(s).infer("m", a=ONE, b=ONE)["sum"][0, 0] for s in servers] == [0, 1]
    for server in servers:
        server.stop()


def test_stop_answers_what_is_in_flight():
    server = make_server()
    inside = threading.Event()

    def slow(a, b):
        inside.set()
        time.sleep(0.3)
        return add_sub(a, b)

    bind(server, "slow", slow, ADD_SUB, shape="batch")
    got = []
    client = threading.Thread(target=lambda: got.append(Http(server).infer("slow", a=ONE, b=ONE)))
    client.start()
    assert inside.wait(60)
    server.stop()
    client.join()
    assert got and got[0]["sum"][0, 0] == 2 and server.returncode == 0


def test_what_ends_is_not_stuck(monkeypatch):
    """The thread of a model that is taken out of service is not in its callable any more."""
    server = make_server()
    bind(server, "m", add_sub, ADD_SUB, shape="batch")
    assert Http(server).infer("m", a=ONE, b=ONE)["sum"][0, 0] == 2
    ending, go, connection = threading.Event(), threading.Event(), server.connection
    (instance,) = connection._instances.values()
    unloaded = instance._unloaded
    monkeypatch.setattr(instance, "_unloaded", lambda i: (ending.set(), go.wait(60), unloaded(i)))
    thread = threading.Thread(target=server.unbind, args=("m",))
    thread.start()
    try:
        assert ending.wait(60)
        assert connection._instances and connection.stuck() == []
    finally:
        go.set()
        thread.join(60)
        server.stop()


def test_an_idle_process_reads(monkeypatch):
    """Nobody waits for frames when no instance is loaded and no call is out: an order is heard all the same."""
    monkeypatch.setattr("neso_runtime.link.UNREAD", 3600)  # by itself this look comes too late
    server = make_server()
    bind(server, "m", add_sub, ADD_SUB, shape="batch")
    client = Http(server)
    try:
        for _ in range(2):
            assert client.ask("POST", "/v2/repository/models/m/unload")[0] == 200
            assert client.ask("POST", "/v2/repository/models/m/load")[0] == 200
            assert client.infer("m", a=ONE, b=ONE)["sum"][0, 0] == 2
        assert client.ask("POST", "/v2/repository/models/m/unload")[0] == 200
        bind(server, "other", add_sub, ADD_SUB, shape="batch")
        server.unbind("other")  # this thread has read, and does not any more
        assert client.ask("POST", "/v2/repository/models/m/load")[0] == 200
    finally:
        monkeypatch.undo()
        server.stop()


def test_a_taken_port_is_said():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = Server([*ANY_PORTS, f"--http-port={taken.getsockname()[1]}"], binary=BINARY, output=lambda line: None)
        with pytest.raises(ServerGone, match="already in use"):
            server.start(120)
        assert gone(server.pid)


def test_what_cannot_start():
    with pytest.raises(ServerGone, match="no-such-option"):
        Server(["--no-such-option=1"], binary=BINARY, output=lambda line: None).start(120)
    with pytest.raises(ServerError, match="cannot be started"):
        Server([], binary="/no/such/neso").start(120)
    with pytest.raises(ServerError):
        Server([], binary="/bin/true").start(120)
    with pytest.raises(TimeoutError):
        Server([], binary=str(ROOT / "python" / "tests" / "sleeping.sh"), output=lambda line: None).start(0.2)


@pytest.mark.parametrize("busy", [False, True])
def test_a_killed_server_raises_here(busy):
    died = threading.Event()
    server = make_server(on_death=died.set)
    inside, go = threading.Event(), threading.Event()

    def maybe(a, b):
        inside.set()
        go.wait(60 if busy else 0)
        return add_sub(a, b)

    bind(server, "m", maybe, ADD_SUB, shape="batch")

    def ask():
        with contextlib.suppress(Exception):  # whatever the death of the server looks like
            Http(server).infer("m", a=ONE, b=ONE)

    client = threading.Thread(target=ask)
    if busy:
        client.start()
        assert inside.wait(60)
    os.kill(server.pid, signal.SIGKILL)
    assert server.wait(60) and died.wait(60)
    with pytest.raises(ServerGone, match="SIGKILL"):
        server.unbind("m")
    with pytest.raises(ServerGone, match=r"(?s)SIGKILL.*bound.*model=m"):
        bind(server, "m", add_sub, ADD_SUB, shape="batch")
    assert not server.is_alive() and "SIGKILL" in server.last_words()
    go.set()
    if busy:
        client.join()
    server.stop()


def test_a_signal_stops_the_server_in_order():
    died = threading.Event()
    server = make_server(on_death=died.set)
    bind(server, "m", add_sub, ADD_SUB, shape="batch")
    os.kill(server.pid, signal.SIGTERM)
    assert died.wait(60) and server.returncode == 0
    server.stop()


PROGRAM = """
    import sys, time
    sys.path[:0] = [{python!r}, {tests!r}]
    from bound import *
    server = make_server()
    def slow(a, b):
        if {sleep}:
            print("inside", flush=True)
        time.sleep({sleep})
        return add_sub(a, b)
    bind(server, "m", slow, ADD_SUB, shape="batch")
    print(server.pid, server.addresses["http"], flush=True)
    {then}
"""


def program(then, sleep=0):
    text = textwrap.dedent(PROGRAM).format(
        python=str(ROOT / "python"), tests=str(ROOT / "python" / "tests"), then=then, sleep=sleep
    )
    made = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    pid, address = made.stdout.readline().split()
    return made, int(pid), address


class At:
    def __init__(self, address):
        self.addresses = {"http": address}


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_program_ends_its_server(sig):
    user, pid, address = program("time.sleep(600)")
    assert Http(At(address)).infer("m", a=ONE, b=ONE)["sum"][0, 0] == 2
    user.send_signal(sig)
    user.wait(60)
    user.stdout.close()
    assert gone(pid)


def test_a_program_that_dies_in_a_batch_fails_its_clients():
    user, pid, address = program("time.sleep(600)", sleep=300)
    answers = []

    def ask():
        try:
            Http(At(address)).infer("m", a=ONE, b=ONE)
        except Refused as error:
            answers.append(str(error))

    client = threading.Thread(target=ask)
    client.start()
    assert user.stdout.readline() == "inside\n"
    user.kill()
    user.wait(60)
    user.stdout.close()
    client.join(60)
    assert answers and "process that bound the model has ended" in answers[0]
    assert gone(pid)


def test_a_program_that_exits_ends_its_server():
    for then in ("pass", "import os; os._exit(3)", "server.stop()"):
        user, pid, _ = program(then)
        user.wait(60)
        user.stdout.close()
        assert gone(pid)


def test_a_forked_child_does_not_keep_the_server():
    then = "import os; child = os.fork()\n    if child == 0: time.sleep(600); os._exit(0)\n    print(child, flush=True); time.sleep(600)"
    user, pid, _ = program(then.replace("\n    ", "\n"))
    child = int(user.stdout.readline())
    try:
        user.kill()
        user.wait(60)
        user.stdout.close()
        assert gone(pid)
    finally:
        os.kill(child, signal.SIGKILL)
