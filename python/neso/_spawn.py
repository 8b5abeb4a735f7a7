"""How this process starts a server that inherits the other ends of its channels."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Optional

from neso_runtime.channel import Stream

Started = tuple["subprocess.Popen[bytes]", tuple[Stream, Stream]]


def _readable(text: str) -> IO[bytes]:
    """An open file without a name that holds a text, to be read from its start."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 (the caller's to close)
    file.write(text.encode())
    file.seek(0)
    return file


def spawn(command: Sequence[str], private: Sequence[str], environment: Optional[Mapping[str, str]]) -> Started:
    """Starts a server with arguments, and private ones, which no list of processes shows.

    Returns its process and the ends of the control and the descriptor channel. Raises OSError where the command cannot
    be started.
    """
    with contextlib.ExitStack() as stack:
        options = stack.enter_context(_readable("\n".join(private)))
        if sys.platform == "win32":
            from . import _windows

            return _windows.spawn(command, told, options, environment)
        ours, theirs = zip(socket.socketpair(), socket.socketpair())
        for sock in theirs:
            stack.enter_context(sock)
        numbers = [s.fileno() for s in (*theirs, options)]
        try:
            # A session of its own: Ctrl-C is for this process, which ends the server in order.
            process = subprocess.Popen(
                [*command, *told(numbers)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                pass_fds=numbers, env=environment, start_new_session=True,
            )  # fmt: skip
        except BaseException:
            for sock in ours:
                sock.close()
            raise
        return process, ours


def told(numbers: Sequence[int]) -> list[str]:
    """The arguments by which the server learns of what it inherits."""
    return [f"--{name}-fd={n}" for name, n in zip(("control", "descriptor", "options"), numbers)]
