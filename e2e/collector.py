"""An OTLP/HTTP collector as a process: it writes one JSON line for each span to a file."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from server import free_port


class Collector:
    """A collector process; use as a context manager."""

    def __init__(self, directory: Path):
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


def serve(port: int, path: str) -> None:
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
        ExportTraceServiceResponse,
    )

    out = open(path, "a")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            request = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
            lines = []
            for rs in MessageToDict(request).get("resourceSpans", []):
                resource = {a["key"]: next(iter(a["value"].values())) for a in rs["resource"]["attributes"]}
                for ss in rs["scopeSpans"]:
                    for span in ss["spans"]:
                        for key in ("traceId", "spanId", "parentSpanId"):
                            span[key] = base64.b64decode(span.get(key, "")).hex()
                        attributes = span.get("attributes", [])
                        span["attributes"] = {a["key"]: next(iter(a["value"].values())) for a in attributes}
                        span["names"] = [e["name"] for e in span.get("events", [])]
                        lines.append(json.dumps({**span, "resource": resource, "scope": ss["scope"]["name"]}) + "\n")
            out.write("".join(lines))
            out.flush()
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
