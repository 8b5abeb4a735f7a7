"""Updates and drains under load of the official clients: no request fails."""

from __future__ import annotations

import shutil

import pytest
from load import loaded
from release import HERE, NODES, Failed, address, condition, name


def test_image(cluster, images, row):
    """A new image is rolled out, and the old one again"""
    before = {name(p) for p in cluster.pods()}
    assert len(before) == 4
    with loaded() as row.load:
        cluster.helm(images("two"))
        cluster.helm(images("one"))
    assert not before & {name(p) for p in cluster.pods()}
    row.load.clean()


def test_drain(cluster, row):
    """A node is drained, and comes back"""
    with loaded() as row.load:
        try:
            cluster.kubectl("drain", NODES[1], "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=170s")
            cluster.rolled_out()
            assert {p["spec"]["nodeName"] for p in cluster.pods()} == {NODES[0]}
        finally:
            cluster.kubectl("uncordon", NODES[1])
    row.load.clean()


def test_bad_version(cluster, images, row, tmp_path):
    """An image with a model that does not load is rolled out"""
    shutil.copytree(HERE / "models", tmp_path / "models")
    (tmp_path / "models/double/1/model.py").write_text(
        "raise RuntimeError('the weights are not those of this model')\n"
    )
    # A rollout is said to have failed a minute after the start-up probe has given up.
    patience = {"probes": {"startup": {"failureThreshold": 15}}}
    bad = images("bad", tmp_path / "models")
    with loaded() as row.load:
        cluster.helm(images("one"), patience)
        before = {address(p) for p in cluster.pods()}
        cluster.helm(bad, patience, wait=False)
        with pytest.raises(Failed, match="exceeded its progress deadline"):
            cluster.kubectl("rollout", "status", "deployment/neso", "--timeout=200s")
        (new,) = [p for p in cluster.pods() if address(p) not in before]
        said = new["status"]["containerStatuses"][0]["lastState"]["terminated"]["message"]
        assert "the weights are not those of this model" in said, said
        assert condition(new, "Ready") != "True"
        assert cluster.endpoints() == before
        cluster.helm(images("one"), patience)
    row.load.clean()
    assert {address(p) for p in cluster.pods()} == before
    row.note(
        "the rollout ends with `exceeded its progress deadline`, the pod's status has the model's error, the four old pods serve on"
    )
