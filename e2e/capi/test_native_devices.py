"""Execution policies of backend libraries, on GPUs that a management library shows which stands in for NVIDIA's."""

from __future__ import annotations

import concurrent.futures
import subprocess

import pytest
from libraries import ROOT, backend, have_host, model
from server import Server

GPUS = "instance_group [ { kind: KIND_GPU gpus: [ 0, 1 ] count: 2 } ]\n"
CPUS = "instance_group [ { kind: KIND_CPU count: 2 } ]\n"
SEQUENCES = "sequence_batching { max_sequence_idle_microseconds: 60000000 }\n"
MODELS = {
    "shared": ("devices", GPUS),
    "apart": ("plain", GPUS),
    "host": ("devices", CPUS),
    "sequences": ("devices", GPUS + SEQUENCES),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    have_host()
    top = tmp_path_factory.mktemp("devices")
    (top / "driver").mkdir()
    for name in ("libnvidia-ml.so.1", "libcuda.so.1"):
        source = ROOT / "internal" / "gpu" / "testdata" / "fakenvml.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", top / "driver" / name, source], check=True)
    for name in ("devices", "plain"):
        backend(top / "backends", name, "threads.c")
    for name, (of, extra) in MODELS.items():
        model(top / "models", name, of, extra, batch=0)
    with Server(
        top / "models", f"--backend-directory={top / 'backends'}", env={"LD_LIBRARY_PATH": str(top / "driver")}
    ) as s:
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


def ask(served, name, number):
    body = {"inputs": [{"name": "IN0", "datatype": "INT32", "shape": [1], "data": [1]}]}
    if name == "sequences":
        body["parameters"] = {"sequence_id": number, "sequence_start": True, "sequence_end": True}
    r = served.infer(name, body)
    assert r.status == 200, r
    return r.json["parameters"]


def threads(served, name, instances):
    """The threads of each device, and how many instances ran at once on one, when all instances have run."""
    by, most, seen = {}, 0, set()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for turn in range(50):
            for said in pool.map(lambda n: ask(served, name, n), range(1 + 16 * turn, 17 + 16 * turn)):
                by.setdefault(said["device"], set()).add(said["thread"])
                most = max(most, said["most"])
                seen.add((said["instance"], said["device"]))
            if len(seen) == instances:
                return {device: len(all) for device, all in by.items()}, most
    raise AssertionError(f"only {seen} have run")


def test_a_library_that_blocks_its_device(served):
    """All instances of a model on a GPU share a thread, so that one runs at a time; those of other libraries have their own."""
    assert threads(served, "shared", 4) == ({0: 1, 1: 1}, 1)
    assert threads(served, "apart", 4)[0] == {0: 2, 1: 2}


@pytest.mark.parametrize(("name", "of"), [("host", {0: 2}), ("sequences", {0: 2, 1: 2})])
def test_it_is_for_gpus_without_sequences(served, name, of):
    assert threads(served, name, sum(of.values()))[0] == of
