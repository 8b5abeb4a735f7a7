"""A large installation on one machine: 1,000 models in a server, 10,000 connections, a bucket that a fleet starts from.

    python bench/operate/scale.py [--report bench/SCALE.md] [--models 1000] [--connections 10000]

What is here is measured with real servers; what follows for a fleet on many machines is arithmetic, in docs/operate/scale.md. Memory is the
resident size of the server and its workers, shared pages once (PSS); the kernel's buffers of sockets are not in it.
"""

import argparse
import contextlib
import http.client
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "e2e"), str(ROOT / "bench")]
import procstat  # noqa: E402
import sockets  # noqa: E402
from buckets import Bucket  # noqa: E402
from server import BINARY, Reply, Server  # noqa: E402

HERDS = ((8, 40), (200, 200))  # replicas, and requests that the bucket answers in a second
CONFIG = """backend: "%s"
max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ]
dynamic_batching { }
"""
PYTHON = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy())])
                for r in requests]
"""
BODY = {"inputs": [{"name": "INPUT0", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
MIB = 2**20


def repository(directory: Path, count: int, backend: str = "identity") -> Path:
    for i in range(count):
        model = directory / f"model_{i:04d}"
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(CONFIG % backend)
        if backend == "python":
            (model / "1" / "model.py").write_text(PYTHON)
    return directory


@contextlib.contextmanager
def serving(where, top: Path, *options, **kw):
    """A server, and the seconds until it was ready."""
    begin = time.perf_counter()
    with Server(where, *options, log=top / f"log-{time.monotonic_ns()}", **kw) as server:
        yield server, time.perf_counter() - begin


def pss(server) -> float:
    return procstat.pss_bytes(server.process.pid) / MIB


def cost(server, ask, times: int) -> dict:
    """Milliseconds of a call at the client, and of the server's processors for it."""
    took, answer = [], None
    before = procstat.cpu_seconds(server.process.pid)
    for _ in range(times):
        begin = time.perf_counter()
        answer = ask()
        took.append((time.perf_counter() - begin) * 1e3)
        if answer.status != 200:
            raise RuntimeError(f"{answer}")
    used = procstat.cpu_seconds(server.process.pid) - before
    return {"ms": statistics.median(took), "cpu": used / times * 1e3, "bytes": len(answer.body), "body": answer.body}


def page(server) -> dict:
    found = cost(server, lambda: server.request_metrics(), 5)
    found["series"] = sum(1 for line in found["body"].splitlines() if line and not line.startswith(b"#"))
    return found


class Metered(Server):
    def request_metrics(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.metrics_port, timeout=60)
        try:
            connection.request("GET", "/metrics")
            return Reply(connection.getresponse())
        finally:
            connection.close()


def call_all(server, count: int) -> None:
    with ThreadPoolExecutor(4) as pool:
        for answer in pool.map(lambda i: server.infer(f"model_{i:04d}", BODY), range(count)):
            if answer.status != 200:
                raise RuntimeError(f"{answer}")


def many_models(top: Path, count: int, out: list) -> None:
    out += [
        "## Models in one server",
        "",
        "Models of the built-in backend `identity` with dynamic batching; no framework's memory is in it.",
        "",
    ]
    out += ["| models | start to ready, s | memory, MiB | after a request to each, MiB |", "|---|---|---|---|"]
    sizes: dict = {}
    for n in (1, count):
        with serving(repository(top / f"models-{n}", n), top) as (server, ready):
            idle = pss(server)
            call_all(server, n)
            sizes[n] = (idle, pss(server))
            out.append(f"| {n:,} | {ready:.2f} | {idle:.1f} | {sizes[n][1]:.1f} |")
    each = [(sizes[count][i] - sizes[1][i]) * 1024 / (count - 1) for i in (0, 1)]
    out += ["", f"A model costs {each[0]:.0f} KiB, and {each[1]:.0f} KiB once it has been called.", ""]
    python = 20
    pythons: dict = {}
    for n in (1, python):
        with serving(repository(top / f"python-{n}", n, "python"), top) as (server, ready):
            call_all(server, n)
            pythons[n] = (pss(server), ready)
    each_python = (pythons[python][0] - pythons[1][0]) / (python - 1)
    out += [
        f"{python} Python models with numpy, of one environment: ready after {pythons[python][1]:.1f} s, {pythons[python][0]:.0f} MiB; "
        f"each costs {each_python:.1f} MiB, since each has a process.",
        "",
    ]


def control_plane(top: Path, count: int, out: list) -> None:
    out += [
        f"## What is asked of a server with {count:,} models",
        "",
        "| call | ms at the client | ms of CPU | bytes | series |",
        "|---|---|---|---|---|",
    ]

    def row(name: str, found: dict) -> None:
        out.append(
            f"| {name} | {found['ms']:.1f} | {found['cpu']:.1f} | {found['bytes']:,} | {found.get('series', '')} |"
        )

    where = repository(top / "control", count)
    with serving(where, top) as (server, _):
        row("`GET /v2/health/live`", cost(server, lambda: server.get("/v2/health/live"), 200))
        row("`GET /v2/health/ready`", cost(server, lambda: server.get("/v2/health/ready"), 200))
        row("`POST /v2/repository/index`", cost(server, lambda: server.post("/v2/repository/index"), 20))
        row("`GET /v2/models/stats`", cost(server, lambda: server.get("/v2/models/stats"), 5))
    for name, options, called in (
        ("`/metrics`, nobody called", [], False),
        ("`/metrics`, all called", [], True),
        ("the same, `neso_histograms=false`", ["neso_histograms=false"], True),
        ("the same, `neso_idle=false`, a tenth called", ["neso_idle=false"], None),
        ("the same, `neso_max_series=20000`, all called", ["neso_max_series=20000"], True),
    ):
        begin = time.perf_counter()
        server = Metered(where, *[f"--metrics-config={o}" for o in options], log=top / f"log-{begin}")
        try:
            if called is not False:
                call_all(server, count if called else count // 10)
            row(name, page(server))
        finally:
            server.stop()
    out.append("")


def connections(top: Path, count: int, out: list) -> None:
    out += [
        "## Connections",
        "",
        "Raw sockets to one server with one model. Active: each sends one request in 10 s, for 20 s; memory is measured again then.",
        "",
        "| protocol | connections | to open, s | memory of each idle one, KiB | after requests, KiB | requests a second | "
        "CPU of the active ones, % of one | p50, ms | p99, ms |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    where = repository(top / "one", 1)
    for name, kind in (("HTTP", sockets.Http), ("gRPC", sockets.Grpc)):
        with serving(where, top) as (server, _):
            server.infer("model_0000", BODY)
            before = pss(server)
            client = kind(server, "model_0000")
            try:
                begin = time.perf_counter()
                client.open(count)
                opened = time.perf_counter() - begin
                idle = pss(server)
                cpu = procstat.cpu_seconds(server.process.pid)
                rate, latencies = client.active(period=10, seconds=20)
                used = (procstat.cpu_seconds(server.process.pid) - cpu) / 20
                after = pss(server)
            finally:
                client.close()
        latencies.sort()
        p50, p99 = (latencies[int(len(latencies) * q)] * 1e3 for q in (0.5, 0.99))
        each = [(x - before) * 1024 / count for x in (idle, after)]
        out.append(
            f"| {name} | {count:,} | {opened:.1f} | {each[0]:.1f} | {each[1]:.1f} | {rate:.0f} | {used * 100:.0f} | {p50:.1f} | {p99:.1f} |"
        )
    out.append("")


def bucket(top: Path, count: int, out: list) -> None:
    out += ["## A bucket that a fleet shares", "", f"{count:,} models, each a configuration and one file of 1 KiB.", ""]
    out += ["| start of one replica | s | LIST | GET | HEAD |", "|---|---|---|---|---|"]
    local = repository(top / "uploaded", count)
    for model in local.iterdir():
        (model / "1" / "weights").write_bytes(os.urandom(1024))
    cached = [f"--repository-cache-directory={top / 'cache'}"]

    def counts(b: Bucket) -> str:
        return f"{b.counts['LIST']} | {b.counts['GET']} | {b.counts['HEAD']}"

    with Bucket() as b:
        b.upload(local)
        for name in ("with an empty cache", "with the cache of the last start"):
            b.counts.clear()
            with serving(b.uri, top, *cached, env=b.env) as (_, ready):
                out.append(f"| {name} | {ready:.1f} | {counts(b)} |")
        with serving(b.uri, top, *cached, "--model-control-mode=poll", "--repository-poll-secs=1", env=b.env) as (_, _):
            b.counts.clear()
            time.sleep(10)
            looks = b.counts["LIST"] / -(-2 * count // 1000)  # pages of 1,000
            out.append(f"| polling each second, for 10 s: {looks:.0f} looks | 10 | {counts(b)} |")
    out += [
        "",
        "Replicas with empty caches start at once from a bucket of 40 models, 80 objects, that refuses with `SlowDown` what is "
        "beyond its rate; all became ready, and each answered a request.",
        "",
        "| replicas | the bucket's requests/s | first ready, s | last ready, s | answered | take at that rate, s | refused | MiB each |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for replicas, rate in HERDS:
        herd(top, out, replicas, rate)


def herd(top: Path, out: list, replicas: int, rate: int) -> None:
    """A fleet with empty caches starts at once from a bucket that answers rate requests a second."""
    models = 40
    local = repository(top / f"herd-{replicas}", models)
    with Bucket(rate) as b, contextlib.ExitStack() as stack:
        b.upload(local)
        b.counts.clear()
        begin = time.perf_counter()
        servers = []
        for i in range(replicas):
            # Below the ports that the system gives to the replicas' connections to the bucket, one of which could have been ours.
            ports = tuple(20_000 + 3 * i + k for k in range(3))
            servers.append(Server(b.uri, env=b.env, wait=False, log=top / f"herd-{replicas}-{i}", ports=ports))
            stack.callback(servers[-1].stop)
        ready = readiness(servers, begin, patience=300)
        answers = [s.post("/v2/models/model_0039/infer", BODY).status for s in servers]
        if set(answers) != {200}:
            raise RuntimeError(f"answers of {replicas} replicas: {answers}")
        memory = statistics.mean(pss(s) for s in servers)
        asked = sum(n for kind, n in b.counts.items() if kind != "throttled")
        refused = b.counts["throttled"]
    out += [
        f"| {replicas} | {rate} | {ready[0]:.1f} | {ready[-1]:.1f} | {asked:,} | {asked / rate:.1f} | {refused:,} | {memory:.1f} |",
    ]


def readiness(servers: list, begin: float, patience: float) -> list:
    """The seconds after which each became ready, sorted. They are asked in turn: as many threads would be a load of their own."""
    times, waiting = [], list(servers)
    while waiting:
        for s in list(waiting):
            if s.process.poll() is not None:
                raise RuntimeError(f"a replica ended with {s.process.returncode}:\n{s.log()}")
            with contextlib.suppress(OSError):
                if s.get("/v2/health/ready").status == 200:
                    times.append(time.perf_counter() - begin)
                    waiting.remove(s)
        if time.perf_counter() - begin > patience:
            raise RuntimeError(
                f"{len(waiting)} of {len(servers)} replicas are not ready after {patience:.0f} s:\n{waiting[0].log()}"
            )
        time.sleep(0.1)
    return times


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--report", type=Path, default=ROOT / "bench" / "SCALE.md")
    p.add_argument("--models", type=int, default=1000)
    p.add_argument("--connections", type=int, default=10_000)
    p.add_argument("--only", default="models control connections bucket")
    a = p.parse_args()
    version = subprocess.run([BINARY, "version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    out = [
        "# Scale, measured",
        "",
        f"Written by `make bench-scale` with {version}, on {os.cpu_count()} cores of {platform.machine()}, which client and bucket share. "
        "[What follows for 200 replicas and a million requests a second](../docs/operate/scale.md).",
        "",
    ]
    with tempfile.TemporaryDirectory() as directory:
        top = Path(directory)
        for name, part in (("models", many_models), ("control", control_plane)):
            if name in a.only:
                part(top, a.models, out)
        if "connections" in a.only:
            connections(top, a.connections, out)
        if "bucket" in a.only:
            bucket(top, a.models, out)
    text = "\n".join(out).rstrip() + "\n"
    a.report.write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
