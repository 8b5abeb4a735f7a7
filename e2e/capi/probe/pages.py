"""The page of metrics: numbers, texts and labels on it, series of several servers, settings."""

from __future__ import annotations

import ctypes as c

from calls import Call
from library import Library, P, Server
from measures import family, histogram_args, metric, shown, text
from servers import until


def numbers(lib: Library, home) -> None:
    """How numbers and texts look on the page."""
    with Server(lib, home / "empty", Metrics=True) as server:
        g = family(lib, 1, "numbers_gauge", "Numbers")
        m = metric(lib, "gauge", g)
        for value in (
            0.0, -0.0, 1.0, 0.1, 0.1 + 0.2, 1e-7, 1e-5, 0.0001, 123456789.0, 1e15, 1e16, 1e17, 1e20, 1e21, 1e22, 1e300, 5e-324,
            1.7976931348623157e308, float("inf"), float("-inf"), float("nan"), 2.5, 1234567.125, 16777217.0, 9007199254740993.0, 1 / 3,
        ):  # fmt: skip
            lib.must("MetricSet", m, value)
            found = [line for line in text(lib, server).split("\n") if line.startswith("numbers_gauge")]
            lib.say(f"number {value!r}", found)
        lib.must("MetricSet", m, 1.0)
        for value in (float("inf"), float("-inf")):
            lib.ask(f"gauge: increment {value}", "MetricIncrement", m, value)
            lib.get(f"gauge: after {value}", "MetricValue", m, kind=c.c_double)
        lib.ask("deleted", "MetricDelete", m)
        lib.ask("deleted", "MetricFamilyDelete", g)
        co = family(lib, 0, "numbers_counter", "Numbers")
        m = metric(lib, "counter", co)
        for value in (0.5, 1e300, 1e300, -0.0, -1e-300, float("-inf")):
            lib.ask(f"counter: increment {value}", "MetricIncrement", m, value)
            lib.get("counter: value", "MetricValue", m, kind=c.c_double)
        lib.ask("deleted", "MetricDelete", m)
        lib.ask("deleted", "MetricFamilyDelete", co)
        inf, nan = float("inf"), float("nan")
        h = family(lib, 2, "numbers_histogram", "Numbers")
        for i, buckets in enumerate(((1.0, inf), (-inf, 1.0), (1.0, nan), (-5.0, -1.0, 0.0, 2.5e-7, 1e10), (1.0,))):
            args = histogram_args(lib, *buckets)
            m = metric(lib, f"buckets {i}", h, ("n", str(i)), args=args)
            lib.ask("arguments deleted", "MetricArgsDelete", args)
            if not m:
                continue
            for value in (-7.0, -1.0, 0.0, 1.0, 1e10, 1e11):
                lib.must("MetricObserve", m, value)
            shown(lib, f"buckets {i}", server, f'n="{i}"')
            lib.ask("observe inf", "MetricObserve", m, inf)
            lib.ask("observe -inf", "MetricObserve", m, -inf)
            shown(lib, f"buckets {i}, infinities", server, f'n="{i}"')
            lib.ask("deleted", "MetricDelete", m)
        lib.ask("deleted", "MetricFamilyDelete", h)


def labels(lib: Library, home) -> None:
    """Labels and their order, series that share them."""
    with Server(lib, home / "empty", Metrics=True) as server:
        f = family(lib, 0, "labels_counter", "Help")
        made = {
            "b and a": (("b", "1"), ("a", "2")),
            "upper case": (("B", "1"), ("a", "2")),
            "text of others": (("a", "ä €\u2028"), ("b", "")),
            "empty alone": (("a", ""),),
            "escapes": (("a", '\\n"\t\r{}=,'),),
            "long": (("a", "x" * 2000),),
            "underscores": (("_a", "1"), ("a_", "2")),
            "quantile": (("quantile", "1"),),
        }
        metrics = {k: metric(lib, k, f, *v) for k, v in made.items()}
        for i, m in enumerate(metrics.values()):
            if m:
                lib.must("MetricIncrement", m, float(i + 1))
        lines = [
            line.replace("x" * 2000, "LONG")
            for line in text(lib, server).split("\n")
            if line.startswith("labels_counter")
        ]
        for line in sorted(lines):
            lib.say("page", line)
        for m in metrics.values():
            if m:
                lib.ask("deleted", "MetricDelete", m)
        g = family(lib, 1, "labels_twice", "First help")
        again = family(lib, 1, "labels_twice", "Second help", ask="the same name, other help")
        one, two = metric(lib, "one", g, ("a", "1")), metric(lib, "two", again, ("a", "1"))
        lib.must("MetricSet", one, 3.0)
        lib.get("two", "MetricValue", two, kind=c.c_double)
        shown(lib, "twice", server, "labels_twice")
        for m in (one, two):
            lib.ask("deleted", "MetricDelete", m)
        shown(lib, "twice, gone", server, "labels_twice")
        one = metric(lib, "one anew", g, ("a", "1"))
        lib.get("one anew", "MetricValue", one, kind=c.c_double)
        lib.ask("deleted", "MetricDelete", one)
        lib.ask("family deleted", "MetricFamilyDelete", g)
        lib.ask("the other deleted", "MetricFamilyDelete", again)
        shown(lib, "families gone", server, "labels_twice")
        g = family(lib, 1, "labels_twice", "Third help", ask="the name once more")
        shown(lib, "once more", server, "labels_twice")
        one = metric(lib, "one", g)
        shown(lib, "once more", server, "labels_twice")
        lib.ask("deleted", "MetricDelete", one)
        lib.ask("deleted", "MetricFamilyDelete", g)
        c1 = family(lib, 0, "labels_twice", "Third help", ask="the name, another kind")
        if c1:
            lib.ask("deleted", "MetricFamilyDelete", c1)
        h, args = family(lib, 2, "labels_histogram", "Help"), histogram_args(lib, 1.0, 2.0)
        one = metric(lib, "histogram", h, ("a", "1"), args=args)
        lib.must("MetricArgsDelete", args)
        lib.must("MetricObserve", one, 1.5)
        args = histogram_args(lib, 5.0)
        two = metric(lib, "the same labels, other buckets", h, ("a", "1"), args=args)
        lib.must("MetricArgsDelete", args)
        shown(lib, "histogram", server, "labels_histogram")
        for m in (one, two):
            if m:
                lib.ask("deleted", "MetricDelete", m)
        lib.ask("deleted", "MetricFamilyDelete", h)
        args = histogram_args(lib, 1.0)
        lib.ask("buckets set again", "MetricArgsSetHistogram", args, (c.c_double * 2)(3.0, 4.0), 2)
        h = family(lib, 2, "labels_again", "Help")
        m = metric(lib, "of the second ones", h, args=args)
        lib.must("MetricArgsDelete", args)
        shown(lib, "buckets", server, "labels_again")
        lib.ask("deleted", "MetricDelete", m)
        lib.ask("deleted", "MetricFamilyDelete", h)
        for kind in (0, 1):
            args = P(lib.value_first("MetricArgsNew"))
            f2 = family(lib, kind, f"labels_args_{kind}", "Help")
            metric(lib, f"arguments that are empty, kind {kind}", f2, args=args)
            lib.must("MetricArgsDelete", args)
            lib.ask("deleted", "MetricFamilyDelete", f2)


def metrics_of_servers(lib: Library, home) -> None:
    """Metrics before, between and after servers, and of two of them."""
    f = family(lib, 0, "before_all", "Help", ask="a family before any server")
    m = metric(lib, "its metric", f) if f else None
    if m:
        lib.ask("increment", "MetricIncrement", m, 1.0)
        lib.get("value", "MetricValue", m, kind=c.c_double)
    first = Server(lib, home / "empty", Metrics=True)
    lib.say("first", first.start())
    shown(lib, "in the first", first.handle, "before_all")
    g = family(lib, 1, "between", "Help")
    n = metric(lib, "of the first", g)
    second = Server(lib, home / "empty", Metrics=True)
    lib.say("second", second.start())
    lib.must("MetricSet", n, 5.0)
    for s, name in ((first, "first"), (second, "second")):
        shown(lib, f"in the {name}", s.handle, "between")
    quiet = Server(lib, home / "empty", Metrics=False)
    lib.say("one without metrics", quiet.start())
    k = family(lib, 1, "while_quiet", "Help")
    if k:
        lib.ask("deleted", "MetricFamilyDelete", k)
    shown(lib, "the first still", first.handle, "between")
    quiet.__exit__()
    first.__exit__()
    shown(lib, "in the second, without the first", second.handle, "between")
    lib.ask("set", "MetricSet", n, 6.0)
    second.__exit__()
    lib.ask("set after all", "MetricSet", n, 7.0)
    lib.get("value after all", "MetricValue", n, kind=c.c_double)
    third = Server(lib, home / "empty", Metrics=True)
    lib.say("third", third.start())
    shown(lib, "in the third", third.handle, "between")
    third.__exit__()
    for one in (m, n):
        if one:
            lib.ask("deleted", "MetricDelete", one)
    for one in (f, g):
        if one:
            lib.ask("deleted", "MetricFamilyDelete", one)


def pages(lib: Library, home) -> None:
    """The page after requests: families and series, without their times."""
    with Server(lib, home / "models", "echo", "errs", "count", "chain", "queue", Metrics=True, CpuMetrics=False) as s:
        Call(lib, s, "echo").input("X", "FP32", [2, 1], [1.0, 2.0]).tell("echo", events=False)
        Call(lib, s, "errs").input("CODE", "BYTES", [1], None, b"\x08\0\0\0INTERNAL").tell("errs", events=False)
        Call(lib, s, "count").input("N", "INT32", [1], [2]).input("MS", "INT32", [1], [0]).tell("count", events=False)
        Call(lib, s, "chain").input("IN", "FP32", [1, 2], [1.0, 2.0]).tell("chain", events=False)
        Call(lib, s, "echo").input("X", "INT32", [1, 1], [1]).tell("refused", events=False)
        until(lambda: 'nv_inference_request_success{model="chain",version="1"} 1' in text(lib, s))
        lines = text(lib, s).splitlines()
        for line in sorted(lines):
            if line.startswith("nv_") and "_us" not in line and "duration" not in line and "memory" not in line:
                lib.say("page", line)


def page_of(question: str, more: dict):
    """A story of one server whose metrics have a setting: there it is the process's."""

    def story(lib: Library, home) -> None:
        s = Server(lib, home / "models", "echo", "count", Metrics=True, CpuMetrics=False, **more)
        lib.say(question, s.start())
        if not s.handle:
            return
        Call(lib, s.handle, "echo").input("X", "FP32", [2, 1], [1.0, 2.0]).tell("echo", events=False)
        Call(lib, s.handle, "count").input("N", "INT32", [1], [2]).input("MS", "INT32", [1], [0]).tell(
            "count", events=False
        )
        until(lambda: 'nv_inference_request_success{model="count",version="1"} 1' in text(lib, s.handle))
        for line in sorted({x.rsplit(" ", 1)[0] for x in text(lib, s.handle).split("\n") if not x.startswith("#")}):
            if line.startswith("nv_inf") and ("summary" in line or "first_response" in line or "duration" in line):
                lib.say("page", line)
        s.__exit__()

    story.__name__ = "page_" + question.replace(" ", "_")
    return story


PAGES = [
    page_of(name, {"MetricsConfig": settings})
    for name, settings in (
        ("quantiles", [("", "summary_latencies", "true"), ("", "summary_quantiles", "0.5:0.1,0.9:0.2")]),
        ("wrong", ("", "summary_latencies", "perhaps")),
        ("wrong quantiles", [("", "summary_latencies", "true"), ("", "summary_quantiles", "x")]),
        ("of a name", ("names", "a", "b")),
    )
]


STORIES = [numbers, labels, metrics_of_servers, pages, *PAGES]
