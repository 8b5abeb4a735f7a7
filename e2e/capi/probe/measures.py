"""Custom metrics: families, labels, kinds, and how they look in the text of a server's metrics."""

from __future__ import annotations

import ctypes as c

from library import Library, P, Server


def family(lib: Library, kind, name, description="Help", ask="") -> P | None:
    f = P()
    answer = lib.error(lib("MetricFamilyNew", c.byref(f), kind, name, description))
    lib.say(ask or f"family {name} of kind {kind}", answer)
    return f if answer == "ok" else None


def label(lib, name, value, kind=0):
    return P(lib("ParameterNew", name, kind, value))


def metric(lib: Library, question, f, *labels, args=None) -> P | None:
    made = [label(lib, k, v) if isinstance(v, (str, type(None))) else label(lib, k, c.byref(v), 1) for k, v in labels]
    array = (P * max(1, len(made)))(*made)
    m = P()
    if args is None:
        answer = lib.error(lib("MetricNew", c.byref(m), f, array, len(made)))
    else:
        answer = lib.error(lib("MetricNewWithArgs", c.byref(m), f, array, len(made), args))
    for p in made:
        lib("ParameterDelete", p)
    lib.say(question, answer)
    return m if answer == "ok" else None


def histogram_args(lib, *buckets) -> P:
    a = P(lib.value_first("MetricArgsNew"))
    array = (c.c_double * max(1, len(buckets)))(*buckets)
    lib.ask(f"buckets {buckets}", "MetricArgsSetHistogram", a, array, len(buckets))
    return a


def text(lib: Library, server) -> str:
    m = P(lib.value("ServerMetrics", server))
    base, size = c.c_char_p(), c.c_size_t()
    lib.must("MetricsFormatted", m, 0, c.byref(base), c.byref(size))
    out = base.value.decode()
    lib.must("MetricsDelete", m)
    return out


def shown(lib: Library, question, server, part: str) -> None:
    for line in text(lib, server).split("\n"):
        if line and part in line:
            lib.say(question, line)
    lib.say(question, "end")


def use(lib: Library, question, m) -> None:
    lib.get(f"{question}: kind", "GetMetricKind", m, kind=c.c_int)
    lib.get(f"{question}: value", "MetricValue", m, kind=c.c_double)
    for name, value in (
        ("Increment", 2.5),
        ("Increment", 0.0),
        ("Increment", -1.0),
        ("Set", 7.0),
        ("Set", -3.5),
        ("Observe", 2.0),
        ("Increment", float("inf")),
        ("Increment", float("nan")),
    ):
        lib.ask(f"{question}: {name} {value}", "Metric" + name, m, value)
    lib.get(f"{question}: value", "MetricValue", m, kind=c.c_double)


def custom(lib: Library, home) -> None:
    with Server(lib, home / "empty", Metrics=True) as server:
        told(lib, server)


def told(lib: Library, server) -> None:
    for kind in (-1, 3, 99):
        family(lib, kind, "kind")
    for name in ("", "9", "a b", "a-b", "with:colon", "ümlaut", "__reserved"):
        f = family(lib, 0, name, ask=f"family {name!r}")
        if f:
            lib.ask(f"family {name!r} deleted", "MetricFamilyDelete", f)
    f = family(lib, 0, "probe_empty_help", "")
    lib.ask("deleted", "MetricFamilyDelete", f)

    counter = family(lib, 0, "probe_counter")
    lib.get("kind of the family", "GetMetricFamilyKind", counter, kind=c.c_int)
    shown(lib, "a family without metrics", server, "probe_counter")
    m = metric(lib, "counter", counter, ("a", "1"), ("b", 'x"y\\z\n'))
    use(lib, "counter", m)
    shown(lib, "counter", server, "probe_counter")
    same = metric(lib, "the same labels", counter, ("b", 'x"y\\z\n'), ("a", "1"))
    lib.get("the same series", "MetricValue", same, kind=c.c_double)
    other = metric(lib, "other labels", counter, ("a", "2"))
    lib.get("another series", "MetricValue", other, kind=c.c_double)
    bare = metric(lib, "no labels", counter)
    shown(lib, "four", server, "probe_counter")
    lib.ask("family deleted with metrics", "MetricFamilyDelete", counter)
    lib.ask("one deleted", "MetricDelete", same)
    lib.get("the other is there", "MetricValue", m, kind=c.c_double)
    shown(lib, "three", server, "probe_counter")
    for one in (m, other, bare):
        lib.ask("deleted", "MetricDelete", one)
    shown(lib, "none", server, "probe_counter")
    metric(lib, "a label twice", counter, ("a", "1"), ("a", "2"))
    for name in ("", "9", "a b", "__name", "le", "ü"):
        made = metric(lib, f"label {name!r}", counter, (name, "v"))
        if made:
            lib.ask("deleted", "MetricDelete", made)
    made = metric(lib, "label without a value", counter, ("a", ""))
    shown(lib, "label without a value", server, "probe_counter")
    lib.ask("deleted", "MetricDelete", made)
    metric(lib, "a number as label", counter, ("a", c.c_int64(5)))

    gauge = family(lib, 1, "probe_gauge", "Two\nlines \\ and a backslash")
    m = metric(lib, "gauge", gauge, ("a", "1"))
    use(lib, "gauge", m)
    shown(lib, "gauge", server, "probe_gauge")
    lib.ask("deleted", "MetricDelete", m)

    histogram = family(lib, 2, "probe_histogram")
    metric(lib, "a histogram without buckets", histogram, ("a", "1"))
    empty = P(lib.value_first("MetricArgsNew"))
    metric(lib, "a histogram with empty arguments", histogram, ("a", "1"), args=empty)
    lib.ask("arguments deleted", "MetricArgsDelete", empty)
    for buckets in ((), (1.0,), (2.0, 1.0), (1.0, 1.0), (0.1, 1.0, 10.0)):
        args = histogram_args(lib, *buckets)
        m = metric(lib, f"a histogram of {buckets}", histogram, ("a", str(len(buckets))), args=args)
        lib.ask("arguments deleted", "MetricArgsDelete", args)
        if m:
            for value in (0.05, 1.0, 100.0):
                lib.ask(f"observe {value}", "MetricObserve", m, value)
            use(lib, f"histogram of {buckets}", m)
            shown(lib, f"histogram of {buckets}", server, "probe_histogram")
            lib.ask("deleted", "MetricDelete", m)
    args = histogram_args(lib, 1.0)
    m = metric(lib, "a counter with buckets", counter, ("a", "1"), args=args)
    if m:
        lib.ask("deleted", "MetricDelete", m)
    lib.ask("arguments deleted", "MetricArgsDelete", args)

    again = family(lib, 0, "probe_counter")
    family(lib, 1, "probe_counter", ask="the same name with another kind")
    third = family(lib, 0, "probe_counter", "Other", ask="the same name with another description")
    m = metric(lib, "of the second object", again, ("a", "1"))
    lib.must("MetricIncrement", m, 4.0)
    n = metric(lib, "of the first object", counter, ("a", "1"))
    lib.get("one series", "MetricValue", n, kind=c.c_double)
    shown(lib, "one series", server, "probe_counter")
    for one in (m, n):
        lib.ask("deleted", "MetricDelete", one)
    lib.ask("deleted", "MetricFamilyDelete", again)
    if third:
        lib.ask("deleted", "MetricFamilyDelete", third)
    for one in (counter, gauge, histogram):
        lib.ask("deleted", "MetricFamilyDelete", one)
    f = family(lib, 0, "nv_inference_count", ask="a name of the server's")
    if f:
        lib.ask("deleted", "MetricFamilyDelete", f)
    formats(lib, server)


def formats(lib: Library, server) -> None:
    m = P(lib.value("ServerMetrics", server))
    base, size = P(), c.c_size_t()
    for format in (1, -1):
        lib.ask(f"format {format}", "MetricsFormatted", m, format, c.byref(base), c.byref(size))
    lib.must("MetricsFormatted", m, 0, c.byref(base), c.byref(size))
    lib.say("size is that of the text", size.value == len(c.string_at(base.value)))
    lib.ask("deleted", "MetricsDelete", m)


def without(lib: Library, home) -> None:
    """A server without metrics."""
    with Server(lib, home / "empty", Metrics=False) as server:
        m = P()
        if lib.ask("metrics", "ServerMetrics", server, c.byref(m)):
            lib.must("MetricsDelete", m)
            shown(lib, "text", server, "")
        f = family(lib, 0, "probe_off")
        if f:
            one = metric(lib, "metric", f, ("a", "1"))
            if one:
                lib.ask("increment", "MetricIncrement", one, 1.0)
                lib.ask("deleted", "MetricDelete", one)
            lib.ask("deleted", "MetricFamilyDelete", f)


def names(lib: Library, home) -> None:
    """The families of a fresh server, without their numbers."""
    with Server(lib, home / "models", "echo", Metrics=True, CpuMetrics=False) as server:
        found = {line.split()[2] for line in text(lib, server).split("\n") if line.startswith("# HELP nv_")}
        for name in sorted(found):
            lib.say("family", name)


STORIES = [custom, without, names]
