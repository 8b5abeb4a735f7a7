"""The console commands: the binary of this package, with one addition, ``neso serve FILE.py`` for bindings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import NoReturn

from .._server import ServerError, find_binary


def _become(name: str, arguments: list[str]) -> NoReturn:
    """Runs the binary in place of this process; it goes by its name."""
    try:
        binary = find_binary()
    except ServerError as error:
        sys.exit(str(error))
    if os.path.exists(sys.argv[0]) and os.path.samefile(binary, sys.argv[0]):  # the PATH led back to this command
        sys.exit("The neso binary was not found: set NESO_BINARY, or install the package with its binary")
    # Python models run in the interpreter that this command belongs to.
    os.environ.setdefault("NESO_PYTHON", sys.executable)
    if os.name != "nt":
        os.execv(binary, [name, *arguments])
    process = subprocess.Popen([name, *arguments], executable=binary)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(process.wait())


def main() -> None:
    """``neso``: ``neso serve FILE.py`` serves the bindings of a file; all else, also a model.py, is the binary's."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["serve"]:
        from .script import serve

        status = serve(arguments[1:])
        if status is not None:
            sys.exit(status)
    _become("neso", arguments)


def tritonserver() -> None:
    """``neso-tritonserver``: the binary with the options, defaults and messages of tritonserver."""
    _become("tritonserver", sys.argv[1:])
