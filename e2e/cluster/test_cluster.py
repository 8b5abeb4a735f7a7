"""The chart on a real cluster, under load of the official clients."""

from __future__ import annotations

from load import loaded


def test_image_is_rolled_out_without_a_failed_request(cluster):
    before = {p["metadata"]["name"] for p in cluster.pods()}
    assert len(before) == 4
    with loaded() as load:
        cluster.helm("image.tag=two")
        cluster.helm("image.tag=one")
    print("\nrolling update:", load)
    assert not before & {p["metadata"]["name"] for p in cluster.pods()}
    assert not load.faults, load.faults[:5]
    assert load.answers["http"] > 100 and load.answers["grpc"] > 100


def test_node_is_drained_without_a_failed_request(cluster):
    with loaded() as load:
        try:
            cluster.kubectl("drain", "node2", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=170s")
            cluster.rolled_out()
            assert {p["spec"]["nodeName"] for p in cluster.pods()} == {"node1"}
        finally:
            cluster.kubectl("uncordon", "node2")
    print("\ndrain:", load)
    assert not load.faults, load.faults[:5]
    assert load.answers["http"] > 100 and load.answers["grpc"] > 100
