"""Load of the official clients from a pod of node 1, for as long as a test does something to the cluster."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict

from release import HERE, NODES, Cluster, Failed, address, condition
from sender import PORT
from sending import Calls, Load

IMAGE = "docker.io/neso/clients:here"
NAME = "clients"


def pod() -> dict:
    container = {
        "name": NAME,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["python3", "/load/sender.py"],
        "env": [{"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "volumeMounts": [{"name": "load", "mountPath": "/load"}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "labels": {"app": NAME}},
        "spec": {
            "containers": [container],
            # Where the test runs too: what is killed is the other.
            "nodeSelector": {"kubernetes.io/hostname": NODES[0]},
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "volumes": [{"name": "load", "configMap": {"name": NAME}}, {"name": "tmp", "emptyDir": {}}],
        },
    }


class Sender:
    """The pod."""

    address = ""

    @classmethod
    def start(cls, cluster: Cluster) -> None:
        """Starts it anew, of the sources that are here."""
        cluster.kubectl("delete", "pod", NAME, "--ignore-not-found")
        sources = [HERE / "sender.py", HERE / "sending.py", HERE.parent / "clients.py"]
        files = {s.name: s.read_text() for s in sources}
        cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": files}, pod())
        try:
            cluster.until(lambda: condition(cluster.get("pod", NAME), "Ready") == "True", "the clients' pod is ready")
        except Failed as e:
            raise Failed(f"{e}\n{cluster.kubectl('logs', NAME)}") from None
        cls.address = address(cluster.get("pod", NAME))


class Broken(AssertionError):
    """The pod has ended, or does not say what it does."""


@contextlib.contextmanager
def loaded(calls: Calls | None = None, transports: tuple[str, ...] = ("http", "grpc")) -> Iterator[Load]:
    """The clients send requests meanwhile."""
    load, whole = Load(calls or Calls()), threading.Event()
    assert Sender.address, "no pod of clients: the test needs the fixture whole"
    with socket.create_connection((Sender.address, PORT), timeout=30) as connection:
        connection.settimeout(60)  # it says something five times a second

        def read() -> None:
            with contextlib.suppress(OSError), connection.makefile() as lines:
                for line in lines:
                    told = json.loads(line)
                    load.take(told)
                    if told["ended"]:
                        whole.set()
                        return

        reader = threading.Thread(target=read)
        connection.sendall(json.dumps({"calls": asdict(load.calls), "transports": transports}).encode() + b"\n")
        reader.start()
        try:
            begun = time.monotonic()
            while not load.total() and reader.is_alive() and time.monotonic() - begun < 30:
                time.sleep(0.05)  # what a test does is done under load
            yield load
        finally:
            with contextlib.suppress(OSError):
                connection.sendall(b"end\n")
            reader.join()
    if not whole.is_set():
        raise Broken(f"the clients' pod ended in the midst, after {load.total()} answers")
