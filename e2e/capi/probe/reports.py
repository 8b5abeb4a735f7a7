"""What a backend library reports of itself (memory, responses, its configuration), and where a program sees it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import models
from calls import Call
from library import Library, Server
from tellers import Told

TOP = Path(__file__).resolve().parents[3]
IO = models.io("input", "IN0 INT32 -1") + models.io("output", "OUT0 INT32 -1")
CPU = "instance_group [ {{ kind: KIND_CPU count: {} }} ]\n"


def write(top: Path, name: str, config: str, here: bool) -> None:
    (top / name / "1").mkdir(parents=True)
    isolation = 'parameters { key: "isolation" value { string_value: "none" } }\n' if here else ""
    (top / name / "config.pbtxt").write_text(f'backend: "tallies"\n{config}{isolation}')
    source, to = TOP / "e2e" / "capi" / "backends" / "tallies.c", top / name / "libtriton_tallies.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", f"-I{TOP / 'include'}", "-o", to, source], check=True)


def tallies(lib: Library, s, model: str, what: str) -> None:
    call = Call(lib, s, model).put("SetStringParameter", "do", what).input("IN0", "INT32", [2], [7, 8])
    lib.say(f"{model}: {what}", call.run())
    call.delete()


def statistics(lib: Library, s, model: str) -> dict:
    return lib.document("ServerModelStatistics", s, model, -1)["model_stats"][0]


MEMORY = (
    "0 0 100",
    "0 0 100 0 0 50",
    "0 1 3 0 0 2",
    "1 0 7",
    "2 0 11 2 1 12",
    "2 1 12 1 0 3 0 0 4",
    "0 0 0",
    "",
)


def native_memory(lib: Library, home) -> None:
    """The memory that a library reports, of its model and of its instances."""
    top, told = home / "natives", Told(lib, home)
    for name, here in (("here", True), ("hosted", False)):
        write(top, name, IO + models.DECOUPLED + CPU.format(1), here)
    with Server(lib, top, "here", "hosted") as s:
        for model in ("here", "hosted"):
            told.skip()
            lib.say(f"{model}: at the start", statistics(lib, s, model)["memory_usage"])
            for of in ("model", "instance"):
                for usage in MEMORY:
                    tallies(lib, s, model, f"memory {of} {usage}")
                    told.tell(model)
                    lib.say(f"{model}: memory of {of}: {usage}", statistics(lib, s, model)["memory_usage"])


REPORT = "instance factory start 1000 output 1500 end 2500 report"
RESPONSES = (
    REPORT,
    f"{REPORT};{REPORT};{REPORT}",
    f"{REPORT} report",
    "instance factory output 1500 end 2500 report",
    "instance factory start 1000 output 1500 report",
    "instance factory start 1000 end 2500 report",
    "instance factory start 2500 output 1500 end 1000 report",
    "instance factory start 2500 end 1000 report",
    f"instance factory start 2500 end 1000 report;{REPORT}",
    "instance factory start 1000 output 1500 end 2500 error 1 report",
    "instance factory start 1000 output 1500 end 2500 error 7 report",
    "instance factory start 1000 end 2500 error 7 report",
    "instance factory start 1000 end 2500 error 3 report",
)


def native_response_statistics(lib: Library, home) -> None:
    """The times of single responses that a library reports."""
    top, told = home / "natives", Told(lib, home)
    for name, here in (("here", True), ("hosted", False)):
        for kind, more in (("", models.DECOUPLED), ("_single", "")):
            write(top, name + kind, IO + more + CPU.format(1), here)
    for model in ("here", "hosted", "here_single", "hosted_single"):
        with Server(lib, top, model) as s:
            for responses in RESPONSES:
                told.skip()
                tallies(lib, s, model, f"response {responses}")
                told.tell(model)
                text = lib.text(lib.value("ServerModelStatistics", s, model, -1))
                lib.say(
                    f"{model}: response statistics", text[text.index('"response_stats"') : text.index(',"batch_stats"')]
                )


STORIES = [native_memory, native_response_statistics]
