"""The machine itself: what a killed run leaves, and what is told of a real server that differs from itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from . import run
from .allow import AllowList
from .bound.generate import generate as bound_program
from .cli import Comparison
from .compare import differences
from .generate import generate, of_ensembles
from .guard import belonging
from .sides import find_peer

DRIVER = """
import pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell has started in the background ignores it
sys.path.insert(0, {folder!r})
from differential import sides
from differential.bound.sides import OursBound, PyTriton
from differential.bound.generate import generate
side = {side}
side.start()
if hasattr(side, "package"):
    side.install(generate(1))
print(side.home, flush=True)
sys.stdin.read()
"""


def needs_peer(text):
    return pytest.param(text, marks=pytest.mark.skipif(not find_peer(), reason="no real Triton on this machine"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "side",
    ["sides.Ours()", "OursBound()", needs_peer("sides.Peers(sides.find_peer())"), needs_peer("PyTriton(sides.find_peer())")],
)  # fmt: skip
def test_a_killed_run_leaves_nothing(number, side):
    text = DRIVER.format(folder=str(Path(__file__).resolve().parent.parent), side=side)
    driver = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    home = driver.stdout.readline().strip()
    processes = belonging(home)
    assert Path(home).is_dir() and processes
    os.kill(driver.pid, number)
    driver.wait(60)
    end = time.monotonic() + 60
    while Path(home).exists() or any(map(runs, processes)):
        assert time.monotonic() < end, (home, processes)
        time.sleep(0.01)  # polling another process: there is nothing to wait on


def runs(pid: int) -> bool:
    """Whether it lives; who takes over orphans need not wait for them."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


STEP = {"do": "infer", "form": "grpc", "model": "@m", "inputs": []}
PROGRAM = {"models": [{"name": "@m", "kind": "plain", "config": {}}], "phases": [[[STEP, STEP]]]}


def result(*values):
    return {"phases": [{"threads": [[{"outputs": v} for v in values]], "saw": {}}], "alive": True, "ended": {}}


def compared(monkeypatch, peers, ours):
    """What is found where the peer answers this in its runs, and Neso that."""
    both = iter(zip(peers, ours))
    monkeypatch.setattr(run, "run_both", lambda *_: next(both))
    return Comparison(None, None, generate).findings(PROGRAM)


def test_what_the_peer_does_not_answer_twice_is_no_difference(monkeypatch):
    peers = [result(1, 5), result(1, 6), result(1, 5)]
    found = compared(monkeypatch, peers, [result(2, 7)] * 3)
    assert [d.where for d in found.differences] == ["phases/0/threads/0/0/outputs"]
    assert found.unstable == ["phases/0/threads/0/1/outputs"]


def test_what_is_not_there_each_time_is_no_difference(monkeypatch):
    found = compared(monkeypatch, [result(1, 5)] * 3, [result(2, 7), result(1, 7), result(2, 7)])
    assert [d.where for d in found.differences] == ["phases/0/threads/0/1/outputs"]
    assert not found.unstable


def test_what_a_model_saw_stands_or_falls_together():
    saw = [{"saw": {"@m": events}, "threads": []} for events in ([1, 2, 3], [1, 9, 3], [1, 2, 8])]
    shown, wavering = (differences(PROGRAM, {"phases": [saw[0]]}, {"phases": [other]}) for other in saw[1:])
    assert shown[0].below({("phases", 0, "saw", "@m")}) and wavering[0].path != shown[0].path


def test_another_start_is_one_difference():
    """Not one for each start behind it, nor for what ran then: what explains the start explains nothing else."""

    def began(version):
        return {"event": "initialize", "args": {"model_version": version}}

    one, ran = {"event": "execute", "requests": [1]}, {"event": "execute", "requests": [2]}
    for peers, theirs, left in (
        ([began(1), one, ran], [one, ran], []),
        ([began(1), began(2), one, ran], [began(2), one, ran], []),
        ([began(1), began(2), one], [began(2), began(1), one], []),
        ([began(1), one], [one, ran], ["saw/@/*"]),
        ([one], [began(1), one], ["saw/@/start"]),
        ([began(1), one], [began(2), one], ["saw/@/start"]),
    ):
        peer, ours = ({"phases": [{"saw": {"@m": events}, "threads": []}]} for events in (peers, theirs))
        assert [d.what for d in AllowList().unexplained(differences(PROGRAM, peer, ours))] == left, (peers, theirs)


def test_the_cache_can_take_requests_of_ensembles_for_others():
    """Bytes that an ensemble has brought to its step, and a client with other parameters."""

    def infer(model, name, value, **more):
        data = {"name": name, "datatype": "INT32", "shape": [1], "data": [value]}
        return {"do": "infer", "form": "grpc", "model": model, "inputs": [data], **more}

    step = {"name": "@m", "kind": "plain", "config": {"response_cache": {"enable": True}}}
    whole = {"name": "@e", "kind": "ensemble", "config": {"ensemble_scheduling": {"step": [{"model_name": "@m"}]}}}
    for value, of in ((7, "plain alike"), (8, "plain")):
        thread = [infer("@e", "E_IN0", 7), infer("@m", "IN0", value, parameters={"number": 1})]
        program = {"models": [step, whole], "phases": [[thread]]}
        found = differences(program, result(1, 1), result(1, 2))
        assert [each.of for each in found] == [of], value


@pytest.mark.parametrize("make", [generate, of_ensembles, bound_program])
def test_a_seed_is_always_the_same_program(make):
    for seed in range(200):
        assert json.dumps(make(seed)) == json.dumps(make(seed))


def test_the_generators_make_what_they_are_for():
    """Of each thing that differences were found in, some programs have it."""
    text = "".join(json.dumps(generate(seed)) for seed in range(300))
    for word in (
        "TYPE_BF16", "allow_ragged_batch", "iterative_sequence", "response_cache", "rate_limiter", "max_queue_size",
        "decoupled", '"cancel"', '"unload"', '"burst"', "ensemble_scheduling", "version_policy",
    ):  # fmt: skip
        assert word in text, word
    text = "".join(json.dumps(of_ensembles(seed)) for seed in range(300))
    for word in ('"meanwhile"', '"dependents": true', '"initialize": "raise"', '"OTHER"', '"text": "name: 7', '"O_E_'):
        assert word in text, word
    text = "".join(json.dumps(bound_program(seed)) for seed in range(300))
    for word in ("first_value", "triton_context", "group_by_values", "pad_batch", "fill_optionals", "coroutine"):
        assert word in text, word
