"""Starts the built binary on free ports, for one test or for all of them."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = ROOT / "bin" / "neso"
MODELS = Path(__file__).resolve().parent / "models"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


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

    def wait_ready(self, timeout: float = 60) -> None:
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
        return self.log_path.read_text(errors="replace")

    def request(
        self,
        method: str,
        path: str,
        body=None,
        headers: dict | None = None,
        timeout: float = 30,
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

    def stop(self, timeout: float = 40) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
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


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
