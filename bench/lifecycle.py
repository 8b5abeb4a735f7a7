"""Start, model load, stop, idle memory and size: what a server costs when it serves nothing."""

import os
import pathlib
import statistics
import time

import bodies
import procstat
import servers

SETTLE_SECONDS = 1.0


def _median(values):
    return statistics.median(values) if values else None


def start_and_stop(make, rounds, check=None):
    """Milliseconds to ready and from SIGTERM to the end, and idle memory; medians over rounds of new servers."""
    ready, stop, rss, pss = [], [], [], []
    for _ in range(rounds):
        server = make()
        ready.append(server.start() * 1e3)
        try:
            time.sleep(SETTLE_SECONDS)
            rss.append(procstat.rss_bytes(server.pid))
            pss.append(procstat.pss_bytes(server.pid))
            if check:
                check(server)  # ready must mean that it answers
        finally:
            stop.append(server.stop() * 1e3)
    return {
        "ready_ms": _median(ready),
        "stop_ms": _median(stop),
        "rss_mib": _median(rss) / 2**20,
        "pss_mib": _median(pss) / 2**20,
        "ready_rounds": ready,
        "stop_rounds": stop,
    }


def load_over_api(make, rounds):
    """Milliseconds of POST .../load for a Python model that completes its configuration.

    first: the first Python model of a fresh server; again: the same after an unload.
    """
    first, again = [], []
    for _ in range(rounds):
        server = make()
        server.start()
        try:
            first.append(_load(server))
            servers.post(server.url("/v2/repository/models/py_auto/unload"))
            _wait_unloaded(server)
            again.append(_load(server))
        finally:
            server.stop()
    return {
        "first_ms": _median(first),
        "again_ms": _median(again),
        "first_rounds": first,
        "again_rounds": again,
    }


def _load(server):
    begin = time.perf_counter()
    servers.post(server.url("/v2/repository/models/py_auto/load"))
    took = (time.perf_counter() - begin) * 1e3
    bodies.check_http(bodies.identity("py_auto", 16, True), server.http_address, True)
    return took


def _wait_unloaded(server):
    """The peer answers an unload before it is done."""
    deadline = time.perf_counter() + 30
    while time.perf_counter() < deadline:
        index = servers.post(server.url("/v2/repository/index"))
        if b'"READY"' not in index and b'"UNLOADING"' not in index:
            return
        time.sleep(0.01)
    raise servers.ServerFailed(f"{server.name}: py_auto was not unloaded in 30 s")


def binary_mib(path):
    return os.stat(path).st_size / 2**20


def tree_mib(path):
    """Size of all files below a directory."""
    return sum(file.stat().st_size for file in pathlib.Path(path).rglob("*") if file.is_file()) / 2**20


def measure(neso, peer, neso_binary, rounds):
    """All of it for both sides; a failure is written down beside the others' figures."""
    explicit = ["--model-control-mode=explicit"]
    results = {}

    def check_noop(server):
        bodies.check_http(bodies.identity("noop", 16, False), server.http_address, True)

    def check_python(server):
        bodies.check_http(bodies.identity("py_auto", 16, True), server.http_address, True)

    def note(name, function, *args):
        try:
            results[name] = function(*args)
        except Exception as error:  # noqa: BLE001  one broken case must not hide the others
            results[name] = {"failure": f"{type(error).__name__}: {error}"[:400]}

    note("neso noop", start_and_stop, lambda: neso.server("noop"), rounds, check_noop)
    note("neso empty", start_and_stop, neso.empty, rounds)
    note("neso python", start_and_stop, lambda: neso.server("load"), rounds, check_python)
    note("neso load", load_over_api, lambda: neso.server("load", explicit), rounds)
    results["neso size"] = {"binary_mib": binary_mib(neso_binary)}
    if peer:
        note("peer empty", start_and_stop, peer.empty, rounds)
        note(
            "peer python",
            start_and_stop,
            lambda: peer.server("load"),
            rounds,
            check_python,
        )
        note("peer load", load_over_api, lambda: peer.server("load", explicit), rounds)
    return results
