"""Programs that a test runs on the network of node 1, and the groups of the API that such a program answers for."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from release import ADDRESS, ONLY6, Cluster, Failed, condition


class Program:
    """A program with its log; use as a context manager."""

    def __init__(self, *command: str | Path, log: Path, **env: str):
        self.command, self.log, self.env = [str(c) for c in command], log, env

    def __enter__(self) -> Program:
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                self.command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=os.environ | self.env
            )
        return self

    def __exit__(self, *_) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30)

    def until(self, cluster: Cluster, met, what: str, limit: float = 120) -> None:
        """Waits for what the program is to do; its log says why it does not."""
        name = Path(self.command[0]).name
        try:
            cluster.until(lambda: self.process.poll() is not None or met(), what, limit)
            if self.process.poll() is not None:
                raise Failed(f"{name} has ended")
        except Failed as e:
            raise Failed(f"{e}\n{self.log.read_text()[-4000:]}") from None


def objects(name: str, group: str, port: int) -> list[dict]:
    """What leads the API server to a program that answers for a group (`v1beta1.metrics.k8s.io`), and is no pod."""
    meta = {"name": name, "namespace": "kube-system"}
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": meta | {"labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv6" if ONLY6 else "IPv4",
            "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": True}}],
            "ports": ports,
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": group},
            "spec": {
                "service": {"name": name, "namespace": "kube-system"},
                "group": group.split(".", 1)[1],
                "version": group.split(".", 1)[0],
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        },
    ]


def options(port: int, directory: Path) -> list[str]:
    """Of every program that answers for a group: they are built on the same library."""
    conf = os.environ["KUBECONFIG"]
    given = {
        "authentication-kubeconfig": conf,
        "authorization-kubeconfig": conf,
        "bind-address": ADDRESS,
        "secure-port": port,
        "cert-dir": directory,
    }
    return [f"--{k}={v}" for k, v in given.items()]


@contextlib.contextmanager
def answering(cluster: Cluster, program: Program, name: str, group: str, port: int) -> Iterator[Program]:
    """The program answers for the group meanwhile."""
    with program:
        try:
            cluster.apply(*objects(name, group, port))
            program.until(
                cluster, lambda: condition(cluster.get("apiservice", group), "Available") == "True", f"{name} answers"
            )
            yield program
        finally:
            cluster.kubectl("delete", "apiservice", group, "--ignore-not-found")
            for kind in ("endpointslice", "service"):
                cluster.kubectl("-n", "kube-system", "delete", kind, name, "--ignore-not-found")
