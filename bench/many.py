"""Many small ONNX models: how long a server takes to have them all, and in how much memory, against a bare process."""

import pathlib
import statistics
import subprocess
import sys
import time

import engines
import networks
import procstat

COUNT = 50
NAME = f"{COUNT} small ONNX models: start to ready, memory"
ROUNDS = 5


def generate():
    for number in range(COUNT):
        folder = engines.model_folder("many", f"small_{number}", "max_batch_size: 8\ndynamic_batching { }\n")
        networks.small(folder / "model.onnx", number)


def bare(library):
    """Milliseconds from the start of the process until all sessions are there, and its resident size."""
    files = sorted(str(path) for path in (engines.GENERATED / "many").glob("*/1/model.onnx"))
    command = [sys.executable, "-S", pathlib.Path(__file__).with_name("programs") / "bare_sessions.py", library, *files]
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        if process.stdout.readline().strip() != b"ready":
            raise RuntimeError("the bare process ended")
        took = (time.perf_counter() - begin) * 1e3
        return took, procstat.rss_bytes(process.pid) / 2**20
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def served(make):
    server = make()
    took = server.start() * 1e3
    try:
        return took, procstat.rss_bytes(server.pid) / 2**20
    finally:
        server.stop()


def measure(neso, library, rounds=ROUNDS):
    """Both by turns; medians."""
    generate()
    found = {"neso many": [], "library many": []}
    for _ in range(rounds):
        found["neso many"].append(served(lambda: neso.server("many")))
        found["library many"].append(bare(library))
    return {
        name: {
            "ready_ms": statistics.median(ready for ready, _ in rows),
            "rss_mib": statistics.median(rss for _, rss in rows),
            "ready_rounds": [ready for ready, _ in rows],
        }
        for name, rows in found.items()
    }
