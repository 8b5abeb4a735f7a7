"""What a killed server had no time to remove: its private directories, such as that of the socket for RemoteTriton.

The next server would remove them; the process that started the killed one need not wait for that.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import stat

# How the names of such directories begin, and the file in each that its server keeps locked.
PREFIX, LOCK = "neso-", ".lock"


def sweep(parent: str) -> None:
    """Removes this user's directories in ``parent`` whose servers have ended. Never raises."""
    with contextlib.suppress(OSError, ImportError):
        for path in pathlib.Path(parent).glob(f"{PREFIX}*"):
            if _is_private(path):
                _remove_abandoned(path)


def _is_private(path: pathlib.Path) -> bool:
    """Whether it is a directory of this user's that nobody else may change."""
    try:
        info = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and info.st_mode & 0o722 == 0o700


def _remove_abandoned(path: pathlib.Path) -> None:
    """Removes a directory unless a process holds its lock; nobody can take that meanwhile."""
    import fcntl  # not on Windows, where there are no such directories

    with contextlib.suppress(OSError), (path / LOCK).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
