"""neso perf against a server of the plain KServe v2 protocol: no configuration, no statistics, tensors as JSON alone."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from test_perf import perf, rows


class Plain(BaseHTTPRequestHandler):
    """Answers with the input; what it has not is a 404."""

    wbufsize = -1  # an answer goes out in one piece

    def do_GET(self):
        known = {
            "/v2": {"name": "plain", "version": "1", "extensions": []},
            "/v2/models/m": {
                "name": "m",
                "platform": "",
                "inputs": [{"name": "X", "datatype": "FP32", "shape": [-1, 2]}],
                "outputs": [{"name": "Y", "datatype": "FP32", "shape": [-1, 2]}],
            },
        }
        self.answer(200 if self.path in known else 404, known.get(self.path, {"detail": "Not Found"}))

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != "/v2/models/m/infer" or "json" not in self.headers["Content-Type"]:
            return self.answer(415, {"error": "JSON only"})
        [x] = json.loads(body)["inputs"]
        return self.answer(200, {"model_name": "m", "outputs": [{**x, "name": "Y"}]})

    def answer(self, status, value):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if self.protocol_version == "HTTP/1.1":
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.1"])
def test_plain_server(tmp_path, version):
    """HTTP/1.0 ends an answer with its connection."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Plain,), {"protocol_version": version}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        data = tmp_path / "d.json"
        data.write_text(json.dumps({"data": [{"X": [1, 2]}], "validation_data": [{"Y": [1, 2]}]}))
        at = ("-m", "m", "-u", f"127.0.0.1:{server.server_port}", "--request-count", 20, "--concurrency-range", 2)
        r = perf(*at, "--input-data", data, "--shape", "X:1,2", "-f", tmp_path / "o.csv")
        assert r.returncode == 0 and "Request count: 20\n" in r.stdout and "sent as JSON" in r.stderr, r
        [row] = rows(tmp_path / "o.csv")
        assert "Server Queue" not in row and float(row["Inferences/Second"]) > 0, row
        data.write_text(json.dumps({"data": [{"X": [1, 2]}], "validation_data": [{"Y": [1, 3]}]}))
        r = perf(*at, "--input-data", data, "--shape", "X:1,2")
        assert r.returncode == 99 and "unexpected output: 'Y' is [1,2], expected [1,3]" in r.stderr, r
    finally:
        server.shutdown()
        server.server_close()
