#!/usr/bin/env python3
"""Compares Neso with the real Triton: same run, same model files, same load generators. `make bench` runs it.

Needs numpy, tritonclient[all], wrk and h2load, and a built bin/neso. PEER=VENV names a venv with nvidia-pytriton;
without it one is made under .tools/peer.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys

import endurance
import engines
import frameworks
import generators
import library_runner
import lifecycle
import many
import measure
import native
import peer as peers
import pipelines
import report
import sentences
import special
from scenarios import ENDURANCE, SCENARIOS
from servers import Launcher, ServerFailed

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "bench" / "models"
WORK = ROOT / "build" / "bench"
FLAGS = {
    "cache": ["--cache-config=local,size=67108864"],
    **engines.FLAGS,
    **native.FLAGS,
}  # by repository, both sides alike
LIFECYCLE = "start, load, stop, size"


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one short round of everything: is it alive, not how fast",
    )
    parser.add_argument(
        "--only",
        metavar="REGEX",
        help="only the scenarios whose name matches, upper and lower case alike (--list prints them)",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the scenarios")
    parser.add_argument("--rounds", type=int, help="rounds a scenario (5; quick: 1)")
    parser.add_argument("--seconds", type=float, help="length of a round (3; quick: 1)")
    parser.add_argument(
        "--endurance-seconds",
        type=float,
        help="length of the runs at 256 connections (60; quick: 5)",
    )
    parser.add_argument(
        "--generator",
        choices=["auto", "perf", "classic"],
        default="auto",
        help="neso perf, or wrk and h2load; auto: neso perf for each protocol in which it agrees with them within 10 %% in this run",
    )
    parser.add_argument("--no-peer", action="store_true", help="Neso alone")
    parser.add_argument("--no-neso", action="store_true", help="the peer alone")
    parser.add_argument(
        "--neso",
        default=str(ROOT / "bin" / "neso"),
        help="binary to measure (bin/neso)",
    )
    parser.add_argument(
        "--python",
        help="interpreter of Neso's Python models (the peer's, so that both use the same)",
    )
    parser.add_argument(
        "--out",
        help="report (bench/RESULTS.md for a full run, else build/bench/RESULTS.md)",
    )
    args = parser.parse_args(argv)
    args.rounds = args.rounds or (1 if args.quick else 5)
    args.seconds = args.seconds or (1 if args.quick else 3)
    args.endurance_seconds = args.endurance_seconds or (5 if args.quick else 60)
    partial = args.quick or args.only or args.no_peer or args.no_neso
    args.out = pathlib.Path(args.out or (WORK if partial else ROOT / "bench") / "RESULTS.md")
    return args


def output_of(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    except FileNotFoundError:
        return ""
    return (done.stdout or done.stderr).strip()


def first_field(path, name):
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        if line.startswith(name):
            return line.split(":", 1)[1].strip()
    return "unknown"


def machine(args, peer):
    memory = int(first_field("/proc/meminfo", "MemTotal").split()[0]) / 2**20
    cores = len(os.sched_getaffinity(0))
    release = ".".join(platform.release().split("-")[0].split(".")[:2])
    rows = {
        "processor": f"{first_field('/proc/cpuinfo', 'model name')}, {cores} cores for servers, models and load generator",
        "memory": f"{memory:.0f} GiB",
        "load average at the start": f"{os.getloadavg()[0]:.1f} (more than a little: other work took part of the cores)",
        "system": f"{platform.system()} {release} {platform.machine()}",
        "load generators": f"{output_of('wrk', '-v').splitlines()[0].split(' [')[0]}, {output_of('h2load', '--version')}",
    }
    if not args.no_neso:
        rows["Neso"] = output_of(args.neso, "version").splitlines()[0] if output_of(args.neso, "version") else "unknown"
        script = "import sys, numpy; print('Python', sys.version.split()[0], 'numpy', numpy.__version__)"
        rows["Neso's models run in"] = output_of(args.python, "-c", script)
    if peer:
        rows["peer"] = f"{peers.TRITON} out of nvidia-pytriton {peers.VERSION}"
        script = "import sys, numpy; print('Python', sys.version.split()[0], 'numpy', numpy.__version__)"
        rows["its models run in"] = output_of(str(peer.python), "-c", script)
    return rows


def portable(command, peer):
    """A command line without this machine's paths."""
    return without_paths(shlex.join(str(part) for part in command), peer)


def without_paths(text, peer):
    if peer:
        text = text.replace(str(peer.venv), "$PEER")
    return text.replace(str(ROOT) + "/", "")


def build_launchers(args, peer):
    neso = peer_launcher = None
    if not args.no_neso:
        environment = engines.library_environment(dict(os.environ, NESO_PYTHON=str(args.python)))
        neso = Launcher("neso", [args.neso, "serve"], environment, MODELS, WORK)
    if peer:
        command = peer.command(peer.backends(WORK / "peer-backends"))
        peer_launcher = Launcher("peer", command, peer.environment(os.environ), MODELS, WORK)
    return neso, peer_launcher


class Fleet:
    """Servers by side and repository, started at first use and stopped together."""

    def __init__(self, stack, launchers, peer):
        self.stack, self.launchers, self.peer = stack, launchers, peer
        self.servers = {}

    def get(self, side, repository):
        """The running server, or what kept it from starting (which is tried once)."""
        key = (side, repository)
        if key not in self.servers:
            server = self.launchers[side].server(repository, FLAGS.get(repository, ()))
            if repository in native.FLAGS:
                server.environment = native.environment(side, server.environment, self.peer)
            self.stack.callback(server.stop)
            try:
                server.start()
                self.servers[key] = server
            except ServerFailed as error:
                self.servers[key] = error
        return self.servers[key]


def pairs(scenario, launchers):
    for side, model, repository in zip(
        ("neso", "peer"),
        (scenario.neso, scenario.peer),
        scenario.repositories,
        strict=True,
    ):
        if launchers[side] and model:
            yield side, model, repository


def check_generators(args, neso, results):
    """By protocol, the command of neso perf where it makes the load."""
    perf = [args.neso, "perf"]
    if args.generator == "perf":
        return dict.fromkeys(("http", "json", "grpc"), perf)
    if args.generator == "classic" or not neso:
        return {}
    server = neso.server("noop")
    server.start()
    try:
        found = generators.check(server, perf, WORK, rounds=1 if args.quick else 5)
    finally:
        server.stop()
    results["generators"] = found
    for protocol, entry in found.items():
        generators.table(f"generators {protocol}", protocol, generators.CONNECTIONS, entry["rows"])
    use = {protocol: perf for protocol, entry in found.items() if entry["near"]}
    return use | ({"json": perf} if "http" in use else {})


def run_load(args, launchers, chosen, peer, results):
    perf = check_generators(args, launchers["neso"], results) if chosen else {}
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, launchers, peer)
        for number, scenario in enumerate(chosen, 1):
            runners, entry = {}, {}
            for side, model, repository in pairs(scenario, launchers):
                if reason := engines.missing(repository):
                    entry[side] = measure.Side(model, failure=reason).as_dict()
                    continue
                if scenario in native.IN_PROCESS:
                    runners[side] = native.Runner(scenario, side, launchers[side].environment, WORK / "generated", peer)
                    stack.callback(runners[side].stop)
                    continue
                server = fleet.get(side, repository)
                if isinstance(server, ServerFailed):
                    entry[side] = measure.Side(model, failure=str(server)).as_dict()
                else:
                    runners[side] = special.runner(scenario, server, model, WORK)
                    runners[side].use_perf(perf.get(scenario.protocol))
            if scenario.library and "neso" in runners:
                runners["library"] = library_runner.LibraryRunner(scenario, runners["neso"], WORK)
                stack.callback(runners["library"].stop)
            measure.run(list(runners.values()), args.rounds, args.seconds)
            for side, runner in runners.items():
                runner.side.command = portable(runner.side.command, peer)
                entry[side] = runner.side.as_dict()
            results["scenarios"][scenario.name] = entry
            print(f"[{number}/{len(chosen)}] {line(scenario.name, entry)}", flush=True)
        results["server_commands"] = "\n".join(
            f"# {side}, {repository}\n{portable(server.command, peer)}"
            for (side, repository), server in fleet.servers.items()
            if not isinstance(server, ServerFailed)
        )


def run_many(neso, rounds):
    try:
        found = many.measure(neso, engines.onnx_library(), rounds)
    except Exception as error:  # noqa: BLE001  the other scenarios go on
        return {"neso many": {"failure": f"{type(error).__name__}: {error}"[:400]}}
    for name, entry in found.items():
        print(f"{name:42} | ready {entry['ready_ms']:.0f} ms | RSS {entry['rss_mib']:.0f} MiB", flush=True)
    return found


def line(name, entry):
    parts = [f"{name:42}"]
    for side, data in entry.items():
        m = data["median"]
        if m["rps"] is None:
            parts.append(f"{side}: {data['failure'][:200]}")
            continue
        parts.append(
            f"{side}: {m['rps']:9,.0f}/s p50 {report.latency(m['p50_us'])} p99 {report.latency(m['p99_us'])} ms "
            f"cpu {m['cpu_us']:8,.1f} us errors {data['errors']}"
        )
    return " | ".join(parts)


def run_endurance(args, launchers, chosen, peer, results):
    """Each on a fresh server, so that its memory is its own."""
    for scenario in chosen:
        entry = {}
        for side, model, repository in pairs(scenario, launchers):
            server = launchers[side].server(repository)
            try:
                server.start()
                entry[side] = endurance.run(scenario, server, model, args.endurance_seconds, WORK)
            except ServerFailed as error:
                entry[side] = measure.Side(model, failure=str(error)).as_dict()
            finally:
                server.stop()
            entry[side]["command"] = portable(entry[side]["command"], peer)
        results["endurance"][scenario.name] = entry
        print(line(scenario.name, entry), flush=True)


def main(argv=None):
    args = parse_arguments(argv)
    names = re.compile(args.only or "", re.IGNORECASE)
    chosen = [
        s
        for s in SCENARIOS
        + pipelines.PIPELINES
        + frameworks.FRAMEWORKS
        + engines.ENGINES
        + sentences.SENTENCES
        + native.NATIVE
        if names.search(s.name)
    ]
    long_runs = [s for s in ENDURANCE if names.search(s.name)]
    if args.list:
        print("\n".join([s.name for s in chosen + long_runs] + [many.NAME, LIFECYCLE]))
        return
    for tool in ("wrk", "h2load"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is missing (Debian: wrk, nghttp2-client)")
    if not args.no_neso and not os.access(args.neso, os.X_OK):
        sys.exit(f"{args.neso} is missing: make build")
    try:
        peer = None if args.no_peer else peers.find_or_make(os.environ.get("PEER"), ROOT / ".tools" / "peer")
    except peers.PeerMissing as error:
        sys.exit(str(error))
    args.python = args.python or (peer.python if peer else sys.executable)
    WORK.mkdir(parents=True, exist_ok=True)
    if any(s in frameworks.FRAMEWORKS for s in chosen):
        frameworks.generate(WORK / "generated")
    if any(s in sentences.SENTENCES for s in chosen):
        sentences.generate()
    engines.generate([s for s in chosen if s.library])
    if any(s in native.NATIVE for s in chosen):
        native.generate(WORK / "generated", MODELS, peer)

    results = {
        "meta": {
            "command": "python bench/compare.py " + shlex.join(argv if argv is not None else sys.argv[1:]),
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "commit": output_of("git", "describe", "--always", "--dirty", "--exclude", "*") or "unknown",
            "rounds": args.rounds,
            "seconds": args.seconds,
            "machine": machine(args, peer),
        },
        "scenarios": {},
        "endurance": {},
        "lifecycle": {},
    }
    results["meta"]["command"] = results["meta"]["command"].strip()
    neso, peer_launcher = build_launchers(args, peer)
    launchers = {"neso": neso, "peer": peer_launcher}
    try:
        if names.search(many.NAME) and neso:
            results["lifecycle"] = run_many(neso, args.rounds)
        if names.search(LIFECYCLE) and neso:
            results["lifecycle"] |= lifecycle.measure(neso, peer_launcher, args.neso, args.rounds)
            if peer:
                size = sum(lifecycle.tree_mib(folder) for folder in (peer.home, peer.libraries))
                results["lifecycle"]["peer size"] = {"binary_mib": size}
        run_load(args, launchers, chosen, peer, results)
        run_endurance(args, launchers, long_runs, peer, results)
    finally:
        # What was measured before a failure or ^C is still worth reading.
        (WORK / "results.json").write_text(json.dumps(results, indent=1))
        args.out.write_text(without_paths(report.render(results), peer))
        print(f"wrote {os.path.relpath(args.out)}")


if __name__ == "__main__":
    main()
