#!/usr/bin/env python3
"""Compares load generators: neso perf, wrk, h2load and the real perf_analyzer, by turns against the same servers.

`python bench/generators.py` prints the table and writes build/bench/generators.json. PERF_ANALYZER names the real one: it lies in the
manylinux wheel of tritonclient 2.51.0 and needs libb64-0d and a libcudart.so.12, for which LIBRARIES may name a directory. PEER as in
compare.py. compare.py asks `check` before it measures by neso perf.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import bodies
import load
import peer as peers
import servers

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "bench" / "models"
WORK = ROOT / "build" / "bench"
CONNECTIONS = 8  # of the check
NEAR = 0.10  # by how much two generators may differ in what they say of one server


class Target:
    """One model of a server that runs, and what is sent to it."""

    def __init__(self, server, model, elements, work, perf, analyzer=None):
        self.server, self.model, self.perf, self.analyzer = server, model, perf, analyzer
        self.work = pathlib.Path(work)
        self.payload = bodies.payload(model, elements)
        self.data = bodies.perf_data(self.payload, self.work / f"perf.{server.name}.{model}.{elements}.json")
        self.http = bodies.http_body(self.payload, True, self.work / f"generators.{server.name}.http")
        self.grpc = bodies.grpc_body(self.payload, self.work / f"generators.{server.name}.grpc")
        self.rate = 20_000.0

    def generators(self, protocol):
        names = ["neso perf", "wrk" if protocol == "http" else "h2load"]
        return [*names, "perf_analyzer"] if self.analyzer else names

    def run(self, generator, protocol, connections, seconds):
        """One run, with the server's CPU a request."""
        before = self.server.cpu_seconds()
        sample = self._run(generator, protocol, connections, seconds)
        sample.cpu_us = (self.server.cpu_seconds() - before) * 1e6 / max(sample.requests, 1)
        self.rate = sample.rps or self.rate
        return sample

    def _run(self, generator, protocol, connections, seconds):
        address = self.server.grpc_address if protocol == "grpc" else self.server.http_address
        if generator == "neso perf":
            return load.run_perf(
                load.perf_command(self.perf, address, protocol, self.model, self.data, connections, seconds=seconds),
                seconds,
            )
        if generator == "perf_analyzer":
            command = load.perf_command(
                self.analyzer, address, protocol, self.model, self.data, connections, seconds=seconds
            )
            return load.run_analyzer([*command, "--async"], seconds, self.work / "analyzer.csv")
        if generator == "wrk":
            url = self.server.url(f"/v2/models/{self.model}/infer")
            return load.run_wrk(url, self.http.path, self.http.headers, connections, round(seconds))
        url, log = f"http://{address}{load.GRPC_PATH}", self.work / "generators.log"
        size = load.answer_size(url, self.grpc.path, self.grpc.headers, log)
        requests = max(1, round(self.rate * seconds / connections)) * connections
        return load.run_h2load(url, self.grpc.path, self.grpc.headers, connections, 1, requests, log, size)


def measure(target, protocol, connections, rounds, seconds):
    """All generators by turns; what each saw."""
    names = target.generators(protocol)
    for name in names:
        target.run(name, protocol, connections, 1)
    samples = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            samples[name].append(target.run(name, protocol, connections, seconds))
    return {name: row(list_) for name, list_ in samples.items()}


def row(samples):
    def median(value):
        return statistics.median(value(s) for s in samples)

    return {
        "rps": median(lambda s: s.rps),
        "p50_us": median(lambda s: s.p50_us),
        "p99_us": median(lambda s: s.p99_us),
        "client_us": median(lambda s: s.generator_cores * s.seconds * 1e6 / max(s.requests, 1)),
        "server_us": median(lambda s: s.cpu_us),
        "errors": sum(s.errors for s in samples),
    }


def check(server, perf, work, rounds=3, seconds=2):
    """Whether neso perf may stand for wrk (HTTP) and h2load (gRPC) on this machine: whether it sees the same throughput of one server."""
    target = Target(server, "noop", 16, work, perf)
    result = {}
    for protocol in ("http", "grpc"):
        rows = measure(target, protocol, CONNECTIONS, rounds, seconds)
        classic = "wrk" if protocol == "http" else "h2load"
        ratio = rows["neso perf"]["rps"] / max(rows[classic]["rps"], 1e-9)
        near = replaces(rows["neso perf"], rows[classic])
        result[protocol] = {"classic": classic, "ratio": ratio, "near": near, "rows": rows}
    return result


def replaces(ours, classic):
    """Whether what neso perf saw of a server may stand for what the other generator saw. More than that is right where the whole of a
    request, generator and server, took less processor time: the cores are the bound, and the server had more of them."""
    if ours["errors"]:
        return False
    ratio = ours["rps"] / max(classic["rps"], 1e-9)
    cheaper = ours["client_us"] + ours["server_us"] < classic["client_us"] + classic["server_us"]
    return abs(ratio - 1) <= NEAR or (ratio > 1 and cheaper)


def table(name, protocol, connections, rows):
    ours = rows["neso perf"]["rps"]
    for generator, r in rows.items():
        print(
            f"{name:24} {protocol:5} c{connections:<3} {generator:13} {r['rps']:8,.0f}/s p50 {r['p50_us']:7,.0f} p99 {r['p99_us']:7,.0f} "
            f"CPU {r['client_us']:5.1f} server {r['server_us']:5.1f} us errors {r['errors']} ratio {ours / max(r['rps'], 1e-9):.2f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--neso", default=str(ROOT / "bin" / "neso"), help="the server and the generator (bin/neso)")
    parser.add_argument("--no-peer", action="store_true", help="without the real Triton")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2)
    args = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    analyzer = None
    if os.environ.get("PERF_ANALYZER"):
        analyzer = ["env", f"LD_LIBRARY_PATH={os.environ.get('LIBRARIES', '')}", os.environ["PERF_ANALYZER"]]
    neso = servers.Launcher("neso", [args.neso, "serve"], dict(os.environ), MODELS, WORK)
    sides = [("Neso, no-op", neso, "noop", "noop")]
    if not args.no_peer:
        try:
            peer = peers.find_or_make(os.environ.get("PEER"), ROOT / ".tools" / "peer")
        except peers.PeerMissing as error:
            sys.exit(str(error))
        command = peer.command(peer.backends(WORK / "backends"))
        launcher = servers.Launcher("peer", command, peer.environment(os.environ), MODELS, WORK)
        sides.append(("Triton, Python identity", launcher, "py_identity", "python"))
    results = {}
    for name, launcher, model, repository in sides:
        server = launcher.server(repository)
        server.start()
        try:
            target = Target(server, model, 16, WORK, [args.neso, "perf"], analyzer)
            for protocol in ("http", "grpc"):
                for connections in args.connections:
                    rows = measure(target, protocol, connections, args.rounds, args.seconds)
                    results[f"{name}, {protocol}, c{connections}"] = rows
                    table(name, protocol, connections, rows)
        except subprocess.TimeoutExpired as error:
            print(f"{name}: {error}", flush=True)
        finally:
            server.stop()
    (WORK / "generators.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
