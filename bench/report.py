"""Writes the results as Markdown: ratios first, then the goals, then every figure."""

import frameworks
import goals

STATED = {  # of the peer's C++ no-op, an earlier run: requests/s, p50 in ms, CPU µs a request
    "no-op 64 B, HTTP, c1": (11400, 0.080, 55),
    "no-op 64 B, HTTP, c8": (42800, 0.174, 33),
    "no-op 64 B, HTTP, c32": (36700, 0.756, 36),
    "no-op 64 B, gRPC, c1": (8700, 0.100, 93),
    "no-op 64 B, gRPC, c8": (29400, 0.252, 43),
    "no-op 64 B, gRPC, c32": (30600, 0.978, 43),
    "no-op 1 MiB, HTTP, c1": (745, 1.30, 1270),
    "no-op 1 MiB, HTTP, c8": (1185, 5.9, 1070),
    "no-op 1 MiB, HTTP, c32": (1053, 29, 1340),
    "no-op 1 MiB, gRPC, c1": (1006, 0.89, 760),
    "no-op 1 MiB, gRPC, c8": (1328, 4.6, 710),
    "no-op 1 MiB, gRPC, c32": (1198, 21, 800),
}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def number(value, digits=0):
    return "-" if value is None else f"{value:,.{digits}f}"


def latency(us):
    """Microseconds as milliseconds with three significant digits."""
    if us is None:
        return "-"
    ms = us / 1e3
    return f"{ms:.3f}" if ms < 1 else f"{ms:.2f}" if ms < 10 else f"{ms:,.1f}"


def one_line(text):
    """Foreign text as the cell of a table."""
    return " ".join(text.split()).replace("|", "/")[:200]


def ratio(neso, peer):
    return f"{neso / peer:.2f}" if neso is not None and peer else "-"


def _medians(side):
    return side["median"] if side else {}


def ratios(scenarios, same):
    """Neso divided by the peer; same chooses between equal models and the no-op against Python identity."""
    rows = []
    for name, entry in scenarios.items():
        neso, peer = entry.get("neso"), entry.get("peer")
        if not neso or not peer or (neso["model"] == peer["model"]) != same:
            continue
        a, b = _medians(neso), _medians(peer)
        rows.append([name] + [ratio(a.get(f), b.get(f)) for f in ("rps", "p50_us", "p99_us", "cpu_us")])
    return table(["scenario", "requests/s", "p50", "p99", "server CPU a request"], rows) if rows else ""


def stated(scenarios):
    rows = []
    for name, (rps, p50, cpu) in {**STATED, **frameworks.STATED}.items():
        neso = _medians(scenarios.get(name, {}).get("neso"))
        if neso.get("rps") is None:
            continue
        rows.append(
            [
                name,
                ratio(neso["rps"], rps),
                ratio(neso["p50_us"], p50 * 1e3),
                ratio(neso["cpu_us"], cpu),
                f"{rps:,}",
                f"{p50}",
                f"{cpu:,}",
            ]
        )
    head = [
        "scenario",
        "requests/s",
        "p50",
        "server CPU a request",
        "their requests/s",
        "their p50 ms",
        "their CPU µs",
    ]
    return table(head, rows) if rows else ""


def spread(side, field):
    values = [sample[field] for sample in side["rounds"]]
    return f"{min(values):,.0f}-{max(values):,.0f}" if values else "-"


def absolutes(scenarios):
    rows = []
    for name, entry in scenarios.items():
        for server in ("neso", "peer", "library"):
            side = entry.get(server)
            if not side:
                continue
            m = _medians(side)
            rows.append(
                [
                    name,
                    server,
                    side["model"],
                    number(m["rps"]),
                    spread(side, "rps"),
                    latency(m["p50_us"]),
                    latency(m["p99_us"]),
                    number(m["cpu_us"], 1),
                    spread(side, "cpu_us"),
                    number(m["generator_cores"], 2),
                    _faults(side),
                ]
            )
    head = [
        "scenario",
        "server",
        "model",
        "requests/s",
        "min-max",
        "p50 ms",
        "p99 ms",
        "CPU µs",
        "min-max",
        "generator cores",
        "errors",
    ]
    return table(head, rows) if rows else ""


def load_generators(found):
    rows = [
        [
            protocol,
            name,
            number(r["rps"]),
            latency(r["p50_us"]),
            latency(r["p99_us"]),
            number(r["client_us"], 1),
            number(r["server_us"], 1),
        ]
        + [f"{entry['ratio']:.2f}, {'used' if entry['near'] else 'not used'}" if name == "neso perf" else ""]
        for protocol, entry in found.items()
        for name, r in entry["rows"].items()
    ]
    head = ["protocol", "generator", "requests/s", "p50 ms", "p99 ms", "its CPU µs", "server CPU µs", "ratio"]
    return table(head, rows) if rows else ""


def _faults(side):
    text = str(side["errors"])
    if side["crashes"]:
        text += f", {side['crashes']} crashes"
    if side["failure"]:
        text += ": " + one_line(side["failure"])
    return text


def endurance(results):
    rows = []
    for name, entry in results.items():
        for server in ("neso", "peer"):
            side = entry.get(server)
            if not side:
                continue
            if "memory" not in side:
                rows.append([name, server] + ["-"] * 9 + [_faults(side)])
                continue
            m, memory = _medians(side), side["memory"]
            rows.append(
                [
                    name,
                    server,
                    number(m["rps"]),
                    latency(m["p50_us"]),
                    latency(m["p99_us"]),
                    latency(m["max_us"]),
                    number(m["cpu_us"], 1),
                    number(memory["before_mib"], 1),
                    number(memory["level_mib"], 1),
                    f"{memory['gained_mib']:+.1f}",
                    number(memory["peak_mib"], 1),
                    _faults(side),
                ]
            )
    head = [
        "scenario",
        "server",
        "requests/s",
        "p50 ms",
        "p99 ms",
        "max ms",
        "CPU µs",
        "MiB before",
        "MiB settled",
        "gained",
        "MiB peak",
        "errors",
    ]
    return table(head, rows) if rows else ""


def lifecycle(entries):
    rows = []
    for label, field, digits, neso, peer in (
        ("start to ready, no model, ms", "ready_ms", 0, "neso empty", "peer empty"),
        ("start to ready, no-op model, ms", "ready_ms", 0, "neso noop", ""),
        (
            "start to ready, one Python model, ms",
            "ready_ms",
            0,
            "neso python",
            "peer python",
        ),
        (
            "load over the API, Python, first of the server, ms",
            "first_ms",
            0,
            "neso load",
            "peer load",
        ),
        (
            "load over the API, Python, again after unload, ms",
            "again_ms",
            0,
            "neso load",
            "peer load",
        ),
        ("SIGTERM to exit, no model, ms", "stop_ms", 0, "neso empty", "peer empty"),
        ("SIGTERM to exit, no-op model, ms", "stop_ms", 0, "neso noop", ""),
        (
            "SIGTERM to exit, one Python model, ms",
            "stop_ms",
            0,
            "neso python",
            "peer python",
        ),
        ("idle RSS, no model, MiB", "rss_mib", 1, "neso empty", "peer empty"),
        ("idle RSS, no-op model, MiB", "rss_mib", 1, "neso noop", ""),
        (
            "idle RSS, one Python model, sum over processes, MiB",
            "rss_mib",
            1,
            "neso python",
            "peer python",
        ),
        ("50 ONNX models, start to ready; second: bare ONNX Runtime, ms", "ready_ms", 0, "neso many", "library many"),
        ("50 ONNX models, RSS; second: bare ONNX Runtime, MiB", "rss_mib", 1, "neso many", "library many"),
        ("idle PSS, one Python model, MiB", "pss_mib", 1, "neso python", "peer python"),
        (
            "binary; peer: the wheel's server folder, MiB",
            "binary_mib",
            1,
            "neso size",
            "peer size",
        ),
    ):
        a, b = entries.get(neso, {}), entries.get(peer, {})
        va, vb = a.get(field), b.get(field)
        cell_a, cell_b = (one_line(e.get("failure", "")) or number(v, digits) for e, v in ((a, va), (b, vb)))
        rows.append([label, cell_a, cell_b, ratio(va, vb)])
    return table(["", "neso", "peer", "ratio"], rows)


def commands(scenarios):
    lines = []
    for name, entry in scenarios.items():
        for server in ("neso", "peer", "library"):
            side = entry.get(server)
            if side and side["command"]:
                lines.append(f"# {name}, {server}\n{side['command']}")
    return "\n".join(lines)


GAINED = (
    "MiB: resident size of the whole process tree; gained: last against first quarter after the first third of the run."
)


def header(meta):
    origin = f"Written by `{meta['command']}` on {meta['date']}, commit {meta['commit']}."
    rounds = f"Medians of {meta['rounds']} rounds of {meta['seconds']} s, both servers by turns."
    link = "How it is measured: [docs/performance.md](../docs/performance.md)."
    machine = table(["", ""], [[key, value] for key, value in meta["machine"].items()])
    return ["# Neso against Triton", f"{origin} {rounds} {link}", machine]


def goal_section(results):
    rows = goals.evaluate(results)
    met, missed, unknown = (
        sum(row.verdict == verdict for row in rows) for verdict in (goals.MET, goals.MISSED, goals.UNKNOWN)
    )
    note = f"{met} met, {missed} not met, {unknown} not measured."
    # A row that this run left out says nothing; one that was tried does.
    shown = [row for row in rows if row.verdict != goals.UNKNOWN or row.measured]
    cells = [[row.goal, one_line(row.measured), row.verdict] for row in shown]
    body = table(["goal", "measured", ""], cells)
    return "Goals", f"{note} Mark for the no-op: {goals.STATED_MARK}.", body


def render(results):
    """The whole document. results is what compare.py collects (and saves as JSON)."""
    scenarios, long_runs = results.get("scenarios", {}), results.get("endurance", {})
    lines = [
        results.get("server_commands", ""),
        commands(scenarios),
        commands(long_runs),
    ]
    sections = [
        (
            "Ratios: Neso divided by Triton, same model, same run",
            "More is better for requests/s, less for the others.",
            ratios(scenarios, True),
        ),
        (
            "Ratios: Neso's no-op against Triton's Python identity, same run",
            "Not the same model: Triton's wheel has no no-op backend.",
            ratios(scenarios, False),
        ),
        (
            "Ratios: Neso's no-op against stated figures of Triton's C++ no-op",
            "The right-hand columns are **figures of an earlier run** on two such cores, not of this run.",
            stated(scenarios),
        ),
        goal_section(results),
        (
            "Load",
            "`generator cores`: what the load generator took from the same machine.",
            absolutes(scenarios),
        ),
        (
            "Load generators",
            "By turns against Neso's no-op, 8 connections. `neso perf` makes the load of a protocol in which its throughput is within "
            "10 % of the other's; else wrk and h2load do. The command lines below say which it was.",
            load_generators(results.get("generators", {})),
        ),
        ("256 connections", GAINED, endurance(long_runs)),
        (
            "Start, load, stop, size",
            "",
            lifecycle(results["lifecycle"]) if results.get("lifecycle") else "",
        ),
        ("Command lines", "", "\n".join(["```sh", *filter(None, lines), "```"])),
    ]
    parts = header(results["meta"])
    for title, note, body in sections:
        if body:
            parts += [f"## {title}"] + [part for part in (note, body) if part]
    return "\n\n".join(parts) + "\n"
