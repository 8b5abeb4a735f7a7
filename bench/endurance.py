"""Long runs at many connections, with the server's memory sampled beside them."""

import threading
import time

import measure
import procstat

SAMPLE_SECONDS = 0.5
# Heaps, pools and buffers of 256 connections fill at first; growth counts from here on, as a share of the run.
SETTLED_SHARE = 1 / 3


class MemoryWatch:
    """Samples the resident size of a process tree on a thread of its own, from __enter__ to __exit__."""

    def __init__(self, pid):
        self.pid = pid
        self.samples = []  # (seconds, bytes)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-watch")

    def _run(self):
        begin = time.perf_counter()
        while True:
            self.samples.append((time.perf_counter() - begin, procstat.rss_bytes(self.pid)))
            if self._end.wait(SAMPLE_SECONDS):
                return

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()


def growth(samples):
    """Bytes gained between the first and last quarter of the settled part, as medians, and the level before.

    Medians of quarters and not single samples, since a collector lets the size swing.
    """
    if not samples:
        return 0, 0
    begin = samples[-1][0] * SETTLED_SHARE
    settled = [size for seconds, size in samples if seconds >= begin]
    quarter = max(1, len(settled) // 4)
    early, late = sorted(settled[:quarter]), sorted(settled[-quarter:])
    level = early[len(early) // 2]
    return late[len(late) // 2] - level, level


def run(scenario, server, model, seconds, work):
    """One long run; the result has the load figures and the memory over time."""
    runner = measure.Runner(scenario, server, model, work)
    runner.guarded(runner.check)
    runner.guarded(runner.warm_up)
    idle = procstat.rss_bytes(server.pid)
    with MemoryWatch(server.pid) as watch:
        runner.guarded(runner.measure, seconds)
    gained, level = growth(watch.samples)
    peak = max(size for _, size in watch.samples)
    result = runner.side.as_dict()
    result["memory"] = {
        "before_mib": idle / 2**20,
        "level_mib": level / 2**20,
        "gained_mib": gained / 2**20,
        "peak_mib": peak / 2**20,
        "samples": [(round(at, 2), round(size / 2**20, 2)) for at, size in watch.samples],
    }
    return result
