"""Traces of requests: which of their callbacks come in which order, whose children they are, and those of requests that fail."""

from __future__ import annotations

import ctypes as c
import os
import time
from pathlib import Path

import models
from calls import Call
from inferences import wait_begun
from library import ACTIVITY, I64, TENSOR, TRACE_RELEASE, U64, Library, P, Server
from tellers import Told, backends, native

WORDS = (
    "REQUEST_START QUEUE_START COMPUTE_START COMPUTE_INPUT_END COMPUTE_OUTPUT_START COMPUTE_END REQUEST_END"
    " QUEUE_INPUT BACKEND_INPUT BACKEND_OUTPUT CUSTOM"
).split()
CALLER = """
def execute(self, requests):
    out = []
    for r in requests:
        q = pb.InferenceRequest(model_name="plain", requested_output_names=["Y"],
                                inputs=[pb.Tensor("X", given(r, "X"))], trace=r.trace())
        a = q.exec()
        out.append(answer(("Y", pb.get_output_tensor_by_name(a, "Y").as_numpy())))
    return out
"""
CONTEXT = """
def execute(self, requests):
    return [answer(("WHAT", np.array([str(r.trace().get_context())], dtype=object))) for r in requests]
"""
FAILING = """
def execute(self, requests):
    return [pb.InferenceResponse(error=pb.TritonError("it fails")) for r in requests]
"""
RAISING = """
def execute(self, requests):
    raise ValueError("it raises")
"""


def ensemble(repository, name: str, *steps: str, extra: str = "") -> None:
    """A chain of models that have X and Y."""
    (repository / name / "1").mkdir(parents=True)
    said = []
    for i, step in enumerate(steps):
        a, b = "IN" if i == 0 else f"t{i}", "OUT" if i == len(steps) - 1 else f"t{i + 1}"
        x, y = ("IN", "OUT") if step.startswith("chain") else ("X", "Y")
        said.append(
            f'{{ model_name: "{step}" model_version: -1 input_map {{ key: "{x}" value: "{a}" }} output_map {{ key: "{y}" value: "{b}" }} }}'
        )
    io = models.io("input", "IN FP32 -1") + models.io("output", "OUT FP32 -1")
    (repository / name / "config.pbtxt").write_text(
        f'platform: "ensemble"\n{io}{extra}ensemble_scheduling {{ step [ {", ".join(said)} ] }}\n'
    )


class Tracer:
    """A trace and those below it, as their callbacks show them."""

    def __init__(self, lib: Library, level: int, parent: int = 0, keep: bool = False, root: P | None = None):
        self.lib, self.keep, self.seen, self.released = lib, keep, {}, 0
        self.begun = time.monotonic_ns()
        self.functions = [ACTIVITY(self.on_activity), TENSOR(self.on_tensor), TRACE_RELEASE(self.on_release)]
        self.trace = P()
        f = self.functions
        lib.must("InferenceTraceTensorNew", c.byref(self.trace), level, parent, f[0], f[1], f[2], P(9))
        self.id = lib.value("InferenceTraceId", self.trace, kind=U64)

    def of(self, t) -> dict:
        lib = self.lib
        one = self.seen.setdefault(
            lib.value("InferenceTraceId", P(t), kind=U64), {"events": [], "last": 0, "released": ""}
        )
        one["parent"] = lib.value("InferenceTraceParentId", P(t), kind=U64)
        model = lib.value("InferenceTraceModelName", P(t), kind=c.c_char_p)
        version = lib.value("InferenceTraceModelVersion", P(t), kind=I64)
        request = lib.value("InferenceTraceRequestId", P(t), kind=c.c_char_p)
        one["names"] = f"{(model or b'').decode()}:{version} {(request or b'').decode()!r}"
        return one

    def on_activity(self, t, activity, ns, user):
        one, word = self.of(t), WORDS[activity]
        if not self.begun <= ns <= time.monotonic_ns():
            word += "(another time)"
        if ns < one["last"]:
            word += "(back)"
        one["last"] = ns
        one["events"].append(word)

    def on_tensor(self, t, activity, name, kind, base, size, shape, dims, where, identity, user):
        at = [shape[i] for i in range(dims)]
        self.of(t)["events"].append(f"{WORDS[activity]} {name.decode()} {kind} {at} of {size}")

    def on_release(self, t, user):
        one = self.of(t)
        self.released += 1
        one["released"] += f"released {self.released}"
        if not self.keep:
            self.lib.must("InferenceTraceDelete", P(t))

    def tell(self, question: str, n: int = 1, wait: float = 5) -> None:
        end = time.monotonic() + wait
        while self.released < n and time.monotonic() < end:
            time.sleep(0.01)  # polling: there is nothing to wait on
        ranks = {i: k for k, i in enumerate(sorted(self.seen))}
        for i in sorted(self.seen):
            one = self.seen[i]
            parent = one["parent"]
            if parent in ranks:
                parent = f"#{ranks[parent]}"
            elif parent >= self.id:
                parent = f"the program's, {parent - self.id} behind the first"
            self.lib.say(
                f"{question}: #{ranks[i]}{'' if ranks[i] or i == self.id else ' of another'}",
                f"{one['names']} below {parent}: {', '.join(one['events'])}; {one['released'] or 'never released'}",
            )
        if not self.seen:
            self.lib.say(question, "nothing seen")


def one(lib, call: Call, level: int, question: str, n=1, parent=0, wait=5) -> None:
    tracer = Tracer(lib, level, parent)
    call.put("SetId", "traced")
    answer = call.send(tracer.trace)
    if answer == "ok":
        call.wait()
    call.tell(question, answer, events=False)
    tracer.tell(question, n, wait)


X = ("X", "FP32", [2], [1.0, 2.0])
IN = ("IN", "FP32", [2], [1.0, 2.0])


def traced_models(home) -> None:
    r = home / "models"
    models.python(r, "caller", models.X + models.Y, CALLER)
    models.python(r, "context", models.io("input", "X FP32 -1") + models.io("output", "WHAT STRING 1"), CONTEXT)
    models.python(r, "failing", models.X + models.Y, FAILING)
    models.python(r, "raising", models.X + models.Y, RAISING)
    batch = "max_batch_size: 4\ndynamic_batching { max_queue_delay_microseconds: 200000 preferred_batch_size: [ 2 ] }\n"
    models.python(r, "batched", batch + models.X + models.Y, models.ECHO)
    ensemble(r, "chain_plain", "plain", "plain")
    ensemble(r, "chain_fails", "plain", "failing", "plain")
    ensemble(r, "chain_caches", "cached", "plain")
    ensemble(r, "chain_cached", "plain", extra="response_cache { enable: true }\n")
    ensemble(r, "chain_nested", "chain_plain", "plain")


def cache_options() -> dict:
    more = {"CacheDirectory": os.environ["PROBE_CACHES"]} if "PROBE_CACHES" in os.environ else {}
    return {"CacheConfig": ("local", '{"size": "1048576"}'), **more}


def trace_failures(lib: Library, home) -> None:
    """Requests that are refused, that fail, that are cancelled."""
    traced_models(home)
    with Server(
        lib,
        home / "models",
        "plain",
        "failing",
        "raising",
        "queue",
        "slow",
        "count",
        "chain_fails",
        "sums",
        ExitTimeout=3,
    ) as s:
        one(lib, Call(lib, s, "failing").input(*X), 12, "an error")
        one(lib, Call(lib, s, "raising").input(*X), 12, "an exception")
        one(lib, Call(lib, s, "chain_fails").input(*IN), 12, "the second of three steps fails", 3)
        one(lib, Call(lib, s, "count").input("N", "INT32", [1], [0]).input("MS", "INT32", [1], [0]), 12, "no response")
        for where in ("start", "alloc"):
            call = Call(lib, s, "plain").input(*X)
            call.refuse = where
            one(lib, call, 12, f"{where} refuses")
        call = Call(lib, s, "sums").input("X", "INT32", [1, 1], [1]).put("SetCorrelationId", 3).put("SetFlags", 1)
        one(lib, call, 12, "a sequence begins")
        call = Call(lib, s, "sums").input("X", "INT32", [1, 1], [1]).put("SetCorrelationId", 3).put("SetFlags", 2)
        one(lib, call, 12, "a sequence ends")
        tracer = Tracer(lib, 12)
        call = Call(lib, s, "slow").input("MS", "INT32", [1], [30000])
        lib.say("slow", call.send(tracer.trace))
        wait_begun(home, 1)
        lib.ask("cancel", "InferenceRequestCancel", call.request)
        call.wait()
        call.tell("cancelled while it runs", "ok", events=False)
        tracer.tell("cancelled while it runs")
        first = Call(lib, s, "queue").input("MS", "INT32", [1, 1], [60000])
        lib.say("first", first.send())
        wait_begun(home, 2)
        second, late = (Call(lib, s, "queue").input("MS", "INT32", [1, 1], [0]) for _ in range(2))
        tracers = [Tracer(lib, 12), Tracer(lib, 12)]
        lib.say("second", second.send(tracers[0].trace))
        lib.ask("cancel the second", "InferenceRequestCancel", second.request)
        late.put("SetTimeoutMicroseconds", 1000)
        lib.say("late", late.send(tracers[1].trace))
        time.sleep(0.05)  # well beyond its timeout
        (home / "go").touch()
        for call, tracer, what in ((second, tracers[0], "cancelled while it waits"), (late, tracers[1], "late")):
            call.wait()
            call.tell(what, "ok", events=False)
            tracer.tell(what)
        first.wait()
        first.delete()


def trace_trees(lib: Library, home) -> None:
    """Ensembles, requests of models, batches."""
    traced_models(home)
    native(home, "says", "says")
    names = ("plain", "echo", "chain_plain", "chain_nested", "caller", "batched", "context", "says")
    with Server(lib, home / "models", *names, ExitTimeout=3, BackendDirectory=backends()) as s:
        for level in (0, 4, 8, 12):
            one(lib, Call(lib, s, "chain_plain").input(*IN), level, f"an ensemble, level {level}", 3, parent=7)
        one(lib, Call(lib, s, "chain_nested").input(*IN), 12, "an ensemble of an ensemble", 5)
        one(lib, Call(lib, s, "caller").input(*X), 12, "a model that asks another", 2)
        both = [Call(lib, s, "batched").input("X", "FP32", [1, 1], [float(i)]) for i in range(2)]
        tracers = [Tracer(lib, 12), Tracer(lib, 12)]
        for call, tracer in zip(both, tracers):
            lib.say("batched", call.send(tracer.trace))
        for i, (call, tracer) in enumerate(zip(both, tracers)):
            call.wait()
            call.tell(f"batched {i}", "ok", events=False)
            tracer.tell(f"batched {i}")
        for text in ("", "a context", '{"traceparent": "x"}'):
            tracer = Tracer(lib, 4)
            lib.must("InferenceTraceSetContext", tracer.trace, text)
            call = Call(lib, s, "context").input("X", "FP32", [1], [1.0])
            lib.say(f"context {text!r}", call.send(tracer.trace))
            call.wait()
            lib.say(f"context {text!r}: the model sees", call.bytes())
            call.delete()
            tracer.tell(f"context {text!r}")
        again(lib, s)
        spawned(lib, s)
        reported(lib, s)


def again(lib: Library, s) -> None:
    """A trace that is kept and used for another request."""
    tracer = Tracer(lib, 12, keep=True)
    for i in range(2):
        call = Call(lib, s, "plain").input(*X).put("SetId", f"request {i}")
        lib.say(f"again {i}", call.send(tracer.trace))
        call.wait()
        call.delete()
        tracer.tell(f"again {i}", i + 1)
    lib.ask("a report after the release", "InferenceTraceReportActivity", tracer.trace, 17, "late")
    tracer.tell("after the release", 2)
    lib.ask("deleted", "InferenceTraceDelete", tracer.trace)


def spawned(lib: Library, s) -> None:
    """A request with a trace below one of the program's."""
    tracer = Tracer(lib, 12)
    child, grandchild = P(), P()
    lib.ask("spawned", "InferenceTraceSpawnChildTrace", tracer.trace, c.byref(child))
    lib.ask("spawned below it", "InferenceTraceSpawnChildTrace", child, c.byref(grandchild))
    ids = [lib.value("InferenceTraceId", t, kind=U64) for t in (tracer.trace, child, grandchild)]
    lib.say("numbers go on", [b - a for a, b in zip(ids, ids[1:])])
    call = Call(lib, s, "plain").input(*X).put("SetId", "spawned")
    lib.say("with the grandchild", call.send(grandchild))
    call.wait()
    call.delete()
    tracer.tell("with the grandchild")
    call = Call(lib, s, "chain_plain").input(*IN).put("SetId", "spawned")
    lib.say("with the child", call.send(child))
    call.wait()
    call.delete()
    tracer.tell("with the child", 4)
    lib.ask("deleted", "InferenceTraceDelete", tracer.trace)


def reported(lib: Library, s) -> None:
    """What a backend library reports of a request's trace."""
    for level in (4, 8):
        tracer = Tracer(lib, level)
        lib.must("InferenceTraceSetContext", tracer.trace, "of the program")
        call = Call(lib, s, "says").input("IN0", "INT32", [2], [5, 6]).put("SetStringParameter", "do", "trace")
        call.put("SetId", "reported")
        lib.say(f"a library, level {level}", call.send(tracer.trace))
        call.wait()
        call.delete()
        tracer.tell(f"a library, level {level}", 1)
    told = Told(lib, Path(os.environ["PROBE_HOME"]))
    told.tell("the library")


def trace_cached(lib: Library, home) -> None:
    """Requests that a cache answers."""
    traced_models(home)
    with Server(
        lib, home / "models", "plain", "cached", "chain_caches", "chain_cached", ExitTimeout=3, **cache_options()
    ) as s:
        for level in (12, 4, 8):
            for i in range(2):
                data = ("X", "FP32", [1], [float(level)])
                one(lib, Call(lib, s, "cached").input(*data), level, f"level {level}, {'hit' if i else 'miss'}")
        for i in range(2):
            one(lib, Call(lib, s, "chain_caches").input(*IN), 12, f"a step of an ensemble, {'hit' if i else 'miss'}", 3)
        for i in range(2):
            one(
                lib,
                Call(lib, s, "chain_cached").input(*IN),
                12,
                f"an ensemble, {'hit' if i else 'miss'}",
                1 if i else 2,
            )


STORIES = [trace_failures, trace_trees, trace_cached]
