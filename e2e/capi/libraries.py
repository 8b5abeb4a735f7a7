"""Backend libraries, compiled from the sources beside this file, and models of them."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

from server import descendants

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).parent / "backends"
HOST = ROOT / "build" / "lib" / "neso-host"
IO = """input [ { name: "IN0" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "OUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
"""


def compile(source, to: Path, *options: str) -> Path:
    """Compiles a file of backends/ or, with its folder, of another one, or a text of C, to a library."""
    to.parent.mkdir(parents=True, exist_ok=True)
    path = (SOURCES.parent if "/" in source else SOURCES) / source
    if "\n" in source:
        path = to.with_suffix(".c")
        path.write_text(source)
    compiler = "g++" if path.suffix == ".cc" else "gcc"
    command = [
        compiler,
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{ROOT / 'include'}",
        f"-I{SOURCES if path.parent == to.parent else path.parent}",
    ]
    subprocess.run([*command, "-o", to, path, *options, "-lpthread"], check=True)
    return to


def backend(directory: Path, name: str, source, *options: str) -> Path:
    """A backend of that name in a backend directory."""
    return compile(source, directory / name / f"libtriton_{name}.so", *options)


def model(repository: Path, name: str, of: str, extra: str = "", io: str = IO, batch: int = 8) -> Path:
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(f'backend: "{of}"\nmax_batch_size: {batch}\n{io}{extra}')
    return folder


def hosts(pid: int) -> list[int]:
    """The processes of neso-host that a server has."""
    found = []
    for p in descendants(pid):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if b"neso-host" in Path(f"/proc/{p}/cmdline").read_bytes():
                found.append(p)
    return found


def have_host() -> None:
    """Makes the C library and neso-host where they are not there."""
    if not HOST.exists():
        subprocess.run(["make", "--no-print-directory", "capi"], cwd=ROOT, check=True)
    assert shutil.which("gcc") and shutil.which("g++"), "the tests of the C interfaces need a C and a C++ compiler"
