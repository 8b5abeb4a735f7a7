"""A Prometheus that scrapes the pods of the release, as its operator would have it do by the chart's ServiceMonitor."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.parse
import urllib.request
from pathlib import Path

import yaml
from nodeprograms import Program
from release import RUN, Cluster, at, name

PORT = 9090
SECONDS = 2  # between two scrapes


def found() -> Path | None:
    """Where `bin/cluster scalers` has put it."""
    return next(RUN.parent.glob("debian-*/usr/bin/prometheus"), None)


class Targets:
    """The pods of a release, by HTTP, with the labels that Prometheus' operator gives them. Debian's Prometheus cannot ask the API server.

    It also has a metric of its own, `demand`, which a test sets: what a queue or a gateway would say of requests that wait.
    """

    def __init__(self, cluster: Cluster, release: str = "neso"):
        self.cluster, self.release, self.demand = cluster, release, 0.0
        targets = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text, kind = targets.answer(self.path)
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def answer(self, path: str) -> tuple[str, str]:
        if path == "/metrics":
            return f"demand {self.demand}\n", "text/plain"
        pods = [p for p in self.cluster.all_pods(self.release) if p["status"].get("podIP")]
        return json.dumps(
            [
                {
                    "targets": [at(p, 8002)],
                    "labels": {"namespace": "default", "pod": name(p), "service": self.release},
                }
                for p in pods
            ]
        ), "application/json"

    def __enter__(self) -> Targets:
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def prometheus(targets: Targets, directory: Path) -> Program:
    every = f"{SECONDS}s"
    conf = {
        "global": {"scrape_interval": every, "scrape_timeout": every},
        "scrape_configs": [
            {
                "job_name": "neso",
                "http_sd_configs": [{"url": f"http://{targets.address}/targets", "refresh_interval": every}],
            },
            {"job_name": "demand", "static_configs": [{"targets": [targets.address]}]},
        ],
    }
    (directory / "prometheus.yml").write_text(yaml.safe_dump(conf))
    return Program(
        found(),
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{PORT}",
        log=directory / "prometheus.log",
    )


def ask(query: str) -> list[dict]:
    """The answer to a query of Prometheus' language, now."""
    url = f"http://127.0.0.1:{PORT}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(url, timeout=30) as reply:
        return json.load(reply)["data"]["result"]
