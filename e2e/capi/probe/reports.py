"""What a backend library reports of itself (memory, responses, its configuration), and where a program sees it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import models
from calls import Call
from library import Library, Server
from tellers import Told

TOP = Path(__file__).resolve().parents[3]
IO = models.io("input", "IN0 INT32 -1") + models.io("output", "OUT0 INT32 -1")
PLACES = {"here": True, "hosted": False}  # models, and whether they are in the program's process
CPU = "instance_group [ {{ kind: KIND_CPU count: {} }} ]\n"


def write(top: Path, name: str, config: str, here: bool) -> None:
    (top / name / "1").mkdir(parents=True)
    isolation = 'parameters { key: "isolation" value { string_value: "none" } }\n' if here else ""
    (top / name / "config.pbtxt").write_text(f'backend: "tallies"\n{config}{isolation}')
    built = top.parent / "libtriton_tallies.so"
    if not built.exists():
        source = TOP / "e2e" / "capi" / "backends" / "tallies.c"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", f"-I{TOP / 'include'}", "-o", built, source], check=True)
    shutil.copy(built, top / name)


def tallies(lib: Library, told: Told, s, model: str, what: str) -> None:
    call = Call(lib, s, model).put("SetStringParameter", "do", what).input("IN0", "INT32", [2], [7, 8])
    lib.say(f"{model}: {what}", call.run())
    call.delete()
    told.tell(model)


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
    for name, here in PLACES.items():
        write(top, name, IO + models.DECOUPLED + CPU.format(1), here)
    with Server(lib, top, "here", "hosted") as s:
        for model in PLACES:
            told.skip()
            lib.say(f"{model}: at the start", statistics(lib, s, model)["memory_usage"])
            for of in ("model", "instance"):
                for usage in MEMORY:
                    tallies(lib, told, s, model, f"memory {of} {usage}")
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
    for name, here in PLACES.items():
        for kind, more in (("", models.DECOUPLED), ("_single", "")):
            write(top, name + kind, IO + more + CPU.format(1), here)
    for model in ("here", "hosted", "here_single", "hosted_single"):
        with Server(lib, top, model) as s:
            for responses in RESPONSES:
                told.skip()
                tallies(lib, told, s, model, f"response {responses}")
                text = lib.text(lib.value("ServerModelStatistics", s, model, -1))
                lib.say(
                    f"{model}: response statistics", text[text.index('"response_stats"') : text.index(',"batch_stats"')]
                )


SETS = (
    "{'max_batch_size':4}",
    "{'input':[{'name':'IN0','data_type':'TYPE_INT32','dims':[-1]},{'name':'IN1','data_type':'TYPE_FP32','dims':[2]}]}",
    "{'input':[{'name':'IN0','data_type':'TYPE_FP32','dims':[-1]}]}",
    "{'output':[{'name':'OUT0','data_type':'TYPE_INT32','dims':[-1]},{'name':'OUT9','data_type':'TYPE_FP32','dims':[2]}]}",
    "{'model_transaction_policy':{'decoupled':true}}",
    "{'dynamic_batching':{}}",
    "{'sequence_batching':{}}",
    "{'version_policy':{'latest':{'num_versions':7}}}",
    "{'parameters':{'new':{'string_value':'x'}}}",
    "{'instance_group':[{'count':3,'kind':'KIND_CPU'}]}",
    "{'name':'other'}",
    "{'nonsense':1}",
    "{'nonsense':{'a':[1,{'b':2}]},'other':2}",
    "{'input':[{'name':'IN0','data_type':'TYPE_INT32','dims':[-1],'nonsense':1}]}",
    "{'model_transaction_policy':{'nonsense':true}}",
    "{'parameters':{'a':{'nonsense':'x'}}}",
    "{}",
)


def native_set_config(lib: Library, home) -> None:
    """TRITONBACKEND_ModelSetConfig where completion is off, and where it is on."""
    top, told = home / "natives", Told(lib, home)
    for k, text in enumerate(SETS):
        for name, more in (("here", ""), ("hosted", "max_batch_size: 2\n")):
            extra = f'{more}parameters {{ key: "set" value {{ string_value: "SET:{text}" }} }}\n'
            write(top, f"{name}_{k}", IO + CPU.format(1) + extra, name == "here")
    for strict in (True, False):
        with Server(lib, top, StrictModelConfig=strict) as s:
            for k, text in enumerate(SETS):
                for name in ("here", "hosted"):
                    question, model = f"{name}, strict {strict}, {text}", f"{name}_{k}"
                    lib.ask(f"{question}: load", "ServerLoadModel", s, model)
                    if name == "hosted":  # ours makes the other one twice where it completes
                        told.tell(question)
                    else:
                        told.skip()
                    lib.documented(question, "ServerModelConfig", s, model, -1, 1, plain=known)
                    lib.documented(f"{question}: metadata", "ServerModelMetadata", s, model, -1)


def known(d: dict) -> dict:
    keys = ("name", "max_batch_size", "input", "output", "model_transaction_policy", "dynamic_batching", "sequence_batching",
            "version_policy", "instance_group")  # fmt: skip
    return {k: d[k] for k in keys if k in d}


STORIES = [native_memory, native_response_statistics, native_set_config]
