"""The two servers: how each is started, ended, and where it keeps what its models saw."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import server as e2e_server

from . import repository
from .guard import GUARD, RECORD, end_all
from .program import Program

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "bench"))
import peer as peers  # noqa: E402

FLAGS = ["--model-control-mode=explicit", "--exit-on-error=false", "--http-thread-count=16"]


class Side:
    """One server on an empty repository, into which programs write their models. It is started when it is needed."""

    name = "side"
    rest = 0.03  # seconds after which counters do not follow any more

    def __init__(self, flags: Iterable[str] = ()):
        self.flags = list(flags)
        self.home = Path(tempfile.mkdtemp(prefix=f"differential-{self.name}-"))
        self.repository, self.record = self.home / "models", self.home / "record"
        self.repository.mkdir()
        self.record.mkdir()
        GUARD.tell(folder=str(self.home))
        self.log = self.home / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.http_port = self.grpc_port = self.metrics_port = 0
        self.runs = 0

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Starts the server if it does not run."""
        if self.alive():
            return
        self.http_port, self.grpc_port, self.metrics_port = (e2e_server.free_port() for _ in range(3))
        ports = [
            f"--{name}-{what}={value}"
            for name, port in (("http", self.http_port), ("grpc", self.grpc_port), ("metrics", self.metrics_port))
            for what, value in (("address", "127.0.0.1"), ("port", port))
        ]
        command = [*self.command(), f"--model-repository={self.repository}", *FLAGS, *ports, *self.flags]
        environment = {**self.environment(), RECORD: str(self.record)}
        with self.log.open("ab") as log:
            self.process = GUARD.start(command, log, environment, self.home)
        self.wait_live()

    def wait_live(self, patience: float = 120) -> None:
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if not self.alive():
                raise RuntimeError(f"{self.name} ended at its start:\n{self.log.read_text(errors='replace')[-3000:]}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=10)
                connection.request("GET", "/v2/health/live")
                if connection.getresponse().status == 200:
                    return
            time.sleep(0.01)  # polling another process: there is nothing to wait on
        raise RuntimeError(f"{self.name} is not live after {patience} s")

    def install(self, program: Program) -> None:
        """Puts the program's models where the server finds them."""
        for model in program["models"]:
            repository.write(self.repository, model, program.get("sealed", False))

    def remove(self, program: Program) -> dict[str, Any] | None:
        """What this kind of server does at the end of a run, and tells of it; None: the models are unloaded."""
        return None

    def stop(self) -> None:
        """Ends the server at once: nothing of it is needed any more."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            GUARD.tell(ended=self.process.pid)
            self.process.wait()
            self.process = None
            end_all(str(self.home))

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)


class Ours(Side):
    name = "ours"

    def command(self) -> list[str]:
        return [str(e2e_server.BINARY), "serve", "--backend-config=python,stub-timeout-seconds=300"]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "NESO_PYTHON": sys.executable}


class Peers(Side):
    name = "peer"
    rest = 0.25  # a decoupled model is counted when it has returned, which takes a busy machine its time

    def __init__(self, peer: peers.Peer, flags: Iterable[str] = ()):
        super().__init__(flags)
        self.peer = peer
        self.prefix = self.home.name
        GUARD.tell(files=f"/dev/shm/{self.prefix}*")

    def command(self) -> list[str]:
        backends = self.peer.backends(self.home / "backends")
        return [*self.peer.command(backends), f"--backend-config=python,shm-region-prefix-name={self.prefix}"]

    def environment(self) -> dict[str, str]:
        return self.peer.environment(os.environ)

    def stop(self) -> None:
        super().stop()
        for left in Path("/dev/shm").glob(f"{self.prefix}*"):
            left.unlink(missing_ok=True)


MADE = ROOT / ".tools" / "peer"


def find_peer() -> peers.Peer | None:
    """The peer that PEER names, or the one that was made here or by bench/; None where neither is."""
    with contextlib.suppress(peers.PeerMissing):
        return peers.Peer(os.environ.get("PEER") or MADE)
    return None


def make_peer() -> peers.Peer:
    """The same, made if it is missing; raises PeerMissing where it cannot be."""
    return peers.find_or_make(os.environ.get("PEER"), MADE)


class Pool:
    """A running server for each set of flags, so that most programs need not start one."""

    def __init__(self, kind: str, peer: peers.Peer | None = None):
        self.kind, self.peer = kind, peer
        self.sides: dict[tuple[str, ...], Side] = {}

    def side(self, flags: Iterable[str]) -> Side:
        key = tuple(flags)
        if key not in self.sides:
            if self.kind == "ours":
                self.sides[key] = Ours(key)
            else:
                assert self.peer is not None
                self.sides[key] = Peers(self.peer, key)
        side = self.sides[key]
        side.start()
        return side

    def close(self) -> None:
        for side in self.sides.values():
            side.close()


@contextlib.contextmanager
def pool(kind: str, peer: peers.Peer | None = None) -> Iterator[Pool]:
    made = Pool(kind, peer)
    try:
        yield made
    finally:
        made.close()
