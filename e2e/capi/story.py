"""What a server asks of repository agents and caches, and answers itself, as a transcript: the same steps for ours and for the peer's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from libraries import ROOT
from server import free_port

sys.path.append(str(ROOT / "bench"))
import peer as peers  # noqa: E402

MODEL = """import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        if FAILS:
            raise pb_utils.TritonModelException("it does not want to")
        self.count = 0

    def execute(self, requests):
        self.count += 1
        one = lambda r: pb_utils.get_input_tensor_by_name(r, "IN").as_numpy() + 100 * self.count
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", one(r).astype(np.int32))]) for r in requests]
"""
IO = """max_batch_size: 0
input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ -1 ] } ]
"""


def agents(*chain: tuple[str, dict[str, str]]) -> str:
    each = []
    for name, parameters in chain:
        pairs = "".join(f' parameters {{ key: "{k}" value: "{v}" }}' for k, v in parameters.items())
        each.append(f'agents [ {{ name: "{name}"{pairs} }} ]')
    return f"model_repository_agents {{ {' '.join(each)} }}\n"


def model(repository: Path, name: str, *chain, fails: bool = False, extra: str = "", versions=(1,)) -> Path:
    folder = repository / name
    for version in versions:
        (folder / str(version)).mkdir(parents=True, exist_ok=True)
        (folder / str(version) / "model.py").write_text(f"FAILS = {fails}\n{MODEL}")
    said = [(agent, {"is": name, **parameters}) for agent, parameters in chain]
    (folder / "config.pbtxt").write_text(f'backend: "python"\n{IO}{extra}{agents(*said) if chain else ""}')
    return folder


class Peer:
    """The peer's server, with what a Server of ours has that a story needs."""

    def __init__(self, venv: str, repository: Path, home: Path, *options: str, env: dict | None = None):
        self.peer = peers.Peer(venv)
        self.http_port = free_port()
        self.path = home / "peer.log"
        ports = [
            f"--http-port={self.http_port}",
            "--http-address=127.0.0.1",
            "--allow-grpc=false",
            "--allow-metrics=false",
        ]
        command = [
            *self.peer.command(self.peer.backends(home / "backends")),
            f"--model-repository={repository}",
            *ports,
            *options,
        ]
        with self.path.open("wb") as log:
            self.process = subprocess.Popen(
                command, env={**self.peer.environment(os.environ), **(env or {})}, stdout=log, stderr=subprocess.STDOUT
            )
        end = time.monotonic() + 120
        while time.monotonic() < end and self.process.poll() is None:
            if post(self.http_port, "GET", "/v2/health/live")[0] == 200:
                return
            time.sleep(0.02)  # polling another process: there is nothing to wait on
        raise RuntimeError(f"the peer did not start:\n{self.log()}")

    def log(self) -> str:
        return self.path.read_text(errors="replace")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(120)


def post(port: int, method: str, path: str, body=None) -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()
    except OSError as e:
        return 0, str(e)


class Story:
    """The steps, each with the answer of the server and what the libraries were asked."""

    def __init__(self, server, home: Path, repository: Path):
        self.server, self.home, self.repository = server, home, repository
        self.log = home / "tells.log"
        self.seen, self.lines, self.settle = 0, [], 3 if isinstance(server, Peer) else 0.3

    def plain(self, text: str) -> str:
        text = text.replace(str(self.repository), "REPOSITORY").replace(str(self.home), "HOME")
        return re.sub(r"(/[\w.-]+)*/folder\w{6}|(/[\w.-]+)*/neso-agent-\w+/\w+", "PLACE", text)

    def told(self) -> list[str]:
        """What was written down since the last time, when nothing more comes."""
        end, before = time.monotonic() + 20, -1
        while time.monotonic() < end:
            lines = self.log.read_text().splitlines() if self.log.exists() else []
            if len(lines) == before:
                break
            before = len(lines)
            time.sleep(self.settle)  # polling another process: there is nothing to wait on
        new, self.seen = lines[self.seen :], len(lines)
        return [self.plain(line) for line in new]

    def step(self, what: str, method: str = "", path: str = "", body=None) -> None:
        self.lines.append(f"# {what}")
        if method:
            status, _ = post(self.server.http_port, method, path, body)
            self.lines.append(str(status))
        self.lines += self.told()
        self.lines.append("")

    def load(self, what: str, name: str, **body) -> None:
        self.step(what, "POST", f"/v2/repository/models/{name}/load", body or {})

    def unload(self, what: str, name: str) -> None:
        self.step(what, "POST", f"/v2/repository/models/{name}/unload", {})

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def tell_of_agents(s: Story) -> str:
    r = s.repository
    model(r, "one", ("a", {}))
    s.load("one agent", "one")
    s.load("again, nothing has changed", "one")
    model(r, "one", ("a", {"n": "2"}))
    s.load("again, with another configuration", "one")
    model(r, "two", ("a", {}), ("b", {}))
    s.load("two agents, of which one serves another model too", "two")
    s.unload("the first model goes", "one")
    s.unload("it has gone", "one")
    model(r, "moved", ("a", {"move": "1"}), ("b", {}))
    s.load("an agent moves the model", "moved")
    s.step("the model serves", "POST", "/v2/models/moved/infer", request(1))
    s.unload("it goes", "moved")
    for action in ("MODEL_INITIALIZE", "LOAD", "UNLOAD_COMPLETE"):
        name = f"refuses_{action.lower()}"
        model(r, name, ("a", {}), ("b", {"refuse": action}), ("c", {}))
        s.load(f"the second of three agents refuses {action}", name)
        s.unload("and goes", name)
    model(r, "fails", ("a", {}), ("b", {}), fails=True)
    s.load("the model itself fails", "fails")
    model(r, "asks", ("a", {"ask": "1"}))
    s.load("wrong questions", "asks")
    s.unload("and at the end", "asks")
    model(r, "absent", ("a", {}), ("absent", {}))
    s.load("an agent that is not there", "absent")
    model(r, "versions", ("a", {}), versions=(1, 2), extra="version_policy { all {} }\n")
    s.load("two versions", "versions")
    s.unload("they go", "versions")
    s.load("a configuration of the request", "versions", parameters={"config": json.dumps({"backend": "python"})})
    s.unload("it goes", "versions")
    s.server.__exit__(None, None, None)
    s.step("the server ends with one model loaded")
    return s.text()


def request(n: int) -> dict:
    return {"inputs": [{"name": "IN", "datatype": "INT32", "shape": [2], "data": [n, n]}]}
