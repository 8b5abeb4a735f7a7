"""Repositories in object stores: real servers of the three kinds, the built binary."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from repository import X, answer, ensemble, python_model, until
from server import ROOT, Server, free_port
from stores import AZURE_ACCOUNT, AZURE_KEY, AZURITE, CLEAN, GCS, S3, Azure

KINDS = {"s3": S3, "gs": GCS, "as": Azure}


def index(server):
    return {
        (m["name"], m.get("version")): (m.get("state"), m.get("reason", ""))
        for m in server.post("/v2/repository/index").json
    }


@pytest.fixture(scope="module", params=KINDS)
def store(request, tmp_path_factory):
    if request.param == "as" and not AZURITE.exists():
        pytest.skip("azurite is not installed: scripts/setup.sh installs it where npm is")
    with KINDS[request.param](tmp_path_factory.mktemp(request.param)) as s:
        yield s


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with S3(tmp_path_factory.mktemp("s3only")) as s:
        yield s


def answers(server, model, value):
    reply = server.infer(model, X)
    return reply.status == 200 and reply.json["outputs"][0]["data"] == [value]


def serve(store, path, *options, env=None, **kw):
    return Server(f"{store.uri}/{path}", *options, env={**CLEAN, **store.env, **(env or {})}, **kw)


def test_serves_and_follows_a_bucket(store, tmp_path):
    """Models, an ensemble with an empty version directory, a large file in ranges, then changes."""
    local = tmp_path / "models"
    python_model(local, "m", add=1)
    ensemble(local, "e", "m", "m")
    large = os.urandom(20 << 20)
    (local / "m" / "1" / "weights & more+.bin").write_bytes(large)
    store.upload(local, "a/b/")
    cache = tmp_path / "cache"
    options = ["--model-control-mode=poll", "--repository-poll-secs=1", f"--repository-cache-directory={cache}"]
    with serve(store, "a//b/", *options) as s:
        assert answer(s, "m") == 2 and answer(s, "e") == 3
        (copy,) = cache.glob("*/trees-*/*/m/1/weights & more+.bin")
        assert copy.read_bytes() == large
        store.put("a/b/m/1/model.py", (local / "m" / "1" / "model.py").read_bytes().replace(b"+ 1", b"+ 7"))
        assert until(lambda: answer(s, "m") == 8), s.log()
        store.put("a/b/m/2/model.py", (local / "m" / "1" / "model.py").read_bytes().replace(b"+ 1", b"+ 9"))
        assert until(lambda: answer(s, "m") == 10), s.log()
        store.put("a/b/m/2/model.py", b"raise Exception('half written')")
        assert until(lambda: "half written" in index(s)[("m", "2")][1]), s.log()
        assert answer(s, "m") == 10
        store.delete("a/b/m/2/model.py")
        assert until(lambda: answer(s, "m") == 8), s.log()
    assert not list(cache.glob("*/trees-*")) and list(cache.glob("*/objects/m/*"))


def test_a_bucket_that_goes_takes_nothing_along(store, tmp_path):
    python_model(tmp_path / "models", "m", add=1)
    store.upload(tmp_path / "models", "gone/")
    with serve(store, "gone", "--model-control-mode=poll", "--repository-poll-secs=1") as s:
        store.process.send_signal(signal.SIGSTOP)  # it hangs, as a network that drops packets does
        try:
            assert answer(s, "m") == 2
            assert index(s)[("m", "1")][0] == "READY"
        finally:
            store.process.send_signal(signal.SIGCONT)
        store.stop()
        try:
            assert until(lambda: "cannot be read" in s.log()), s.log()
            assert answer(s, "m") == 2 and s.get("/v2/health/ready").status == 200
            assert index(s)[("m", "1")][0] == "READY"
        finally:
            store.start()
        # What has changed meanwhile is taken once it is back.
        python_model(tmp_path / "models", "m", add=10)
        store.upload(tmp_path / "models", "gone/")
        # Until all of it is there, the model may be gone, or not be whole.
        assert until(lambda: answers(s, "m", 11)), s.log()
        assert until(lambda: "can be read again" in s.log()), s.log()
        # Once for each time that it went, not with each look.
        log = s.log()
        assert log.count("cannot be read") <= log.count("can be read again") + 1, log


def test_explicit_mode_and_restart_from_the_cache(store, tmp_path):
    python_model(tmp_path / "models", "m", add=1)
    store.upload(tmp_path / "models", "explicit/")
    options = ["--model-control-mode=explicit", f"--repository-cache-directory={tmp_path / 'cache'}"]
    with serve(store, "explicit", *options) as s:
        assert ("m", None) in index(s)
        assert s.post("/v2/repository/models/m/load").status == 200
        assert answer(s, "m") == 2
        r = s.post("/v2/repository/models/nope/load")
        assert r.status == 500 and "failed to poll model 'nope': model not found in any model repository" in r.error
        kept = {p: p.stat().st_ino for p in (tmp_path / "cache").glob("*/objects/m/*")}
        s.process.kill()
        s.process.wait(60)
    assert kept and list((tmp_path / "cache").glob("*/trees-*"))
    with serve(store, "explicit", *options, "--load-model=m") as s:
        assert answer(s, "m") == 2
        assert kept == {p: p.stat().st_ino for p in (tmp_path / "cache").glob("*/objects/m/*")}
        assert len(list((tmp_path / "cache").glob("*/trees-*"))) == 1  # what the killed one left is gone


def test_credentials_of_paths(store, tmp_path):
    python_model(tmp_path / "models", "m", add=1)
    store.upload(tmp_path / "models", "secret/")
    file = tmp_path / "credentials.json"
    key = {
        "s3": lambda: {"secret_key": store.secret, "key_id": store.key, "region": store.region},
        "as": lambda: {"account_str": AZURE_ACCOUNT, "account_key": AZURE_KEY},
        "gs": lambda: "",
    }
    scheme = store.uri[:2]
    file.write_text(json.dumps({scheme: {"": key[scheme](), f"{scheme}://other": key[scheme]()}}))
    env = {**CLEAN, "TRITON_CLOUD_CREDENTIAL_PATH": str(file)}
    if scheme == "gs":
        env |= store.env
    if scheme == "s3":
        store.auth(0)
    try:
        with Server(f"{store.uri}/secret", env=env) as s:
            assert answer(s, "m") == 2
        file.write_text(json.dumps({scheme: {f"{scheme}://other": key[scheme]()}}))
        s = Server(f"{store.uri}/secret", env=env, wait=False)
        assert s.process.wait(180) == 1
        assert f"Cannot match credential for path  {store.uri}/secret" in s.log()
    finally:
        if scheme == "s3":
            store.auth(10_000)


def test_wrong_keys_are_refused(s3, tmp_path):
    python_model(tmp_path / "models", "m", add=1)
    s3.upload(tmp_path / "models", "keys/")
    s3.auth(0)
    try:
        with serve(s3, "keys") as s:
            assert answer(s, "m") == 2
        for env in ({"AWS_SECRET_ACCESS_KEY": "wrong"}, {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}):
            s = serve(s3, "keys", env=env, wait=False)
            assert s.process.wait(180) == 1
            assert "Unable to create S3 filesystem client. Check account credentials. Exception: '" in s.log(), s.log()
    finally:
        s3.auth(10_000)
    s = Server(f"s3://http://127.0.0.1:{s3.port}/nobucket/x", env={**CLEAN, **s3.env}, wait=False)
    assert s.process.wait(180) == 1 and "Exception: 'NoSuchBucket'" in s.log(), s.log()


def test_names_that_lead_out(s3, tmp_path):
    python_model(tmp_path / "models", "good", add=1)
    python_model(tmp_path / "models", "evil", add=1)
    s3.upload(tmp_path / "models", "out/")
    for name in ("out/evil/../../../../../tmp/escaped", "out/evil//x", "out/..\\evil/1/x", "out/evil/1/a\\..\\b"):
        s3.put(name, b"x")
    with serve(s3, "out", "--exit-on-error=false", "--strict-readiness=false") as s:
        assert answer(s, "good") == 2
        assert "holds an object whose name is no path of a file" in index(s)[("evil", None)][1]


def test_checksums_are_held(s3, tmp_path):
    """What the store says of the content is compared; moto keeps what the uploader said."""
    python_model(tmp_path / "models", "m", add=1)
    s3.upload(tmp_path / "models", "sums/")
    for algorithm in ("CRC32", "SHA1", "SHA256"):
        s3.put("sums/m/1/" + algorithm, os.urandom(100_000), ChecksumAlgorithm=algorithm)
    with serve(s3, "sums") as s:
        assert answer(s, "m") == 2


def test_the_example_of_the_docs(tmp_path):
    text = (ROOT / "docs" / "models" / "cloud-repositories.md").read_text()
    (script,) = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    http, store = free_port(), free_port()
    ports = f"--http-port={http} --grpc-port={free_port()} --metrics-port={free_port()} --http-address=127.0.0.1"
    script = script.replace("localhost:8000", f"127.0.0.1:{http}").replace("9000", str(store))
    script = script.replace("--model-control-mode=poll", f"--model-control-mode=poll {ports}")
    env = {**os.environ, **CLEAN, "NESO_PYTHON": sys.executable}
    r = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n" + script],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert '"name":"digits"' in r.stdout, r.stdout + r.stderr
