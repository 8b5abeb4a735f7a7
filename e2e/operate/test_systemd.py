"""What a service manager is told: the protocol of sd_notify, to a socket of the test."""

from __future__ import annotations

import socket
import uuid

import pytest
from repository import X, python_model
from server import Server

ASKS = 'any(name in os.environ for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"))'


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    """The socket, and what NOTIFY_SOCKET says of it."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@neso-e2e-{uuid.uuid4()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(name.replace("@", "\0"))
        s.settimeout(300)
        yield s, name


def test_a_manager_is_told(tmp_path, manager):
    listener, name = manager
    repository = tmp_path / "models"
    python_model(repository, "m")
    model = repository / "m" / "1" / "model.py"
    model.write_text(f"import os\nassert not {ASKS}, 'a worker has the socket of the manager'\n" + model.read_text())
    with Server(repository, env={"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "100000"}, wait=False) as s:
        assert listener.recv(4096).split(b"\n")[0] == b"READY=1"
        assert s.infer("m", X).status == 200  # what is told ready answers the first request
        assert listener.recv(4096) == b"WATCHDOG=1"
        assert s.stop() == 0, s.log()
    rest = []
    while not rest or not rest[-1].startswith(b"STOPPING=1"):
        rest.append(listener.recv(4096))
    assert set(rest[:-1]) <= {b"WATCHDOG=1"}


def test_a_socket_that_nobody_reads_is_told(tmp_path):
    with Server(tmp_path, env={"NOTIFY_SOCKET": str(tmp_path / "none")}) as s:
        assert s.stop() == 0
    assert "the service manager cannot be told of the server's state" in s.log()
