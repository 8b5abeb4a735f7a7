"""What users get wrong on a cluster: each fault is told in the rendering, the pod's status or its events, and names what is wrong."""

from __future__ import annotations

import re
import subprocess
import urllib.request

import archive
import pytest
from bucket import Bucket, Skewed
from release import ADDRESS, CHART, HERE, NODES, ONLY6, Failed, Node, host
from sending import Calls, ask, connect
from server import BINARY

RELEASE = "faulty"
NOBODY = f"s3://http://{host(ADDRESS)}:9/models"
ONE = {"replicaCount": 1, "nodeSelector": {"kubernetes.io/hostname": NODES[0]}}


@pytest.fixture
def install(whole, images):
    """Installs a release without waiting for it; it goes with the test."""

    def go(*values: dict, release: str = RELEASE) -> None:
        made.append(release)
        whole.helm(images("one"), ONE, *values, release=release, wait=False)

    made: list[str] = []
    yield go
    for release in made:
        whole.command("helm", "uninstall", release, "--ignore-not-found")
        whole.kubectl("delete", "pods,pvc", "-l", f"app.kubernetes.io/instance={release}", "--grace-period=1")
        whole.until(lambda r=release: not whole.all_pods(r), "the pods are gone")


def status(cluster, release: str = RELEASE) -> str:
    """All that the pod's status says, and the events that are about it."""
    told = []
    for p in cluster.pods(release):
        told += [c.get("message", "") for c in p["status"].get("conditions", [])]
        for s in p["status"].get("containerStatuses", []):
            for state in (s["state"], s["lastState"]):
                told += [f"{kind} {of.get('reason', '')}: {of.get('message', '')}" for kind, of in state.items()]
        events = cluster.get("events", "--field-selector", f"involvedObject.name={p['metadata']['name']}")["items"]
        told += [f"event {e['reason']}: {e.get('message', '')}" for e in events]
    return "\n".join(told)


def tells(cluster, row, *texts: str) -> None:
    try:
        cluster.until(lambda: all(t in status(cluster) for t in texts), f"{texts} in the status")
    except Failed as e:
        raise Failed(f"{e}\n{status(cluster)}") from None
    line = " ".join(next(line for line in status(cluster).splitlines() if texts[0] in line).replace("|", "/").split())
    begin = max(0, line.index(texts[0]) - 120)  # a line of the log says other things before
    row.note(f"`{'…' * (begin > 0)}{line[begin : begin + 300]}`")
    assert not [p for p in cluster.ready(RELEASE)]


def volume(cluster, path: str, claim: str, **more) -> None:
    """A volume of a node's directory, for one claim; the claim too, unless a StatefulSet makes it."""
    reference = {"namespace": "default", "name": claim}
    spec = {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "none"}
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": claim},
            "spec": {
                **spec,
                "claimRef": reference,
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": path},
            },
        }
    )
    if more.get("claimed", True):
        asked = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "resources": {"requests": {"storage": "10Gi"}},
        }
        cluster.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": claim}, "spec": asked})


@pytest.fixture
def volumes(whole):
    yield lambda *args, **more: volume(whole, *args, **more)
    whole.kubectl("delete", "pvc,pv", "--all", "--wait=false")


@pytest.mark.parametrize(
    "values,texts",
    [
        ({"auth": {"secretName": "nope"}}, ["FailedMount", 'secret "nope" not found']),
        (
            {"models": {"source": "bucket", "bucket": {"uris": ["s3://a/b"], "secretName": "nope"}}},
            ["CreateContainerConfigError", 'secret "nope" not found'],
        ),
        ({"tls": {"enabled": True, "secretName": "nope"}}, ["FailedMount", 'secret "nope" not found']),
        (
            {"models": {"source": "pvc", "pvc": {"claimName": "nope"}}},
            ['persistentvolumeclaim "nope" not found'],
        ),
        ({"image": {"tag": "nope"}}, ["ErrImageNeverPull"]),
        ({"serviceAccount": {"create": False, "name": "nope"}}, []),
        (
            {"models": {"source": "bucket", "bucket": {"uris": [NOBODY]}}},
            ["connection refused", NOBODY],
        ),
        ({"models": {"path": "/nowhere"}}, ["failed to stat file /nowhere"]),
        ({"server": {"options": {"no-such-option": 1}}}, ["unrecognized option '--no-such-option'"]),
    ],
    ids=["keys", "credentials", "certificate", "claim", "image", "account", "bucket", "models", "option"],
)
def test_missing(whole, install, row, values, texts):
    """What is named is not there"""
    install(values)
    if texts:
        tells(whole, row, *texts)
        return
    # The pods are not made: the Deployment's replica sets have the event.
    why = 'serviceaccount "nope" not found'
    whole.until(lambda: any(why in e.get("message", "") for e in whole.get("events")["items"]), why)
    row.note(f"event of the ReplicaSet: `{why}`")


def test_wrong_keys(whole, install, row):
    """The Secret of the certificate has other keys"""
    whole.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other"}, "stringData": {"cert.pem": "x"}})
    install({"tls": {"enabled": True, "secretName": "other"}})
    tells(whole, row, "open /etc/neso/tls/tls.crt: no such file or directory")


def test_other_architecture(whole, images, install, row, tmp_path):
    """An image with the program of another processor"""
    program = bytearray(BINARY.read_bytes())
    program[18:20] = (183).to_bytes(2, "little")  # the ELF header's machine: AArch64
    archive.write(tmp_path / "arm.tar", f"{images.repository}:arm", {"neso": bytes(program)}, ["/neso"])
    images.load(tmp_path / "arm.tar")
    install({"image": {"tag": "arm"}})
    tells(whole, row, "exec format error")


def test_unreadable_models(whole, install, volumes, row):
    """A volume whose models the server's user may not read"""
    place = Node(1).disk / "unreadable"
    place.mkdir(exist_ok=True)
    subprocess.run(["cp", "-r", f"{HERE / 'models'}/.", place], check=True)
    place.chmod(0o700)
    volumes("/var/lib/unreadable", "unreadable")
    install({"models": {"source": "pvc", "pvc": {"claimName": "unreadable"}}})
    tells(whole, row, "permission denied", "/models")


def test_full_volume(whole, install, volumes, row, tmp_path_factory):
    """The volume for what is downloaded is full"""
    node = Node(1)
    (node.disk / "small").mkdir(exist_ok=True)
    node.inside("mount", "-t", "tmpfs", "-o", "size=1m,mode=1777", "tmpfs", "/var/lib/small")
    try:
        with Bucket(tmp_path_factory.mktemp("full")) as bucket:
            bucket.upload(HERE / "models", "models/")
            bucket.put("models/double/1/weights.bin", b"w" * (4 << 20))
            whole.apply(bucket.credentials("full"))
            volumes("/var/lib/small", f"cache-{RELEASE}-neso-0", claimed=False)
            cache = {"size": "10Gi", "persistent": True, "storageClassName": "none"}
            source = {"uris": [f"{bucket.uri}/models"], "secretName": "full", "cache": cache}
            install({"kind": "StatefulSet", "models": {"source": "bucket", "bucket": source}})
            tells(whole, row, "no space left on device")
            whole.command("helm", "uninstall", RELEASE)
            whole.until(lambda: not whole.all_pods(RELEASE), "the pod is gone")
    finally:
        node.inside("umount", "-l", "/var/lib/small")


def test_clock(whole, install, row, tmp_path_factory):
    """The clock of the bucket's server is two hours ahead of the cluster's, and is set right"""
    with Bucket(tmp_path_factory.mktemp("clock")) as bucket, Skewed(bucket.port, 7200) as skewed:
        bucket.upload(HERE / "models", "models/")
        whole.apply(bucket.credentials("clock"))
        source = {"uris": [f"s3://http://{skewed.endpoint}/{bucket.bucket}/models"], "secretName": "clock"}
        install({"models": {"source": "bucket", "bucket": source}})
        tells(whole, row, "This machine's clock is 2h0m0s behind the store's", "RequestTimeTooSkewed")
        skewed.ahead_s = 0
        whole.until(lambda: len(whole.ready(RELEASE)) == 1, "the pod is ready once the clocks agree")
        row.note("ready once the clocks agree")


def test_contradictions(whole, row):
    """Values that contradict each other, and one that is of another kind"""
    for values, texts in (
        (
            ["tls.enabled=true", "hpa.enabled=true", "keda.enabled=true"],
            ["tls.enabled: set tls.secretName", "hpa.enabled and keda.enabled"],
        ),
        (["server.ports.http=80"], ["at '/server/ports/http': minimum: got 80, want 1,024"]),
    ):
        with pytest.raises(Failed) as refused:
            whole.command("helm", "install", RELEASE, CHART, *(f"--set={v}" for v in values))
        assert all(t in str(refused.value) for t in texts), refused.value
    assert RELEASE not in whole.command("helm", "list", "--all-namespaces")
    row.note("nothing is installed, all faults are said, with their paths")


def test_long_names(whole, images, install, row):
    """A release whose name is as long as Helm takes, and a name of 63 letters"""
    release = "r" + "e" * 51 + "x"
    install({"fullnameOverride": "n" + "a" * 61 + "e"}, release=release)
    whole.until(lambda: len(whole.ready(release)) == 1, "the pod is ready")
    (pod,) = whole.pods(release)
    services = [
        s["metadata"]["name"] for s in whole.get("services", "-l", f"app.kubernetes.io/instance={release}")["items"]
    ]
    plain = min(services, key=len)
    with connect(Calls(http=f"{plain}.default.svc.cluster.local:8000"), "http") as client:
        assert ask(client, 7) == "1"
    longest = max(pod["metadata"]["labels"].values(), key=len)
    assert len(longest) <= 63, longest
    row.note(f"the Service is `{plain}`, which answers")


def addresses(cluster, release: str) -> list[str]:
    found = cluster.get("services", "-l", f"app.kubernetes.io/instance={release}")["items"]
    return next(s["spec"]["clusterIPs"] for s in found if s["spec"]["clusterIP"] != "None")


@pytest.mark.parametrize(
    "service,families",
    [
        ({"ipFamilies": []}, "6" if ONLY6 else "4"),
        ({"ipFamilies": ["IPv6"]}, "6"),
        ({"ipFamilies": [], "ipFamilyPolicy": "RequireDualStack"}, "46"),
    ],
    ids=["of the cluster", "IPv6", "both"],
)
def test_families(whole, install, row, service, families):
    """A Service of one family of addresses, or of both"""
    inside = [a["address"] for a in whole.get("node", NODES[0])["status"]["addresses"] if a["type"] == "InternalIP"]
    if not set(families) <= {"6" if ":" in a else "4" for a in inside}:
        with pytest.raises(Failed, match=r"spec\.(ipFamilies|ipFamilyPolicy)") as refused:
            install({"service": service})
        said = re.search(r"spec\.ipFamil.*", str(refused.value))[0].replace("|", "/")
        row.note(f"this cluster has {', '.join(inside)} alone: `{said[:300]}`")
        return
    install({"service": service})
    whole.until(lambda: len(whole.ready(RELEASE)) == 1, "the pod is ready")
    given = addresses(whole, RELEASE)
    assert {"6" if ":" in a else "4" for a in given} == set(families), given
    for a in given:
        with urllib.request.urlopen(f"http://{host(a)}:8000/v2/health/ready", timeout=30) as reply:
            assert reply.status == 200
        with connect(Calls(grpc=f"{host(a)}:8001"), "grpc") as client:
            assert ask(client, 7) == "1"
    row.note(f"answers at {', '.join(given)}")
