"""Backend libraries, compiled from the sources beside this file, and models of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).parent / "backends"
HOST = ROOT / "build" / "lib" / "neso-host"
IO = """input [ { name: "IN0" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "OUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
"""


def compile(source, to: Path, *options: str) -> Path:
    """Compiles a file of backends/, or a text of C, to a library."""
    to.parent.mkdir(parents=True, exist_ok=True)
    path = SOURCES / source if (SOURCES / source).suffix in (".c", ".cc") else None
    if path is None:
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
        f"-I{SOURCES}",
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


def have_host() -> None:
    """Makes the C library and neso-host where they are not there."""
    if not HOST.exists():
        subprocess.run(["make", "--no-print-directory", "capi"], cwd=ROOT, check=True)
    assert shutil.which("gcc") and shutil.which("g++"), "the tests of the C interfaces need a C and a C++ compiler"
