"""Values that go together seldom, in a namespace that enforces the pod security standard `restricted`."""

from __future__ import annotations

import hashlib
import shutil

import pytest
import trustme
from bucket import Bucket
from load import IMAGE
from release import HERE, NODES, Cluster, Failed, Node, command
from sending import Calls, ask, connect
from tritonclient.utils import InferenceServerException

NAMESPACE, RELEASE = "tenant", "odd"
SERVICE = f"{RELEASE}-neso.{NAMESPACE}.svc.cluster.local"
NAMES = (SERVICE, f"{RELEASE}-neso", "localhost")
ONE = {"replicaCount": 1, "nodeSelector": {"kubernetes.io/hostname": NODES[0]}}
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
}
KEY = "the key of a test"
CLAIM = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none"}


class Tenant(Cluster):
    """The cluster as one sees it who has a namespace."""

    @staticmethod
    def command(*args, **more) -> str:
        inside = ["-n", NAMESPACE] if args[0] in ("kubectl", "helm") else []
        return command(args[0], *inside, *args[1:], **more)


@pytest.fixture(scope="module")
def tenant(whole):
    meta = {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    whole.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    yield Tenant()
    whole.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture
def install(tenant, images):
    """Installs the release, which goes with the test, and waits until so many of its pods are ready."""

    def go(*values: dict, ready: int = 1) -> None:
        tenant.helm(images("one"), *values, release=RELEASE, wait=False)
        try:
            tenant.until(lambda: len(tenant.ready(RELEASE)) == ready == len(tenant.pods(RELEASE)), f"{ready} ready")
        except Failed as e:
            raise Failed(f"{e}\n{tenant.kubectl('describe', 'pods')}\n{tenant.kubectl('get', 'events')}") from None

    yield go
    tenant.command("helm", "uninstall", RELEASE, "--ignore-not-found")
    tenant.kubectl("delete", "pods,pvc", "--all", "--grace-period=1")
    tenant.until(lambda: not tenant.all_pods(RELEASE), "the pods are gone")
    tenant.kubectl("delete", "pv", "--all", "--wait=false")


def volume(tenant: Cluster, path: str, claim: str) -> None:
    """A volume of a directory of node 1, for one claim, which the chart makes."""
    spec = CLAIM | {
        "capacity": {"storage": "10Gi"},
        "claimRef": {"namespace": NAMESPACE, "name": claim},
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": path},
    }
    tenant.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": claim}, "spec": spec})


def directory(name: str, full: bool) -> str:
    """A directory of node 1 that everybody may write to, with the models when full; its path there."""
    place = Node(1).disk / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    place.chmod(0o777)
    if full:
        shutil.copytree(HERE / "models", place / "models")
    return f"/var/lib/{name}"


def secret(name: str, **texts: bytes) -> dict:
    files = {k.replace("_", "."): v.decode() for k, v in texts.items()}
    kind = "kubernetes.io/tls" if "tls.crt" in files else "Opaque"
    return {"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": name}, "stringData": files}


def certificate(authority: trustme.CA, *names: str, **more: bytes) -> dict[str, bytes]:
    cert = authority.issue_cert(*names)
    return {"tls_crt": cert.cert_chain_pems[0].bytes(), "tls_key": cert.private_key_pem.bytes(), **more}


def answers(calls: Calls, key: str = "") -> None:
    for transport in ("http", "grpc"):
        # A dictionary for each client: that of HTTP writes its own headers into it.
        headers = {"authorization": f"Bearer {key}"} if key else {}
        with connect(calls, transport) as client:
            assert ask(client, 7, headers=headers) == "1"


def test_everything(tenant, install, row, tmp_path_factory):
    """StatefulSet with a volume each for what comes from a bucket, HPA, TLS, keys, NetworkPolicy, further containers"""
    authority = trustme.CA()
    # As `kubectl create secret tls` makes it: without the authority.
    tenant.apply(secret("certificate", **certificate(authority, *NAMES)))
    for n in range(2):
        volume(tenant, directory(f"cache-{n}", full=False), f"cache-{RELEASE}-neso-{n}")
    more = {"image": IMAGE, "imagePullPolicy": "Never", "securityContext": RESTRICTED}
    values = {
        "kind": "StatefulSet",
        "hpa": {"enabled": True, "minReplicas": 2, "maxReplicas": 3},
        "tls": {"enabled": True, "secretName": "certificate", "metrics": True},
        "auth": {"keys": [{"name": "test", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}]},
        "networkPolicy": {"enabled": True, "denyEgress": True, "egress": [{}], "ingressFrom": [{"podSelector": {}}]},
        "nodeSelector": {"kubernetes.io/hostname": NODES[0]},
        "extraInitContainers": [{"name": "before", "command": ["python3", "-c", "print('begun')"], **more}],
        "extraContainers": [{"name": "beside", "command": ["python3", "-c", "import signal; signal.pause()"], **more}],
        "topologySpreadConstraints": [
            {"maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
        ],
    }
    with Bucket(tmp_path_factory.mktemp("bucket")) as bucket:
        bucket.upload(HERE / "models", "models/")
        tenant.apply(bucket.credentials("bucket"))
        cache = {"size": "1Gi", "persistent": True, "storageClassName": "none"}
        source = {"uris": [f"{bucket.uri}/models"], "secretName": "bucket", "cache": cache}
        install(values, {"models": {"source": "bucket", "bucket": source}}, ready=2)
        calls = Calls(http=f"{SERVICE}:8000", grpc=f"{SERVICE}:8001", ca=authority.cert_pem.bytes().decode())
        with pytest.raises(InferenceServerException, match="(?i)key|unauth|401"):
            answers(calls)
        answers(calls, key=KEY)
        said = tenant.command("helm", "test", RELEASE)
    assert "Succeeded" in said, said
    claims = tenant.get("pvc")["items"]
    assert {c["status"]["phase"] for c in claims} == {"Bound"} and len(claims) == 2
    row.note("two pods of the HPA's least serve, each with its volume; keys are asked for; `helm test` succeeds")


def test_mutual_tls(tenant, install, row):
    """Models in a claim that the chart makes, replaced by Recreate, with certificates of clients on HTTP, and probes that show one"""
    authority = trustme.CA()
    ca = authority.cert_pem.bytes()
    tenant.apply(secret("certificate", **certificate(authority, *NAMES)), secret("clients", ca_crt=ca))
    tenant.apply(secret("probe", **certificate(authority, "probe.example", ca_crt=ca)))
    volume(tenant, directory("claimed", full=True), f"{RELEASE}-neso-models")
    claim = {"create": True, "size": "1Gi", "storageClassName": "none", "subPath": "models"}
    values = {
        "models": {"source": "pvc", "path": "/srv/models", "pvc": claim | {"accessModes": ["ReadWriteOnce"]}},
        "tls": {"enabled": True, "secretName": "certificate", "grpc": False, "clientCA": {"secretName": "clients"}},
        "probes": {"clientSecretName": "probe"},
        "updateStrategy": {"type": "Recreate"},
        "shm": {"enabled": False},
    }
    values["tls"]["clientCA"]["http"] = True
    install(ONE, values)
    with connect(Calls(grpc=f"{SERVICE}:8001"), "grpc") as client:
        assert ask(client, 7) == "1"
    with (
        pytest.raises(Exception, match="(?i)certificate|alert|ssl|reset|closed"),
        connect(Calls(http=f"{SERVICE}:8000", ca=ca.decode()), "http") as client,
    ):
        ask(client, 7)
    said = tenant.command("helm", "test", RELEASE)
    assert "Succeeded" in said, said
    row.note("ready by probes with a certificate; HTTP without one is refused; `helm test` succeeds")


def test_init_container(tenant, install, images, row):
    """Models that a container fetches, no headless Service, no budget, no account, other ports, a NodePort"""
    copy = "import os, shutil; [shutil.copytree(f'/models/{m}', f'/srv/models/{m}') for m in os.listdir('/models')]"
    fetch = {"image": f"{images.repository}:one", "command": ["python3", "-c", copy], "size": "1Gi"}
    values = {
        "models": {"source": "initContainer", "path": "/srv/models", "initContainer": fetch},
        "headless": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
        "serviceAccount": {"create": False},
        "server": {"ports": {"http": 9000, "grpc": 9001, "metrics": 9002}, "options": {"allow-metrics": False}},
        "service": {"type": "NodePort", "ports": {"http": 80, "grpc": 81, "metrics": 82}},
        "probes": {"startup": {"enabled": False}, "liveness": {"enabled": False}},
    }
    install(ONE, values)
    answers(Calls(http=f"{SERVICE}:80", grpc=f"{SERVICE}:81"))
    said = tenant.command("helm", "test", RELEASE)
    assert "Succeeded" in said, said
    row.note("answers at the Service's ports; `helm test` succeeds")
