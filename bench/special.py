"""Runners whose load wrk and h2load do not make by themselves: streams with many responses, and sequences."""

import json
import pathlib
import subprocess

import bodies
import library_runner
import load
import measure
import pipelines
import sentences
import servers

STREAM_PATH = "/inference.GRPCInferenceService/ModelStreamInfer"
ROOT = pathlib.Path(__file__).resolve().parent.parent
GENERATOR = ROOT / "build" / "bench" / "sequences"


class StreamRunner(measure.Runner):
    """A gRPC stream a request, closed by the client after its one message. Rates count requests, not responses."""

    @property
    def url(self):
        return f"http://{self.server.grpc_address}{STREAM_PATH}"

    def check(self):
        bodies.check_stream(self.payload, self.server.grpc_address, pipelines.REPEATS)
        self.body = bodies.grpc_body(self.payload, self.work / f"body.{self.server.name}.grpc")


class SequenceRunner(measure.Runner):
    """As many sequences at once as the scenario has connections."""

    def command(self, seconds):
        return [
            str(GENERATOR),
            f"-address={self.server.http_address}",
            f"-model={self.side.model}",
            f"-sequences={self.scenario.connections}",
            f"-length={pipelines.SEQUENCE_LENGTH}",
            f"-seconds={seconds}",
        ]

    def check(self):
        """The generator checks every answer; here it is built."""
        subprocess.run(["go", "build", "-o", str(GENERATOR), "./bench/sequences"], cwd=ROOT, check=True)

    def warm_up(self):
        self.generate(1)

    def generate(self, seconds):
        self.side.command = self.command(seconds)
        return load.run_and_parse(self.side.command, seconds)


class CacheRunner(measure.Runner):
    """The same request over and over. Whether the cache answered is read from the statistics."""

    def hits(self):
        url = self.server.url(f"/v2/models/{self.side.model}/stats")
        with servers.DIRECT.open(url, timeout=10) as answer:
            stats = json.load(answer)["model_stats"][0]["inference_stats"]
        return int(stats["cache_hit"]["count"])

    def warm_up(self):
        before = self.hits()
        super().warm_up()
        if self.hits() == before:
            raise load.LoadError("no cache hit: the server keeps no responses")


RUNNERS = {"stream": StreamRunner, "sequences": SequenceRunner, "sentences_http": sentences.Runner}


def runner(scenario, *args):
    """The runner for a scenario."""
    if scenario.library:
        return library_runner.NesoRunner(scenario, *args)
    kind = CacheRunner if scenario.repository == "cache" else RUNNERS.get(scenario.protocol, measure.Runner)
    return kind(scenario, *args)
