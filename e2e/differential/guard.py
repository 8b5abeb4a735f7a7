"""Ends the servers of a run that is killed. As a program: reads what there is from a driver, until that is gone.

A driver that ends well ends its servers itself. Of one that gets SIGKILL nothing runs any more, and the death signal of
Linux is tied to the thread that starts a process. So a process of its own, in a session of its own, waits for the end
of a pipe that only the driver has.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

# The server begins when the guard knows it; when the driver dies before, there is no line to read.
HELD = ["/bin/sh", "-c", 'read line && exec "$@" </dev/null', "sh"]


class Guard:
    """The guard of this process; begins with the first server."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start(self, command: list[str], log: BinaryIO, environment: dict[str, str], folder: Path) -> subprocess.Popen:
        """Starts a server, the first of a process group, which ends with this process at the latest."""
        process = subprocess.Popen(
            [*HELD, *command], stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, cwd=folder,
            start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None
        self.tell(group=process.pid)
        process.stdin.write(b"\n")
        process.stdin.close()
        return process

    def tell(self, **what: Any) -> None:
        """group: a process group that lives; ended: one that does not; folder, files: what is to be removed in the end."""
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
                )
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()


GUARD = Guard()

RECORD = "DIFFERENTIAL_RECORD"  # where models write down what they saw; all processes of a server have it
PATIENCE_S = 10.0


def belonging(folder: str) -> list[int]:
    """The processes that write below a folder: servers that begin sessions of their own are in no group of ours."""
    mark = f"{RECORD}={folder}/".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if any(line.startswith(mark) for line in path.read_bytes().split(b"\0")):
                found.append(int(path.parent.name))
    return [pid for pid in found if pid != os.getpid()]


def end_all(folder: str) -> None:
    """Kills them, and those that they start meanwhile."""
    end = time.monotonic() + PATIENCE_S
    while (pids := belonging(folder)) and time.monotonic() < end:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)  # polling the kernel: whose child they are is not known


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    left: set[str] = set()
    for line in sys.stdin:
        what = json.loads(line)
        if "group" in what:
            groups.add(what["group"])
        groups.discard(what.get("ended", 0))
        left |= {what[key] for key in ("folder", "files") if key in what}
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    for pattern in left:
        end_all(pattern)
    for pattern in left:
        for path in glob.glob(pattern):
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(path)


if __name__ == "__main__":
    main()
