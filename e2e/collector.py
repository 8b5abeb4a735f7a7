"""An OTLP/HTTP collector as a process.

`collector.py PORT FILE` writes one JSON line for each span to the file. Without arguments it stands in for OpenTelemetry's
collector in the tests of scripts/qa.sh, on port 10000: it appends to collected_traces.json in the working directory, as the
file exporter of `otelcol --config FILE` would there, a line with the resource spans of what has come together, within three
seconds or up to ten spans. That FILE is not read: it says about that, but for ten seconds in which two traces can meet that
a test wants apart.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PERIOD, SPANS = 3, 10  # seconds and spans of a line of the stand-in


class Collector:
    """A collector process; use as a context manager."""

    def __init__(self, directory: Path):
        from server import free_port  # of the tests, which the stand-in is none of

        self.path = directory / "spans.jsonl"
        self.path.touch()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/v1/traces"

    def __enter__(self) -> Collector:
        self.process = subprocess.Popen([sys.executable, __file__, str(self.port), str(self.path)])
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except OSError:
                time.sleep(0.02)  # polling another process: there is nothing to wait on
        self.process.kill()
        raise RuntimeError("the collector does not start")

    def __exit__(self, *_) -> None:
        self.process.terminate()
        self.process.wait(60)

    def spans(self) -> list[dict]:
        """All spans so far."""
        return [json.loads(line) for line in self.path.read_text().splitlines()]


def serve(port: int, take: Callable[[list[dict]], None], **form: bool) -> None:
    """Hands the resource spans of each export, whose ids are hexadecimal, to take; form is that of MessageToDict."""
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
        ExportTraceServiceResponse,
    )

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            request = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
            resources = MessageToDict(request, **form).get("resourceSpans", [])
            for span in (s for r in resources for scope in r["scopeSpans"] for s in scope["spans"]):
                for key in ("traceId", "spanId", "parentSpanId"):
                    span[key] = base64.b64decode(span.get(key, "")).hex()
            take(resources)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def values(attributes: list[dict]) -> dict:
    return {a["key"]: next(iter(a["value"].values())) for a in attributes}


def to_file(port: int, path: str) -> None:
    out = open(path, "a")

    def take(resources: list[dict]) -> None:
        lines = []
        for r in resources:
            for scope in r["scopeSpans"]:
                for span in scope["spans"]:
                    span["attributes"] = values(span.get("attributes", []))
                    span["names"] = [e["name"] for e in span.get("events", [])]
                    whole = {**span, "resource": values(r["resource"]["attributes"]), "scope": scope["scope"]["name"]}
                    lines.append(json.dumps(whole) + "\n")
        out.write("".join(lines))
        out.flush()

    serve(port, take)


def stand_in() -> None:
    lock = threading.Lock()
    waiting: list[dict] = []  # resource spans, guarded by lock

    def write() -> None:
        """Writes what waits; the lock is held."""
        if waiting:
            with open("collected_traces.json", "a") as f:
                f.write(json.dumps({"resourceSpans": waiting}, separators=(",", ":")) + "\n")
            waiting.clear()

    def late() -> None:
        with lock:
            write()

    def take(resources: list[dict]) -> None:
        with lock:
            if resources and not waiting:
                timer = threading.Timer(PERIOD, late)
                timer.daemon = True
                timer.start()
            waiting.extend(resources)
            if sum(len(scope["spans"]) for r in waiting for scope in r["scopeSpans"]) >= SPANS:
                write()

    open("collected_traces.json", "w").close()
    serve(10000, take, use_integers_for_enums=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        to_file(int(sys.argv[1]), sys.argv[2])
    else:
        stand_in()
