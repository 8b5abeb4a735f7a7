"""Servers: health, documents, loads and unloads, repositories, stops."""

from __future__ import annotations

import ctypes as c
import json
import shutil
import time

import models
from calls import Call
from inferences import wait_begun
from library import U32, Library, P, Server


def keys(d):
    """A document with its numbers taken out."""
    if isinstance(d, dict):
        return {k: keys(v) for k, v in d.items() if k != "memory_usage"}
    if isinstance(d, list):
        return [keys(v) for v in d]
    return "number" if isinstance(d, (int, float)) and not isinstance(d, bool) else d


def health(lib: Library, s, question) -> None:
    lib.get(f"{question}: live", "ServerIsLive", s, kind=c.c_bool)
    lib.get(f"{question}: ready", "ServerIsReady", s, kind=c.c_bool)


def indexed(lib: Library, s, question, flags=0) -> None:
    def plain(d):
        return sorted(f"{m['name']}:{m.get('version', '-')} {m.get('state', '-')} {m.get('reason', '-')}" for m in d)

    lib.documented(f"{question}: index {flags}", "ServerModelIndex", s, flags, plain=plain)


def until(what) -> None:
    for _ in range(1000):
        if what():
            return
        time.sleep(0.02)  # polling: there is nothing to wait on
    raise SystemExit("it does not come about")


def settled(lib: Library, s, name, state) -> None:
    """Waits until the index says of a model that it is so."""

    def so() -> bool:
        states = [m.get("state") for m in lib.document("ServerModelIndex", s, 0) if m["name"] == name]
        return bool(states) and all(x == state for x in states)

    until(so)


def documents(lib: Library, home) -> None:
    with Server(lib, home / "models", "echo", "count", "versions", "chain", "sums", "labels", ServerId="probe") as s:
        health(lib, s, "fresh")
        lib.documented(
            "metadata",
            "ServerMetadata",
            s,
            plain=lambda d: {**d, "version": "-", "extensions": sorted(d["extensions"])},
        )
        for name, version in (
            ("echo", -1),
            ("echo", 1),
            ("echo", 5),
            ("echo", 0),
            ("none", -1),
            ("", -1),
            ("versions", -1),
            ("versions", 1),
            ("versions", 2),
            ("chain", -1),
            ("sums", -1),
        ):
            which = f"{name!r} {version}"
            lib.documented(f"metadata of {which}", "ServerModelMetadata", s, name, version)
            lib.get(f"ready {which}", "ServerModelIsReady", s, name, version, kind=c.c_bool)
            lib.documented(f"statistics of {which}", "ServerModelStatistics", s, name, version, plain=keys)
            lib.documented(f"config of {which}", "ServerModelConfig", s, name, version, 1)
            for what in ("Batch", "Transaction"):
                flags, nothing = U32(99), P(9)
                answer = lib.error(
                    lib(f"ServerModel{what}Properties", s, name, version, c.byref(flags), c.byref(nothing))
                )
                lib.say(f"{what} of {which}", f"{answer} {flags.value} {nothing.value}" if answer == "ok" else answer)
        for format in (0, 2):
            lib.documented(f"config in form {format}", "ServerModelConfig", s, "echo", -1, format)
        lib.documented(
            "all statistics",
            "ServerModelStatistics",
            s,
            "",
            -1,
            plain=lambda d: sorted((m["name"], m["version"]) for m in d["model_stats"]),
        )
        lib.documented(
            "statistics of version 3 of all",
            "ServerModelStatistics",
            s,
            "",
            3,
            plain=lambda d: sorted((m["name"], m["version"]) for m in d["model_stats"]),
        )
        for flags in (0, 1, 2, 3):
            indexed(lib, s, "fresh", flags)
        counted(lib, s)


def counted(lib: Library, s) -> None:
    """Statistics after three requests, one of them refused and one of two rows."""
    for shape, data in (([1, 1], [1.0]), ([2, 1], [1.0, 2.0]), ([1, 2], [1.0])):
        Call(lib, s, "echo").input("X", "FP32", shape, data).tell("counted", events=False)
    Call(lib, s, "count").input("N", "INT32", [1], [2]).input("MS", "INT32", [1], [0]).tell("counted", events=False)
    for name, n in (("echo", 2), ("count", 1)):

        def stats(name=name):
            return lib.document("ServerModelStatistics", s, name, -1)["model_stats"][0]

        until(lambda n=n, stats=stats: stats()["inference_stats"]["success"]["count"] >= n)
        d = stats()
        lib.say(f"{name} counts", (d["inference_count"], d["execution_count"], d["last_inference"] > 1700000000000))
        lib.say(f"{name} stats", {k: v["count"] for k, v in d["inference_stats"].items()})
        lib.say(f"{name} batches", [(b["batch_size"], b["compute_infer"]["count"]) for b in d["batch_stats"]])
        responses = {k: {n: x["count"] for n, x in v.items()} for k, v in d.get("response_stats", {}).items()}
        lib.say(f"{name} responses", responses)


def control(lib: Library, home) -> None:
    """Loads and unloads in explicit mode."""
    repository = home / "controlled"
    shutil.copytree(home / "models", repository)
    with Server(lib, repository, ExitTimeout=5) as s:
        health(lib, s, "empty")
        indexed(lib, s, "empty")
        indexed(lib, s, "empty", 1)
        for name in ("echo", "echo", "none", "", "broken", "../models/echo", "chain", "versions"):
            lib.ask(f"load {name!r}", "ServerLoadModel", s, name)
        health(lib, s, "loaded")
        indexed(lib, s, "loaded")
        indexed(lib, s, "loaded", 1)
        for name in ("none", "", "broken"):
            lib.ask(f"unload {name!r}", "ServerUnloadModel", s, name)
            lib.ask(f"unload {name!r} with dependents", "ServerUnloadModelAndDependents", s, name)
        lib.ask("unload echo", "ServerUnloadModel", s, "echo")
        settled(lib, s, "echo", "UNAVAILABLE")
        indexed(lib, s, "echo gone")
        health(lib, s, "echo gone")
        lib.ask("unload echo again", "ServerUnloadModel", s, "echo")
        lib.ask("load chain", "ServerLoadModel", s, "chain")
        settled(lib, s, "chain", "READY")
        lib.ask("unload chain with dependents", "ServerUnloadModelAndDependents", s, "chain")
        settled(lib, s, "chain", "UNAVAILABLE")
        settled(lib, s, "echo", "UNAVAILABLE")
        indexed(lib, s, "chain gone")
        lib.ask("poll", "ServerPollModelRepository", s)
        with_parameters(lib, s)
        changed(lib, s, repository)


def parameter(lib, name, value):
    if isinstance(value, bytes):
        buffer = c.create_string_buffer(value, max(1, len(value)))
        return P(lib("ParameterBytesNew", name, buffer, len(value))), buffer
    if isinstance(value, int):
        n = c.c_int64(value)
        return P(lib("ParameterNew", name, 1, c.byref(n))), n
    return P(lib("ParameterNew", name, 0, value)), None


CONFIG = {
    "backend": "python",
    "max_batch_size": 3,
    "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [-1]}],
    "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [-1]}],
}


def with_parameters(lib: Library, s) -> None:
    code = (models.HEAD + "".join(f"    {line}\n" for line in models.ECHO.strip("\n").split("\n"))).encode()
    for question, name, given in (
        ("a configuration", "echo", {"config": json.dumps(CONFIG)}),
        ("a wrong configuration", "echo", {"config": "nonsense"}),
        ("an empty configuration", "echo", {"config": ""}),
        ("an unknown field", "echo", {"config": json.dumps({**CONFIG, "colour": "red"})}),
        ("a configuration of another name", "echo", {"config": json.dumps({**CONFIG, "name": "other"})}),
        ("a configuration as bytes", "echo", {"config": b"{}"}),
        ("an unknown parameter", "echo", {"colour": "red"}),
        ("a number", "echo", {"config": 5}),
        ("files without a configuration", "fresh", {"file:1/model.py": code}),
        ("files", "fresh", {"config": json.dumps(CONFIG), "file:1/model.py": code}),
        ("a file as text", "fresh", {"config": json.dumps(CONFIG), "file:1/model.py": "text"}),
        ("a file that escapes", "fresh", {"config": json.dumps(CONFIG), "file:../model.py": code}),
        ("a file without a path", "fresh", {"config": json.dumps(CONFIG), "file:": code}),
        ("a configuration for none", "nobody", {"config": json.dumps(CONFIG)}),
    ):
        made = [parameter(lib, k, v) for k, v in given.items()]
        array = (P * len(made))(*[p for p, _ in made])
        lib.ask(f"load with {question}", "ServerLoadModelWithParameters", s, name, array, len(made))
        for p, _ in made:
            lib("ParameterDelete", p)
        config = P()
        answer = lib.error(lib("ServerModelConfig", s, name, -1, 1, c.byref(config)))
        batch = json.loads(lib.text(config.value))["max_batch_size"] if answer == "ok" else answer
        lib.say(f"load with {question}: batch size", batch)
    array = (P * 1)()
    lib.ask("no parameters, a count", "ServerLoadModelWithParameters", s, "echo", None, 3)
    lib.ask("parameters, no count", "ServerLoadModelWithParameters", s, "echo", array, 0)


def changed(lib: Library, s, repository) -> None:
    """A model whose files change between loads."""
    lib.ask("load plain", "ServerLoadModel", s, "plain")
    (repository / "plain" / "config.pbtxt").write_text('backend: "python"\nmax_batch_size: -3\n')
    lib.ask("load a broken configuration", "ServerLoadModel", s, "plain")
    indexed_of(lib, s, "plain")
    lib.get("the old one is ready", "ServerModelIsReady", s, "plain", -1, kind=c.c_bool)
    models.python(repository, "plain", models.X + models.Y, models.BROKEN)
    lib.ask("load a model that fails", "ServerLoadModel", s, "plain")
    lib.get("the old one is ready", "ServerModelIsReady", s, "plain", -1, kind=c.c_bool)
    indexed_of(lib, s, "plain")


def indexed_of(lib: Library, s, name) -> None:
    def plain(d):
        return [
            f"{m['name']}:{m.get('version', '-')} {m.get('state', '-')} {m.get('reason', '-')}"
            for m in d
            if m["name"] == name
        ]

    lib.documented(f"{name}: index", "ServerModelIndex", s, 0, plain=plain)


def repositories(lib: Library, home) -> None:
    more, empty = home / "more", home / "empty2"
    empty.mkdir(exist_ok=True)
    models.python(more, "sub", models.X + models.Y, models.ECHO)
    models.python(more, "second", models.X + models.Y, models.ECHO)

    def register(question, s, path, **mapping):
        made = [parameter(lib, k, v) for k, v in mapping.items()]
        array = (P * max(1, len(made)))(*[p for p, _ in made])
        lib.ask(question, "ServerRegisterModelRepository", s, str(path), array if made else None, len(made))

    with Server(lib, empty) as s:
        register("a path that is not there", s, "/nowhere")
        register("the same repository", s, empty)
        register("another", s, more)
        indexed(lib, s, "another")
        lib.ask("load of it", "ServerLoadModel", s, "sub")
        register("again", s, more)
        lib.ask("unregistered", "ServerUnregisterModelRepository", s, str(more))
        lib.get("sub is ready", "ServerModelIsReady", s, "sub", -1, kind=c.c_bool)
        indexed(lib, s, "unregistered")
        lib.ask("unregistered again", "ServerUnregisterModelRepository", s, str(more))
        lib.ask("load of what has gone", "ServerLoadModel", s, "second")
        register("with a mapping", s, more / "sub", sub="renamed")
        indexed(lib, s, "mapped")
        lib.ask("load renamed", "ServerLoadModel", s, "renamed")
        register("with the same mapping", s, more / "sub", sub="renamed")
        register("a mapping that is taken", s, more, second="renamed")
        register("one name for two", s, more, second="same", sub="same")
        register("a mapping for a number", s, more, second=5)
        register("a folder that is not there", s, more, absent="other")
        indexed(lib, s, "after")
        lib.ask("no mappings, a count", "ServerRegisterModelRepository", s, str(more), None, 2)
        lib.ask("unregistered", "ServerUnregisterModelRepository", s, str(more / "sub"))
        lib.ask("the first one unregistered", "ServerUnregisterModelRepository", s, str(empty))
        indexed(lib, s, "none left")


def modes(lib: Library, home) -> None:
    repository = home / "polled"
    for name in ("echo", "plain"):
        shutil.copytree(home / "models" / name, repository / name)
    for mode in (0, 1):
        with Server(lib, repository, mode=mode) as s:
            indexed(lib, s, f"mode {mode}")
            lib.ask(f"mode {mode}: load", "ServerLoadModel", s, "echo")
            lib.ask(f"mode {mode}: unload", "ServerUnloadModel", s, "echo")
            lib.ask(f"mode {mode}: unload with dependents", "ServerUnloadModelAndDependents", s, "echo")
            lib.ask(f"mode {mode}: register", "ServerRegisterModelRepository", s, str(home), None, 0)
            lib.ask(f"mode {mode}: unregister", "ServerUnregisterModelRepository", s, str(home))
            lib.ask(f"mode {mode}: poll", "ServerPollModelRepository", s)
            if mode == 1:
                shutil.copytree(home / "models" / "count", repository / "count")
                lib.ask("poll with a new model", "ServerPollModelRepository", s)
                settled(lib, s, "count", "READY")
                shutil.rmtree(repository / "plain")
                lib.ask("poll without an old one", "ServerPollModelRepository", s)
                until(lambda: "UNLOADING" not in str(lib.document("ServerModelIndex", s, 0)))
                indexed(lib, s, "polled")


def started(lib: Library, home) -> None:
    """What starts with models that fail, and what ready means then."""
    for question, more in (
        ("strict", {"ExitOnError": False, "StrictReadiness": True}),
        ("loose", {"ExitOnError": False, "StrictReadiness": False}),
    ):
        s = Server(lib, home / "models", "echo", "broken", **more)
        lib.say(question, s.start())
        if s.handle:
            health(lib, s.handle, question)
            lib.documented(f"{question}: metadata", "ServerModelMetadata", s.handle, "broken", -1)
            s.__exit__()
    for question, more in (("all", {"StartupModel": "*"}),):
        repository = home / "few"
        for name in ("echo", "plain"):
            shutil.copytree(home / "models" / name, repository / name)
        with Server(lib, repository, **more) as s:
            indexed(lib, s, question, 1)


def stopped(lib: Library, home) -> None:
    s = Server(lib, home / "models", "echo", "slow")
    s.start()
    h = s.handle
    running = Call(lib, h, "slow").input("MS", "INT32", [1], [1000])
    running.eager = True  # what is kept holds up the peer's stop
    lib.say("running", running.send())
    wait_begun(home, 1)
    lib.ask("exit timeout", "ServerSetExitTimeout", h, 30)
    lib.ask("stop waits", "ServerStop", h)
    lib.say("what ran", running.texts)
    health(lib, h, "stopped")
    lib.documented("metadata", "ServerMetadata", h, plain=lambda d: d["name"])
    lib.documented("index", "ServerModelIndex", h, 0)
    lib.documented("model metadata", "ServerModelMetadata", h, "echo", -1)
    lib.documented("config", "ServerModelConfig", h, "echo", -1, 1)
    lib.documented("statistics", "ServerModelStatistics", h, "echo", -1, plain=keys)
    lib.get("model ready", "ServerModelIsReady", h, "echo", -1, kind=c.c_bool)
    r = P()
    lib.ask("new request", "InferenceRequestNew", c.byref(r), h, "echo", -1)
    lib.ask("load", "ServerLoadModel", h, "echo")
    lib.ask("unload", "ServerUnloadModel", h, "echo")
    lib.ask("poll", "ServerPollModelRepository", h)
    lib.ask("register", "ServerRegisterModelRepository", h, str(home), None, 0)
    flags, nothing = U32(), P()
    lib.ask("batch properties", "ServerModelBatchProperties", h, "echo", -1, c.byref(flags), c.byref(nothing))
    lib.ask("stop again", "ServerStop", h)
    lib.ask("delete", "ServerDelete", h)


def two(lib: Library, home) -> None:
    """Two servers in one process."""
    first, second = (
        Server(lib, home / "models", "echo", ServerId="one"),
        Server(lib, home / "models", "echo", "plain", ServerId="two"),
    )
    lib.say("first", first.start())
    lib.say("second", second.start())
    for s, name in ((first, "first"), (second, "second")):
        lib.documented(f"{name}: metadata", "ServerMetadata", s.handle, plain=lambda d: d["name"])
        Call(lib, s.handle, "echo").input("X", "FP32", [1, 1], [1.0]).tell(f"{name}: answer", events=False)
    first.__exit__()
    Call(lib, second.handle, "echo").input("X", "FP32", [1, 1], [1.0]).tell("second alone", events=False)
    second.__exit__()


def unknown(lib: Library, home) -> None:
    """Models that are not there, and what stands where the answer would, with and without namespaces."""
    names = ("none", "echo", "/other::echo", "::echo", "echo::")
    for namespaces in (False, True):
        with Server(lib, home / "models", "echo", ModelNamespacing=namespaces) as s:
            for name, version in ((n, v) for n in names for v in ((-1, 7) if n == "echo" else (-1,))):
                which = f"{'namespaces' if namespaces else 'none'}: {name!r} {version}"
                for what in ("Batch", "Transaction"):
                    flags, reserved = c.c_uint32(99), P(9)
                    answer = lib.error(
                        lib(f"ServerModel{what}Properties", s, name, version, c.byref(flags), c.byref(reserved))
                    )
                    lib.say(f"{which}: {what}", f"{answer} flags={flags.value} reserved={reserved.value}")
                request, message = P(9), P(9)
                answer = lib.error(lib("InferenceRequestNew", c.byref(request), s, name, version))
                lib.say(f"{which}: request", f"{answer} {'untouched' if request.value == 9 else 'made'}")
                answer = lib.error(lib("ServerModelMetadata", s, name, version, c.byref(message)))
                lib.say(f"{which}: metadata", f"{answer} {'untouched' if message.value == 9 else 'made'}")
                if answer == "ok":  # else a request that is kept holds up the stop
                    lib.must("InferenceRequestDelete", request)
                    lib.must("MessageDelete", message)
                lib.get(f"{which}: ready", "ServerModelIsReady", s, name, version, kind=c.c_bool)


STORIES = [documents, unknown, control, repositories, modes, started, stopped, two]
