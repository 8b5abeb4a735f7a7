"""More and fewer replicas under load, and who gets it."""

from __future__ import annotations

import time

import pytest
from load import loaded
from release import name, successes
from sending import HEADLESS, SERVICE, SPREAD, Calls

SECONDS = 12


def scale(cluster, replicas: int, limit: float = 280) -> float:
    begun = time.monotonic()
    cluster.kubectl("scale", "deployment/neso", f"--replicas={replicas}")
    cluster.until(
        lambda: len(cluster.endpoints()) == replicas and len(cluster.all_pods()) == replicas,
        f"{replicas} replicas",
        limit,
    )
    return time.monotonic() - begun


@pytest.fixture(scope="module")
def aging(cluster, images):
    """Connections that the server ends after three seconds, give or take a tenth."""
    cluster.helm(images("one"), {"server": {"grpcMaxConnectionAgeSeconds": 3, "httpMaxConnectionAgeSeconds": 3}})
    return cluster


def test_scale(aging, row):
    """From 1 replica to 8, and back to 1"""
    scale(aging, 1)
    with loaded() as row.load:
        up = scale(aging, 8)
        served = successes(aging.pods())
        aging.until(lambda: all(successes(aging.pods())[n] > served[n] for n in served), "each of the 8 gets requests")
        down = scale(aging, 1)
    row.load.clean()
    row.note(f"8 ready after {up:.0f} s, 1 left after {down:.0f} s; each of the 8 answered requests")
    scale(aging, 4)


def ratios(cluster, calls: Calls, transport: str) -> tuple[object, float, int]:
    """Requests of the busiest replica to those of the least busy one, in a while of load that began with one replica."""
    scale(cluster, 1)
    with loaded(calls, (transport,)) as load:
        scale(cluster, 4)
        pods = cluster.pods()
        time.sleep(2 * 3.3)  # twice the age of a connection: all have been made since there are four
        before = successes(pods)
        time.sleep(SECONDS)  # what is measured
        after = successes(pods)
    counts = [after[name(p)] - before[name(p)] for p in pods]
    assert not load.faults, load.said()
    return load, max(counts) / max(1.0, min(counts)), int(sum(counts))


def test_grpc_headless(aging, row):
    """gRPC clients with `round_robin` on the headless Service, replicas 1 to 4"""
    row.load, ratio, total = ratios(aging, Calls(grpc=HEADLESS, channel=SPREAD, clients=6), "grpc")
    row.note(f"max/min over the replicas {ratio:.2f}, of {total} requests in {SECONDS} s")
    assert ratio <= 1.3


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_service(aging, row, transport):
    """Clients of one connection each on the Service, by the age of connections alone, replicas 1 to 4"""
    row.load, ratio, total = ratios(aging, Calls(http=f"{SERVICE}:8000", clients=12, pause_s=0.05), transport)
    row.note(
        f"max/min over the replicas {ratio:.2f}, of {total} requests in {SECONDS} s: each connection goes to a replica by chance"
    )
