"""KServe's controller on the cluster, from its own charts: raw deployments, without cert-manager, Knative and a gateway."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import archive
import trustme
import yaml
from release import Cluster, condition

# What `bin/cluster kserve` has made.
FOUND = sorted(Path(os.environ["KUBECONFIG"]).parents[2].glob("kserve-v*")) if "KUBECONFIG" in os.environ else []
IMAGE = "docker.io/neso/kserve"


def charts() -> Path:
    return FOUND[-1] / "charts"


def install_definitions(cluster: Cluster) -> None:
    made = cluster.command("helm", "template", "kserve-crd", charts() / "kserve-crd", "-n", "kserve")
    cluster.kubectl("apply", "--server-side", "-f", "-", text=made)
    known = lambda: [condition(d, "Established") for d in cluster.get("crd")["items"]]  # noqa: E731
    cluster.until(lambda: set(known()) == {"True"}, "the definitions are established")


def changed(documents: Iterator[dict], authority: str) -> Iterator[dict]:
    """The chart's objects without those of cert-manager, whose part the test has, and without the proxy of metrics."""
    for d in documents:
        if not d or d["apiVersion"].startswith("cert-manager.io/"):
            continue
        for hook in d.get("webhooks", []):
            hook["clientConfig"]["caBundle"] = authority
        if d["kind"] == "Deployment":
            pod = d["spec"]["template"]["spec"]
            pod["containers"] = [c for c in pod["containers"] if c["name"] == "manager"]
            (manager,) = pod["containers"]
            manager["resources"] = {"requests": {"cpu": "50m", "memory": "100Mi"}}
            for probe in ("livenessProbe", "readinessProbe"):
                if probe in manager:
                    manager[probe].update(initialDelaySeconds=1, periodSeconds=2)
        yield d


def install(cluster: Cluster, load, directory: Path) -> None:
    """The controller, ready to be called by the API server."""
    archive.write(
        directory / "kserve.tar", f"{IMAGE}:1", {"manager": (FOUND[-1] / "manager").read_bytes()}, ["/manager"]
    )
    load(directory / "kserve.tar")
    ca = trustme.CA()
    cert = ca.issue_cert("kserve-webhook-server-service.kserve.svc")
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kserve"}})
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": "kserve-webhook-server-cert", "namespace": "kserve"},
            "stringData": {
                "tls.crt": cert.cert_chain_pems[0].bytes().decode(),
                "tls.key": cert.private_key_pem.bytes().decode(),
            },
        }
    )
    given = {
        "deploymentMode": "Standard",
        "image": IMAGE,
        "tag": "1",
        "imagePullPolicy": "Never",
        "gateway.disableIstioVirtualHost": "true",
        "gateway.disableIngressCreation": "true",
    }
    values = [f"--set-string=kserve.controller.{k}={v}" for k, v in given.items() if v not in ("true",)]
    values += [f"--set=kserve.controller.{k}={v}" for k, v in given.items() if v == "true"]
    made = cluster.command("helm", "template", "kserve", charts() / "kserve-resources", "-n", "kserve", *values)
    documents = changed(yaml.safe_load_all(made), base64.b64encode(ca.cert_pem.bytes()).decode())
    cluster.kubectl("apply", "--server-side", "-n", "kserve", "-f", "-", text=yaml.safe_dump_all(documents))
    cluster.kubectl("-n", "kserve", "rollout", "status", "deployment/kserve-controller-manager", "--timeout=150s")
