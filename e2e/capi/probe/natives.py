"""What a backend library and the program that has the server see of each other: backends/wants.c says what it wants and what it got."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

from calls import Call
from library import Library, Server

TOP = Path(__file__).resolve().parents[3]
CONFIG = """backend: "wants"
max_batch_size: 8
input [ { name: "IN0" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "OUT0" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "OUT1" data_type: TYPE_INT32 dims: [ -1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
# "here" has the library in this process, which "hosted" has with the peer alone.
MODELS = {"here": 'parameters { key: "isolation" value { string_value: "none" } }\n', "hosted": ""}


def write(home: Path) -> Path:
    """A repository with models of the library, which lies beside them."""
    top = home / "natives"
    for name, extra in MODELS.items():
        (top / name / "1").mkdir(parents=True)
        (top / name / "config.pbtxt").write_text(CONFIG + extra)
        source, to = TOP / "e2e" / "capi" / "backends" / "wants.c", top / name / "libtriton_wants.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", f"-I{TOP / 'include'}", "-o", to, source], check=True)
    return top


def wants(lib: Library, s, model: str, what: str, **more) -> Call:
    call = Call(lib, s, model, **more).put("SetStringParameter", "do", what)
    return call.input("IN0", "INT32", [1, 2], [7, 8])


def each(lib: Library, home, ask) -> None:
    with Server(lib, write(home), *MODELS) as s:
        for model in MODELS:
            ask(s, model)


def native_outputs(lib: Library, home) -> None:
    """The memory that a backend wants for its outputs, and what it is given."""

    def ask(s, model):
        for wanted in ((0, 0), (0, 5), (1, 0), (1, 3), (2, 0), (2, 1)):
            wants(lib, s, model, "output {} {}".format(*wanted)).tell(f"{model}: it wants {wanted}")
        for actual in ((0, 4), (1, 0), (1, 3), (2, 0)):
            call = wants(lib, s, model, "output 1 2")
            call.actual = actual
            call.tell(f"{model}: it wants (1, 2) and is given {actual}")
        call = wants(lib, s, model, "output 1 2")
        call.give = (1, 9)
        call.tell(f"{model}: the attributes say (1, 9)")
        for where in ("start", "alloc", "attributes"):
            call = wants(lib, s, model, "output 1 2")
            call.refuse = where
            call.tell(f"{model}: {where} refuses")

    each(lib, home, ask)


def native_preferences(lib: Library, home) -> None:
    """The memory that a backend is told is preferred."""

    def ask(s, model):
        for wanted in ((0, 0), (1, 3), (2, 0)):
            wants(lib, s, model, "prefers {} {}".format(*wanted)).tell(f"{model}: it asks with {wanted}")
        call = wants(lib, s, model, "prefers 2 1")
        call.prefer = (1, 5)
        call.tell(f"{model}: the program prefers (1, 5)")
        wants(lib, s, model, "prefers 2 1", query=False).tell(f"{model}: without a query function")
        call = wants(lib, s, model, "prefers 2 1")
        call.refuse = "query"
        call.tell(f"{model}: query refuses")

    each(lib, home, ask)


def native_pieces(lib: Library, home) -> None:
    """An input that comes in pieces."""

    def ask(s, model):
        for sizes in ((8,), (4, 4), (1, 6, 1), (8, 0), (0, 8), (4, 0, 4)):
            call = Call(lib, s, model).put("SetStringParameter", "do", "pieces").input("IN0", "INT32", [1, 2])
            data = struct.pack("<2i", 7, 8)
            for n in sizes:
                call.append("IN0", data[:n])
                data = data[n:]
            call.tell(f"{model}: {sizes}", events=False)
        n = 1 << 18
        call = Call(lib, s, model).put("SetStringParameter", "do", "pieces").input("IN0", "INT32", [1, n])
        call.append("IN0", b"\1" * 2 * n)
        call.append("IN0", b"\2" * 2 * n)
        call.tell(f"{model}: two large ones", events=False)

    each(lib, home, ask)


def native_responses(lib: Library, home) -> None:
    """Responses that there should not be, and outputs."""

    def ask(s, model):
        for n in (1, 2, 3):
            wants(lib, s, model, f"many {n}").tell(f"{model}: {n} responses")
        wants(lib, s, model, "both").tell(f"{model}: two outputs")
        for name in ("OUT0", "OUT1"):
            wants(lib, s, model, "both").put("AddRequestedOutput", name).tell(
                f"{model}: two outputs, {name} is asked for"
            )

    each(lib, home, ask)


def native_flags(lib: Library, home) -> None:
    """Flags of requests that mean nothing."""

    def ask(s, model):
        for flags in (0, 1, 3, 4, 7, 8, 0x80000000, 0xFFFFFFFF):
            wants(lib, s, model, "flags").put("SetFlags", flags).tell(f"{model}: flags {flags}", events=False)

    each(lib, home, ask)


STORIES = [native_outputs, native_preferences, native_pieces, native_responses, native_flags]
