"""A cluster of tools/cluster, by kubectl and Helm, with the release `neso` of the chart."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from server import ROOT

HERE = Path(__file__).resolve().parent
CHART = ROOT / "deploy" / "helm" / "neso"
CLUSTER = ROOT / "bin" / "cluster"
NODES = ("node1", "node2")
# Where the cluster that runs has its files.
RUN = Path(os.environ["KUBECONFIG"]).parent.parent if "KUBECONFIG" in os.environ else Path("/nonexistent")
ONLY6 = (RUN / "ipv6-only").exists()
# Of the machine that the tests run on: the network of node 1 (bin/cluster client).
ADDRESS = "fd99::11" if ONLY6 else "10.99.0.11"


class Failed(AssertionError):
    """What a command said that failed."""


def command(*args: str | Path, limit: float = 300, text: str | None = None) -> str:
    """What a command prints; Failed with what it says when it fails."""
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=limit, input=text)
    if done.returncode != 0:
        raise Failed(f"{' '.join(str(a) for a in args)}: {done.stderr}{done.stdout}")
    return done.stdout


def load_image(file: Path) -> None:
    """Loads an image into the nodes."""
    command(CLUSTER, "load", file, limit=600)  # a framework's has gigabytes


class Cluster:
    command = staticmethod(command)

    def kubectl(self, *args: str, **more) -> str:
        return self.command("kubectl", *args, **more)

    def get(self, *args: str) -> dict:
        return json.loads(self.kubectl("get", *args, "-o", "json"))

    def apply(self, *objects: dict) -> None:
        made = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=made)

    def described(self) -> bool:
        """Whether the API server has made its description: on a busy machine it takes longer than kubectl waits."""
        with contextlib.suppress(Failed):
            self.kubectl("get", "--raw", "/openapi/v2", "--request-timeout=30s")
            return True
        return False

    def helm(self, *values: dict, release: str = "neso", wait: bool = True) -> None:
        """Installs the chart, or upgrades the release to these values, and waits until it is rolled out."""
        with tempfile.TemporaryDirectory() as d:
            command = ["helm", "upgrade", "--install", release, str(CHART), "-f", str(HERE / "values.yaml")]
            only = [{"service": {"ipFamilies": ["IPv6"]}}] if ONLY6 else []
            for n, value in enumerate([*only, *values]):
                file = Path(d) / f"{n}.json"  # JSON is YAML
                file.write_text(json.dumps(value))
                command += ["-f", str(file)]
            self.command(*command)
        if wait:
            self.rolled_out()

    def rolled_out(self) -> None:
        self.kubectl("rollout", "status", "deployment/neso", "--timeout=280s")
        # Those that leave still serve; what a test counts are the others.
        self.until(lambda: len(self.all_pods()) == len(self.pods()), "pods that leave")

    def all_pods(self, release: str = "neso") -> list[dict]:
        return self.get("pods", "-l", f"app.kubernetes.io/instance={release}")["items"]

    def pods(self, release: str = "neso") -> list[dict]:
        """The pods of the release that are not on their way out."""
        return [p for p in self.all_pods(release) if "deletionTimestamp" not in p["metadata"]]

    def ready(self, release: str = "neso") -> list[dict]:
        """Those that get requests: the ready endpoints of the Service."""
        return [p for p in self.pods(release) if condition(p, "Ready") == "True"]

    def until(self, met: Callable[[], object], what: str, limit: float = 120) -> None:
        """Waits until the cluster is in a state."""
        end = time.monotonic() + limit
        while not met():
            if time.monotonic() > end:
                raise Failed(f"{what}: not within {limit} s\n{self.kubectl('get', 'pods,nodes', '-o', 'wide')}")
            time.sleep(0.2)  # what is asked is another process: there is nothing to wait on

    def endpoints(self, service: str = "neso") -> set[str]:
        """The addresses that the Service leads to."""
        found = self.get("endpointslices", "-l", f"kubernetes.io/service-name={service}")["items"]
        return {
            address
            for piece in found
            for e in piece.get("endpoints") or []
            if e["conditions"].get("ready")
            for address in e["addresses"]
        }


def condition(thing: dict, kind: str) -> str:
    conditions = thing.get("status", {}).get("conditions") or []  # null of a definition that has just been made
    return next((c["status"] for c in conditions if c["type"] == kind), "")


def name(thing: dict) -> str:
    return thing["metadata"]["name"]


def address(pod: dict) -> str:
    return pod["status"]["podIP"]


def host(address: str) -> str:
    """An address as a URL has it."""
    return f"[{address}]" if ":" in address else address


def at(pod: dict, port: int) -> str:
    return f"{host(address(pod))}:{port}"


def restarts(pod: dict) -> int:
    return sum(s["restartCount"] for s in pod["status"].get("containerStatuses", []))


def successes(pods: list[dict]) -> dict[str, float]:
    """How many requests each pod has answered, as its own metrics say."""
    counts = {}
    for p in pods:
        with urllib.request.urlopen(f"http://{at(p, 8002)}/metrics", timeout=30) as reply:
            lines = reply.read().decode().splitlines()
        found = [line for line in lines if line.startswith('nv_inference_request_success{model="double"')]
        counts[name(p)] = sum(float(line.rsplit(" ", 1)[1]) for line in found)
    return counts


def proxy_times(kind: str) -> dict[str, float]:
    """When kube-proxy of node 1 has queued a change, or written its rules, last: by family."""
    with urllib.request.urlopen("http://127.0.0.1:10249/metrics", timeout=30) as reply:
        lines = reply.read().decode().splitlines()
    name = f"kubeproxy_sync_proxy_rules_{kind}_seconds"
    return {line[len(name) :].split(" ")[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name)}


def proxy_is_current(since: float) -> bool:
    """Whether it has heard of a change since a time of the clock, and its rules have all that it has heard of."""
    queued = proxy_times("last_queued_timestamp")
    written = proxy_times("last_timestamp")
    return max(queued.values()) > since and all(written[family] >= queued[family] for family in queued)


class Node:
    """A node from outside: its disk, its mounts, its power."""

    def __init__(self, number: int):
        self.number, self.name = number, NODES[number - 1]
        self.disk = RUN / self.name / "lib"  # /var/lib of the node

    def inside(self, *args: str) -> None:
        pid = (RUN / "pid" / self.name).read_text().split()[0]
        command("nsenter", "-t", pid, "-m", "-p", *args)

    def kill(self) -> None:
        command(CLUSTER, "kill-node", str(self.number))

    def start(self) -> None:
        with contextlib.suppress(Failed):  # it may run
            command(CLUSTER, "start-node", str(self.number))
