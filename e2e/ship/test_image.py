"""Container images: the project's own, those of `neso image build`, and both started as a container starts them."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as http
from repository import python_model, until
from server import BINARY, ROOT, free_port

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "")
# A container's file systems around a root that cannot be written, and nothing of this machine's environment.
BOX = """
root=$1; shift
mount --make-rprivate /; mount --bind $root $root; mount -t proc proc $root/proc
mount -t tmpfs tmpfs $root/tmp; mount -t tmpfs tmpfs $root/dev
for d in null zero urandom random; do touch $root/dev/$d; mount --bind /dev/$d $root/dev/$d; done
mkdir $root/dev/shm; mount -t tmpfs -o size=64m tmpfs $root/dev/shm; mount -o remount,ro,bind $root
exec env -i "$@"
"""


def unpack(file: Path, into: Path) -> dict:
    """The configuration of an image, whose files are then in a directory."""
    into.chmod(0o755)  # its root, for the user of the image
    with tarfile.open(file) as t:
        manifest = json.load(t.extractfile("manifest.json"))[0]
        config = json.load(t.extractfile(manifest["Config"]))
        for layer in manifest["Layers"]:
            with tarfile.open(fileobj=t.extractfile(layer), mode="r:gz") as files:
                files.extractall(into, filter="tar")
    for name in ("proc", "dev", "sys"):
        (into / name).mkdir(exist_ok=True)
    return config["config"]


def image(*args: str | Path, **env: str) -> subprocess.CompletedProcess:
    command = [BINARY, "image", "build", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **env})


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """neso-python as `make images` makes it, of the newest packages, with this binary."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb") and MACHINE):
        pytest.skip("the project's images are made of Debian's packages, by apt-get")
    out = tmp_path_factory.mktemp("images")
    (out / "programs").mkdir()
    shutil.copy(BINARY, out / "programs" / f"neso-{MACHINE}")
    command = ["go", "run", "./internal/cli/image/release", f"-out={out}", f"-programs={out / 'programs'}", "-update"]
    command += [f"-lock={out / 'lock'}", f"-architectures={MACHINE}", "-kinds=neso-python", f"-python={sys.executable}"]
    r = subprocess.run([*command, "-version=1.2.3"], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert r.returncode == 0, r.stdout + r.stderr
    return out / f"neso-python-{MACHINE}.tar"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    repository = tmp_path_factory.mktemp("models")
    python_model(repository, "plus", init="import iniconfig, os; assert os.getuid() == 65532", add=1)
    return repository


@pytest.fixture(scope="module")
def built(base, models, tmp_path_factory):
    out = tmp_path_factory.mktemp("built")
    (out / "requirements.txt").write_text("iniconfig==2.1.0\n")
    r = image(
        "--base", base, "--model-repository", models, "-f", out / "requirements.txt", "-o", out / "a.tar", "--env=A=b"
    )
    assert r.returncode == 0, r.stderr
    return out / "a.tar", r.stdout


def test_a_container_serves(built, tmp_path):
    if os.getuid() != 0 or not shutil.which("unshare"):
        pytest.skip("a container's namespaces and mounts are for root, and need unshare")
    config = unpack(built[0], tmp_path)
    assert config["User"] == "65532:65532" and config["Entrypoint"] == ["/usr/bin/neso"], config
    assert "A=b" in config["Env"] and config["Labels"]["io.neso.version"] == "1.2.3", config
    port = free_port()
    arguments = ["serve", "--model-repository=/models", "--allow-grpc=false", "--allow-metrics=false"]
    arguments += ["--http-address=127.0.0.1", f"--http-port={port}"]
    inside = ["/usr/sbin/chroot", f"--userspec={config['User']}", str(tmp_path), *config["Entrypoint"], *arguments]
    box = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", BOX, "sh", str(tmp_path)]
    with open(tmp_path / "log", "w") as log:
        p = subprocess.Popen([*box, *config["Env"], *inside], stdout=log, stderr=log)
    try:
        client = http.InferenceServerClient(f"127.0.0.1:{port}")

        def ready():
            assert p.poll() is None, (tmp_path / "log").read_text()
            try:
                return client.is_server_ready()
            except OSError:
                return False

        assert until(ready, 60), (tmp_path / "log").read_text()
        tensor = http.InferInput("INPUT0", [1, 3], "FP32")
        tensor.set_data_from_numpy(np.array([[1, 2, 3]], np.float32))
        assert client.infer("plus", [tensor]).as_numpy("OUTPUT0").tolist() == [[2, 3, 4]]
        # The server is the first process, whom only its own handlers end.
        (inner,) = Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()
        os.kill(int(inner), signal.SIGTERM)
        assert p.wait(30) == 0, (tmp_path / "log").read_text()
    finally:
        p.kill()
        p.wait()
    assert "READY" in (tmp_path / "log").read_text()


def test_what_an_image_has(built, tmp_path):
    unpack(built[0], tmp_path)
    assert os.readlink(tmp_path / "opt/tritonserver/bin/tritonserver") == "/usr/bin/neso"
    assert not (tmp_path / "bin/sh").exists() and not (tmp_path / "usr/bin/apt").exists()
    packages = {}
    for file in (tmp_path / "usr/share/sbom").iterdir():
        document = json.loads(file.read_text())
        assert document["spdxVersion"] == "SPDX-2.3"
        packages |= {p["name"]: p["versionInfo"] for p in document["packages"]}
    assert packages["iniconfig"] == "2.1.0"
    assert {"numpy", "libc6", "stdlib", "google.golang.org/grpc"} <= packages.keys(), packages
    status = (tmp_path / "var/lib/dpkg/status.d/libssl3").read_text()
    assert "Package: libssl3" in status and "Version: " in status


def test_the_same_input_gives_the_same_digest(base, models, built, tmp_path):
    (tmp_path / "requirements.txt").write_text("iniconfig==2.1.0\n")
    again = [
        image(
            "--base",
            base,
            "--model-repository",
            models,
            "-f",
            tmp_path / "requirements.txt",
            "-o",
            tmp_path / name,
            *more,
        )
        for name, more in (("b.tar", ["--env=A=b"]), ("c", ["--env=A=c"]))
    ]
    assert [r.returncode for r in again] == [0, 0], again
    assert again[0].stdout == built[1] != again[1].stdout
    assert (
        json.loads((tmp_path / "c" / "index.json").read_text())["manifests"][0]["platform"]["architecture"] == MACHINE
    )


def test_bad_input(base, models, tmp_path):
    (tmp_path / "requirements.txt").write_text("this-package-is-nowhere==1\n")
    (tmp_path / "file").write_text("")
    python_model(tmp_path / "wrong", "m", extra="max_batch_size: -3")
    python_model(tmp_path / "links", "m")
    (tmp_path / "links/m/1/secret").symlink_to("/etc/hostname")
    to = ["-o", tmp_path / "x.tar"]
    other = {"amd64": "arm64", "arm64": "amd64"}[MACHINE]
    for args, want in [
        ([], "--base is missing"),
        (["--base", base], "--output or --push is missing"),
        (["--base", base, *to, "--platform=windows/amd64"], 'expected linux/amd64 or linux/arm64, got "windows/amd64"'),
        (["--base", base, *to, "--platform=linux/amd64,linux/arm64"], "a file holds one platform"),
        (["--base", base, *to, f"--platform=linux/{other}"], f"is for linux/{MACHINE}, not for linux/{other}"),
        (["--base", tmp_path / "nowhere.tar", *to], "no such file"),
        (["--base", tmp_path / "file", *to], "the image"),
        (["--base", base, *to, "--model-repository", tmp_path / "nowhere"], "no such file"),
        (["--base", base, *to, "--model-repository", tmp_path / "file"], "expected a directory"),
        (["--base", base, *to, "--model-repository", tmp_path / "wrong"], "max_batch_size"),
        (["--base", base, *to, "--model-repository", tmp_path / "links"], 'the link leads to "/etc/hostname"'),
        (["--base", base, *to, "-f", tmp_path / "nowhere.txt"], "no such file"),
        (["--base", base, *to, "-f", tmp_path / "requirements.txt"], "pip could not install what"),
        (["--base", base, *to, "-f", tmp_path / "requirements.txt", "--python=no-such-python"], "no-such-python"),
        (["--base", base, *to, "--binary", tmp_path / "file"], "is no program for Linux"),
        (["--base", base, "-o", tmp_path / "no/where.tar"], "no such file"),
        (["--base", base, "--push", "127.0.0.1:1/models:1"], "connection refused"),
    ]:
        r = image(*args)
        assert r.returncode == 1 and want in r.stderr, (args, r)
    assert "SOURCE_DATE_EPOCH" in image("--base", base, *to, SOURCE_DATE_EPOCH="yesterday").stderr
    assert not (tmp_path / "x.tar").exists() and not list(tmp_path.glob(".image*"))
    r = image("--base", base, *to, "--model-repository", tmp_path / "wrong", "--unchecked")
    assert r.returncode == 0 and (tmp_path / "x.tar").exists(), r.stderr
