"""All that a backend may ask, asked of our server and of the peer's by one library: transcripts/questions.txt has the answers of both.

NESO_REWRITE=1 with PEER writes them anew; PEER alone compares the peer's with them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from libraries import backend, have_host, model
from server import Server
from story import Peer, post
from test_probe import OURS, THEIRS, compare, merged

TRANSCRIPT = Path(__file__).parent / "transcripts" / "questions.txt"
STEPS = (
    {},
    {"do": "request"},
    {
        "do": "request",
        "id": "me",
        "sequence_id": 7,
        "sequence_start": True,
        "timeout": 5000000,
        "a": "text",
        "n": -3,
        "yes": True,
        "x": 0.5,
    },
    {"do": "request", "sequence_id": "who", "sequence_end": True, "priority": 2},
    {"do": "request", "outputs": ["OUT0"]},
    {"do": "input"},
    {"do": "response"},
    {"do": "rest"},
    {"do": "parameters"},
    {"do": "nothing"},
    {"do": "other output"},
    {"do": "other datatype"},
    {"do": "refuse"},
    *({"do": f"code {n}"} for n in range(8)),
)


def ask(port: int, step: dict) -> str:
    parameters = {k: v for k, v in step.items() if k not in ("id", "outputs")}
    body = {
        "inputs": [{"name": "IN0", "datatype": "INT32", "shape": [1, 2], "data": [1, 2]}],
        "parameters": parameters,
        **({"id": step["id"]} if "id" in step else {}),
        **({"outputs": [{"name": n} for n in step["outputs"]]} if "outputs" in step else {}),
    }
    status, text = post(port, "POST", "/v2/models/asked/infer", body)
    return f"{status} {text}"


def told(home: Path, peer: str = "") -> list[str]:
    models, backends, log = home / "models", home / "backends", home / "log"
    backend(backends, "questions", "questions.c")
    model(models, "asked", "questions", "instance_group [ { kind: KIND_CPU count: 1 profile: [ ] } ]\n")
    options, env = ["--model-control-mode=explicit", "--load-model=asked"], {"QUESTIONS": str(log)}
    if peer:
        # The peer's command has the directory of its own backends, which is the home's: the last one counts.
        server = Peer(peer, models, home, *options, f"--backend-directory={backends}", env=env)
    else:
        server = Server(models, *options, f"--backend-directory={backends}", env=env)
    lines = []

    def step(name: str, answer: str = "") -> None:
        text = log.read_text().replace(str(home), "HOME") if log.exists() else ""
        log.write_text("")
        lines.extend([f"# {name}", *([answer] if answer else []), *text.splitlines()])

    with server:
        step("the load")
        for one in STEPS:
            answer = ask(server.http_port, one)
            step(json.dumps(one), answer)
    step("the end")
    return lines


def recorded(whose: str) -> list[str]:
    other = THEIRS if whose == OURS else OURS
    lines = TRANSCRIPT.read_text().splitlines()
    return [line.removeprefix(whose) for line in lines if not line.startswith(other)]


def test_ours(tmp_path):
    have_host()
    got = told(tmp_path / "ours")
    if os.environ.get("NESO_REWRITE"):
        TRANSCRIPT.write_text(merged(told(tmp_path / "theirs", os.environ["PEER"]), got))
    compare(got, recorded(OURS), "questions")


@pytest.mark.skipif("PEER" not in os.environ, reason="PEER names no environment with nvidia-pytriton==0.7.0")
def test_peer(tmp_path):
    compare(told(tmp_path, os.environ["PEER"]), recorded(THEIRS), "questions")
