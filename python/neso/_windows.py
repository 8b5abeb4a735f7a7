"""How a server is started on Windows: it inherits handles, those of the other ends of two pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Callable, Optional

assert sys.platform == "win32"  # nothing imports it elsewhere

import _winapi  # noqa: E402
import msvcrt  # noqa: E402

from neso_runtime.windows.pipe import Pipe, pair  # noqa: E402


def spawn(
    command: Sequence[str],
    told: Callable[[Sequence[int]], list[str]],
    options: IO[bytes],
    environment: Optional[Mapping[str, str]],
) -> tuple[subprocess.Popen[bytes], tuple[Pipe, Pipe]]:
    """Starts a server; see _spawn.spawn. told turns handles into arguments, options is a file that it inherits too."""
    ours: list[Pipe] = []
    theirs: list[int] = []
    try:
        for _ in range(2):
            mine, other = pair()
            ours.append(mine)
            theirs.append(other)
        numbers = [*theirs, msvcrt.get_osfhandle(options.fileno())]
        for handle in numbers:
            os.set_handle_inheritable(handle, True)
        startup = subprocess.STARTUPINFO(lpAttributeList={"handle_list": numbers})
        # A group of its own: Ctrl-C is for this process, which ends the server in order.
        process = subprocess.Popen(
            [*command, *told(numbers)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=environment, startupinfo=startup, creationflags=subprocess.CREATE_NEW_PROCESS_GROUP,
        )  # fmt: skip
    except BaseException:
        for end in ours:
            end.close()
        raise
    finally:
        for handle in theirs:
            _winapi.CloseHandle(handle)
    return process, (ours[0], ours[1])
