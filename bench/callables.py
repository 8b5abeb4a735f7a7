#!/usr/bin/env python3
"""Compares callables bound with PyTriton and with Neso: the same program, the same run. `make bench-bound` runs it.

PEER=VENV names a venv with nvidia-pytriton, whose interpreter runs both programs.
"""

import argparse
import os
import pathlib
import queue
import statistics
import sys
import time

import bodies
import load
import measure
import numpy as np
import peer as peers
import procstat
import report
import tritonclient.grpc as grpcclient
from scenarios import MIB_FLOATS, Scenario
from servers import Server

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "bench" / "bound"
RESPONSES = 100


def _scenario(name, protocol, connections, model, elements):
    return Scenario(f"{name}, {protocol}, c{connections}", protocol, connections, model, model, elements)


SCENARIOS = [
    *[_scenario("@batch add/sub", p, c, "add_sub", 16) for p in ("http", "grpc") for c in (32, 1)],
    *[_scenario("identity 1 MiB", p, c, "identity", MIB_FLOATS) for p in ("http", "grpc") for c in (8, 32)],
    *[_scenario("unbatched", p, 32, "single", 16) for p in ("http", "grpc")],
]

# What Neso is to be: scenario, figure, limit of Neso / PyTriton, whether the limit is a floor.
GOALS = [
    ("@batch add/sub, http, c32", "rps", 15, True),
    ("@batch add/sub, grpc, c32", "rps", 15, True),
    ("@batch add/sub, http, c32", "cpu_us", 0.07, False),
    ("@batch add/sub, grpc, c32", "cpu_us", 0.07, False),
    ("@batch add/sub, http, c1", "p50_us", 0.1, False),
    ("@batch add/sub, grpc, c1", "p50_us", 0.1, False),
    ("identity 1 MiB, http, c8", "rps", 4, True),
    ("identity 1 MiB, http, c32", "rps", 4, True),
    ("identity 1 MiB, grpc, c8", "rps", 2.5, True),
    ("identity 1 MiB, grpc, c32", "rps", 2.5, True),
    ("unbatched, http, c32", "rps", 8, True),
    ("unbatched, grpc, c32", "rps", 8, True),
    ("stream of 100, grpc", "responses", 8, True),
    ("memory", "MiB", 0.4, False),
    ("memory under load", "MiB", 0.4, False),
]
FIRST_ANSWER = 0.5


class Program(Server):
    """A program with bound callables, which starts its own server."""

    def __init__(self, package, python, environment):
        super().__init__(package, [], environment, "", WORK / f"{package}.log")
        program = pathlib.Path(__file__).with_name("callables_program.py")
        ports = [str(port) for port in (self.http, self.grpc, self.metrics)]
        self.command = [str(python), str(program), package, *ports]

    def is_ready(self):
        """Whether the first real request is answered."""
        if not super().is_ready():
            return False
        try:
            bodies.check_http(bodies.add_sub("add_sub"), self.http_address, True)
        except Exception:  # noqa: BLE001  not yet
            return False
        return True


class Runner(measure.Runner):
    """Knows the payloads of the bound models."""

    def __init__(self, scenario, server):
        super().__init__(scenario, server, scenario.neso, WORK)
        if scenario.neso == "single":
            self.payload = bodies.identity("single", scenario.elements, False)
        elif scenario.neso == "add_sub":
            self.payload = bodies.add_sub("add_sub")


class Streams:
    """One client connection with eight streams at once, each of them one request that is answered a hundred times.

    The load generator takes a hundredth of what the official client would for a response, which would be all that is
    measured. It counts bytes, so the official client looks at one stream first.
    """

    AT_ONCE = 8

    def __init__(self, server):
        self.server = server
        self.url = f"http://{server.grpc_address}{load.GRPC_STREAM_PATH}"
        self.log = WORK / "stream.log"
        self._check()
        self.body = bodies.grpc_body(bodies.identity("stream", 1, False), WORK / f"stream.{server.name}.grpc")
        self.answer_bytes = load.answer_size(self.url, self.body.path, self.body.headers, self.log)
        self.rate = self._run(20).rps
        self.responses, self.cpu_us = [], []

    def _check(self):
        got = queue.Queue()
        values = grpcclient.InferInput("INPUT0", [1], "FP32")
        values.set_data_from_numpy(np.zeros(1, np.float32))
        with grpcclient.InferenceServerClient(self.server.grpc_address) as client:
            until = time.monotonic() + 60
            while not client.is_model_ready("stream") and time.monotonic() < until:
                time.sleep(0.05)
            client.start_stream(lambda result, error: got.put(error or result))
            client.async_stream_infer("stream", [values])
            for number in range(RESPONSES):
                answer = got.get(timeout=60)
                if isinstance(answer, Exception):
                    raise answer
                if answer.as_numpy("OUTPUT0")[0] != number:
                    raise bodies.WrongAnswer(f"response {number} of a stream is {answer.as_numpy('OUTPUT0')}")

    def _run(self, each):
        return load.run_h2load(
            self.url, self.body.path, self.body.headers, 1, self.AT_ONCE, each * self.AT_ONCE, self.log,
            self.answer_bytes,
        )  # fmt: skip

    def measure(self, seconds):
        """One round: responses a second, and CPU of the server for one."""
        before = self.server.cpu_seconds()
        sample = self._run(max(4, round(self.rate * seconds / self.AT_ONCE)))
        self.rate = sample.rps
        count = sample.requests * RESPONSES
        self.responses.append(sample.rps * RESPONSES)
        self.cpu_us.append((self.server.cpu_seconds() - before) * 1e6 / max(count, 1))

    def medians(self):
        return {"responses": statistics.median(self.responses), "cpu_us": statistics.median(self.cpu_us)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    rounds, seconds = args.rounds or (1 if args.quick else 5), args.seconds or (1 if args.quick else 3)
    out = args.out or (WORK if args.quick or args.only else ROOT / "bench") / "BOUND.md"
    try:
        peer = peers.find_or_make(os.environ.get("PEER"), ROOT / ".tools" / "peer")
    except peers.PeerMissing as error:
        sys.exit(str(error))
    WORK.mkdir(parents=True, exist_ok=True)
    ours = dict(os.environ, PYTHONPATH=str(ROOT / "python"), NESO_BINARY=str(ROOT / "bin" / "neso"))
    sides = {
        "neso": Program("neso", peer.python, ours),
        "peer": Program("pytriton", peer.python, peer.environment(os.environ)),
    }
    figures, starts = {}, {}
    try:
        for side, program in sides.items():
            times = [program.start()]
            for _ in range(rounds - 1):
                program.stop()
                times.append(program.start())
            starts[side] = statistics.median(times)
            figures["memory", side] = {"MiB": procstat.pss_bytes(program.pid) / 2**20}
            print(f"{side}: first answer after {starts[side]:.2f} s", flush=True)
        for scenario in SCENARIOS:
            if args.only not in scenario.name:
                continue
            runners = {side: Runner(scenario, program) for side, program in sides.items()}
            measure.run(list(runners.values()), rounds, seconds)
            for side, runner in runners.items():
                made = runner.side
                figures[scenario.name, side] = {f: made.median(f) for f in ("rps", "p50_us", "p99_us", "cpu_us")}
                print(f"{scenario.name:32} {side:5} {figures[scenario.name, side]} {made.failure}", flush=True)
        if args.only in "stream of 100, grpc":
            streams = {side: Streams(program) for side, program in sides.items()}
            for number in range(rounds):
                for side in list(streams)[:: 1 if number % 2 == 0 else -1]:
                    streams[side].measure(seconds)
            for side, made in streams.items():
                figures["stream of 100, grpc", side] = made.medians()
                print(f"stream of 100 {side}: {made.medians()}", flush=True)
        for side, program in sides.items():
            figures["memory under load", side] = {"MiB": procstat.pss_bytes(program.pid) / 2**20}
    finally:
        for program in sides.values():
            program.stop()
    out.write_text(render(figures, starts, rounds, seconds))
    print(f"wrote {os.path.relpath(out)}")


def render(figures, starts, rounds, seconds):
    rows = []
    for name, field, limit, floor in GOALS:
        a, b = (figures.get((name, side), {}).get(field) for side in ("neso", "peer"))
        if a is None or not b:
            rows.append([name, field, "-", "-", "-", f"{'≥' if floor else '≤'} {limit}", "not measured"])
            continue
        met = a / b >= limit if floor else a / b <= limit
        rows.append(
            [name, field, f"{a:,.0f}", f"{b:,.0f}", f"{a / b:.3g}", f"{'≥' if floor else '≤'} {limit}",
             "met" if met else "NOT MET"]
        )  # fmt: skip
    if "neso" in starts:
        rows.append(
            ["start to first answer", "s", f"{starts['neso']:.2f}", f"{starts['peer']:.2f}",
             f"{starts['neso'] / starts['peer']:.3g}", f"≤ {FIRST_ANSWER} s",
             "met" if starts["neso"] <= FIRST_ANSWER else "NOT MET"]
        )  # fmt: skip
    head = ["scenario", "figure", "Neso", "PyTriton", "ratio", "goal", ""]
    return (
        "# Bound callables: Neso and PyTriton\n\n"
        f"`make bench-bound`: one program, run with each package in the same interpreter; {rounds} rounds of {seconds} s by "
        "turns, medians. CPU and memory are those of the program and its server together.\n\n"
        + report.table(head, rows)
        + "\n"
    )


if __name__ == "__main__":
    main()
