"""Readiness, loads with files and configurations of the program, servers beside each other."""

from __future__ import annotations

import ctypes as c
import json

import models
from calls import Call
from inferences import wait_begun
from library import Library, P, Server
from servers import health, indexed, parameter, settled


def ready(lib: Library, home) -> None:
    r = home / "readiness"
    for name, code in (("good", models.ECHO), ("bad", models.BROKEN), ("turns", models.ECHO)):
        models.python(r, name, models.X + models.Y, code)
    for strict in (True, False):
        with Server(lib, r, StrictReadiness=strict, ExitTimeout=3) as s:
            which = f"strict {strict}"
            for name in ("good", "bad", "nobody", "turns"):
                lib.ask(f"{which}: load {name}", "ServerLoadModel", s, name)
                health(lib, s, f"{which}: {name}")
            lib.ask(f"{which}: unload bad", "ServerUnloadModel", s, "bad")
            health(lib, s, f"{which}: bad is not wanted")
            models.python(r, "turns", models.X + models.Y, models.BROKEN)
            lib.ask(f"{which}: turns has become bad", "ServerLoadModel", s, "turns")
            health(lib, s, f"{which}: turns has become bad")
            for name in ("good", "bad", "turns", "nobody", ""):
                for version in (-1, 1, 2, 0, -2):
                    lib.get(f"{which}: {name!r} {version}", "ServerModelIsReady", s, name, version, kind=c.c_bool)
            lib.ask(f"{which}: unload good", "ServerUnloadModel", s, "good")
            settled(lib, s, "good", "UNAVAILABLE")
            health(lib, s, f"{which}: good is gone")
            models.python(r, "turns", models.X + models.Y, models.ECHO)
            indexed(lib, s, which)


def overridden(lib: Library, home) -> None:
    """Loads with files and configurations of the program: which of them count."""
    r = home / "models"

    def code(number: int) -> bytes:
        body = f"""
def execute(self, requests):
    return [answer(("Y", given(r, "X") + np.float32({number}))) for r in requests]
"""
        return (models.HEAD + "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))).encode()

    base = {"backend": "python", "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [-1]}],
            "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [-1]}]}  # fmt: skip

    def load(question, name, given):
        made = [parameter(lib, k, v) for k, v in given]
        array = (P * len(made))(*[p for p, _ in made])
        lib.ask(f"load with {question}", "ServerLoadModelWithParameters", s, name, array, len(made))
        for p, _ in made:
            lib("ParameterDelete", p)
        for version in (-1, 1, 2, 3, 7):
            ok = P()
            if lib.error(lib("InferenceRequestNew", c.byref(ok), s, name, version)) != "ok":
                continue
            lib.must("InferenceRequestDelete", ok)
            if lib.value("ServerModelIsReady", s, name, version, kind=c.c_bool):
                Call(lib, s, name, version).input("X", "FP32", [1], [0.0]).tell(
                    f"{question}: version {version}", events=False
                )

    with Server(lib, r, ExitTimeout=3) as s:
        every = json.dumps({**base, "version_policy": {"all": {}}})
        load("a version", "made", [("config", json.dumps(base)), ("file:1/model.py", code(1))])
        load(
            "three versions",
            "made",
            [
                ("config", every),
                ("file:1/model.py", code(1)),
                ("file:3/model.py", code(3)),
                ("file:2/model.py", code(2)),
            ],
        )
        load(
            "a file twice",
            "made",
            [("config", json.dumps(base)), ("file:1/model.py", code(1)), ("file:1/model.py", code(5))],
        )
        load(
            "a configuration twice",
            "made",
            [
                ("config", json.dumps(base)),
                ("config", every),
                ("file:1/model.py", code(1)),
                ("file:7/model.py", code(7)),
            ],
        )
        load("an absolute path", "made", [("config", json.dumps(base)), ("file:/1/model.py", code(9))])
        lib.ask("plain load", "ServerLoadModel", s, "plain")
        load(
            "files over those of the repository", "plain", [("config", json.dumps(base)), ("file:7/model.py", code(7))]
        )
        lib.ask("plain load", "ServerLoadModel", s, "plain")
        load("its name", "plain", [("config", json.dumps({**base, "name": "plain"}))])
        load("spaces", "plain", [("config", "  " + json.dumps(base) + "\n")])
        load("snake and camel", "plain", [("config", json.dumps({**base, "maxBatchSize": 3}))])
        load("a number as text", "plain", [("config", json.dumps({**base, "max_batch_size": "3"}))])


def neighbours(lib: Library, home) -> None:
    """Two servers: models, statistics, requests and stops of one are not those of the other."""
    first, second = (Server(lib, home / "models", "echo", "slow", ServerId=n, ExitTimeout=3) for n in ("one", "two"))
    lib.say("first", first.start())
    lib.say("second", second.start())
    a, b = first.handle, second.handle
    for i in range(3):
        Call(lib, a, "echo").input("X", "FP32", [1, 1], [1.0]).tell(f"first {i}", events=False)
    for s, name in ((a, "first"), (b, "second")):
        d = lib.document("ServerModelStatistics", s, "echo", -1)["model_stats"][0]
        lib.say(f"{name}: inferences", d["inference_count"])
    lib.ask("load in the second", "ServerLoadModel", b, "plain")
    for s, name in ((a, "first"), (b, "second")):
        indexed(lib, s, name, 1)
    call = Call(lib, a, "echo").input("X", "FP32", [1, 1], [1.0])
    lib.say("a request of the first, sent to the second", lib.error(lib("ServerInferAsync", b, call.request, None)))
    call.wait()
    call.tell("it", "ok", events=False)
    running = Call(lib, b, "slow").input("MS", "INT32", [1], [60000])
    running.eager = True
    lib.say("running in the second", running.send())
    wait_begun(home, 1)
    first.__exit__()
    lib.get("the second is live", "ServerIsLive", b, kind=c.c_bool)
    (home / "go").touch()
    running.wait()
    lib.say("it has run", running.texts)
    again = Server(lib, home / "models", "echo", ServerId="three", ExitTimeout=3)
    lib.say("a third, while the second is there", again.start())
    Call(lib, again.handle, "echo").input("X", "FP32", [1, 1], [1.0]).tell("third", events=False)
    second.__exit__()
    Call(lib, again.handle, "echo").input("X", "FP32", [1, 1], [1.0]).tell("third alone", events=False)
    again.__exit__()


STORIES = [ready, overridden, neighbours]
