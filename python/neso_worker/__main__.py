"""How a worker process begins: ``python <directory>/neso_worker --worker`` or ``--zygote``.

Descriptor 3 is the control channel, descriptor 4 the descriptor channel. On Windows the variable NESO_WORKER_CHANNELS
has the handles of both.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
import traceback

CONTROL, DESCRIPTORS = 3, 4
HANDLES = "NESO_WORKER_CHANNELS"
PACKAGES = ("neso_runtime", "neso_runtime.gpu", "neso_worker")


def _prepare_path() -> None:
    """Makes the packages importable without leaving its directories on the path of the model.

    Python puts the directory that it runs on the path; a helper module of a
    model named like one of ours would then be ours.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0]) == here:
        del sys.path[0]
    if "neso_worker" not in sys.modules:
        sys.path.insert(0, os.path.dirname(here))
        try:
            for package in PACKAGES:
                importlib.import_module(package)
        finally:
            del sys.path[0]


def _prepare_output() -> None:
    """Prints leave line by line, each line in one write, and none fails for its characters.

    The interpreter's own streams are not that: unbuffered ones (PYTHONUNBUFFERED) write a line and its end apart.
    """
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = open(  # noqa: SIM115
            fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", newline="\n", closefd=False
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _compile_ahead() -> int:
    """Has a child compile the packages while this process imports numpy, which takes longer; returns its pid.

    The sources are unpacked afresh for every server, so that nobody has compiled them yet.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        sys.dont_write_bytecode = False
        for package in map(sys.modules.get, PACKAGES):
            directory, loader = package.__path__[0], type(package.__loader__)
            for name in os.listdir(directory):
                if name.endswith(".py"):
                    full = f"{package.__name__}.{name[:-3]}"
                    loader(full, os.path.join(directory, name)).get_code(full)
    finally:
        os._exit(0)


def _channels() -> tuple[int, int]:
    """The inherited channels; what the model starts hears nothing of them."""
    if sys.platform != "win32":
        return CONTROL, DESCRIPTORS
    control, descriptors = os.environ.pop(HANDLES).split(",")
    return int(control), int(descriptors)


def main(arguments: list[str]) -> int:
    """Runs what the arguments say; returns the exit status."""
    preload = arguments[1] if len(arguments) == 2 and arguments[0] == "--zygote" else ""
    if arguments not in (["--worker"], ["--zygote"]) and not preload:
        print("usage: python neso_worker --worker | --zygote [MODULE]", file=sys.stderr)
        return 2
    _prepare_path()
    # A model's code may parse the command line, which is not its own (unittest.main does).
    sys.argv[:] = [""]
    # Ctrl-C reaches the whole terminal; the server decides when workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _prepare_output()
    control, descriptors = _channels()
    from neso_worker.aside import Aside

    aside = Aside()
    aside.begin()  # for a zygote that is for good: what it forks comes back when it serves
    if arguments[0] == "--zygote":
        gc.disable()  # until everything is imported: nothing of that is garbage
        compiler = _compile_ahead()
        import numpy  # noqa: F401

        if preload:  # what fails here is told by the worker that needs it
            with contextlib.suppress(Exception):
                importlib.import_module(preload)
        from neso_worker import zygote

        child = zygote.run(control, descriptors, aside, compiler)
        if child is None:
            return 0
        control, descriptors = child
    from neso_worker import worker

    try:
        status = worker.run(control, descriptors, aside)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    aside.give_way()  # all its memory is given back at once
    # Threads of the model that still run must not keep the process.
    os._exit(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
