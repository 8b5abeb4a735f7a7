"""Measures one scenario: both servers by turns in short rounds, so that a slow spell of the machine hits both."""

import pathlib
import statistics
from dataclasses import asdict, dataclass, field

import bodies
import load


@dataclass
class Side:
    """What one server did in a scenario."""

    model: str
    samples: list = field(default_factory=list)
    command: list = field(default_factory=list)
    crashes: int = 0
    failure: str = ""

    def median(self, name):
        values = [getattr(sample, name) for sample in self.samples]
        return statistics.median(values) if values else None

    def as_dict(self):
        fields = ("rps", "p50_us", "p99_us", "max_us", "cpu_us", "generator_cores")
        return {
            "model": self.model,
            "median": {name: self.median(name) for name in fields},
            "rounds": [asdict(sample) | {"rps": sample.rps} for sample in self.samples],
            "requests": sum(sample.requests for sample in self.samples),
            "errors": sum(sample.errors for sample in self.samples),
            "command": self.command,
            "crashes": self.crashes,
            "failure": self.failure,
        }


class Runner:
    """Drives one server through one scenario: check, calibrate, then as many rounds as the caller wants."""

    def __init__(self, scenario, server, model, work):
        self.scenario, self.server = scenario, server
        self.side = Side(model)
        self.work = pathlib.Path(work)
        self.log = self.work / "h2load.log"
        self.payload = bodies.payload(model, scenario.elements)
        self.body, self.answer_bytes, self.rate = None, 0, 0.0
        self.perf = None  # the command of neso perf, where it stands for wrk and h2load, and its data
        self.data = None

    def use_perf(self, command):
        """Has neso perf make the load, if it can: one request a connection, of one row."""
        if type(self) is Runner and command and self.scenario.streams == 1:
            self.data = bodies.perf_data(self.payload, self.work / f"perf.{self.server.name}.json")
            self.perf = command if self.data else None

    @property
    def url(self):
        if self.scenario.protocol == "grpc":
            return f"http://{self.server.grpc_address}{load.GRPC_PATH}"
        return self.server.url(f"/v2/models/{self.side.model}/infer")

    @property
    def counted(self):
        """Whether requests are counted out (h2load) or sent for a time (wrk).

        A JSON answer takes so long that the requests cut off at the end of a timed run would weigh.
        """
        return self.scenario.protocol != "http"

    def check(self):
        """One answer compared with what the model must say, by the official client."""
        path = self.work / "body"
        if self.scenario.protocol == "grpc":
            bodies.check_grpc(self.payload, self.server.grpc_address)
            self.body = bodies.grpc_body(self.payload, path.with_suffix(f".{self.server.name}.grpc"))
        else:
            binary = self.scenario.protocol == "http"
            bodies.check_http(self.payload, self.server.http_address, binary)
            suffix = f".{self.server.name}.{self.scenario.protocol}"
            self.body = bodies.http_body(self.payload, binary, path.with_suffix(suffix))

    def warm_up(self):
        """A first run that is thrown away; it gives the rate from which request counts are set."""
        if self.perf:
            self.rate = self._perf(seconds=1).rps
            return
        if not self.counted:
            load.run_wrk(
                self.url,
                self.body.path,
                self.body.headers,
                self.scenario.connections,
                1,
            )
            return
        h1 = self.scenario.protocol == "json"
        self.answer_bytes = load.answer_size(self.url, self.body.path, self.body.headers, self.log, h1)
        streams = self.scenario.connections * self.scenario.streams
        count = 3 * streams if self.scenario.elements > 1000 else 200 * streams
        # Few requests on cold connections give a low rate: a second, longer run corrects it.
        self.rate = self._h2load(count).rps
        self.rate = self._h2load(self.requests_for(0.5)).rps

    def _perf(self, **length):
        s = self.scenario
        address = self.server.grpc_address if s.protocol == "grpc" else self.server.http_address
        self.side.command = load.perf_command(
            self.perf, address, s.protocol, self.side.model, self.data, s.connections, **length
        )
        return load.run_perf(self.side.command, 600)

    def _h2load(self, requests):
        s = self.scenario
        return load.run_h2load(
            self.url,
            self.body.path,
            self.body.headers,
            s.connections,
            s.streams,
            requests,
            self.log,
            self.answer_bytes,
            h1=s.protocol == "json",
        )

    def requests_for(self, seconds):
        """A whole number of requests for every stream, about seconds long."""
        streams = self.scenario.connections * self.scenario.streams
        return max(4, round(self.rate * seconds / streams)) * streams

    def generate(self, seconds):
        """One run of the load generator, about seconds long."""
        s = self.scenario
        if self.perf:
            if self.counted:
                sample = self._perf(requests=self.requests_for(seconds))
                self.rate = sample.rps or self.rate
                return sample
            return self._perf(seconds=max(1, round(seconds)))
        if not self.counted:
            length = max(1, round(seconds))
            self.side.command = load.wrk_command(self.url, self.body.path, self.body.headers, s.connections, length)
            return load.run_wrk(self.url, self.body.path, self.body.headers, s.connections, length)
        requests = self.requests_for(seconds)
        self.side.command = load.h2load_command(
            self.url,
            self.body.path,
            self.body.headers,
            s.connections,
            s.streams,
            requests,
            self.log,
            h1=s.protocol == "json",
        )
        sample = self._h2load(requests)
        self.rate = sample.rps or self.rate
        return sample

    def measure(self, seconds):
        before = self.server.cpu_seconds()
        sample = self.generate(seconds * self.scenario.seconds)
        if self.server.alive():
            sample.cpu_us = (self.server.cpu_seconds() - before) * 1e6 / max(sample.requests, 1)
            self.side.samples.append(sample)
        return sample

    def guarded(self, step, *args):
        """Runs a step; what fails is written down and ends this side's part in the scenario."""
        if self.side.failure:
            return
        try:
            step(*args)
        except Exception as error:  # noqa: BLE001  a foreign server may fail in any way
            self.side.failure = f"{type(error).__name__}: {error}".strip()[:400]
        if not self.server.alive():
            self.side.crashes += 1
            self.side.failure = self.side.failure or "the server ended"
            self.server.restart_if_dead()


def run(runners, rounds, seconds):
    """All rounds of a scenario; who begins changes from round to round."""
    for runner in runners:
        runner.guarded(runner.check)
        runner.guarded(runner.warm_up)
    for number in range(rounds):
        for runner in runners if number % 2 == 0 else reversed(runners):
            runner.guarded(runner.measure, seconds)
