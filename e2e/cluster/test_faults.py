"""Nodes and pods that go without a word: what they had fails in time, and nothing else does."""

from __future__ import annotations

import time

import numpy as np
import pytest
import tritonclient.http as http
from clients import infer
from load import loaded
from release import NODES, Node, address, at, condition, host, name, proxy_is_current, restarts
from sending import HEADLESS, KEEPALIVE, SPREAD, Calls

DEADLINE_S = 3.0
# What a client does that means to survive a node: deadlines, another try, keepalive, all pods by the headless Service.
HARDY = Calls(grpc=HEADLESS, channel=SPREAD + KEEPALIVE, deadline_s=DEADLINE_S, retry=True)


def recovered(load, row) -> None:
    """Each request that failed did so within the client's deadline, and was answered when it was sent again."""
    assert load.lost == 0, load.said()
    slowest = max((f.took_s for f in load.faults), default=0.0)
    row.note(
        f"{load.recovered} requests failed and were answered when sent again; the slowest failure took {slowest:.1f} s"
    )
    # A connection, then its reply: each may take what the client grants.
    assert slowest < 2 * DEADLINE_S + 1, load.said()
    assert all(load.answers[t] > 20 for t in ("http", "grpc")), load.answers


def respread(cluster) -> None:
    """Pods on both nodes, whatever the test before has left."""
    if {p["spec"]["nodeName"] for p in cluster.pods()} != set(NODES):
        cluster.kubectl("rollout", "restart", "deployment/neso")
        cluster.rolled_out()
    assert {p["spec"]["nodeName"] for p in cluster.pods()} == set(NODES)


def test_node_killed(cluster, row):
    """A node loses its power"""
    respread(cluster)
    node = Node(2)
    left = {address(p) for p in cluster.pods() if p["spec"]["nodeName"] == NODES[0]}
    alive = host(min(left))
    direct = Calls(http=f"{alive}:8000", grpc=f"{alive}:8001", clients=1, deadline_s=DEADLINE_S)
    try:
        with loaded(HARDY) as row.load, loaded(direct) as beside:
            time.sleep(2)  # load before the fault: what is tested are connections that exist
            killed = time.monotonic()
            node.kill()
            clock = time.time()
            cluster.until(lambda: cluster.endpoints() == left, "the endpoints of the dead node go")
            cluster.until(lambda: proxy_is_current(clock), "kube-proxy leads to them no more")
            gone = time.monotonic()
            row.note(f"the dead pods left the Service after {gone - killed:.0f} s")
            time.sleep(2)  # what begins now must not fail
        recovered(row.load, row)
        # Nothing else fails: none that had ended before, none that began after, none on a pod that lives.
        others = [f for f in row.load.faults if not killed - DEADLINE_S < f.begun < gone + 0.2]
        assert not others, others
        beside.clean()
        row.note(f"no request had more than {row.load.tries} failures; none failed on a pod that lives")
        # Those that were on their way when the endpoints went have ended: from now on nothing fails.
        with loaded(Calls(deadline_s=DEADLINE_S)) as after:
            time.sleep(3)
        after.clean()
    finally:
        node.start()
        cluster.until(lambda: condition(cluster.get("node", node.name), "Ready") == "True", "the node is ready again")
        cluster.rolled_out()
    assert len(cluster.endpoints()) == 4


def test_worker_killed_for_memory(cluster, row):
    """A model takes more memory than its pod may have"""
    victim = cluster.pods()[0]
    with loaded(HARDY) as row.load, http.InferenceServerClient(at(victim, 8000)) as client:
        client.module = http
        with pytest.raises(Exception, match="(?i)worker|process|killed") as failed:
            infer(client, "double", {"INPUT0": np.full((1, 4), -1, np.float32)})
        cluster.until(lambda: client.is_model_ready("double"), "the model is ready again")
        time.sleep(2)
    recovered(row.load, row)
    (same,) = [p for p in cluster.pods() if name(p) == name(victim)]
    assert restarts(same) == restarts(victim), "the server went with its worker"
    row.note(f"the server lives on and starts a new worker; the request that asked for it got: `{failed.value}`")


def test_pod_killed_for_memory(cluster, images, row):
    """A server that may hold more than its pod is killed for it"""
    cluster.helm(images("one"), {"server": {"options": {"max-queued-bytes": "4G", "http-max-input-size": 2**31 - 1}}})
    victim = cluster.pods()[0]
    with loaded(HARDY) as row.load:
        with pytest.raises(Exception), http.InferenceServerClient(at(victim, 8000)) as client:
            client.module = http
            infer(client, "double", {"INPUT0": np.ones((1, 150_000_000), np.float32)})

        def ended() -> dict:
            (p,) = [p for p in cluster.pods() if name(p) == name(victim)]
            return p["status"]["containerStatuses"][0]["lastState"].get("terminated", {})

        cluster.until(ended, "the container has ended")
        assert ended()["reason"] == "OOMKilled", ended()
        cluster.until(lambda: len(cluster.ready()) == 4, "the pod is ready again")
        time.sleep(2)
    recovered(row.load, row)
