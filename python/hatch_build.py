"""Puts the server's binary into the wheel: builds ``cmd/neso`` for the platform of the wheel.

``NESO_BINARY`` names a binary that is built already; ``GOOS`` and ``GOARCH`` build for another platform,
``NESO_LIBC=musl`` for Linux with musl instead of glibc.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Platform tags of wheels. The binary for glibc loads it, in order to open C libraries at run time for backends that
# need them. The binary for musl is static, and opens none.
TAGS = {
    ("linux", "amd64"): "manylinux_2_17_x86_64.manylinux2014_x86_64",
    ("linux", "arm64"): "manylinux_2_17_aarch64.manylinux2014_aarch64",
    ("musl", "amd64"): "musllinux_1_1_x86_64",
    ("musl", "arm64"): "musllinux_1_1_aarch64",
    ("darwin", "amd64"): "macosx_11_0_x86_64",
    ("darwin", "arm64"): "macosx_11_0_arm64",
    ("windows", "amd64"): "win_amd64",
    ("windows", "arm64"): "win_arm64",
}


class BinaryHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the binary before the wheel is packed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the binary and the platform's tag; editable installs get it in place."""
        root = pathlib.Path(self.root)
        go = os.environ.get("GO") or shutil.which("go")
        if go is None and not os.environ.get("NESO_BINARY"):
            raise RuntimeError(
                "Building neso needs Go (https://go.dev/dl), or NESO_BINARY with the path of a built binary"
            )
        goos, goarch = self._platform(go)
        libc = os.environ.get("NESO_LIBC", "")
        if libc not in ("", "glibc", "musl"):
            raise RuntimeError(f"NESO_LIBC: expected glibc or musl, got {libc!r}")
        system = "musl" if libc == "musl" and goos == "linux" else goos
        name = "neso.exe" if goos == "windows" else "neso"
        if version == "editable":
            target = root / "neso" / "bin" / name
            target.parent.mkdir(exist_ok=True)
        else:
            self._folder = tempfile.TemporaryDirectory(prefix="neso-wheel-")
            target = pathlib.Path(self._folder.name) / name
        given = os.environ.get("NESO_BINARY")
        if given:
            shutil.copyfile(given, target)
        else:
            self._build(str(go), target, goos, goarch, system)
        target.chmod(0o755)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{TAGS[system, goarch]}"
        if version != "editable":
            build_data["force_include"][str(target)] = f"neso/bin/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes what was built."""
        folder = getattr(self, "_folder", None)
        if folder is not None:
            folder.cleanup()

    def _platform(self, go: Any) -> tuple[str, str]:
        if go is None:
            import platform

            system = platform.system().lower()
            machine = platform.machine().lower()
            return system, {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
        out = subprocess.run([go, "env", "GOOS", "GOARCH"], check=True, capture_output=True, text=True).stdout.split()
        return out[0], out[1]

    def _build(self, go: str, target: pathlib.Path, goos: str, goarch: str, system: str) -> None:
        source = pathlib.Path(self.root).parent
        if not (source / "cmd" / "neso").is_dir():
            raise RuntimeError("Building neso needs the whole repository: the Go sources lie beside python/")
        found = re.search(r'"(.+)"', (pathlib.Path(self.root) / "neso" / "_version.py").read_text().split("=")[1])
        flags = f"-s -w -X github.com/nesoserve/neso/internal/engine.Version={found[1] if found else 'dev'}"
        environment = {**os.environ, "CGO_ENABLED": "0", "GOOS": goos, "GOARCH": goarch}
        subprocess.run(
            # The tag as in the Makefile: without it the binary is 10 MB larger.
            [
                go,
                "build",
                "-trimpath",
                f"-pgo={os.environ.get('PGO', 'off')}",
                "-tags",
                "grpcnotrace,nopurego" if system == "musl" else "grpcnotrace",
                "-ldflags",
                flags,
                "-o",
                str(target),
                "./cmd/neso",
            ],
            cwd=source,
            env=environment,
            check=True,
        )
