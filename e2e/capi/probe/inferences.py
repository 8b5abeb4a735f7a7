"""Requests that run: allocators, reuse, streams, cancellation, errors, sequences, priorities, classification, traces, the cache."""

from __future__ import annotations

import ctypes as c
import json
import os
import time

from calls import Call
from library import ACTIVITY, I64, TENSOR, TRACE_RELEASE, Library, P, Server


def wait_begun(home, n: int) -> None:
    """Waits until the slow models have begun so many requests."""
    file = home / "begun"
    while not file.exists() or len(file.read_text()) < n:
        time.sleep(0.01)  # polling another process: there is nothing to wait on


ONE = ("X", "FP32", [1, 2], [1.0, 2.0])


def memory(lib: Library, home) -> None:
    """What the allocator is asked, when, and with what."""
    with Server(lib, home / "models", "echo", "pair", "count", "errs", "chain", "wrong", "plain") as s:
        Call(lib, s, "echo").input(*ONE).tell("one output")
        Call(lib, s, "echo", query=False, attributes=False, start=False).input(*ONE).tell("the least")
        pair = (("A", "INT32", [4], [1, 2, 3, 4]), ("B", "INT32", [4], [1, 1, 1, 1]))
        Call(lib, s, "pair").input(*pair[0]).input(*pair[1]).tell("two outputs")
        Call(lib, s, "pair").input(*pair[0]).input(*pair[1]).put("AddRequestedOutput", "DIFF").tell("one of two")
        Call(lib, s, "plain").input("X", "FP32", [0], []).tell("an output without elements")
        Call(lib, s, "count").input("N", "INT32", [1], [2]).input("MS", "INT32", [1], [0]).tell("two responses")
        Call(lib, s, "count").input("N", "INT32", [1], [0]).input("MS", "INT32", [1], [0]).tell("no response")
        Call(lib, s, "errs").input("CODE", "BYTES", [1], None, b"\x08\0\0\0INTERNAL").tell("an error")
        Call(lib, s, "chain").input("IN", "FP32", [1, 2], [1.0, 2.0]).tell("an ensemble")
        Call(lib, s, "wrong").input("X", "FP32", [1], [1.0]).tell("an output that the model does not have")
        for where in ("start", "query", "alloc", "attributes", "free"):
            call = Call(lib, s, "echo").input(*ONE)
            call.refuse = where
            call.tell(f"{where} refuses")
        for given in ((0, 0), (1, 0), (1, 3)):
            call = Call(lib, s, "echo").input(*ONE)
            call.give = given
            call.tell(f"the attributes are given memory {given}")
        for actual in ((1, 0), (0, 5), (1, 3)):
            call = Call(lib, s, "echo").input(*ONE)
            call.actual = actual
            call.tell(f"the allocator says memory {actual}")
        bounds(lib, s)


def bounds(lib: Library, s) -> None:
    call = Call(lib, s, "echo").input(*ONE)
    call.run()
    r = P(call.responses[0][0])
    places = [P() for _ in range(9)]
    for index in (1, 77):
        lib.ask(f"output {index}", "InferenceResponseOutput", r, index, *[c.byref(p) for p in places])
        lib.ask(
            f"label of output {index}", "InferenceResponseOutputClassificationLabel", r, index, 0, c.byref(places[0])
        )
        lib.ask(f"parameter {index}", "InferenceResponseParameter", r, index, *[c.byref(p) for p in places[:3]])
    lib.get("no label", "InferenceResponseOutputClassificationLabel", r, 0, 0, kind=c.c_char_p)
    call.delete("deleted")


def again(lib: Library, home) -> None:
    """The same request, changed and unchanged."""
    with Server(lib, home / "models", "echo", "told", "count") as s:
        call = Call(lib, s, "echo").input(*ONE)
        call.tell("first", delete=False, events=False)
        for i in range(2):
            call.forget()
            call.tell(f"again {i}", delete=False, events=False)
        call.forget()
        call.put("RemoveAllInputData", "X")
        call.append("X", b"\0\0\x80\x3f")
        call.append("X", b"\0\0\x80")
        call.append("X", b"\x40")
        call.put("SetId", "pieces")
        call.tell("in pieces", delete=False, events=False)
        call.forget()
        call.put("RemoveAllInputs")
        call.input("X", "FP32", [2, 1], [3.0, 4.0])
        call.tell("another shape", delete=False, events=False)
        call.forget()
        call.put("RemoveAllInputData", "X")
        call.append("X", b"\0" * 8)
        call.tell("other data", delete=False, events=False)
        call.delete("deleted")
        told(lib, s)


def told(lib: Library, s) -> None:
    """What a model sees of a request, and of the same one later."""
    call = Call(lib, s, "told").input("X", "INT32", [1], [1])

    def ask(question):
        answer = call.run()
        out = [r for r, _, _ in call.responses if r]
        if answer == "ok" and out:
            name, kind, shape, dims = c.c_char_p(), c.c_int(), P(), I64()
            base, size, where, identity, user = P(), c.c_size_t(), c.c_int(), I64(), P()
            places = (name, kind, shape, dims, base, size, where, identity, user)
            lib.must("InferenceResponseOutput", P(out[0]), 0, *[c.byref(p) for p in places])
            answer = json.loads(c.string_at(base.value + 4, size.value - 4))
        lib.say(question, json.dumps(answer, sort_keys=True) if isinstance(answer, dict) else answer)
        call.forget()

    ask("plain")
    call.put("SetId", "me").put("SetCorrelationId", 77).put("SetFlags", 3).put("SetTimeoutMicroseconds", 5000000)
    for key, kind, value in (("s", "String", 'v"q'), ("i", "Int", -5), ("b", "Bool", True), ("d", "Double", 0.25)):
        call.put(f"Set{kind}Parameter", key, value)
    ask("with everything")
    ask("the same again")
    call.put("SetCorrelationIdString", "who").put("SetFlags", 1).put("SetPriorityUInt64", 9)
    ask("a text as correlation id")
    call.put("SetStringParameter", "s", "other").put("SetFlags", 0).put("SetId", "").put("SetCorrelationId", 0)
    ask("a parameter twice")
    call.put("AddRequestedOutput", "WHAT")
    ask("the output named")
    call.put("AddRequestedOutput", "WHAT")
    ask("the output named twice")
    call.delete("deleted")


def streams(lib: Library, home) -> None:
    with Server(lib, home / "models", "count", "last") as s:
        for n in (0, 1, 3):
            call = Call(lib, s, "count").put("SetId", "st").input("N", "INT32", [1], [n]).input("MS", "INT32", [1], [0])
            call.tell(f"{n} responses", delete=False, events=False)
            call.forget()
            call.tell(f"{n} responses again", delete=False, events=False)
            call.delete("deleted")
        Call(lib, s, "last").input("N", "INT32", [1], [5]).input("MS", "INT32", [1], [0]).tell("the last one with data")
        flags(lib, s)


def flags(lib: Library, s) -> None:
    for model in ("count", "last"):
        flags = c.c_uint32()
        nothing = P(9)
        lib.must("ServerModelTransactionProperties", s, model, -1, c.byref(flags), c.byref(nothing))
        lib.say(f"{model}: transaction", f"{flags.value} {nothing.value}")


def cancelled(lib: Library, home) -> None:
    with Server(lib, home / "models", "slow", "count", "echo", "queue") as s:
        call = Call(lib, s, "slow").input("MS", "INT32", [1], [30000])
        lib.say("sent", call.send())
        lib.get("is it", "InferenceRequestIsCancelled", call.request, kind=c.c_bool)
        while_running(lib, call)
        wait_begun(home, 1)
        lib.ask("cancel", "InferenceRequestCancel", call.request)
        lib.ask("cancel again", "InferenceRequestCancel", call.request)
        call.wait()
        call.tell("a running one", "ok", delete=False, events=False)
        lib.get("is it, after", "InferenceRequestIsCancelled", call.request, kind=c.c_bool)
        lib.ask("cancel, after", "InferenceRequestCancel", call.request)
        call.forget()
        call.put("RemoveAllInputs")
        call.input("MS", "INT32", [1], [0])
        call.tell("the same request later", delete=False, events=False)
        lib.get("is it, after", "InferenceRequestIsCancelled", call.request, kind=c.c_bool)
        call.delete("deleted")
        call = Call(lib, s, "count").input("N", "INT32", [1], [1000]).input("MS", "INT32", [1], [20])
        lib.say("stream sent", call.send())
        call.wait_responses(2)
        lib.ask("cancel", "InferenceRequestCancel", call.request)
        call.wait()
        last = [r for r, _, _ in call.responses if r][-1]
        lib.say("the stream ends with", call.shown(last))
        lib.say("the stream ends with flags", [f for _, f, _ in call.responses][-1])
        call.delete("deleted")
        waiting(lib, s, home)


def while_running(lib: Library, call: Call) -> None:
    lib.get("id in flight", "InferenceRequestId", call.request, kind=c.c_char_p)


def waiting(lib: Library, s, home) -> None:
    """A cancelled request that waits for its turn."""
    first = Call(lib, s, "queue").input("MS", "INT32", [1, 1], [60000])
    lib.say("first", first.send())
    wait_begun(home, 3)
    second = Call(lib, s, "queue").input("MS", "INT32", [1, 1], [0])
    lib.say("second", second.send())
    lib.ask("cancel the second", "InferenceRequestCancel", second.request)
    (home / "go").touch()
    second.wait()
    second.tell("a waiting one", "ok", events=False)
    first.wait()
    first.delete()


def failures(lib: Library, home) -> None:
    with Server(lib, home / "models", "errs", "echo") as s:
        for code in (
            "UNKNOWN",
            "INTERNAL",
            "NOT_FOUND",
            "INVALID_ARG",
            "UNAVAILABLE",
            "UNSUPPORTED",
            "ALREADY_EXISTS",
            "CANCELLED",
        ):
            text = code.encode()
            call = Call(lib, s, "errs").input("CODE", "BYTES", [1], None, bytes([len(text), 0, 0, 0]) + text)
            call.tell(f"the model says {code}", events=False)


def sequences(lib: Library, home) -> None:
    with Server(lib, home / "models", "sums") as s:

        def one(question, x, correlation, flags):
            call = Call(lib, s, "sums").input("X", "INT32", [1, 1], [x]).put("SetFlags", flags)
            if isinstance(correlation, str):
                call.put("SetCorrelationIdString", correlation)
            elif correlation is not None:
                call.put("SetCorrelationId", correlation)
            call.tell(question, events=False)

        one("start", 1, 7, 1)
        one("middle", 10, 7, 0)
        one("end", 100, 7, 2)
        one("after the end", 1, 7, 0)
        one("never begun", 1, 8, 0)
        one("without an id", 1, None, 1)
        one("id of zero", 1, 0, 1)
        one("start and end", 5, 9, 3)
        one("a text as id", 5, "text", 3)
        one("end of none", 5, 10, 2)


def queues(lib: Library, home) -> None:
    with Server(lib, home / "models", "queue") as s:
        first = Call(lib, s, "queue").input("MS", "INT32", [1, 1], [60000])
        lib.say("first", first.send())
        wait_begun(home, 1)
        rest = [Call(lib, s, "queue").input("MS", "INT32", [1, 1], [0]) for _ in range(3)]
        for i, call in enumerate(rest):
            lib.say(f"waiting {i}", call.send())
        short = Call(lib, s, "queue").input("MS", "INT32", [1, 1], [0]).put("SetTimeoutMicroseconds", 1000)
        short.put("SetPriorityUInt64", 1)
        lib.say("short", short.send())
        time.sleep(0.05)  # well beyond the timeout of the short one
        (home / "go").touch()
        for call in (first, *rest[:2], short):
            call.wait()
            call.tell("ended", "ok", events=False)
        rest[2].delete("refused")
        for value in (3, 1 << 40):
            call = Call(lib, s, "queue").input("MS", "INT32", [1, 1], [0]).put("SetPriorityUInt64", value)
            call.tell(f"priority {value}", events=False)


def labelled(lib: Library, home) -> None:
    with Server(lib, home / "models", "labels") as s:
        call = Call(lib, s, "labels").input("X", "FP32", [3], [0.1, 0.7, 0.2])
        call.run()
        for i in (0, 1, 2, 3, 1 << 40):
            lib.get(
                f"label {i}",
                "InferenceResponseOutputClassificationLabel",
                P(call.responses[0][0]),
                0,
                i,
                kind=c.c_char_p,
            )
        call.delete("deleted")


def traced(lib: Library, home) -> None:
    seen, released = [], []

    def name(t):
        return lib.value("InferenceTraceModelName", P(t), kind=c.c_char_p).decode()

    @TRACE_RELEASE
    def release(t, user):
        request = lib.value("InferenceTraceRequestId", P(t), kind=c.c_char_p)
        version = lib.value("InferenceTraceModelVersion", P(t), kind=I64)
        released.append(f"{name(t)}:{version} request={request} user={user}")
        lib.must("InferenceTraceDelete", P(t))

    activity = ACTIVITY(lambda t, a, _ns, user: seen.append(f"{name(t)} {a} user={user}"))

    @TENSOR
    def tensor(t, a, n, kind, base, size, shape, dims, where, identity, user):
        data, dims = "memory" if base else "null", [shape[i] for i in range(dims)]
        seen.append(f"{name(t)} {a} {n.decode()} {kind} {data} {size} {dims} {where} {identity} user={user}")

    with Server(lib, home / "models", "echo", "chain", "count", "errs", "pair", "texts") as s:

        def run(question, level, call, n=1, ends=True):
            seen.clear(), released.clear()
            t = P()
            lib.must("InferenceTraceTensorNew", c.byref(t), level, 0, activity, tensor, release, P(9))
            call.put("SetId", "traced")
            lib.say(question, call.send(t))
            if ends:
                call.wait()
            call.delete(f"{question}: deleted")
            for _ in range(200):
                if len(released) >= n:
                    break
                time.sleep(0.02)
            for one in sorted(seen) if n > 1 else seen:  # steps of an ensemble are reported beside each other
                lib.say(f"{question}: seen", one)
            for one in sorted(released):
                lib.say(f"{question}: released", one)

        for level in (1, 2, 4, 8, 12):
            run(f"level {level}", level, Call(lib, s, "echo").input(*ONE))
        run("a stream", 12, Call(lib, s, "count").input("N", "INT32", [1], [2]).input("MS", "INT32", [1], [0]))
        run("an error", 12, Call(lib, s, "errs").input("CODE", "BYTES", [1], None, b"\x08\0\0\0INTERNAL"))
        run("an ensemble", 4, Call(lib, s, "chain").input("IN", "FP32", [1, 2], [1.0, 2.0]), 3)
        run("an ensemble with tensors", 8, Call(lib, s, "chain").input("IN", "FP32", [1, 2], [1.0, 2.0]), 3)
        run("two outputs", 8, Call(lib, s, "pair").input("A", "INT32", [4], [1] * 4).input("B", "INT32", [4], [1] * 4))
        run("texts", 8, Call(lib, s, "texts").input("X", "BYTES", [1, 1], None, b"\3\0\0\0abc"))


def cache(lib: Library, home) -> None:
    more = {"CacheDirectory": os.environ["PROBE_CACHES"]} if "PROBE_CACHES" in os.environ else {}
    with Server(
        lib, home / "models", "cached", "echo", CacheConfig=("local", '{"size": "1048576"}'), Metrics=True, **more
    ) as s:
        for i in range(3):
            call = Call(lib, s, "cached").input("X", "FP32", [2], [1.0, 2.0]).put("SetId", f"id {i}")
            call.tell(f"asked {i}")
        stats = lib.document("ServerModelStatistics", s, "cached", -1)["model_stats"][0]
        lib.say("statistics", {k: v["count"] for k, v in stats["inference_stats"].items()})
        lib.say("counts", (stats["inference_count"], stats["execution_count"]))


def policies(lib: Library, home) -> None:
    """Copies of an input for host policies."""
    with Server(
        lib, home / "models", "echo", "placed", HostPolicy=[("mine", "cpu-cores", "0-0"), ("other", "cpu-cores", "0-0")]
    ) as s:
        for model in ("echo", "placed"):
            for given in (
                ("",),
                ("cpu",),
                ("mine",),
                ("other",),
                ("", "cpu"),
                ("", "mine"),
                ("", "other"),
                ("cpu", "mine"),
                ("", "cpu", "mine"),
            ):
                call = Call(lib, s, model).input("X", "FP32", [1, 1])
                for name in given:
                    if not name:
                        call.append("X", b"\0\0\x80\x3f")
                        continue
                    value = {"cpu": 2.0, "mine": 3.0, "other": 4.0}[name]
                    buffer = (c.c_float * 1)(value)
                    call.keep.append(buffer)
                    call.put("AppendInputDataWithHostPolicy", "X", buffer, 4, 0, 0, name)
                call.tell(f"{model} with {given}", events=False)


STORIES = [memory, again, streams, cancelled, failures, sequences, queues, policies, labelled, traced, cache]
