"""Looks at what `make release` has left in dist: each file is there, has what it says, and the programs in it are those that were built.

usage: python scripts/release_check.py [DIST [PROGRAMS]]

A wheel's tag, the architecture of a package and the name of an archive are held against the program inside, by the head of its file.
What this machine can run is run.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import platform
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PLATFORMS = [f"{system}-{cpu}" for system in ("linux", "musl", "darwin", "windows") for cpu in ("amd64", "arm64")]
WHEELS = {
    "manylinux_2_17_x86_64.manylinux2014_x86_64": "linux-amd64",
    "manylinux_2_17_aarch64.manylinux2014_aarch64": "linux-arm64",
    "musllinux_1_1_x86_64": "musl-amd64",
    "musllinux_1_1_aarch64": "musl-arm64",
    "macosx_11_0_x86_64": "darwin-amd64",
    "macosx_11_0_arm64": "darwin-arm64",
    "win_amd64": "windows-amd64",
    "win_arm64": "windows-arm64",
}
# How a package is unpacked: the names in an rpm are absolute, and cpio would write to the machine.
PACKAGES = [
    ("deb", 'dpkg-deb -x "$1" .', {"amd64": "_amd64", "arm64": "_arm64"}),
    ("rpm", 'rpm2cpio "$1" | cpio -idm --quiet --no-absolute-filenames', {"amd64": ".x86_64", "arm64": ".aarch64"}),
]
HERE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine())
faults: list[str] = []
checked = 0


def expect(good: bool, fault: str) -> None:
    global checked
    checked += 1
    if not good:
        faults.append(fault)


def machine(program: bytes) -> str:
    """What a program is for: linux-amd64, ..., by the head of the file; one for musl is static."""
    if program[:4] == b"\x7fELF":
        (kind,) = struct.unpack_from("<H", program, 18)
        phoff, _, _, _, size, count = struct.unpack_from("<QQIHHH", program, 32)
        interpreted = any(struct.unpack_from("<I", program, phoff + i * size)[0] == 3 for i in range(count))
        return ("linux-" if interpreted else "musl-") + {62: "amd64", 183: "arm64"}.get(kind, f"machine {kind}")
    if program[:4] == b"\xcf\xfa\xed\xfe":
        (kind,) = struct.unpack_from("<I", program, 4)
        return "darwin-" + {0x01000007: "amd64", 0x0100000C: "arm64"}.get(kind, f"machine {kind:#x}")
    if program[:2] == b"MZ":
        (at,) = struct.unpack_from("<I", program, 60)
        (kind,) = struct.unpack_from("<H", program, at + 4)
        return "windows-" + {0x8664: "amd64", 0xAA64: "arm64"}.get(kind, f"machine {kind:#x}")
    return f"no program, it begins with {program[:4]!r}"


def same(where: str, program: bytes, wanted: str, programs: Path) -> None:
    expect(machine(program) == wanted, f"{where}: expected a program for {wanted}, got one for {machine(program)}")
    built = programs / f"neso-{wanted}{'.exe' * wanted.startswith('windows')}"
    expect(program == built.read_bytes(), f"{where}: another program than {built}")


def wheels(dist: Path, programs: Path) -> None:
    found = {}
    for file in dist.glob("neso-*.whl"):
        tag = file.name.split("-none-")[1].removesuffix(".whl")
        wanted = found[tag] = WHEELS.get(tag, "no platform")
        with zipfile.ZipFile(file) as z:
            expect(z.testzip() is None, f"{file.name}: damaged")
            same(file.name, z.read(f"neso/bin/neso{'.exe' * wanted.startswith('windows')}"), wanted, programs)
            names = [n for n in z.namelist() if not n.endswith("/")]
            (info,) = (n.rsplit("/", 1)[0] for n in names if n.endswith(".dist-info/RECORD"))
            tags = re.findall(r"^Tag: (.*)$", z.read(f"{info}/WHEEL").decode(), re.M)
            expect(sorted(tags) == sorted(f"py3-none-{t}" for t in tag.split(".")), f"{file.name}: its tags are {tags}")
            rows = {r[0]: r[1] for r in csv.reader(io.StringIO(z.read(f"{info}/RECORD").decode()))}
            expect(set(rows) == set(names), f"{file.name}: RECORD lacks or has besides {set(rows) ^ set(names)}")
            for name, sum_ in rows.items():
                is_ = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(z.read(name)).digest()).decode().rstrip("=")
                expect(not sum_ or sum_ == is_, f"{file.name}: {name} is not what RECORD says")
    expect(set(found) == set(WHEELS), f"wheels: missing or besides: {set(found) ^ set(WHEELS)}")
    expect(
        len(list(dist.glob("pytriton*.whl")) + list(dist.glob("neso_pytriton*.whl"))) == 1,
        "no wheel of the name pytriton",
    )


def archives(dist: Path, version: str, programs: Path) -> None:
    for wanted in PLATFORMS:
        top = f"neso-{version}-{wanted}"
        if wanted.startswith("windows"):
            with zipfile.ZipFile(dist / f"{top}.zip") as z:
                program, names = z.read(f"{top}/neso.exe"), z.namelist()
        else:
            with tarfile.open(dist / f"{top}.tar.gz") as t:
                member = t.getmember(f"{top}/neso")
                program, names = t.extractfile(member).read(), t.getnames()
                expect(member.mode & 0o111 == 0o111, f"{top}: neso cannot be executed")
        same(top, program, wanted, programs)
        expect(any(n.endswith("/LICENSE") for n in names), f"{top}: no LICENSE in {names}")
        about = json.loads((dist / f"neso-{version}-{wanted}.spdx.json").read_text())
        expect(about.get("spdxVersion", "").startswith("SPDX-"), f"{top}: no SPDX document")
        expect(
            len(about.get("packages", [])) > 20, f"{top}: an SPDX document of {len(about.get('packages', []))} packages"
        )


def unpacked(command: str, into: Path, file: Path) -> Path:
    subprocess.run(["sh", "-c", command, "sh", file.resolve()], cwd=into, check=True, capture_output=True)
    return into


def packages(dist: Path, version: str, programs: Path) -> None:
    """Debian's and Red Hat's: the program, the unit, the configuration that only root reads."""
    for ending, command, of in PACKAGES:
        for cpu, name in of.items():
            (file,) = dist.glob(f"neso*{version}*{name}.{ending}")
            if shutil.which(command.split()[0]) is None or (ending == "rpm" and shutil.which("cpio") is None):
                print(f"not looked into, for want of {command.split()[0]} or cpio: {file.name}")
                continue
            with tempfile.TemporaryDirectory() as d:
                root = unpacked(command, Path(d), file)
                same(file.name, (root / "usr/bin/neso").read_bytes(), f"linux-{cpu}", programs)
                units = [p for p in root.rglob("neso.service") if p.is_file()]
                expect(len(units) == 1 and "Type=notify" in units[0].read_text(), f"{file.name}: units {units}")
                mode = (root / "etc/neso/neso.conf").stat().st_mode & 0o777
                expect(mode == 0o640, f"{file.name}: neso.conf has mode {mode:o}")


def sums(dist: Path, version: str) -> None:
    """The sums are those of the files, and of all of them; the recipes have the same."""
    lines = dict(reversed(line.split("  ", 1)) for line in (dist / "SHA256SUMS").read_text().splitlines())
    files = {str(p.relative_to(dist)) for p in dist.rglob("*") if p.is_file()}
    outside = {"SHA256SUMS", "provenance.intoto.json"}
    expect(files - outside == set(lines), f"SHA256SUMS: missing or besides: {(files - outside) ^ set(lines)}")
    for name, sum_ in lines.items():
        expect(
            hashlib.sha256((dist / name).read_bytes()).hexdigest() == sum_,
            f"{name}: another SHA-256 than SHA256SUMS says",
        )
    formula = (dist / "homebrew" / "neso.rb").read_text()
    installer = (dist / "winget" / "Nesoserve.Neso.installer.yaml").read_text()
    for p in PLATFORMS:
        if p.startswith("windows"):
            expect(lines[f"neso-{version}-{p}.zip"].upper() in installer, f"winget: not the sum of {p}")
        elif not p.startswith("musl"):
            expect(lines[f"neso-{version}-{p}.tar.gz"] in formula, f"homebrew: not the sum of {p}")


def run(dist: Path, version: str) -> None:
    """The archives for this machine, and their formula's `neso --help`."""
    if sys.platform != "linux" or HERE is None:
        return
    said = set()
    for system in ("linux", "musl"):
        top = f"neso-{version}-{system}-{HERE}"
        with tempfile.TemporaryDirectory() as d:
            unpacked('tar -xzf "$1"', Path(d), dist / f"{top}.tar.gz")
            done = subprocess.run([Path(d) / top / "neso", "--version"], capture_output=True, text=True)
            expect(done.returncode == 0, f"{top}: neso --version: {done.stderr}")
            said.add(done.stdout)
    expect(len(said) == 1, f"the programs say that they are {said}")


def main() -> int:
    dist, programs = (Path(a) for a in (*sys.argv[1:], *("dist", "build/release/programs")[len(sys.argv) - 1 :]))
    (archive,) = dist.glob("neso-*-linux-amd64.tar.gz")
    version = archive.name.removeprefix("neso-").removesuffix("-linux-amd64.tar.gz")
    wheels(dist, programs)
    archives(dist, version, programs)
    packages(dist, version, programs)
    sums(dist, version)
    run(dist, version)
    for fault in faults:
        print(f"release: {fault}", file=sys.stderr)
    print(f"release {version}: {checked} checks, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
