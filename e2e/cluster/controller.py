"""KServe's controller on the cluster, from its own charts: raw deployments, without cert-manager, Knative and a gateway."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path

import archive
import trustme
import yaml
from release import RUN, Cluster, condition


def found() -> Path | None:
    """Where `bin/cluster kserve` has made KServe: the agent comes last."""
    return max((p.parent for p in RUN.parent.glob("kserve-v*/agent")), default=None)


def charts() -> Path:
    return found() / "charts"


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
        if d["kind"] == "ClusterStorageContainer":
            # KServe's own entry point, in an image of ours that has its package kserve-storage.
            entry = (found() / "initializer-entrypoint").read_text()
            d["spec"]["container"] |= {"command": ["python3", "-c", entry], "imagePullPolicy": "Never"}
        if d["kind"] == "Deployment":
            pod = d["spec"]["template"]["spec"]
            pod["containers"] = [c for c in pod["containers"] if c["name"] == "manager"]
            # New certificates, new pods: a volume takes a minute to follow its Secret.
            of = hashlib.sha256(authority.encode()).hexdigest()[:16]
            d["spec"]["template"]["metadata"].setdefault("annotations", {})["neso/authority"] = of
            (manager,) = pod["containers"]
            manager["resources"] = {"requests": {"cpu": "50m", "memory": "100Mi"}}
            for probe in ("livenessProbe", "readinessProbe"):
                if probe in manager:
                    manager[probe].update(initialDelaySeconds=1, periodSeconds=2)
        yield d


def install(cluster: Cluster, load_and_remove, directory: Path) -> None:
    """The controller, ready to be called by the API server."""
    for program in ("manager", "agent"):
        file = directory / f"{program}.tar"
        archive.write(file, f"docker.io/neso/{program}:1", {program: (found() / program).read_bytes()}, [f"/{program}"])
        load_and_remove(file)
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
        "controller.deploymentMode": "Standard",
        "controller.image": "docker.io/neso/manager",
        "controller.tag": "1",
        "controller.imagePullPolicy": "Never",
        "controller.gateway.disableIstioVirtualHost": "true",
        "controller.gateway.disableIngressCreation": "true",
        "agent.image": "docker.io/neso/agent",
        "agent.tag": "1",
        "storage.image": "docker.io/neso/storage",
        "storage.tag": "here",
    }
    values = [f"--set{'' if v == 'true' else '-string'}=kserve.{k}={v}" for k, v in given.items()]
    made = cluster.command("helm", "template", "kserve", charts() / "kserve-resources", "-n", "kserve", *values)
    documents = changed(yaml.safe_load_all(made), base64.b64encode(ca.cert_pem.bytes()).decode())
    cluster.kubectl("apply", "--server-side", "-n", "kserve", "-f", "-", text=yaml.safe_dump_all(documents))
    cluster.kubectl("-n", "kserve", "rollout", "status", "deployment/kserve-controller-manager", "--timeout=150s")
