"""What a request may hold, what is refused and with which words, and what its callbacks see."""

from __future__ import annotations

import ctypes as c

from calls import Call
from library import I64, U32, U64, Library, P, Server


def fields(lib: Library, home) -> None:
    with Server(lib, home / "models", "echo", "versions", "chain") as s:
        for model, version in (
            ("echo", -1),
            ("echo", 1),
            ("echo", 2),
            ("echo", 0),
            ("echo", -2),
            ("none", -1),
            ("", -1),
            ("versions", 2),
            ("chain", -1),
        ):
            r = P()
            if lib.ask(f"new {model!r} {version}", "InferenceRequestNew", c.byref(r), s, model, version):
                lib.ask(f"new {model!r} {version}: deleted", "InferenceRequestDelete", r)
        call = Call(lib, s, "echo")
        set_and_read(lib, call.request)
        call.delete("deleted")


def set_and_read(lib: Library, r) -> None:
    def show(question, name, kind):
        lib.get(question, "InferenceRequest" + name, r, kind=kind)

    show("id", "Id", c.c_char_p)
    for value in ("one", "", "two"):
        lib.ask(f"set id {value!r}", "InferenceRequestSetId", r, value)
        show("id", "Id", c.c_char_p)
    show("flags", "Flags", U32)
    for value in (1, 2, 3, 4, 0xFFFFFFFF, 0):
        lib.ask(f"set flags {value}", "InferenceRequestSetFlags", r, value)
        show("flags", "Flags", U32)
    show("correlation", "CorrelationId", U64)
    show("correlation text", "CorrelationIdString", c.c_char_p)
    lib.ask("set correlation", "InferenceRequestSetCorrelationId", r, (1 << 64) - 1)
    show("correlation", "CorrelationId", U64)
    show("correlation text", "CorrelationIdString", c.c_char_p)
    for n in (0, 1, 128, 129):
        lib.ask(f"set correlation text of {n}", "InferenceRequestSetCorrelationIdString", r, "x" * n)
        show("correlation", "CorrelationId", U64)
        show("correlation text", "CorrelationIdString", c.c_char_p)
    lib.ask("set correlation", "InferenceRequestSetCorrelationId", r, 0)
    show("correlation", "CorrelationId", U64)
    show("cancelled", "IsCancelled", c.c_bool)
    lib.ask("cancel", "InferenceRequestCancel", r)
    show("priority", "PriorityUInt64", U64)
    for value in (1, 7, 1 << 32, (1 << 64) - 1):
        lib.ask(f"set priority {value}", "InferenceRequestSetPriorityUInt64", r, value)
        show("priority", "PriorityUInt64", U64)
        show("priority of 32 bits", "Priority", U32)
    lib.ask("set priority of 32 bits", "InferenceRequestSetPriority", r, 3)
    show("priority", "PriorityUInt64", U64)
    show("timeout", "TimeoutMicroseconds", U64)
    lib.ask("set timeout", "InferenceRequestSetTimeoutMicroseconds", r, (1 << 64) - 1)
    show("timeout", "TimeoutMicroseconds", U64)
    tensors(lib, r)
    for key, name, value in (
        ("s", "String", "v"),
        ("s", "String", "w"),
        ("s", "Int", 5),
        ("i", "Int", -(1 << 63)),
        ("b", "Bool", True),
        ("d", "Double", 0.25),
        ("", "String", ""),
        ("sequence_id", "Int", 1),
        ("triton_x", "String", "x"),
        ("binary_data_output", "Bool", True),
        ("headers", "String", "x"),
        ("priority", "Int", 1),
        ("timeout", "Int", 1),
    ):
        lib.ask(f"parameter {key!r} {name} {value!r}", f"InferenceRequestSet{name}Parameter", r, key, value)


def tensors(lib: Library, r) -> None:
    dims = (I64 * 4)(1, 2, 3, 4)

    def ask(question, name, *args):
        lib.ask(question, "InferenceRequest" + name, r, *args)

    ask("add input", "AddInput", "X", 11, dims, 2)
    ask("add input again", "AddInput", "X", 11, dims, 2)
    ask("add an input that the model has not", "AddInput", "NONE", 8, dims, 4)
    ask("add an input without dimensions", "AddInput", "SCALAR", 8, dims, 0)
    ask("add an input of no name", "AddInput", "", 8, dims, 1)
    ask("add an input of datatype 0", "AddInput", "INVALID", 0, dims, 1)
    ask("add an input of negative shape", "AddInput", "NEGATIVE", 8, (I64 * 1)(-5), 1)
    ask("add raw", "AddRawInput", "RAW")
    data = c.create_string_buffer(64)
    ask("append", "AppendInputData", "X", data, 8, 0, 0)
    ask("append nothing", "AppendInputData", "X", data, 0, 0, 0)
    ask("append null of nothing", "AppendInputData", "X", None, 0, 0, 0)
    ask("append to none", "AppendInputData", "OTHER", data, 8, 0, 0)
    ask("append pinned", "AppendInputData", "X", data, 8, 1, 3)
    ask("append for a policy", "AppendInputDataWithHostPolicy", "X", data, 8, 0, 0, "p")
    ask("append for a policy to none", "AppendInputDataWithHostPolicy", "OTHER", data, 8, 0, 0, "p")
    ask("append for no policy", "AppendInputDataWithHostPolicy", "X", data, 8, 0, 0, "")
    b = P(lib.value_first("BufferAttributesNew"))
    lib.must("BufferAttributesSetByteSize", b, 8)
    ask("append with attributes", "AppendInputDataWithBufferAttributes", "X", data, b)
    ask("append with attributes to none", "AppendInputDataWithBufferAttributes", "OTHER", data, b)
    lib.must("BufferAttributesDelete", b)
    ask("remove data", "RemoveAllInputData", "X")
    ask("remove data again", "RemoveAllInputData", "X")
    ask("remove data of none", "RemoveAllInputData", "OTHER")
    ask("remove", "RemoveInput", "X")
    ask("remove again", "RemoveInput", "X")
    ask("remove all", "RemoveAllInputs")
    ask("remove all again", "RemoveAllInputs")
    ask("add raw", "AddRawInput", "RAW")
    ask("add raw again", "AddRawInput", "RAW")
    ask("add raw of another name", "AddRawInput", "RAW2")
    ask("add an input beside", "AddInput", "X", 11, dims, 2)
    ask("remove raw", "RemoveInput", "RAW")
    ask("remove all", "RemoveAllInputs")
    ask("add an input", "AddInput", "X", 11, dims, 2)
    ask("add raw beside", "AddRawInput", "RAW")
    ask("remove all", "RemoveAllInputs")
    for name in ("Y", "Y", "NONE", ""):
        ask(f"request output {name!r}", "AddRequestedOutput", name)
    for name in ("Y", "Y", "OTHER"):
        ask(f"remove output {name!r}", "RemoveRequestedOutput", name)
    ask("remove all outputs", "RemoveAllRequestedOutputs")
    ask("remove all outputs again", "RemoveAllRequestedOutputs")


def validation(lib: Library, home) -> None:
    """Requests that the server refuses, and what stays with the caller."""
    models = ("echo", "plain", "pair", "maybe", "texts", "one_text", "versions", "labels")
    with Server(lib, home / "models", *models) as s:

        def refuse(question, model, *inputs, outputs=(), identity="", **more):
            call = Call(lib, s, model, **more)
            if identity:
                call.put("SetId", identity)
            for one in inputs:
                call.input(*one)
            for o in outputs:
                call.put("AddRequestedOutput", o)
            call.tell(question, events=False)

        one = ("X", "FP32", [1, 2], [1.0, 2.0])
        refuse("good", "echo", one)
        refuse("no input", "echo")
        refuse("no input, with an id", "echo", identity="me")
        refuse("another input", "echo", ("Z", "FP32", [1, 2], [1.0, 2.0]))
        refuse("one too many", "echo", one, ("Z", "FP32", [1, 2], [1.0, 2.0]))
        refuse("one missing", "pair", ("A", "INT32", [4], [1, 2, 3, 4]))
        refuse("another datatype", "echo", ("X", "INT32", [1, 2], [1, 2]))
        refuse("too few dimensions", "echo", ("X", "FP32", [2], [1.0, 2.0]))
        refuse("too many dimensions", "echo", ("X", "FP32", [1, 1, 2], [1.0, 2.0]))
        refuse("no dimensions", "echo", ("X", "FP32", [], [1.0]))
        refuse("no dimensions, no batches", "plain", ("X", "FP32", [], [1.0]))
        refuse("a wrong dimension", "pair", ("A", "INT32", [3], [1, 2, 3]), ("B", "INT32", [4], [1, 2, 3, 4]))
        refuse("a batch too large", "echo", ("X", "FP32", [9, 1], [1.0] * 9))
        refuse("a batch of none", "echo", ("X", "FP32", [0, 2], []))
        refuse("a negative dimension", "echo", ("X", "FP32", [1, -1], [1.0]))
        refuse("a negative batch", "echo", ("X", "FP32", [-1, 1], [1.0]))
        refuse("too few bytes", "echo", ("X", "FP32", [1, 2], [1.0]))
        refuse("too many bytes", "echo", ("X", "FP32", [1, 2], [1.0, 2.0, 3.0]))
        refuse("no bytes", "echo", ("X", "FP32", [1, 2]))
        refuse("no bytes for none", "plain", ("X", "FP32", [0]))
        refuse("an output that is not there", "echo", one, outputs=("NONE",))
        refuse(
            "an output twice",
            "pair",
            ("A", "INT32", [4], [1, 2, 3, 4]),
            ("B", "INT32", [4], [1, 1, 1, 1]),
            outputs=("SUM", "SUM"),
        )
        refuse("optional input left out", "maybe", ("X", "INT32", [1], [1]))
        refuse("optional input given", "maybe", ("X", "INT32", [1], [1]), ("Z", "INT32", [2], [1, 2]))
        refuse("only the optional input", "maybe", ("Z", "INT32", [2], [1, 2]))
        text = b"\3\0\0\0abc"
        refuse("text", "texts", ("X", "BYTES", [1, 1], None, text))
        refuse("text too short", "texts", ("X", "BYTES", [1, 1], None, text[:5]))
        refuse("text without length", "texts", ("X", "BYTES", [1, 1], None, b"ab"))
        refuse("text, one too few", "texts", ("X", "BYTES", [1, 2], None, text))
        refuse("text, one too many", "texts", ("X", "BYTES", [1, 1], None, text + text))
        refuse("text without bytes", "texts", ("X", "BYTES", [1, 1]))
        refuse("empty text", "texts", ("X", "BYTES", [1, 1], None, b"\0\0\0\0"))
        refuse("no texts", "texts", ("X", "BYTES", [1, 0], None, b""))
        raw(lib, s)


def raw(lib: Library, s) -> None:
    for model, data in (
        ("echo", b"\0" * 12),
        ("echo", b"\0" * 11),
        ("echo", b""),
        ("plain", b"\0" * 8),
        ("pair", b"\0" * 16),
        ("one_text", b"abc"),
        ("texts", b"abc"),
        ("labels", b"\0" * 12),
        ("labels", b"\0" * 8),
    ):
        call = Call(lib, s, model)
        call.put("AddRawInput", "any")
        call.append("any", data)
        call.tell(f"raw for {model} of {len(data)} bytes", delete=False, events=False)
        if model == "echo" and len(data) == 12 and call.finals:
            call.forget()
            call.tell("raw again", delete=False, events=False)
            lib.ask("raw data gone under its name", "InferenceRequestRemoveAllInputData", call.request, "any")
            lib.ask("raw data gone under the model's", "InferenceRequestRemoveAllInputData", call.request, "X")
        call.delete()


STORIES = [fields, validation]
