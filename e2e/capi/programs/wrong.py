"""Calls every function that the headers declare with what it must not get, and prints what each says.

usage: wrong LIBRARY REPOSITORY HEADER...

One kind of wrong argument at a time, all others being right where they can be made: null, a number that was never a
handle, an object of another kind, an enumeration out of range, a count that no memory has. What does not return ends the
process, and the last line says which call it was.
"""

from __future__ import annotations

import ctypes as c
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "probe"))

from calls import Call
from library import U64, Library, P, Server

# What would end the objects that the other calls need, or wait.
ENDS = {"TRITONSERVER_ServerStop", "TRITONSERVER_ServerSetExitTimeout"}
MADE_UP = (0x1234, (1 << 64) - 1)


def declared(headers: list[str]) -> list[tuple[str, str, list[str]]]:
    """Name, result and parameters of each function."""
    text = re.sub(r"/\*.*?\*/", "", "".join(Path(h).read_text() for h in headers), flags=re.S)
    found = re.findall(r"^TRITON[A-Z]+_DECLSPEC ([^(]*?)\b((?:TRITON[A-Z]+|NESO)_\w+)\(([^;]*)\);", text, re.M | re.S)
    return [
        (
            name,
            result.strip(),
            [p for p in (" ".join(q.split()) for q in parameters.split(",")) if p not in ("void", "")],
        )
        for result, name, parameters in found
    ]


def kind(parameter: str) -> str:
    """What a parameter is: the name of an opaque type, or one of callback, text, pointer, enum, count, number, real."""
    if "_t " in parameter and "Fn_t" in parameter:
        return "callback"
    if m := re.fullmatch(r"(?:const )?(?:struct )?(TRITON\w+)\* ?\w+", parameter):
        return m[1] if not re.search(r"Type$|Kind$|Level$|Mode$|Format$|Policy$|Flag$", m[1]) else "pointer"
    if re.fullmatch(r"const char\* ?\w+", parameter):
        return "text"
    if "*" in parameter:
        return "pointer"
    if parameter.startswith(("TRITON", "const TRITON")):
        return "enum"
    if parameter.startswith(("double", "float")):
        return "real"
    if re.search(r"(uint64_t|size_t) \w*(count|size)$", parameter):
        return "count"
    return "number"


class Wrong:
    def __init__(self, path: str, repository: str):
        self.lib = lib = Library(path, {})
        self.server = Server(lib, repository, "identity").__enter__()
        call = Call(lib, self.server, "identity")
        call.input("X", "FP32", [2], [1.0, 2.0]).run()
        self.call = call
        self.stub = c.CFUNCTYPE(None)(lambda: None)
        family = P(lib.value_first("MetricFamilyNew", 0, "wrong", "What is wrong."))
        self.live = {
            "Server": self.server,
            "InferenceRequest": P(lib.value_first("InferenceRequestNew", self.server, "identity", -1)),
            "InferenceResponse": P(call.responses[0][0]),
            "ResponseAllocator": call.allocator,
            "InferenceTrace": P(lib.value_first("InferenceTraceNew", 0, 0, self.stub, self.stub, None)),
            "Message": P(lib.value_first("MessageNewFromSerializedJson", "{}", 2)),
            "BufferAttributes": P(lib.value_first("BufferAttributesNew")),
            "ServerOptions": P(lib.value_first("ServerOptionsNew")),
            "Metrics": P(lib.value("ServerMetrics", self.server)),
            "MetricFamily": family,
            "Metric": P(lib.value_first("MetricNew", family, None, 0)),
            "MetricArgs": P(lib.value_first("MetricArgsNew")),
            "Parameter": P(lib("ParameterNew", "n", 0, "v")),
            "Error": P(lib("ErrorNew", 1, "why")),
        }
        self.live = {"TRITONSERVER_" + name: made for name, made in self.live.items()}

    def right(self, what: str):
        """An argument of a kind, and whether it is a right one: objects of plug-ins are their server's alone to make."""
        if what.startswith("TRITON"):
            return self.live.get(what, P(MADE_UP[0])), what in self.live
        return {
            "callback": self.stub,
            "text": c.c_char_p(b"x"),
            "pointer": c.create_string_buffer(4096),
            "enum": c.c_int(0),
            "count": U64(0),
            "real": c.c_double(0),
        }.get(what, U64(0)), True

    def other(self, what: str) -> P:
        return self.live["TRITONSERVER_Message" if what != "TRITONSERVER_Message" else "TRITONSERVER_Parameter"]

    def ask(self, name: str, result: str, wrong: str, args: list) -> None:
        print(f"{name} {wrong}: ", end="", flush=True)
        f = getattr(self.lib.so, name)
        f.restype = P if "*" in result else c.c_int if result != "void" else None
        got = f(*args)
        print(self.lib.error(got) if result == "TRITONSERVER_Error*" else "returned", flush=True)

    def sweep(self, name: str, result: str, parameters: list[str]) -> None:
        kinds = [kind(p) for p in parameters]
        names = [re.search(r"(\w+)$", p)[1] for p in parameters]
        if name in ENDS:
            kinds = [k for k in kinds if k.startswith("TRITON")]
        self.ask(name, result, "nothing at all", [self.right(k)[0] if k == "real" else P(0) for k in kinds])
        deletes = name.endswith(("Delete", "Release"))
        for i, what in enumerate(kinds):
            args = [self.right(k)[0] for k in kinds]

            def one(wrong: str, value, i=i, args=args) -> None:
                self.ask(name, result, f"{names[i]} {wrong}", [*args[:i], value, *args[i + 1 :]])

            if what.startswith("TRITON"):
                one("null", P(0))
                for value in MADE_UP:
                    one(f"made up {value:x}", P(value))
                one("of another kind", self.other(what))
            elif deletes and self.right(kinds[0])[1]:
                continue  # with its object right it would be done
            elif what in ("callback", "text", "pointer"):
                one("null", P(0))
            elif what == "enum":
                one("out of range 77", c.c_int(77))
                one("out of range -1", c.c_int(-1))
            elif what == "count":
                one("of no memory", U64(1 << 62))


def main() -> None:
    path, repository, *headers = sys.argv[1:]
    wrong = Wrong(path, repository)
    for one in declared(headers):
        wrong.sweep(*one)
    answer = Call(wrong.lib, wrong.server, "identity").input("X", "FP32", [2], [1.0, 2.0])
    print(f"at the end: {answer.run()} {answer.shown(answer.responses[0][0])}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
