"""What the server sees of a GPU, and memory on it that clients share with the server."""

from __future__ import annotations

import base64
import os
import re
import subprocess

import grpc
import numpy as np
import pytest
import tritonclient.grpc as tgrpc
import tritonclient.http as thttp
from device import IDENTITY, Memory, query, used_mib
from regions import CUDA
from repository import place, until
from server import BINARY, Server
from tritonclient.utils import InferenceServerException

CLIENTS = {"http": (thttp, "http"), "grpc": (tgrpc, "grpc")}


@pytest.fixture(params=list(CLIENTS))
def client(request, server):
    module, address = CLIENTS[request.param]
    with module.InferenceServerClient(getattr(server, address)) as c:
        c.of = module
        yield c


def test_doctor_names_it():
    done = subprocess.run([BINARY, "doctor"], capture_output=True, text=True, timeout=120, check=False)
    assert query("name")[0] in done.stdout, done.stdout


def test_metrics(server):
    found = dict(re.findall(r'^(nv_gpu_\w+|nv_energy_\w+)\{gpu_uuid="[^"]+"\} (\S+)$', server.metrics(), re.M))
    uuid = query("uuid")[0]
    assert f'gpu_uuid="{uuid}"' in server.metrics(), uuid
    assert {
        "nv_gpu_utilization",
        "nv_gpu_memory_total_bytes",
        "nv_gpu_memory_used_bytes",
        "nv_gpu_power_usage",
        "nv_gpu_power_limit",
    } <= set(found)
    assert abs(float(found["nv_gpu_memory_total_bytes"]) / 2**20 - int(query("memory.total")[0])) < 64
    assert 0 <= float(found["nv_gpu_utilization"]) <= 1


def test_kinds_of_instances(repo):
    place(repo / "auto", {"config.pbtxt": IDENTITY + "instance_group { kind: KIND_AUTO }", "1/.keep": ""})
    place(
        repo / "first", {"config.pbtxt": IDENTITY + "instance_group { kind: KIND_GPU gpus: 0 count: 2 }", "1/.keep": ""}
    )
    place(repo / "none", {"config.pbtxt": IDENTITY + "instance_group { kind: KIND_GPU gpus: 99 }", "1/.keep": ""})
    with Server(repo, "--exit-on-error=false", "--strict-readiness=false") as s:
        (group,) = s.get("/v2/models/first/config").json["instance_group"]
        assert (group["kind"], group["count"], group["gpus"]) == ("KIND_GPU", 2, [0])
        assert until(lambda: "99" in str(s.post("/v2/repository/index").json))


def test_region_of_device_memory(server, client):
    """A region each way: the answer is written where the client said, on the device."""
    floats = np.arange(1 << 20, dtype=np.float32)
    with Memory(floats.nbytes) as given, Memory(floats.nbytes) as wanted:
        given.write(floats)
        for name, memory in (("given", given), ("wanted", wanted)):
            client.register_cuda_shared_memory(name, base64.b64encode(memory.handle), 0, memory.size)
        try:
            x, y = client.of.InferInput("IN", floats.shape, "FP32"), client.of.InferRequestedOutput("OUT")
            x.set_shared_memory("given", floats.nbytes)
            y.set_shared_memory("wanted", floats.nbytes)
            for factor in (1, 2):
                given.write(floats * factor)
                client.infer("identity", [x], outputs=[y])
                np.testing.assert_array_equal(wanted.read(np.float32, floats.shape), floats * factor)
        finally:
            client.unregister_cuda_shared_memory()
    assert not server.get(f"{CUDA}/status").json


def test_region_with_a_handle_that_is_none(client):
    for handle, why in ((b"\0" * 64, "failed"), (os.urandom(64), "failed"), (b"short", "64")):
        with pytest.raises(InferenceServerException) as error:
            client.register_cuda_shared_memory("bad", base64.b64encode(handle), 0, 64)
        assert error.value.status() in ("400", str(grpc.StatusCode.INVALID_ARGUMENT)), (why, error.value)


def test_region_beyond_the_allocation(server, client):
    with Memory(4096) as memory, pytest.raises(InferenceServerException):
        client.register_cuda_shared_memory("far", base64.b64encode(memory.handle), 0, 1 << 40)
    assert server.get("/v2/health/live").status == 200


def test_regions_leave_nothing_on_the_device(repo):
    """What a server had open is free once it ends, and while it runs nothing piles up."""
    before = used_mib()
    place(repo / "identity", {"config.pbtxt": IDENTITY, "1/.keep": ""})
    with Server(repo) as s, thttp.InferenceServerClient(s.http) as client, Memory(64 << 20) as memory:
        held = []
        for _ in range(50):
            client.register_cuda_shared_memory("again", base64.b64encode(memory.handle), 0, memory.size)
            client.unregister_cuda_shared_memory("again")
            held.append(used_mib())
        assert max(held) - held[0] < 64, held
    assert until(lambda: used_mib() - before < 1200), (before, used_mib())  # this process keeps its context
