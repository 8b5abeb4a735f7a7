#!/usr/bin/env python3
"""A latency objective on a real server, against the best fixed settings of Neso's and of the real Triton's dynamic batcher.

`make bench-adaptive` writes bench/ADAPTIVE.md: its first half in simulated time, then this. Requests come when they are due, whether or
not earlier ones are answered (`neso perf --request-intervals`): as people's did whose arrivals are in bench/arrivals.txt, and at random
at twice what the model can execute. The best fixed setting is found by search for the very load: batch size, then the bound of the
queue, then the time after which a request in it is given up, then the delay. Then it and the objective are measured by turns.

`--load REGEX` measures some loads only. `--record` records bench/arrivals.txt anew.
"""

import argparse
import asyncio
import contextlib
import json
import math
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import urllib.error

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import engines  # noqa: E402
import peer as peers  # noqa: E402
import servers  # noqa: E402

WORK = ROOT / "build" / "bench" / "adaptive"
ARRIVALS = ROOT / "bench" / "arrivals.txt"
REPORT = ROOT / "bench" / "ADAPTIVE.md"
HEADING = "## On real servers"
OBJECTIVE = 0.100
# A batch takes 8 ms and one for each of its requests, of a core: at most 889 requests a second, in batches of 64.
MODEL = """import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        end = time.perf_counter() + 0.008 + 0.001 * len(requests)
        inputs = [pb_utils.get_input_tensor_by_name(r, "IN").as_numpy() for r in requests]
        answers = [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)]) for x in inputs]
        while time.perf_counter() < end:
            pass
        return answers
"""
SIZES, BOUNDS, TIMEOUTS, DELAYS = (16, 32, 64), (0, 32, 128), (40, 70), (5,)
TURNS, ATTEMPTS = 3, 5


def setting(size=32, bound=64, timeout=0, delay=0):
    return {"size": size, "bound": bound, "timeout": timeout, "delay": delay}


def described(s):
    words = [f"max_batch_size {s['size']}", f"max_queue_size {s['bound']}"]
    words += [f"timeout {s['timeout']} ms"] if s["timeout"] else []
    return ", ".join([*words, f"delay {s['delay']} ms"])


def config(fixed):
    """The configuration with a fixed setting, or with None the objective."""
    tensor = {"data_type": "TYPE_FP32", "dims": [1]}
    c = {
        "backend": "python",
        "max_batch_size": fixed["size"] if fixed else 64,
        "input": [{"name": "IN", **tensor}],
        "output": [{"name": "OUT", **tensor}],
        "instance_group": [{"count": 1, "kind": "KIND_CPU"}],
        "dynamic_batching": {},
    }
    if fixed is None:
        return {**c, "parameters": {"latency_objective_ms": {"string_value": str(round(OBJECTIVE * 1000))}}}
    c["dynamic_batching"] = {
        "max_queue_delay_microseconds": fixed["delay"] * 1000,
        "default_queue_policy": {
            "max_queue_size": fixed["bound"],
            "timeout_action": "REJECT",
            "default_timeout_microseconds": fixed["timeout"] * 1000,
        },
    }
    return c


class Load:
    """Gaps between requests in microseconds, and how many requests there are of them."""

    def __init__(self, name, gaps):
        self.name, self.gaps = name, gaps
        self.file = WORK / (name.replace(" ", "-").replace(",", "") + ".txt")
        self.file.write_text("".join(f"{gap}\n" for gap in gaps))

    @property
    def seconds(self):
        return sum(self.gaps) / 1e6


def loads():
    recorded = [int(line) for line in ARRIVALS.read_text().split()]
    chance = random.Random(18)
    return [
        Load("recorded", recorded),
        Load("recorded, twice as dense", [gap // 2 for gap in recorded] * 2),
        Load("random, twice too much", [int(chance.expovariate(1780) * 1e6) for _ in range(1780 * 6)]),
    ]


class Side:
    """A server that runs, with the model in one setting after the other."""

    def __init__(self, server):
        self.server = server

    def measure(self, fixed, load):
        """How many requests were answered within the objective, how many at all, and the p99 of these in ms."""
        body = json.dumps({"parameters": {"config": json.dumps(config(fixed))}}).encode()
        servers.post(self.server.url("/v2/repository/models/scores/load"), body)
        one = json.dumps({"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 1], "data": [1]}]}).encode()
        for _ in range(5):
            with contextlib.suppress(urllib.error.HTTPError):  # refused: a busy machine was too slow for the setting
                servers.post(self.server.url("/v2/models/scores/infer"), one)
        export = WORK / "export.json"
        command = [ROOT / "bin" / "neso", "perf", "-m", "scores", "-b", "1", "-u", self.server.http_address]
        command += [
            "--request-intervals",
            load.file,
            "--request-count",
            len(load.gaps),
            "--profile-export-file",
            export,
        ]
        for _ in range(ATTEMPTS):  # a machine that stands still for a second ends a run
            export.unlink(missing_ok=True)
            done = subprocess.run(
                [str(word) for word in command], capture_output=True, text=True, timeout=300, check=False
            )
            whole = "no request is answered any more" not in done.stdout + done.stderr
            if whole and done.returncode in (0, 2, 99) and export.exists():  # 99: some were refused, as is meant
                break
        else:
            raise RuntimeError(f"neso perf: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        [experiment] = json.loads(export.read_text())["experiments"]
        took = sorted(r["response_timestamps"][-1] - r["timestamp"] for r in experiment["requests"])
        good = sum(t <= OBJECTIVE * 1e9 for t in took)
        return good, len(took), took[len(took) * 99 // 100] / 1e6 if took else 0.0

    def search(self, load, bounds=BOUNDS):
        """The setting with the most answers in time, of those whose queue has such bounds."""
        tried = {}

        def best_of(variants):
            for s in variants:
                key = tuple(sorted(s.items()))
                if key not in tried:
                    tried[key] = (self.measure(s, load)[0], s)
                    print(f"  {load.name}, {self.server.name}: {described(s)}: {tried[key][0]} in time", flush=True)
            return max(tried.values(), key=lambda t: t[0])[1]

        found = best_of(setting(size=n, bound=bounds[-1]) for n in SIZES)
        found = best_of({**found, "bound": n} for n in bounds)
        if bounds != (0,):
            found = best_of({**found, "timeout": n} for n in TIMEOUTS)
        return best_of({**found, "delay": n} for n in DELAYS)


def by_turns(load, candidates):
    """Medians of the measurements of several (side, setting), by turns."""
    results = [[] for _ in candidates]
    for _ in range(TURNS):
        for (side, fixed), measured in zip(candidates, results):
            measured.append(side.measure(fixed, load))
    return [tuple(statistics.median(column) for column in zip(*measured)) for measured in results]


def compare(load, neso, triton):
    """A row of the table."""
    candidates = [(neso, None), (neso, neso.search(load))]
    if triton:
        candidates += [(triton, triton.search(load, (0,))), (triton, triton.search(load))]
    results = by_turns(load, candidates)
    mine = results[0]
    late = 100 * (mine[1] - mine[0]) / max(1, mine[1])
    cells = [
        load.name,
        f"{len(load.gaps)} in {load.seconds:.0f} s",
        f"{mine[0]:.0f}",
        f"{mine[2]:.0f} ms",
        f"{late:.2f} %",
    ]
    for (_, fixed), result in zip(candidates[1:], results[1:]):
        cells += [f"{described(fixed)}: {result[0]:.0f}", f"{mine[0] / max(1, result[0]):.2f}"]
    print(" | ".join(cells), flush=True)
    return cells


def kept(text, columns):
    """The rows of an earlier report with as many columns, by the name of the load."""
    rows = [line.strip("| ").split(" | ") for line in text.partition(HEADING)[2].splitlines() if line.startswith("| ")]
    return {row[0]: row for row in rows[1:] if len(row) == columns}


def report(row, with_peer, busy):
    """Writes one row into the report, which has those of the loads before it."""
    head = ["load", "requests", "in time", "p99", "late", "Neso's best fixed setting", "ratio"]
    if with_peer:
        head += [
            "Triton's best with the default queue, which has no bound",
            "ratio",
            "Triton's best with bounds",
            "ratio",
        ]
    text = REPORT.read_text() if REPORT.exists() else ""
    rows = {**kept(text, len(head)), row[0]: row}
    processor = next(
        (x.split(":")[1].strip() for x in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x),
        "?",
    )
    lines = [
        HEADING,
        "",
        f"Written by bench/operate/adaptive.py, on {os.cpu_count()} processors ({processor}), which generator, server and model share; "
        f"the load average before the last load was {busy:.1f}: above 1 others disturb it. "
        "The model keeps a processor busy for 8 ms a batch and 1 ms for each of its requests; the objective is 100 ms, measured by the "
        "client from when it sends. "
        f"`neso perf --request-intervals`, medians of {TURNS} runs by turns; a ratio is answers in time with the objective by those "
        "with the setting, which was found by search for this very load.",
        "",
        "The recorded arrivals (bench/arrivals.txt, microseconds between requests) are those of our own load test, noted by a server that "
        "`bench/operate/adaptive.py --record` had a crowd of made-up people visit through a day of eight seconds: sessions come as "
        "the day goes, a page asks several times at once, people read for a while, and each second a job sends what has gathered.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(cells) + " |" for cells in rows.values()),
        "",
    ]
    REPORT.write_text(text.split(HEADING)[0].rstrip("\n") + "\n\n" + "\n".join(lines))


async def record():
    """Has a crowd visit a server that notes when requests come."""
    came, chance, day = [], random.Random(1), 8.0
    loop = asyncio.get_running_loop()

    async def serve(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            while True:
                await reader.readexactly(8)
                came.append(loop.time())
                await asyncio.sleep(0.004)
                writer.write(b"answered")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    address = server.sockets[0].getsockname()
    free = []

    async def ask(after=0.0):
        await asyncio.sleep(after)
        reader, writer = free.pop() if free else await asyncio.open_connection(*address)
        writer.write(b"question")
        await reader.readexactly(8)
        free.append((reader, writer))

    async def visit():
        while True:
            await asyncio.gather(*(ask(chance.expovariate(1 / 0.006)) for _ in range(chance.randint(2, 9))))
            if chance.random() < 0.3:
                return
            await asyncio.sleep(min(3.0, chance.lognormvariate(-0.6, 0.9)))

    async def job():
        for _ in range(40):
            await ask()

    begin, tasks, next_job = loop.time(), [], 0.7
    while (at := loop.time() - begin) < day:
        busy = 0.5 - 0.5 * math.cos(2 * math.pi * at / day)  # night, noon, night
        await asyncio.sleep(chance.expovariate(6 + 26 * busy))
        tasks.append(asyncio.create_task(visit()))
        if at > next_job:
            tasks.append(asyncio.create_task(job()))
            next_job += 1.0
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for _, writer in free:
        writer.close()
    server.close()
    ARRIVALS.write_text("".join(f"{round((b - a) * 1e6)}\n" for a, b in zip([begin, *came], came)))
    print(f"{len(came)} requests in {day:.0f} s")


def run(arguments):
    busy = os.getloadavg()[0]
    shutil.rmtree(WORK, ignore_errors=True)
    version = WORK / "models" / "scores" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(MODEL)
    (version.parent / "config.pbtxt").write_text('backend: "python"\nmax_batch_size: 1\n' + "".join(
        f'{kind} [ {{ name: "{name}" data_type: TYPE_FP32 dims: [ 1 ] }} ]\n' for kind, name in (("input", "IN"), ("output", "OUT"))
    ))  # fmt: skip
    flags = ["--model-control-mode=explicit", "--load-model=scores"]
    environment = engines.library_environment(dict(os.environ, NESO_PYTHON=sys.executable))
    launchers = [servers.Launcher("neso", [str(ROOT / "bin" / "neso"), "serve"], environment, WORK, WORK)]
    if not arguments.no_peer:
        peer = peers.find_or_make(os.environ.get("PEER"), ROOT / ".tools" / "peer")
        command = peer.command(peer.backends(WORK / "peer-backends"))
        launchers.append(servers.Launcher("Triton", command, peer.environment(os.environ), WORK, WORK))
    with contextlib.ExitStack() as stack:
        sides = []
        for launcher in launchers:
            server = launcher.server("models", flags)
            server.start()
            stack.callback(server.stop)
            sides.append(Side(server))
        for load in loads():
            if re.search(arguments.load, load.name):
                report(compare(load, sides[0], sides[1] if len(sides) > 1 else None), len(sides) > 1, busy)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="record bench/arrivals.txt anew, and nothing else")
    parser.add_argument("--no-peer", action="store_true", help="without the real Triton")
    parser.add_argument(
        "--load", metavar="REGEX", default="", help="only the loads whose name matches; the report keeps its other rows"
    )
    arguments = parser.parse_args()
    if arguments.record:
        asyncio.run(record())
    else:
        run(arguments)


if __name__ == "__main__":
    main()
