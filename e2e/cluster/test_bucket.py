"""Models in a bucket, followed by polling, under load of the official clients."""

from __future__ import annotations

import os
import time
import urllib.request

import pytest
from bucket import Bucket
from load import loaded
from release import HERE, at, condition, name
from sending import Calls

FULL = os.environ.get("NESO_FULL") == "1"
GONE_S = 300 if FULL else 24


def model(text: str = "") -> bytes:
    return text.encode() + (HERE / "models/double/1/model.py").read_bytes()


@pytest.fixture(scope="module")
def bucket(tmp_path_factory, whole, images):
    with Bucket(tmp_path_factory.mktemp("bucket")) as b:
        b.upload(HERE / "models", "models/")
        whole.apply(b.credentials("bucket"))
        source = {"uris": [f"{b.uri}/models"], "secretName": "bucket"}
        whole.helm(
            images("one"), {"models": {"source": "bucket", "controlMode": "poll", "pollSeconds": 1, "bucket": source}}
        )
        yield b


def states(pods) -> list[str]:
    """What each pod says of its models."""
    said = []
    for p in pods:
        ask = urllib.request.Request(f"http://{at(p, 8000)}/v2/repository/index", method="POST")
        with urllib.request.urlopen(ask, timeout=30) as reply:
            said.append(reply.read().decode())
    return said


def polled(cluster) -> dict[str, int]:
    """How often each pod has found the bucket changed."""
    logs = {name(p): cluster.kubectl("logs", name(p)) for p in cluster.pods()}
    return {pod: log.count("model repository has changed") for pod, log in logs.items()}


def test_new_version(whole, bucket, row):
    """A new version of a model is put into the bucket"""
    with loaded() as row.load:
        time.sleep(1)  # answers of the old version, for the report
        begun = time.monotonic()
        bucket.put("models/double/2/model.py", model())
        whole.until(
            lambda: all('"version":"2","state":"READY"' in s for s in states(whole.pods())), "version 2 everywhere"
        )
        row.note(f"four pods served it after {time.monotonic() - begun:.0f} s")
        seen = dict(row.load.versions)
        whole.until(lambda: row.load.versions["2"] > seen.get("2", 0) + 200, "answers of version 2")
    row.load.clean()
    assert row.load.versions["1"] and row.load.versions["2"] and set(row.load.versions) == {"1", "2"}, row.load.versions


def test_bad_version(whole, bucket, row):
    """A version that does not load is put into the bucket, and removed"""
    why = "the weights are not those of this model"
    with loaded() as row.load:
        bucket.put("models/double/3/model.py", model(f"raise RuntimeError('{why}')\n"))
        whole.until(lambda: all(why in s for s in states(whole.pods())), "the index of each pod says why")
        assert all(condition(p, "Ready") == "True" for p in whole.pods()), (
            "the old version serves, so the pods are ready"
        )
        assert len(whole.endpoints()) == 4
        before = polled(whole)
        bucket.delete("models/double/3/model.py")
        whole.until(
            lambda: all(n > before[pod] for pod, n in polled(whole).items()), "each pod has seen that it is gone"
        )
    row.load.clean()
    assert set(row.load.versions) == {"2"}, row.load.versions
    row.note("the old version serves on, the pods stay ready, the index of each says why")


def test_bucket_gone(whole, bucket, row):
    """The bucket is gone, first refusing, then silent, and a pod is deleted meanwhile"""
    half = GONE_S / 2
    with loaded() as row.load:
        begun = time.monotonic()
        bucket.door.refuse()
        victim = name(whole.pods()[0])
        whole.kubectl("delete", "pod", victim, "--wait=false")

        def newcomer() -> str:
            for p in whole.pods():
                for s in p["status"].get("containerStatuses", []):
                    last = s["lastState"].get("terminated") or s["state"].get("terminated") or {}
                    if "connection refused" in last.get("message", ""):
                        return last["message"]
            return ""

        whole.until(newcomer, "the new pod says why it does not start")
        assert len(whole.endpoints()) == 3
        time.sleep(max(0.0, half - (time.monotonic() - begun)))  # the time is what is tested
        bucket.door.reopen()
        bucket.door.hush()
        time.sleep(half)
        assert len(whole.endpoints()) == 3, "those that serve go on"
        bucket.door.reopen()
        gone = time.monotonic() - begun
        bucket.put("models/double/4/model.py", model())
        whole.until(lambda: len(whole.endpoints()) == 4, "the new pod starts", limit=420)
        whole.until(
            lambda: all('"version":"4","state":"READY"' in s for s in states(whole.pods())), "what is new is taken"
        )
    row.load.clean()
    row.note(f"gone for {gone:.0f} s{'' if FULL else ' (five minutes with NESO_FULL=1)'}; the new pod's status says `connection refused`; "
             "it served, and the next version was taken, once the bucket was back")  # fmt: skip


def test_new_pods_with_calls(whole, bucket, row):
    """Not one request fails while pods that download their models come and go"""
    with loaded(Calls()) as row.load:
        whole.kubectl("rollout", "restart", "deployment/neso")
        whole.rolled_out()
    row.load.clean()
