"""A disk of its own for one test, which can be full."""

from __future__ import annotations

import contextlib
import os
import subprocess

import pytest


class Disk:
    def __init__(self, path):
        self.path, self.filler = path, path / ".filler"

    def fill(self):
        """Takes all the room that is left."""
        with self.filler.open("ab", buffering=0) as f:
            for size in (65536, 512, 1):
                with contextlib.suppress(OSError):
                    while True:
                        f.write(b"\0" * size)

    def free(self):
        self.filler.unlink()


@contextlib.contextmanager
def disk(path, size="8m"):
    """A small file system in memory at path. Only root may mount one."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "neso-e2e", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip(
            "a disk that is full takes a file system of its own, which only root may mount, and not in every container"
        )
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
