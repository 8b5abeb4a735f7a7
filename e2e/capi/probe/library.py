"""The C library by ctypes: calls whose answers are written down, so that those of two libraries can be compared."""

from __future__ import annotations

import ctypes as c
import json
import os
import re
import threading

CODES = ["UNKNOWN", "INTERNAL", "NOT_FOUND", "INVALID_ARG", "UNAVAILABLE", "UNSUPPORTED", "ALREADY_EXISTS", "CANCELLED"]
P, I64, U64, U32, I32 = c.c_void_p, c.c_int64, c.c_uint64, c.c_uint32, c.c_int32
START = c.CFUNCTYPE(P, P, P)
ALLOC = c.CFUNCTYPE(
    P, P, c.c_char_p, c.c_size_t, c.c_int, I64, P, c.POINTER(P), c.POINTER(P), c.POINTER(c.c_int), c.POINTER(I64)
)
QUERY = c.CFUNCTYPE(P, P, P, c.c_char_p, c.POINTER(c.c_size_t), c.POINTER(c.c_int), c.POINTER(I64))
ATTRIBUTES = c.CFUNCTYPE(P, P, c.c_char_p, P, P, P)
FREE = c.CFUNCTYPE(P, P, P, P, c.c_size_t, c.c_int, I64)
RELEASE = c.CFUNCTYPE(None, P, U32, P)
RESPOND = c.CFUNCTYPE(None, P, U32, P)
ACTIVITY = c.CFUNCTYPE(None, P, c.c_int, U64, P)
TENSOR = c.CFUNCTYPE(None, P, c.c_int, c.c_char_p, c.c_int, P, c.c_size_t, c.POINTER(I64), U64, c.c_int, I64, P)
TRACE_RELEASE = c.CFUNCTYPE(None, P, P)
TEXTS = {
    "ErrorCodeString",
    "ErrorMessage",
    "DataTypeString",
    "MemoryTypeString",
    "ParameterTypeString",
    "InstanceGroupKindString",
    "InferenceTraceLevelString",
    "InferenceTraceActivityString",
}
NUMBERS = {"ErrorCode": c.c_int, "StringToDataType": c.c_int, "DataTypeByteSize": U32, "LogIsEnabled": c.c_bool}


class Library:
    def __init__(self, path: str, names: dict[str, str]):
        self.so = c.CDLL(path, mode=c.RTLD_GLOBAL)
        self.names, self.lock = names, threading.Lock()

    def __call__(self, name: str, *args):
        """What the function returns; `name` without its prefix."""
        f = getattr(self.so, name if name.startswith("TRITON") else "TRITONSERVER_" + name)
        f.restype = c.c_char_p if name in TEXTS else NUMBERS.get(name, P)
        return f(*[convert(a) for a in args])

    def plain(self, text: str) -> str:
        for path, name in self.names.items():
            text = text.replace(path, name)
        return re.sub(r"0x[0-9a-f]+", "ADDRESS", text)

    def error(self, e) -> str:
        """An error as text, deleted."""
        if not e:
            return "ok"
        text = self.shown(e)
        self("ErrorDelete", P(e))
        return text

    def shown(self, e) -> str:
        code, message = self("ErrorCode", P(e)), self("ErrorMessage", P(e))
        return (
            f"{CODES[code] if 0 <= code < len(CODES) else code} {self.plain((message or b'').decode(errors='replace'))}"
        )

    def say(self, question: str, answer="") -> None:
        with self.lock:
            print(f"{question}: {answer}".replace("\n", "\\n"), flush=True)

    def ask(self, question: str, name: str, *args) -> bool:
        """Calls a function that returns an error, and writes it down."""
        answer = self.error(self(name, *args))
        self.say(question, answer)
        return answer == "ok"

    def must(self, name: str, *args) -> None:
        e = self(name, *args)
        if e:
            raise SystemExit(f"{name}: {self.error(e)}")

    def value(self, name: str, *args, kind=P):
        """Calls a function whose last parameter is a place for its result."""
        out = kind()
        self.must(name, *args, c.byref(out))
        return out.value

    def value_first(self, name: str, *args):
        """value, for a function whose first parameter is the place."""
        out = P()
        self.must(name, c.byref(out), *args)
        return out.value

    def get(self, question: str, name: str, *args, kind=P) -> None:
        """Writes down what value returns."""
        out = kind()
        answer = self.error(self(name, *args, c.byref(out)))
        if answer == "ok":
            v = out.value
            answer = v.decode(errors="replace") if isinstance(v, bytes) else ("null" if v is None else str(v))
        self.say(question, answer)

    def text(self, message) -> str:
        base, size = P(), c.c_size_t()
        self.must("MessageSerializeToJson", P(message), c.byref(base), c.byref(size))
        text = c.string_at(base.value, size.value).decode() if size.value else ""
        self.must("MessageDelete", P(message))
        return text

    def document(self, name: str, *args):
        return json.loads(self.text(self.value(name, *args)))

    def documented(self, question: str, name: str, *args, plain=lambda d: d) -> None:
        """Writes down a document, or the error."""
        out = P()
        answer = self.error(self(name, *args, c.byref(out)))
        if answer == "ok":
            answer = self.plain(json.dumps(plain(json.loads(self.text(out.value))), sort_keys=True))
        self.say(question, answer)


def convert(a):
    if isinstance(a, bool):
        return c.c_bool(a)
    if isinstance(a, int):
        return U64(a) if a >= 1 << 63 else I64(a)
    if isinstance(a, float):
        return c.c_double(a)
    if isinstance(a, str):
        return c.c_char_p(a.encode())
    return a


class Server:
    """Options and the server that they make."""

    def __init__(self, lib: Library, repository, *models: str, mode: int = 2, **more):
        self.lib = lib
        o = self.options = P(lib.value_first("ServerOptionsNew"))
        settings = {
            "ModelRepositoryPath": repository and str(repository),
            "ModelControlMode": mode,
            "StrictModelConfig": False,
            "ModelLoadRetryCount": 0,
            "LogInfo": False,
            "LogWarn": False,
            "LogError": False,
            "GpuMetrics": False,
            "ExitTimeout": 20,
            "MinSupportedComputeCapability": 6.0,
            "BackendDirectory": os.environ.get("PROBE_BACKENDS", ""),
            **more,
        }
        for name, value in settings.items():
            for one in value if isinstance(value, list) else [value]:
                if one is not None:
                    lib.must("ServerOptionsSet" + name, o, *(one if isinstance(one, tuple) else (one,)))
        for m in models:
            lib.must("ServerOptionsSetStartupModel", o, m)
        self.handle = None

    def start(self) -> str:
        """Starts the server; the error as text, "ok" for none."""
        out = P()
        answer = self.lib.error(self.lib("ServerNew", c.byref(out), self.options))
        self.lib.must("ServerOptionsDelete", self.options)
        self.handle = out if answer == "ok" else None
        return answer

    def __enter__(self) -> P:
        answer = self.start()
        if answer != "ok":
            raise SystemExit(f"ServerNew: {answer}")
        return self.handle

    def __exit__(self, *_):
        if self.lib.error(self.lib("ServerStop", self.handle)) == "ok":  # else the peer's delete would abort
            self.lib.must("ServerDelete", self.handle)
