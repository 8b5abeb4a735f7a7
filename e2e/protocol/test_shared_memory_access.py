"""Client shared memory: who may, and what a client must not reach: one test for each class of known flaw."""

from __future__ import annotations

import http.client
import json
import os
import socket
import uuid
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
from regions import CUDA, FP32, SYSTEM, Region, infer, part, refused, two_regions
from repository import until
from server import MODELS, Server, descendants
from tritonclient.utils import InferenceServerException

DISABLED = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."


@pytest.fixture
def s(server):
    return server


@pytest.fixture
def mem(s):
    with two_regions(s) as regions:
        yield regions


def test_errors_name_no_other_region(s, mem, tmp_path):
    """CVE-2025-23320: an error gave away the name of internal shared memory."""
    a, _ = mem
    replies = [
        infer(s, part("nope", 0, 16)),
        infer(s, part(a, 0, 2**40)),
        infer(s, part(a, 0, 16), shape=(1, 2**40)),
        infer(s, part(a, 0, 60), model="python_any_fp32"),
        s.infer(
            "python_any_fp32", {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 2**60], "data": [1]}]}
        ),
        s.get(f"{SYSTEM}/region/nope/status"),
        s.post(f"{SYSTEM}/region/nope/register", {"key": "/nope", "byte_size": 4}),
    ]
    others = [r["key"] for r in s.get(f"{SYSTEM}/status").json if r["name"] != a.name]
    for r in replies:
        assert r.status >= 400, r
        text = r.error.replace(a.name, "")
        assert (
            "neso_e2e" not in text
            and "triton_python_backend" not in text
            and "/dev" not in text
            and "/proc" not in text
        ), r
        assert not any(o in text for o in others)


def test_no_internal_region_has_a_name(s):
    """CVE-2025-23334, -23319: a client registered the memory of a Python worker. There is none to register."""
    x = np.ones((1, 300_000), np.float32)
    with tgrpc.InferenceServerClient(s.grpc) as client:
        i = tgrpc.InferInput("INPUT0", list(x.shape), "FP32")
        i.set_data_from_numpy(x)
        client.infer("python_any_fp32", [i])  # large tensors are in shared memory with the worker
    inodes = set()
    for pid in (s.process.pid, *descendants(s.process.pid)):
        try:
            maps = Path(f"/proc/{pid}/maps").read_text()
        except OSError:  # it has ended
            continue
        for line in maps.splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and "memfd:neso" in fields[5]:
                inodes.add(fields[5])
    assert inodes, "the worker has no shared memory"
    for key in (
        *inodes,
        *os.listdir("/dev/shm"),
        "memfd:neso",
        "/memfd:neso (deleted)",
        f"/proc/{s.process.pid}/fd/3",
        "../proc/self/mem",
    ):
        if key.startswith("neso_e2e") or (Path("/dev/shm") / key).is_file():
            continue  # a client's own
        r = s.post(f"{SYSTEM}/region/worker/register", {"key": key, "byte_size": 4})
        assert r.status in (400, 500), (key, r)
    r = s.post(f"{SYSTEM}/region/worker/register", {"key": "/triton_python_backend_shm_region_x", "byte_size": 4})
    assert r.status == 400 and "reserved prefix" in r.error


def test_links_and_paths(s, tmp_path):
    """What is not an object of the shared-memory file system itself is not opened."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret" * 10)
    link = Path("/dev/shm") / f"neso_e2e_link_{uuid.uuid4().hex}"
    link.symlink_to(secret)
    try:
        for key in (
            f"/{link.name}",
            str(secret),
            f"/../..{secret}",
            f"..{secret}",
            "/./x",
            "/.",
            "/..",
            f"/{link.name}\0x",
        ):
            r = s.post(f"{SYSTEM}/region/link/register", {"key": key, "byte_size": 4})
            assert r.status == 500 and r.error.startswith("Unable to open shared memory region: '"), r
    finally:
        link.unlink()


def test_names_cannot_leave_their_segment(s):
    with Region(64) as a:
        for name in ("..%2f..%2fx", "a%00b", "%2e%2e", "é".encode().hex(), "x" * 4096):
            r = s.post(f"{SYSTEM}/region/{name}/register", {"key": "/" + a.name, "byte_size": 64})
            assert r.status == 200, r
            assert len(s.get(f"{SYSTEM}/region/{name}/status").json) == 1
            assert s.post(f"{SYSTEM}/region/{name}/unregister").status == 200


def test_sparse_giant(s):
    """A sparse object of a terabyte costs its client nothing, nor the server."""
    with Region(64) as a:
        os.truncate(a.path, 2**40)
        a.register(s, size=2**40)
        r = infer(s, part(a, 0, 2**40), shape=(1, 2**38))
        assert r.status == 503 and "--max-queued-bytes" in r.error
        s.post(f"{SYSTEM}/region/{a.name}/unregister")


# -- who may


def serves(path):
    try:
        return unix_get(path, "GET", "/v2/health/ready")[0] == 200
    except OSError:  # the file is there, and nobody listens yet
        return False


def unix_get(path, method, target, body=None, headers=None):
    c = http.client.HTTPConnection("localhost")
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.connect(str(path))
    c.request(method, target, json.dumps(body) if body is not None else None, headers or {})
    r = c.getresponse()
    return r.status, r.read()


def test_unix_sockets_are_local(tmp_path):
    with Region(64, np.arange(16, dtype=np.float32).tobytes()) as a:
        sockets = [f"--{n}-address=unix:{tmp_path / n}" for n in ("http", "grpc")]
        with Server(MODELS, *sockets, "--model-control-mode=explicit", f"--load-model={FP32}", wait=False):
            assert until((tmp_path / "grpc").exists) and until((tmp_path / "http").exists)
            assert until(lambda: serves(tmp_path / "http"))
            with tgrpc.InferenceServerClient(f"unix:{tmp_path / 'grpc'}") as client:
                client.register_system_shared_memory("r", "/" + a.name, 64)
            status, body = unix_get(tmp_path / "http", "GET", f"{SYSTEM}/status")
            assert status == 200 and json.loads(body)[0]["key"] == "/" + a.name
            # A proxy on this machine that speaks for somebody else.
            assert unix_get(tmp_path / "http", "GET", f"{SYSTEM}/status", headers={"X-Forwarded-For": "192.0.2.1"}) == (
                200,
                b"[]",
            )
            assert unix_get(tmp_path / "http", "POST", f"{SYSTEM}/unregister")[0] == 200


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "Origin"])
def test_proxied_clients_are_remote(s, mem, header):
    a, _ = mem
    headers = {header: "192.0.2.1"}
    for path in (
        f"{SYSTEM}/region/x/register",
        f"{SYSTEM}/region/{a.name}/unregister",
        f"{SYSTEM}/unregister",
        f"{CUDA}/region/x/register",
    ):
        r = s.post(path, {"key": "/" + a.name, "byte_size": 4}, headers)
        assert (r.status, r.error) == (501, DISABLED)
    assert s.get(f"{SYSTEM}/status", headers=headers).json == []
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 4], "parameters": part(a, 0, 16)}]}
    r = s.infer(FP32, body, headers)
    assert (r.status, r.error) == (404, f"Unable to find shared memory region: '{a.name}'")
    with tgrpc.InferenceServerClient(s.grpc) as client:
        with pytest.raises(InferenceServerException, match="Client shared memory is disabled"):
            client.register_system_shared_memory("x", "/" + a.name, 4, headers={header.lower(): "192.0.2.1"})
        assert not client.get_system_shared_memory_status(headers={header.lower(): "192.0.2.1"}).regions
    assert len(s.get(f"{SYSTEM}/region/{a.name}/status").json) == 1


@pytest.mark.parametrize("option", ["--allow-client-shm", "--allow-client-shared-memory"])
def test_options(option):
    with Region(64) as a:
        body = {"key": "/" + a.name, "byte_size": 64}
        with Server(MODELS, "--model-control-mode=explicit", f"--load-model={FP32}", f"{option}=false") as off:
            for path in (
                f"{SYSTEM}/region/x/register",
                f"{SYSTEM}/region/x/unregister",
                f"{CUDA}/region/x/register",
                f"{CUDA}/unregister",
            ):
                r = off.post(path, body)
                assert (r.status, r.error) == (501, DISABLED)
            assert off.get(f"{SYSTEM}/status").json == []
            refused(off, 404, "Unable to find shared memory region: 'x'", part("x", 0, 16))
        with Server(MODELS, "--model-control-mode=explicit", f"--load-model={FP32}", f"{option}=true") as on:
            r = on.post(f"{SYSTEM}/region/x/register", body, {"X-Forwarded-For": "192.0.2.1"})
            assert r.status == 200
            assert infer(on, part("x", 0, 16)).status == 200


def test_restricted_like_the_other_groups():
    with Server(MODELS, "--model-control-mode=explicit", "--http-restricted-api=shared-memory:key=value") as r:
        for method, path in (
            ("GET", f"{SYSTEM}/status"),
            ("POST", f"{SYSTEM}/region/x/register"),
            ("POST", f"{SYSTEM}/unregister"),
        ):
            assert r.request(method, path, b"" if method == "POST" else None).status == 403
            assert r.request(method, path, b"" if method == "POST" else None, {"key": "value"}).status != 403
