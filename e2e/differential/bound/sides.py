"""The two packages: a program's script runs with one of them, and starts its own server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import server as e2e_server

from ..guard import GUARD, RECORD
from ..program import Program
from ..sides import ROOT, Peers, Side, peers

SCRIPT = Path(__file__).with_name("callables.py")
START_PATIENCE_S = EXIT_PATIENCE_S = 120.0  # PyTriton takes ten seconds to end, and more on a busy machine


class Bound(Side):
    """A process of the program; a new one for each run."""

    name = "bound"
    package = ""
    python = sys.executable
    attempts = 1

    def start(self) -> None:
        pass

    def install(self, program: Program) -> None:
        for attempt in range(self.attempts):
            try:
                return self.begin(program)
            except RuntimeError as error:
                self.stop()
                if attempt == self.attempts - 1:
                    raise
                why = str(error).strip().splitlines()[-1]
                print(
                    f"  {self.name}: start {attempt + 1} of {self.attempts} failed: {why}", file=sys.stderr, flush=True
                )

    def begin(self, program: Program) -> None:
        self.http_port, self.grpc_port, self.metrics_port = (e2e_server.free_port() for _ in range(3))
        for left in self.record.iterdir():
            left.unlink()
        path = self.home / "program.json"
        path.write_text(json.dumps(program))
        ports = [str(p) for p in (self.http_port, self.grpc_port, self.metrics_port)]
        environment = {**self.environment(), RECORD: str(self.record)}
        with self.log.open("ab") as log:
            self.process = GUARD.start([self.python, "-B", str(SCRIPT), str(path), *ports], log, environment, self.home)
        end = time.monotonic() + START_PATIENCE_S
        while not (self.record / "ready").exists():
            if not self.alive() or time.monotonic() > end:
                raise RuntimeError(f"{self.name} does not start:\n{self.log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.01)  # polling another process: there is nothing to wait on

    def remove(self, program: Program) -> dict[str, object]:
        """Ends the process as a user does."""
        assert self.process is not None
        if self.alive():  # the servers of both packages end with their program
            self.process.send_signal(signal.SIGINT)
        try:
            status = self.process.wait(EXIT_PATIENCE_S)
        except subprocess.TimeoutExpired:
            status = None
        self.stop()
        return {"exit": status}


class OursBound(Bound):
    name = "ours"

    def __init__(self, python: Path | str = sys.executable):
        super().__init__()
        self.python = str(python)

    def environment(self) -> dict[str, str]:
        paths = [str(ROOT / "python"), str(ROOT / "python" / "pytriton-compat")]
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "NESO_BINARY": str(e2e_server.BINARY),
            "PYTRITON_TRITON_CONFIG_EXPOSE_TRACEBACKS": "1",
        }


class PyTriton(Bound):
    name = "peer"
    rest = Peers.rest
    attempts = 6  # on a busy machine its processes do not find each other in time

    def __init__(self, peer: peers.Peer):
        super().__init__()
        self.peer, self.python = peer, str(peer.python)

    def environment(self) -> dict[str, str]:
        return {**self.peer.environment(os.environ), "PYTRITON_HOME": str(self.home / "workspaces")}


class BoundPool:
    """Has the one side that all programs use, as sides.Pool has one for each set of flags."""

    def __init__(self, side: Bound):
        self._side = side
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of a background job, which hands it down
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def side(self, flags: Iterable[str]) -> Bound:
        return self._side

    def close(self) -> None:
        self._side.close()
