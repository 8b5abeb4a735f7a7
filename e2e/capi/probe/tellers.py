"""Caches and backends that are libraries in C, in a server of a C program: what they hear, and what comes of it.

PROBE_LIBS names the directory that has them, caches/ and backends/.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import models
from calls import Call
from library import Library, Server

IO = models.io("input", "IN0 INT32 -1") + models.io("output", "OUT0 INT32 -1")


def libs() -> Path:
    return Path(os.environ["PROBE_LIBS"])


def backends() -> str:
    """The peer's own are needed beside them, and have to lie where they do."""
    return os.environ.get("PROBE_BACKENDS") or str(libs() / "backends")


class Told:
    """What the libraries have written down, a piece at a time."""

    def __init__(self, lib: Library, home: Path):
        self.lib, self.path, self.seen = lib, home / "libs.log", 0
        os.environ["TELLS_LOG"] = str(self.path)

    def skip(self) -> None:
        self.seen = len(self.path.read_text().splitlines()) if self.path.exists() else 0

    def tell(self, question: str) -> None:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        for line in lines[self.seen :]:
            self.lib.say(f"{question}: told", line)
        self.seen = len(lines)


def native(home: Path, name: str, backend: str, extra: str = "", batch: int = 0, io: str = IO) -> Path:
    folder = home / "models" / name
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(
        f'backend: "{backend}"\nmax_batch_size: {batch}\n{io}{extra}instance_group [ {{ kind: KIND_CPU count: 1 }} ]\n'
    )
    return folder


def caches_at_start(lib: Library, home) -> None:
    told = Told(lib, home)
    place = {"CacheDirectory": str(libs() / "caches")}
    for question, more in (
        ("no settings", {"CacheConfig": ("tells", "{}")}),
        (
            "settings of all types",
            {"CacheConfig": ("tells", '{"n": 1, "b": true, "s": "x", "l": [1], "o": {"k": "v"}, "z": null}')},
        ),
        ("a text", {"CacheConfig": ("tells", '"x"')}),
        ("a list", {"CacheConfig": ("tells", "[1, 2]")}),
        ("nothing", {"CacheConfig": ("tells", "")}),
        ("twice", {"CacheConfig": [("tells", '{"a": "1"}'), ("tells", '{"b": "2"}')]}),
        ("twice the same", {"CacheConfig": [("tells", '{"a": "1"}'), ("tells", '{"a": "1"}')]}),
        ("spaces", {"CacheConfig": ("tells", ' { "a" : "1" } ')}),
        ("it refuses", {"CacheConfig": ("tells", '{"refuse": "1"}')}),
        ("no name", {"CacheConfig": ("", "{}")}),
        ("the library and no size", {"CacheConfig": ("tells", "{}"), "ResponseCacheByteSize": 0}),
    ):
        s = Server(lib, home / "empty", ExitTimeout=3, **{**place, **more})
        lib.say(question, s.start())
        if s.handle:
            s.__exit__()
        told.tell(question)


DOES = (
    "parameters",
    "parameters error",
    "parameters bare",
    "bare",
    "error",
    "unknown",
    "wordless",
    "none",
    "trace",
    "log",
)


def responses(lib: Library, home) -> None:
    """Parameters of responses, errors with them, the log of a backend."""
    told = Told(lib, home)
    native(home, "says", "says")
    native(home, "says_streams", "says", models.DECOUPLED)
    log = home / "server.log"
    with Server(
        lib,
        home / "models",
        "says",
        "says_streams",
        BackendDirectory=backends(),
        LogFile=str(log),
        LogInfo=True,
        LogWarn=True,
        LogError=True,
        ExitTimeout=3,
    ) as s:
        for model in ("says", "says_streams"):
            for what in DOES:
                if what == "none" and model == "says":
                    continue
                call = Call(lib, s, model).input("IN0", "INT32", [2], [5, 6]).put("SetStringParameter", "do", what)
                call.tell(f"{model}, {what}", events=False)
                told.tell(f"{model}, {what}")
        for line in log.read_text().splitlines():
            if "says.c" in line:
                lib.say("log", re.sub(r" backend=\w+ model=\w+", "", line[:1] + line[line.find("says.c") :]))


STORIES = [caches_at_start, responses]
