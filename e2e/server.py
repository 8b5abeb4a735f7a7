"""Starts the built binary on free ports, for one test or for all of them."""

from __future__ import annotations

import contextlib
import functools
import http.client
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = ROOT / "bin" / "neso"
MODELS = Path(__file__).resolve().parent / "models"


PORTS = 200  # that one process of tests has for itself


@functools.cache
def own_ports() -> tuple[socket.socket | None, itertools.cycle]:
    """The lock on a block of ports, held as long as this process lives, and the ports of it again and again.

    They lie below those that the kernel gives to whoever asks for any: no connection of a client takes one between free_port and the server
    that listens there, nor while that server is started anew. Where the kernel gives away all of them, it is asked: port 0.
    """
    try:
        kernels = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        kernels = 16_000  # the least that is usual
    blocks = list(range(10_000, kernels - PORTS, PORTS))
    random.shuffle(blocks)
    for first in blocks:
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0neso-e2e-ports-{first}")  # such a name is one of the machine, and ends with its socket
        except OSError:
            lock.close()
            continue
        return lock, itertools.cycle(range(first, first + PORTS))
    return None, itertools.cycle([0])


def free_port() -> int:
    """A port that nothing listens on, and that no other test is given soon."""
    for port in itertools.islice(own_ports()[1], PORTS):
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("", port))
            return s.getsockname()[1]
    raise RuntimeError("all ports of this process are taken")


class Reply:
    """An HTTP answer."""

    def __init__(self, response: http.client.HTTPResponse):
        self.status = response.status
        self.headers = {k.lower(): v for k, v in response.getheaders()}
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return self.json["error"]

    def __repr__(self) -> str:
        return f"<{self.status} {self.headers} {self.body[:500]!r}>"


class Server:
    """The server under test; use as a context manager."""

    def __init__(
        self,
        repository,
        *options: str,
        wait: bool = True,
        env: dict | None = None,
        log: Path | None = None,
        ports: tuple[int, int, int] | None = None,
        prepare=None,
    ):
        """ports are those of HTTP, gRPC and metrics, default free ones; prepare runs in the process before the binary."""
        self.http_port, self.grpc_port, self.metrics_port = ports or (free_port(), free_port(), free_port())
        self.http, self.grpc = f"127.0.0.1:{self.http_port}", f"127.0.0.1:{self.grpc_port}"
        repositories = repository if isinstance(repository, (list, tuple)) else [repository]
        command = [str(BINARY), "serve", *[f"--model-repository={r}" for r in repositories]]
        for name, port in (("http", self.http_port), ("grpc", self.grpc_port), ("metrics", self.metrics_port)):
            command += [f"--{name}-address=127.0.0.1", f"--{name}-port={port}"]
        command.append("--backend-config=python,stub-timeout-seconds=300")  # of 30, which a busy machine may take
        self.log_path = log or Path(os.environ.get("TMPDIR", "/tmp")) / f"neso-e2e-{os.getpid()}-{self.http_port}.log"
        self._log = self.log_path.open("wb")
        environment = {**os.environ, "NESO_PYTHON": sys.executable, **(env or {})}
        self.process = subprocess.Popen(
            [*command, *options],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment,
            preexec_fn=prepare,
        )
        if wait:
            self.wait_ready()

    def wait_ready(self, timeout: float = 400) -> None:
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}:\n{self.log()}")
            try:
                if self.get("/v2/health/ready").status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.01)  # polling another process: there is nothing to wait on
        log = self.log()
        self.stop()
        raise RuntimeError(f"not ready within {timeout} s:\n{log}")

    def log(self) -> str:
        """All lines so far; of one that is being written there may be a half, which is left out as long as the server runs."""
        runs = self.process.poll() is None
        text = self.log_path.read_text(errors="replace")
        return text[: text.rfind("\n") + 1] if runs else text

    def request(
        self,
        method: str,
        path: str,
        body=None,
        headers: dict | None = None,
        timeout: float = 300,
        port: int | None = None,
    ):
        connection = http.client.HTTPConnection("127.0.0.1", port or self.http_port, timeout=timeout)
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            connection.request(method, path, body=body, headers=headers or {})
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def get(self, path: str, **kw) -> Reply:
        return self.request("GET", path, **kw)

    def post(self, path: str, body=None, headers: dict | None = None, **kw) -> Reply:
        return self.request("POST", path, body, headers, **kw)

    def infer(self, model: str, body, headers: dict | None = None, **kw) -> Reply:
        return self.post(f"/v2/models/{model}/infer", body, headers, **kw)

    def metrics(self) -> str:
        return self.get("/metrics", port=self.metrics_port).body.decode()

    def stop(self, timeout: float = 120) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(60)
        self._log.close()
        return self.process.returncode

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_) -> None:
        self.stop()


def descendants(pid: int) -> list[int]:
    """The pids of all processes below pid."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            found.append(child)
            queue.append(child)
    return found


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Sends a signal to a process, which may have ended by itself: those that compile files for the workers come and go."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def named(pid: int, name: str) -> list[int]:
    """The pids of the processes below pid that are called so: a worker bears the name of its instance."""
    found = []
    for p in descendants(pid):
        with contextlib.suppress(OSError):  # it has ended
            if Path(f"/proc/{p}/comm").read_text().strip() == name and alive(p):
                found.append(p)
    return found


def isolated(pid: int) -> list[int]:
    """The pids of the workers below pid that are the server's own binary."""
    found = []
    for p in descendants(pid):
        with contextlib.suppress(OSError):  # it has ended
            if b"isolate" in Path(f"/proc/{p}/cmdline").read_bytes().split(b"\0"):
                found.append(p)
    return found


def open_files(pid: int) -> list[str]:
    """What the descriptors of a process lead to."""
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # it has been closed
            found.append(os.readlink(fd))
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
