"""The goals that Neso has set itself, and whether the measured figures meet them."""

import engines
import frameworks
import native
import pipeline_goals
from verdicts import MET, MISSED, UNKNOWN, Row, absolute, clean, failure_of, judge, median_of, no_errors, relative

# The peer's wheel has no C++ no-op. These are figures of an earlier run of it on two such cores, not of this one.
STATED_MARK = (
    "Triton's C++ no-op, earlier run: 33 µs (HTTP), 43 µs (gRPC) a request, 43,000 and 29,000 requests/s at c8; "
    "1 MiB: 1.07 ms (HTTP), 0.71 ms (gRPC)"
)

FLAT_MIB, FLAT_SHARE = 2.0, 0.05


def _noop_small(results):
    names = [f"no-op 64 B, {p}, c{c}" for p in ("HTTP", "gRPC") for c in (8, 32)]
    names += ["no-op 64 B, gRPC, c1 x 32 streams", "no-op 64 B, gRPC, c4 x 32 streams"]
    for name in names:
        yield absolute(results, name, "cpu_us", 20, "{:.1f} µs", "at most 20 µs of CPU a request")
        yield absolute(
            results,
            name,
            "rps",
            60000,
            "{:,.0f}",
            "at least 60,000 requests/s",
            at_most=False,
        )


def _noop_large(results):
    for protocol, limit in (("HTTP", 0.5), ("gRPC", 0.71)):
        for c in (1, 8, 32):
            name = f"no-op 1 MiB, {protocol}, c{c}"
            yield absolute(
                results,
                name,
                "cpu_us",
                limit,
                "{:.3f} ms",
                f"at most {limit} ms of CPU a request",
                scale=1e3,
            )
            yield no_errors(results, name)


def _python(results):
    for protocol, times in (("HTTP", 2), ("gRPC", 3)):
        for c in (8, 32):
            name = f"Python add/sub, {protocol}, c{c}"
            yield relative(results, name, "rps", times, f"at least {times} times the requests/s")
            yield relative(
                results,
                name,
                "cpu_us",
                0.4,
                "at most 0.4 times the CPU a request",
                at_most=True,
            )
        name = f"Python add/sub, {protocol}, c1"
        yield relative(results, name, "p50_us", 0.5, "at most half of the p50", at_most=True)
    for protocol, times, share in (("HTTP", 2, 0.5), ("gRPC", 1.5, 0.8)):
        for c in (1, 8, 32):
            name = f"Python identity 1 MiB, {protocol}, c{c}"
            yield relative(results, name, "rps", times, f"at least {times} times the requests/s")
            yield relative(
                results,
                name,
                "cpu_us",
                share,
                f"at most {share} times the CPU a request",
                at_most=True,
            )
    for c in (1, 2):
        name = f"JSON 1 M floats, Python identity, c{c}"
        yield relative(results, name, "rps", 3, "at least 3 times the requests/s")


def _lifecycle(results):
    entries = results.get("lifecycle", {})

    def row(goal, entry, field, limit, text):
        side = entries.get(entry, {})
        return judge(goal, side.get(field), limit, text, failure=failure_of(side))

    load = "load of a Python model over the API, auto-completion on"
    yield row("start to ready, no-op model: 60 ms", "neso noop", "ready_ms", 60, "{:.0f} ms")
    yield row(
        "start to ready, one Python model: 150 ms",
        "neso python",
        "ready_ms",
        150,
        "{:.0f} ms",
    )
    yield row(
        f"{load}, first of the server: 100 ms",
        "neso load",
        "first_ms",
        100,
        "{:.0f} ms",
    )
    yield row(f"{load}, not the first: 100 ms", "neso load", "again_ms", 100, "{:.0f} ms")
    yield row(
        "SIGTERM to exit, idle, no-op model: 50 ms",
        "neso noop",
        "stop_ms",
        50,
        "{:.0f} ms",
    )
    yield row(
        "SIGTERM to exit, idle, one Python model: 50 ms",
        "neso python",
        "stop_ms",
        50,
        "{:.0f} ms",
    )
    yield row(
        "idle memory (RSS, no-op model): 30 MiB",
        "neso noop",
        "rss_mib",
        30,
        "{:.1f} MiB",
    )
    yield row("binary, stripped: 30 MiB", "neso size", "binary_mib", 30, "{:.1f} MiB")


def _endurance(results):
    for name, sides in results.get("endurance", {}).items():
        neso = sides.get("neso")
        if not neso or not neso["rounds"]:
            failure = failure_of(neso)
            yield Row(
                f"{name}: memory flat, p99 within 5 times p50",
                failure,
                MISSED if failure else UNKNOWN,
            )
            continue
        memory = neso["memory"]
        gained, level = memory["gained_mib"], memory["level_mib"]
        flat = gained <= max(FLAT_MIB, FLAT_SHARE * level)
        yield Row(
            f"{name}: memory flat",
            f"{gained:+.1f} MiB on {level:.1f} MiB",
            MET if flat else MISSED,
        )
        p50, p99 = median_of(neso, "p50_us"), median_of(neso, "p99_us")
        yield judge(
            f"{name}: p99 within 5 times p50",
            p99 / p50 if p50 else None,
            5,
            "{:.2f} times",
        )
        yield clean(name, neso)


def evaluate(results):
    """One row a goal and scenario, in the order of the goals."""
    rows = []
    for group in (
        _noop_small,
        _noop_large,
        _python,
        pipeline_goals.rows,
        frameworks.goals,
        engines.goals,
        native.goals,
        _lifecycle,
        _endurance,
    ):
        rows.extend(group(results))
    return rows
