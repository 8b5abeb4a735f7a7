"""Commands against what is no server of ours, and on a full disk: a line that says what is wrong, and an exit status."""

from __future__ import annotations

import http.server
import os
import signal
import socket
import subprocess
import threading

import pytest
from repository import identity_model
from server import BINARY, Server

ASKING = {
    "ready": ["ready"],
    "index": ["index"],
    "stats": ["stats"],
    "load": ["load", "m"],
    "unload": ["unload", "m"],
    "config": ["config", "m"],
    "infer": ["infer", "m", "--input", "INPUT0=[[1]]"],
    "top": ["top"],
    "log": ["log"],
    "set-log": ["log", "log_info=false"],
    "trace": ["trace"],
    "perf": ["perf", "-m", "m", "--request-count", "10"],
}
ALONE = [["doctor"], ["proto"], ["version"], ["backends"], ["key", "new", "x"], ["completion", "bash"]]


class Page(http.server.BaseHTTPRequestHandler):
    """Answers everything with a page."""

    def do_GET(self):
        page = b"<html>\x1b[2Jhello</html>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    do_POST = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def page():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as s:
        threading.Thread(target=s.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{s.server_port}"
        s.shutdown()


@pytest.fixture(scope="module")
def banner():
    """A server that speaks, and not HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as s:

        def serve():
            while True:
                try:
                    c, _ = s.accept()
                except OSError:
                    return
                with c:
                    c.recv(1 << 16)  # first: who is answered while he still writes may say so instead
                    c.sendall(b"SSH-2.0-x\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{s.getsockname()[1]}"
        s.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def closed():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))  # and does not listen
        yield f"127.0.0.1:{s.getsockname()[1]}"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    models = tmp_path_factory.mktemp("models")
    identity_model(models, "m")
    with Server(models) as s:
        yield s


@pytest.fixture
def silent():
    """A server that takes a connection and says nothing; its event is set when one has come."""
    came = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as s:

        def serve():
            held = []
            while True:
                try:
                    held.append(s.accept()[0])
                except OSError:
                    break
                came.set()
            for c in held:
                c.close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{s.getsockname()[1]}", came
        s.shutdown(socket.SHUT_RDWR)


def neso(address, args, stdout=subprocess.PIPE):
    command = [BINARY, *args] + (["-u", address] if args[0] == "perf" else [])
    environment = {**os.environ, "NESO_URL": address}
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        env=environment,
    )


@pytest.mark.parametrize("args", ASKING.values(), ids=ASKING)
@pytest.mark.parametrize(
    ("other", "text"),
    [
        ("closed", "no server answers at"),
        ("page", "is no server of the KServe v2 protocol"),
        ("banner", "does not speak HTTP, or not this way"),
    ],
)
def test_what_is_no_server(request, other, text, args):
    address = request.getfixturevalue(other)
    r = neso(address, args)
    assert r.returncode == (99 if args[0] == "perf" else 1), r
    assert text in r.stderr and address in r.stderr and "\x1b" not in r.stderr and "goroutine" not in r.stderr, r.stderr
    assert len(r.stderr.splitlines()) <= 2 and not r.stdout, r


@pytest.mark.parametrize("args", ASKING.values(), ids=ASKING)
def test_interrupted(silent, args):
    """Ctrl-C while a server says nothing: it ends at once. top, which goes on until then, has done what it should."""
    address, came = silent
    command = [BINARY, *args] + (["-u", address] if args[0] == "perf" else [])
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # What a shell runs in the background ignores SIGINT, and so does what that starts.
    heeded = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    p = subprocess.Popen(command, env={**os.environ, "NESO_URL": address}, **pipes, **heeded)
    try:
        assert came.wait(60)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
    finally:
        p.kill()
    assert p.returncode in ([0] if args[0] == "top" else [130, -signal.SIGINT]), (p.returncode, out, err)
    assert not out and len(err.splitlines()) <= 2 and "goroutine" not in err, (out, err)


@pytest.mark.parametrize("args", [*ASKING.values(), *ALONE], ids=[*ASKING, *[" ".join(a) for a in ALONE]])
def test_a_full_disk(server, args):
    if args[0] in ("load", "unload"):
        pytest.skip("the server takes no loads")
    if args[0] == "perf":
        args = [*args, "--shape", "INPUT0:1,1"]
    with open("/dev/full", "w") as full:
        r = neso(server.http, args, stdout=full)
    assert r.returncode == (99 if args[0] == "perf" else 1), r
    assert "no space left on device" in r.stderr, r.stderr
