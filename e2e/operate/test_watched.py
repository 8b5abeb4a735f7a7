"""What deploy/ has for watching servers, in the programs that it is for: Prometheus and OpenTelemetry's collector.

`make monitoring` brings both. Each panel of the dashboard shows something of a server that works, each rule is evaluated,
and the collector hands on traces and metrics by the file as it lies there, but for addresses and intervals.
"""

from __future__ import annotations

import gzip
import http.client
import http.server
import json
import shutil
import subprocess
import threading
import urllib.parse
from pathlib import Path

import pytest
from repository import X, identity_model, python_model, until
from server import ROOT, Reply, Server, free_port

DEPLOY = ROOT / "deploy"
TOOLS = ROOT / ".tools" / "monitoring"  # made by scripts/monitoring.sh
PATIENCE = 120  # seconds, for a machine that does other work too


def tool(name: str) -> str:
    found = shutil.which(name) or TOOLS / name
    if not Path(found).exists():
        pytest.skip(f"{name} is missing; make monitoring brings it")
    return str(found)


class Program:
    """A program that answers on a port; use as a context manager."""

    def __init__(self, command: list[str], log: Path, port: int):
        self.log, self.port = log, port
        with log.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)

    def get(self, path: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.get("/").status < 500
        except OSError:
            return False

    def __enter__(self) -> Program:
        try:
            assert until(self.answers, PATIENCE), self.log.read_text()
        except AssertionError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(60)


class Load:
    """Requests to the models m and i, some of which fail, until it ends."""

    def __init__(self, server: Server):
        self.server, self.over = server, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        wrong = {"inputs": [{"name": "OTHER", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}
        while not self.over.wait(0.05):
            self.server.infer("m", X)
            self.server.infer("i", X)
            self.server.infer("m", wrong)

    def __enter__(self) -> Load:
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.over.set()
        self.thread.join()


def served(directory: Path) -> Path:
    python_model(directory, "m", extra="max_batch_size: 8\ndynamic_batching {}")
    identity_model(directory, "i")
    return directory


def prometheus(directory: Path, target: str) -> Program:
    shutil.copy(DEPLOY / "prometheus" / "neso.rules.yaml", directory)
    scraped = [{"targets": [target], "labels": {"namespace": "default", "pod": "neso-0"}}]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["neso.rules.yaml"],
        "scrape_configs": [{"job_name": "neso", "static_configs": scraped}],
    }
    (directory / "prometheus.yaml").write_text(json.dumps(config))  # JSON is YAML
    port = free_port()
    options = [f"--config.file={directory / 'prometheus.yaml'}", f"--storage.tsdb.path={directory / 'data'}"]
    return Program(
        [tool("prometheus"), *options, f"--web.listen-address=127.0.0.1:{port}"], directory / "prometheus.log", port
    )


def queries() -> dict[str, str]:
    """What each panel asks, with the dashboard's variables set to all that there is."""
    board = json.loads((DEPLOY / "grafana" / "neso.json").read_text())
    found = {}
    for panel in board["panels"]:
        for n, target in enumerate(panel.get("targets", [])):
            expr = target["expr"].replace("$__rate_interval", "5s")
            for v in board["templating"]["list"]:
                expr = expr.replace(f"${v['name']}", ".*")
            assert "$" not in expr, expr
            found[f"{panel['title']}, {n}"] = expr
    return found


def test_prometheus_and_the_panels(tmp_path):
    """Every expression of the dashboard has an answer, every rule is evaluated, and an alert comes when the server goes."""
    tool("prometheus")
    with (
        Server(served(tmp_path / "models")) as server,
        prometheus(tmp_path, f"127.0.0.1:{server.metrics_port}") as seen,
    ):

        def ask(expr: str) -> list:
            reply = seen.get("/api/v1/query?" + urllib.parse.urlencode({"query": expr}))
            assert reply.status == 200, (expr, reply)
            return reply.json["data"]["result"]

        def rules() -> dict[str, dict]:
            groups = seen.get("/api/v1/rules").json["data"]["groups"]
            return {r["name"]: r for g in groups for r in g["rules"]}

        with Load(server):
            empty = queries()

            def shown() -> bool:
                for title in [t for t, expr in empty.items() if ask(expr)]:
                    del empty[title]
                return not empty

            assert until(shown, PATIENCE), empty
            values = {v["name"]: v["query"]["query"] for v in variables()}
            for name, query in values.items():  # label_values(metric, label): Grafana asks for the series
                metric, label = query.removeprefix("label_values(").rstrip(")").split(", ")
                assert [s["metric"].get(label) for s in ask(metric)][0], name
            assert until(lambda: all(r["health"] == "ok" for r in rules().values()), PATIENCE), rules()
        assert rules()["NesoDown"]["state"] == "inactive"
        server.stop()
        assert until(lambda: rules()["NesoDown"]["state"] == "pending", PATIENCE), rules()["NesoDown"]


def variables() -> list[dict]:
    board = json.loads((DEPLOY / "grafana" / "neso.json").read_text())
    return [v for v in board["templating"]["list"] if v["type"] == "query"]


class Backend:
    """Where a collector sends what it has: keeps the names of spans and metrics."""

    def __init__(self):
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        spans, metrics = self.spans, self.metrics = set(), set()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if self.path == "/v1/traces":
                    for r in ExportTraceServiceRequest.FromString(body).resource_spans:
                        spans.update(s.name for scope in r.scope_spans for s in scope.spans)
                else:
                    for r in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                        metrics.update(m.name for scope in r.scope_metrics for m in scope.metrics)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]

    def __enter__(self) -> Backend:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self.server.shutdown()
        self.server.server_close()


def test_collector(tmp_path):
    """The collector takes its file, and hands on a server's spans and metrics."""
    program, file = tool("collector"), DEPLOY / "opentelemetry" / "collector.yaml"
    done = subprocess.run([program, "validate", f"--config={file}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    broken = tmp_path / "broken.yaml"
    broken.write_text(file.read_text().replace("exporters: [otlphttp]", "exporters: [other]"))
    done = subprocess.run([program, "validate", f"--config={broken}"], capture_output=True, text=True)
    assert done.returncode != 0 and "other" in done.stderr, done.stderr
    port, ports = free_port(), (free_port(), free_port(), free_port())
    scrapes = [
        {"job_name": "neso", "scrape_interval": "1s", "static_configs": [{"targets": [f"127.0.0.1:{ports[2]}"]}]}
    ]
    with Backend() as backend:
        here = {
            "receivers": {
                "otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}},
                "prometheus": {"config": {"scrape_configs": scrapes}},
            },
            "exporters": {"otlphttp": {"endpoint": f"http://127.0.0.1:{backend.port}"}},
            "service": {"telemetry": {"metrics": {"level": "none"}}},
        }
        (tmp_path / "here.yaml").write_text(json.dumps(here))
        command = [program, f"--config={file}", f"--config={tmp_path / 'here.yaml'}"]
        traced = [
            "--trace-config=mode=opentelemetry",
            f"--trace-config=opentelemetry,url=http://127.0.0.1:{port}/v1/traces",
            "--trace-config=opentelemetry,bsp_schedule_delay=50",
            "--trace-config=level=TIMESTAMPS",
            "--trace-config=rate=1",
        ]
        collector = Program(command, tmp_path / "collector.log", port)
        with collector, Server(served(tmp_path / "models"), *traced, ports=ports) as server, Load(server):
            wanted = {"nv_inference_request_success", "neso_request_duration_seconds", "process_resident_memory_bytes"}
            # The collector may cut what counters are called by at the end: _total.
            there = until(lambda: wanted <= backend.metrics and "InferRequest" in backend.spans, PATIENCE)
            assert there, (backend.spans, wanted - backend.metrics, collector.log.read_text()[-2000:])
        assert server.process.returncode == 0 and "failed to export" not in server.log(), server.log()
