"""The programs of the pages on clients in C++, Java and Rust print what the pages say, also over TLS and with a key.

With NESO_FULL=1 the stubs of gRPC are compiled and run too, a minute of processor time; else those of C++ have their types checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess

import pytest
import trustme
from repository import until
from server import ROOT, Server

USE = ROOT / "docs" / "use"
FULL = os.environ.get("NESO_FULL") == "1"
GSON = "/usr/share/java/gson.jar"
KEY = "neso_key_of_the_pages"
MODELS = ["add_sub", "words", "sentiment"]


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """What a program is told of each server: a plain one, and one with TLS and keys."""
    d = tmp_path_factory.mktemp("secured")
    authority = trustme.CA()
    cert = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(d / "ca.pem")
    cert.private_key_pem.write_to_path(d / "key.pem")
    cert.cert_chain_pems[0].write_to_path(d / "cert.pem")
    entry = {
        "name": "pages",
        "sha256": hashlib.sha256(KEY.encode()).hexdigest(),
        "scopes": ["infer"],
        "models": MODELS + ["nobody"],
    }
    (d / "keys.json").write_text(json.dumps({"health": "keys", "keys": [entry]}))
    options = ["--model-control-mode=explicit", *[f"--load-model={m}" for m in MODELS]]
    secured = [
        *options, f"--http-tls-cert={d}/cert.pem", f"--http-tls-key={d}/key.pem", "--grpc-use-ssl=true",
        f"--grpc-server-cert={d}/cert.pem", f"--grpc-server-key={d}/key.pem", f"--auth-file={d}/keys.json",
    ]  # fmt: skip
    models = ROOT / "examples" / "models"
    with Server(models, *secured, wait=False) as t, Server(models, *options) as s:
        assert until(lambda: "Started Metrics Service" in t.log()), t.log()
        plain = {"NESO_URL": f"http://{s.http}", "NESO_GRPC": s.grpc}
        tls = {
            "NESO_URL": f"https://localhost:{t.http_port}",
            "NESO_GRPC": f"localhost:{t.grpc_port}",
            "NESO_CA": str(d / "ca.pem"),
            "NESO_KEY": KEY,
        }
        yield plain, tls


def blocks(page):
    return re.findall(r"^```(\w+)\n(.*?)^```", (USE / page).read_text(), re.M | re.S)


def promised(page, command, nth=0):
    """The lines of the page's console behind a command; the nth console that has it."""
    text = [t for name, t in blocks(page) if name == "console" and f"$ {command}\n" in t][nth]
    return text.split(f"$ {command}\n")[1]


def shell(command, cwd, **env):
    environment = {**os.environ, **env}
    return subprocess.run(
        ["sh", "-euc", command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=600
    )


def built(command, cwd, **env):
    r = shell(command, cwd, **env)
    assert r.returncode == 0, r.stdout + r.stderr


def check(servers, page, command, cwd, run=None, nth=0):
    """The program, with both servers, and with a key that is wrong; run is what the command does once all is built."""
    shown, command = promised(page, command, nth), run or command
    for env in servers:
        r = shell(command, cwd, **env)
        assert (r.returncode, r.stdout, r.stderr) == (0, shown, ""), r.stderr
    r = shell(command, cwd, **{**servers[1], "NESO_KEY": "wrong"})
    assert r.returncode != 0 or "ready false" in r.stdout, r.stdout
    assert "sum" not in r.stdout, r.stdout


def needs(*tools, files=()):
    missing = [t for t in tools if not shutil.which(t)] + [f for f in files if not os.path.exists(f)]
    return pytest.mark.skipif(
        bool(missing), reason=f"there is no {', '.join(missing)}: scripts/setup.sh installs it on Debian"
    )


@needs("g++", files=["/usr/include/nlohmann/json.hpp", "/usr/include/x86_64-linux-gnu/curl/curl.h"])
def test_cpp(servers, tmp_path):
    (tmp_path / "client.cc").write_text(next(t for n, t in blocks("cpp-client.md") if n == "cpp"))
    built("g++ -std=c++17 -Wall -Wextra -Werror -o client client.cc -lcurl", tmp_path)
    check(servers, "cpp-client.md", "./client", tmp_path)


@needs("g++", "protoc", "grpc_cpp_plugin", "pkg-config")
def test_cpp_grpc(servers, tmp_path):
    page = "cpp-client.md"
    (tmp_path / "grpc.cc").write_text([t for n, t in blocks(page) if n == "cpp"][1])
    (tmp_path / "bin").symlink_to(ROOT / "bin")
    [text] = [t for n, t in blocks(page) if n == "console" and "protoc " in t]
    proto, stubs, compile_, run = re.findall(r"^\$ (.*)$", text, re.M)
    built(f"{proto}\n{stubs}", tmp_path)
    built("g++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only grpc.cc", tmp_path)
    if not FULL:
        pytest.skip("the stubs are compiled, and the program is run, with NESO_FULL=1 only")
    built(compile_, tmp_path)
    check(servers, page, run, tmp_path)


@needs("java", files=[GSON])
def test_java(servers, tmp_path):
    (tmp_path / "Client.java").write_text(next(t for n, t in blocks("java-client.md") if n == "java"))
    built(f"javac -cp {GSON} Client.java", tmp_path)
    check(servers, "java-client.md", f"java -cp {GSON} Client.java", tmp_path, f"java -cp {GSON}:. Client")


@needs("cargo")
def test_rust(servers, tmp_path):
    """The crates are those of rust-client.lock."""
    (tmp_path / "src").mkdir()
    for name, file in (("toml", "Cargo.toml"), ("rust", "src/main.rs")):
        (tmp_path / file).write_text(next(t for n, t in blocks("rust-client.md") if n == name))
    shutil.copy(ROOT / "e2e" / "ship" / "rust-client.lock", tmp_path / "Cargo.lock")
    fetched = shell("cargo fetch --quiet --locked", tmp_path)
    if fetched.returncode != 0:
        assert "lock file" not in fetched.stderr, fetched.stderr
        pytest.skip(f"the crates cannot be had: {fetched.stderr.strip()[:200]}")
    env = {"CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_INCREMENTAL": "0", "RUSTFLAGS": "-D warnings"}
    built("cargo build --quiet --offline --locked", tmp_path, **env)
    check(servers, "rust-client.md", "cargo run --quiet", tmp_path, "target/debug/client")


full = pytest.mark.skipif(not FULL, reason="the stubs of gRPC are made, and the program is run, with NESO_FULL=1 only")


@full
@needs("java", "mvn")
def test_java_grpc(servers, tmp_path):
    page = "java-client.md"
    for directory in ("proto", "java"):
        (tmp_path / "src" / "main" / directory).mkdir(parents=True)
    (tmp_path / "bin").symlink_to(ROOT / "bin")
    (tmp_path / "pom.xml").write_text(next(t for n, t in blocks(page) if n == "xml"))
    (tmp_path / "src" / "main" / "java" / "Grpc.java").write_text([t for n, t in blocks(page) if n == "java"][1])
    [text] = [t for n, t in blocks(page) if n == "console" and "neso proto" in t]
    proto, build, run = re.findall(r"^\$ (.*)$", text, re.M)
    built(proto, tmp_path)
    r = shell(build, tmp_path)
    if "Could not transfer artifact" in r.stdout + r.stderr or "Unknown host" in r.stdout + r.stderr:
        pytest.skip(f"the artifacts cannot be had: {(r.stdout + r.stderr).strip()[:200]}")
    assert r.returncode == 0, r.stdout + r.stderr
    check(servers, page, run, tmp_path)


@full
@needs("cargo", "protoc")
def test_rust_grpc(servers, tmp_path):
    """The crates are those of rust-grpc.lock."""
    page = "rust-client.md"
    (tmp_path / "src").mkdir()
    (tmp_path / "bin").symlink_to(ROOT / "bin")
    rust = [t for n, t in blocks(page) if n == "rust"]
    (tmp_path / "build.rs").write_text(rust[1])
    (tmp_path / "src" / "main.rs").write_text(rust[2])
    (tmp_path / "Cargo.toml").write_text([t for n, t in blocks(page) if n == "toml"][1])
    shutil.copy(ROOT / "e2e" / "ship" / "rust-grpc.lock", tmp_path / "Cargo.lock")
    built("bin/neso proto > inference.proto", tmp_path)
    fetched = shell("cargo fetch --quiet --locked", tmp_path)
    if fetched.returncode != 0:
        assert "lock file" not in fetched.stderr, fetched.stderr
        pytest.skip(f"the crates cannot be had: {fetched.stderr.strip()[:200]}")
    env = {"CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_INCREMENTAL": "0", "RUSTFLAGS": "-D warnings"}
    built("cargo build --quiet --offline --locked", tmp_path, **env)
    check(servers, page, "cargo run --quiet", tmp_path, "target/debug/grpc", nth=1)
