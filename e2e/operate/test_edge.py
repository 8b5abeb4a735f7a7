"""Small machines: 64 MB of memory, a read-only file system, no shared memory, no network, a power cut, another processor."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
import server as started
import stores
from buckets import Bucket
from fulldisk import disk
from repository import until
from server import BINARY, ROOT, Server, free_port

ARM64 = ROOT / ".tools" / "arm64"  # made by scripts/arm64.sh
ARM64_BINARY = ROOT / "bin" / "neso-arm64"
MEMORY = 64  # MiB
BODY = {"inputs": [{"name": "INPUT0", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]}
CONFIG = """backend: "%s"
max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""
DOUBLE = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", 2 * x)]) for x in inputs]
"""


def add(repository: Path, name: str, backend: str = "identity") -> Path:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(CONFIG % backend)
    if backend == "python":
        (repository / name / "1" / "model.py").write_text(DOUBLE)
    return repository


def answer(server: Server, model: str) -> list[float]:
    reply = server.infer(model, BODY)
    assert reply.status == 200, reply
    return reply.json["outputs"][0]["data"]


@pytest.fixture
def within(tmp_path, monkeypatch):
    """Has the binary run in mounts of its own, after commands of the shell."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        pytest.skip("mounts of one's own need root and unshare")

    def use(commands: str) -> None:
        program = tmp_path / "neso-within"
        program.write_text(
            f'#!/bin/sh\nexec unshare -m sh -ec \'mount --make-rprivate /\n{commands}\nexec "$0" "$@"\' {BINARY} "$@"\n'
        )
        program.chmod(0o755)
        monkeypatch.setattr(started, "BINARY", program)

    return use


def test_memory(tmp_path):
    """All that the server ever held in memory, its own program included, under a load of eight clients."""
    add(tmp_path, "same")
    big = {"inputs": [{"name": "INPUT0", "shape": [1, 10_000], "datatype": "FP32", "data": [1.5] * 10_000}]}
    with Server(tmp_path, env={"GOMEMLIMIT": "40MiB"}) as server:
        wrong: list = []

        def ask() -> None:
            wrong.extend(r for r in (server.infer("same", big) for _ in range(40)) if r.status != 200)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong, wrong[0]
        lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
        peak = next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))
    assert peak < MEMORY, f"{peak} MiB"


READ_ONLY = r"""awk "\$3 != \"proc\" && \$3 != \"sysfs\" {print \$2}" /proc/mounts |
while read -r m; do mount -o remount,ro,bind "$m" 2>/dev/null || true; done
if touch /tmp/neso-writes /dev/shm/neso-writes 2>/dev/null; then echo can be written >&2; exit 1; fi"""


def test_read_only(tmp_path, within):
    """Nothing can be written: what runs in the server is served."""
    within(READ_ONLY)
    with Server(add(tmp_path / "models", "same")) as server:
        assert answer(server, "same") == [1, 2, 3]


def test_read_only_python(tmp_path, within):
    """A Python model needs a directory for its worker: it is not ready, with the reason, and the rest is served."""
    within(READ_ONLY)
    add(add(tmp_path / "models", "same"), "double", "python")
    with Server(tmp_path / "models", "--exit-on-error=false", "--strict-readiness=false") as server:
        assert answer(server, "same") == [1, 2, 3]
        states = {m["name"]: m for m in server.post("/v2/repository/index").json}
        assert states["same"]["state"] == "READY" and "read-only file system" in states["double"]["reason"], states


def test_no_shared_memory(tmp_path, within):
    """Workers' tensors need no /dev/shm; a client's region there is refused with what is missing."""
    within("mount --bind /sys /dev/shm")  # where nothing can be made
    add(tmp_path / "models", "double", "python")
    large = {"inputs": [{"name": "INPUT0", "shape": [1, 100_000], "datatype": "FP32", "data": [1] * 100_000}]}
    with Server(tmp_path / "models") as server:
        assert answer(server, "double") == [2, 4, 6]
        assert server.infer("double", large).json["outputs"][0]["data"] == [2] * 100_000
        refused = server.post(
            "/v2/systemsharedmemory/region/r/register", {"key": "/none", "offset": 0, "byte_size": 16}
        )
        assert refused.status == 500 and "/none" in refused.error, refused


def test_no_network_for_traces(tmp_path):
    """A collector that cannot be reached costs one line in the log, and no request."""
    traced = [
        "--trace-config=mode=opentelemetry",
        f"--trace-config=opentelemetry,url=http://127.0.0.1:{free_port()}/v1/traces",
    ]
    traced += [
        "--trace-config=level=TIMESTAMPS",
        "--trace-config=rate=1",
        "--trace-config=opentelemetry,bsp_schedule_delay=50",
    ]
    with Server(add(tmp_path / "models", "same"), *traced) as server:
        for _ in range(20):
            assert answer(server, "same") == [1, 2, 3]
        server.stop()
        assert server.log().count("failed to export traces") == 1, server.log()


def test_no_network_for_models(tmp_path):
    """A bucket that cannot be reached ends the start after bounded attempts, with the bucket and the cause."""
    uri = f"s3://http://127.0.0.1:{free_port()}/models"
    keys = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_DEFAULT_REGION": "eu-central-1"}
    local = add(tmp_path / "models", "same")
    server = Server([local, uri], env=keys, wait=False)
    assert server.process.wait(120) == 1
    server.stop()
    assert uri in server.log() and "connection refused" in server.log(), server.log()


def test_no_network_for_models_in_the_cache(tmp_path):
    """Without its bucket, a server that has had the models serves them from its cache, and goes on when the bucket is back.

    Without a cache and with --exit-on-error=false the rest is served, not ready, until the bucket is there.
    """
    local = add(tmp_path / "local", "here")
    with Bucket() as store:
        store.upload(add(tmp_path / "models", "same"))
        repositories = [local, store.uri]
        poll = ["--model-control-mode=poll", "--repository-poll-secs=1"]
        cached = [f"--repository-cache-directory={tmp_path / 'cache'}"]
        with Server(repositories, *cached, env=store.env) as server:
            assert answer(server, "same") == [1, 2, 3]
        store.stop()
        with Server(repositories, *cached, env=store.env) as server:
            assert answer(server, "same") == answer(server, "here") == [1, 2, 3]
            assert "cannot be reached" in server.log() and store.uri in server.log()
        loose = ["--exit-on-error=false", "--strict-readiness=false"]  # a store that was never read counts all the same
        server = Server(repositories, *poll, *loose, env=store.env, wait=False)
        try:
            assert until(lambda: started_with(server, "here")), server.log()
            refused = server.get("/v2/health/ready")
            assert refused.status == 400, refused
            store.start()
            assert until(lambda: started_with(server, "same")), server.log()
            assert server.get("/v2/health/ready").status == 200
            assert "can be read again" in server.log(), server.log()
        finally:
            server.stop()


def started_with(server: Server, model: str) -> bool:
    try:
        return server.infer(model, BODY).status == 200
    except OSError:
        return False


class Choked(http.server.ThreadingHTTPServer):
    """Between the server and a store: of each object it lets so many bytes through, until it is told to let all."""

    def __init__(self, port: int, let: int):
        super().__init__(("127.0.0.1", 0), Pass)
        self.store, self.let, self.stuck, self.go_on = port, let, threading.Event(), threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Pass(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.store, timeout=60)
        connection.request("GET", self.path, headers=dict(self.headers))
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        self.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if len(body) > self.server.let and not self.server.go_on.is_set():
            self.wfile.write(body[: self.server.let])
            self.wfile.flush()
            self.server.stuck.set()
            self.server.go_on.wait(120)
            return self.connection.close()
        self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def test_power_cut_in_a_download(tmp_path):
    """Killed in the middle of a download, the next start has all of the model or none of it."""
    content = os.urandom(1 << 20)
    with stores.S3(tmp_path / "store") as store:
        store.upload(add(tmp_path / "models", "same"))
        store.put("same/1/weights.bin", content)
        choke = Choked(store.port, 300_000)
        uri = f"s3://http://127.0.0.1:{choke.server_address[1]}/{store.bucket}"
        options = [f"--repository-cache-directory={tmp_path / 'cache'}"]
        try:
            server = Server(uri, *options, env=store.env, wait=False)
            assert choke.stuck.wait(120), server.log()
            server.process.kill()
            server.process.wait(60)
            server.stop()
            left = [p for p in (tmp_path / "cache").rglob("*") if p.is_file() and p.suffix == ".part"]
            assert left, "the kill came too late"
            choke.go_on.set()
            with Server(uri, *options, env=store.env) as server:
                assert answer(server, "same") == [1, 2, 3]
                trees = list((tmp_path / "cache").rglob("weights.bin"))
                assert [p.read_bytes() == content for p in trees] == [True]
        finally:
            choke.go_on.set()
            choke.shutdown()
            choke.server_close()


def test_power_cut_in_a_trace(tmp_path):
    """Killed while it writes traces, the server leaves what can be read, or what the next start replaces whole."""
    file = tmp_path / "trace.json"
    traced = [f"--trace-config=triton,file={file}", "--trace-config=level=TIMESTAMPS", "--trace-config=rate=1"]
    models = add(tmp_path / "models", "same")
    with Server(models, *traced) as server:
        for _ in range(50):
            answer(server, "same")
        server.process.kill()
        server.process.wait(60)
    file.write_bytes(file.read_bytes()[:-7] if file.exists() and file.stat().st_size > 7 else b'[{"id":1,"model_na')
    with Server(models, *traced) as server:
        answer(server, "same")
    assert [e for e in json.loads(file.read_text()) if e.get("model_name") == "same"]


@pytest.fixture
def arm64(tmp_path, monkeypatch):
    """Has the binary for arm64 run under qemu, with a Python for arm64."""
    emulator = shutil.which("qemu-aarch64-static") or ARM64 / "bin" / "qemu-aarch64-static"
    root = ARM64 / "root"
    for path in (Path(emulator), root / "usr" / "bin" / "python3.11", ARM64_BINARY):
        if not path.exists():
            pytest.skip(f"{path} is missing; scripts/arm64.sh brings it")
    # The kernel starts no program of another processor by itself: scripts stand for both.
    for name, program in (("neso", ARM64_BINARY), ("python", root / "usr" / "bin" / "python3.11")):
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\nexec {emulator} -L {root} {program} "$@"\n')
        script.chmod(0o755)
    monkeypatch.setattr(started, "BINARY", tmp_path / "neso")
    return {
        "NESO_PYTHON": str(tmp_path / "python"),
        "PYTHONPATH": str(root / "usr" / "lib" / "python3" / "dist-packages"),
    }


def test_arm64(tmp_path, arm64):
    add(add(tmp_path / "models", "same"), "double", "python")
    with Server(tmp_path / "models", env=arm64) as server:
        assert answer(server, "same") == [1, 2, 3]
        assert answer(server, "double") == [2, 4, 6]
    assert server.process.returncode == 0, server.log()


def test_full_disk_in_a_download(tmp_path):
    """A volume for copies that is full: the start ends with the model, the file and the cause. With more room the next one serves."""
    with Bucket() as store, disk(tmp_path / "cache", "1m") as full:
        models = add(tmp_path / "models", "same")
        (models / "same" / "1" / "weights.bin").write_bytes(bytes(3 << 20))
        store.upload(models)
        options = [f"--repository-cache-directory={full.path}"]
        server = Server(store.uri, *options, env=store.env, wait=False)
        assert server.process.wait(120) == 1
        server.stop()
        last = server.log().splitlines()[-1]
        for word in ("'same'", "same/1/weights.bin", str(full.path), "no space left on device"):
            assert word in last, server.log()
        subprocess.run(["mount", "-o", "remount,size=8m", full.path], check=True)
        with Server(store.uri, *options, env=store.env) as server:
            assert answer(server, "same") == [1, 2, 3]
