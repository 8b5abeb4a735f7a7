"""``python -m neso SCRIPT.py [--reload] [arguments]``: runs a script, serves the bindings it leaves at module level."""

from __future__ import annotations

import ast
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import time
from typing import Any, Optional

from .failure import show

USAGE = """usage: python -m neso [--reload] [--verbose] SCRIPT.py [arguments of the script]

Runs the script. Triton objects that it leaves at module level are served until Ctrl-C.
--reload starts it again when a Python file beside it changes, unless that has a syntax error.
--verbose shows the whole traceback of an error of the script, with the frames of this command.
Both may also come right behind SCRIPT.py."""

_OPTIONS = ("--reload", "--verbose")

# Between two looks at the files.
LOOK_EVERY_S = 0.3


def holds_python_model(script: str) -> bool:
    """Whether a file is a model.py of Triton's Python backend: it defines TritonPythonModel."""
    try:
        tree = ast.parse(pathlib.Path(script).read_bytes(), script)
    except (OSError, SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.ClassDef) and node.name == "TritonPythonModel" for node in tree.body)


def _serve(script: str) -> None:
    from ..triton import TritonBase

    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    left = runpy.run_path(script, run_name="__main__")
    found: list[Any] = []
    for value in left.values():
        if isinstance(value, TritonBase) and value.wants_serving() and value not in found:
            found.append(value)
    for triton in found[1:]:
        triton.connect()
    if not found and not TritonBase.any_made:
        sys.exit(f"neso: {script} binds nothing: it makes no Triton object")
    try:
        if found:
            found[0].serve()
    finally:
        for triton in found[1:]:
            triton.stop()


def _state(folder: pathlib.Path) -> dict[str, int]:
    """When each Python file of a folder was changed."""
    out: dict[str, int] = {}
    for path in folder.glob("**/*.py"):
        try:
            out[str(path)] = path.stat().st_mtime_ns
        except OSError:  # gone meanwhile
            continue
    return out


def _faulty(files: dict[str, int], served: dict[str, int]) -> bool:
    """Whether a file that differs from what is served is no Python, which is said."""
    for path, changed in files.items():
        if served.get(path) == changed:
            continue
        try:
            ast.parse(pathlib.Path(path).read_bytes(), path)
        except OSError:  # gone meanwhile
            continue
        except (SyntaxError, ValueError) as error:
            print(f"{path}: {error}: what is served stays", file=sys.stderr, flush=True)
            return True
    return False


def _end(child: subprocess.Popen[bytes]) -> int:
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        try:
            return child.wait(60)
        except subprocess.TimeoutExpired:
            child.kill()
    return child.wait()


def _reload(command: list[str], script: str) -> int:
    folder = pathlib.Path(script).resolve().parent
    stop: list[int] = []
    previous = {n: signal.signal(n, lambda number, frame: stop.append(number)) for n in (signal.SIGINT, signal.SIGTERM)}
    child: Optional[subprocess.Popen[bytes]] = None
    try:
        while not stop:
            served = seen = _state(folder)
            # A session of its own: Ctrl-C is for this process, which ends the child in order.
            child = subprocess.Popen([sys.executable, "-m", "neso", *command], start_new_session=True)
            while not stop:
                files = _state(folder)
                if files != seen:
                    if not _faulty(files, served):
                        break
                    seen = files
                time.sleep(LOOK_EVERY_S)
            status = _end(child)
            if not stop:
                print(f"{script} has changed: starting it again", file=sys.stderr, flush=True)
        return status
    finally:
        if child is not None:
            _end(child)
        for number, old in previous.items():
            signal.signal(number, old)


def _taken(arguments: list[str]) -> tuple[set[str], list[str]]:
    """The options of this command, before the script and right behind it, and the rest."""
    rest = list(arguments)
    options: set[str] = set()
    for place in (0, 1):
        while rest[place : place + 1] and rest[place] in _OPTIONS:
            options.add(rest.pop(place))
    return options, rest


def serve(arguments: list[str]) -> Optional[int]:
    """``neso serve``: the exit status, or None where no script of bindings is among the arguments.

    Options of the server have no effect on a script, whose TritonConfig says all of that: they are refused. What is
    for the script itself stands behind ``--``.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    place = next((i for i, a in enumerate(arguments[:end]) if a.endswith(".py") and not a.startswith("-")), None)
    if place is None or holds_python_model(arguments[place]):
        return None
    script, own = arguments[place], arguments[end + 1 :]
    before, behind = arguments[:place], arguments[place + 1 : end]
    while behind and behind[0] in _OPTIONS:
        before.append(behind.pop(0))
    wrong = [a for a in before if a not in _OPTIONS] or [a for a in behind if a.startswith("-")]
    if wrong:
        print(
            f"neso serve: {wrong[0]} has no effect on {script}, whose TritonConfig says how it is served. "
            f"An option of the script stands behind --: neso serve {script} -- {wrong[0]}",
            file=sys.stderr,
        )
        return 2
    return run([*before, script, *behind, *own])


def run(arguments: list[str]) -> int:
    """The command; returns the exit status."""
    options, rest = _taken(arguments)
    if not rest or rest[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if rest else 2
    script = rest[0]
    if not os.path.isfile(script):
        print(f"neso: {script}: no such file", file=sys.stderr)
        return 2
    verbose = "--verbose" in options
    if "--reload" in options:
        return _reload(["--verbose", *rest] if verbose else rest, script)
    sys.argv = rest
    if verbose:
        _serve(script)
        return 0
    try:
        _serve(script)
    except Exception as error:
        show(error)
        return 1
    return 0
