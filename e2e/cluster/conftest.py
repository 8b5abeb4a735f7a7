"""The cluster of tools/cluster with four replicas of the chart; `make e2e-cluster` starts it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from server import BINARY, ROOT

HERE = Path(__file__).resolve().parent
BASE = Path(os.environ.get("NESO_CLUSTER_BASE", ROOT / "build" / "images" / "neso-python-amd64.tar"))
CLUSTER = ROOT / "bin" / "cluster"


class Cluster:
    """The cluster, with the release `neso` installed."""

    def kubectl(self, *args: str, limit: float = 180) -> str:
        """What kubectl prints; an AssertionError with what it says when it fails."""
        done = subprocess.run(["kubectl", *args], capture_output=True, text=True, timeout=limit)
        assert done.returncode == 0, f"kubectl {' '.join(args)}: {done.stderr}{done.stdout}"
        return done.stdout

    def helm(self, *values: str) -> None:
        """Installs the chart, or upgrades the release to these values, and waits until it is rolled out."""
        command = [
            "helm",
            "upgrade",
            "--install",
            "neso",
            str(ROOT / "deploy/helm/neso"),
            "-f",
            str(HERE / "values.yaml"),
        ]
        for value in values:
            command += ["--set", value]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        self.rolled_out()

    def rolled_out(self) -> None:
        self.kubectl("rollout", "status", "deployment/neso", "--timeout=170s")

    def pods(self) -> list[dict]:
        """The pods of the release that are not on their way out."""
        found = json.loads(self.kubectl("get", "pods", "-l", "app.kubernetes.io/name=neso", "-o", "json"))["items"]
        return [p for p in found if "deletionTimestamp" not in p["metadata"]]

    def until(self, met, what: str, limit: float = 120) -> None:
        """Waits until the cluster is in a state."""
        end = time.monotonic() + limit
        while not met():
            assert time.monotonic() < end, (
                f"{what}: not within {limit} s\n{self.kubectl('get', 'pods,nodes', '-o', 'wide')}"
            )
            time.sleep(0.2)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Two images that differ in a label, in both nodes, and four replicas of the first."""
    assert BASE.exists(), f"{BASE} is missing: make images makes it"
    for tag in ("one", "two"):
        image = tmp_path_factory.mktemp("images") / f"{tag}.tar"
        build = [BINARY, "image", "build", "--base", BASE, "--model-repository", HERE / "models"]
        build += ["--label", f"tag={tag}", "-t", f"docker.io/neso/models:{tag}", "-o", image]
        subprocess.run(build, check=True, capture_output=True)
        subprocess.run([CLUSTER, "load", image], check=True, capture_output=True)
        image.unlink()
    c = Cluster()
    c.helm("image.tag=one")
    return c
