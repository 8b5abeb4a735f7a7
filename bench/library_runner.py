"""Runs a loop over a framework's own API by turns with the server's load; engines.py says on what."""

import json
import pathlib
import subprocess
import sys

import engines
import measure
import numpy as np
import program
import servers
from load import Sample


class LibraryRunner(program.Runner):
    """Runs the loop by turns with the server's load."""

    BATCHES = (1, 2, 4, 8, 16, 32)

    def __init__(self, scenario, neso, work):
        kind, file = scenario.library
        self.scenario, self.neso, self.work = scenario, neso, pathlib.Path(work)
        self.side = measure.Side(f"loop over {kind}")
        self.batch = 0
        python = str(engines.FRAMEWORKS_PYTHON) if kind == "torch" else sys.executable
        path = engines.GENERATED / scenario.repository / file
        inputs = self.work / "library_inputs.npz"
        self.side.command = [python, engines.ROOT / "bench" / "programs" / "library_loop.py", kind, path, inputs]
        self.inputs = inputs

    def check(self):
        np.savez(self.inputs, **engines.inputs_of(self.neso.side.model))
        command = [str(part) for part in self.side.command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._read()

    def _read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the loop ended")
        return json.loads(line)

    def loop(self, batch, seconds):
        self.process.stdin.write(f"{batch} {seconds}\n")
        self.process.stdin.flush()
        r = self._read()
        sample = Sample(r["rows"], r["seconds"], 0, 0, 0, 0)
        sample.cpu_us = r["cpu"] * 1e6 / r["rows"]
        return sample

    def warm_up(self):
        """Finds the batch size that makes the most rows a second."""
        if self.scenario in engines.LARGE:
            limit = 8 if self.scenario.repository == "resnet" else 32
            self.batch = max((b for b in self.BATCHES if b <= limit), key=lambda b: self.loop(b, 1).rps)

    def measure(self, seconds):
        batch = self.batch or self.neso.batch()
        self.side.model = f"{self.side.model.split(',')[0]}, batch {batch}"
        self.side.samples.append(self.loop(batch, seconds * (self.scenario.seconds if self.batch else 0.3)))


class NesoRunner(measure.Runner):
    """The server's side, which knows how large its batches are."""

    def counts(self):
        url = self.server.url(f"/v2/models/{self.side.model}/stats")
        with servers.DIRECT.open(url, timeout=10) as answer:
            stats = json.load(answer)["model_stats"][0]
        return int(stats["inference_count"]), int(stats["execution_count"])

    def measure(self, seconds):
        before = self.counts()
        super().measure(seconds)
        self.last = [b - a for a, b in zip(before, self.counts())]

    def batch(self):
        """The mean size of the batches of the last round."""
        rows, runs = self.last
        return max(1, round(rows / max(1, runs)))
