"""Finds ``libtritonserver.so``, loads it once, and calls its functions."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from . import _errors, _functions

NAME = "libtritonserver.so"
# The major number of the interface that the calls are written for.
MAJOR = 1


def _places() -> list[str]:
    """Where the library may be, the best place first. A bare name is looked for by the system."""
    package = Path(__file__).resolve().parents[1]
    given = os.environ.get("NESO_LIBRARY")
    if given:
        return [os.path.join(given, NAME) if os.path.isdir(given) else given]
    beside = [package / "lib" / NAME, package / "bin" / NAME, package.parents[1] / "build" / "lib" / NAME]
    return [*(str(path) for path in beside if path.exists()), NAME]


def _open() -> ctypes.CDLL:
    told = []
    for place in _places():
        try:
            return ctypes.CDLL(place)
        except OSError as e:
            told.append(str(e))
    raise FileNotFoundError(
        f"{NAME} was not found, or cannot be loaded ({'; '.join(told)}): `make capi` builds it, and the environment "
        "variable NESO_LIBRARY names it"
    )


# The functions by their names, once they are there.
_functions_by_name: dict[str, Any] = {}
_lock = threading.Lock()


def _loaded() -> dict[str, Any]:
    if not _functions_by_name:
        with _lock:
            if not _functions_by_name:
                _functions_by_name.update(_load())
    return _functions_by_name


def _load() -> dict[str, Any]:
    library = _open()
    try:
        functions = _functions.of(library)
    except AttributeError as e:
        raise ImportError(f"{library._name} is not the library of a server: {e}") from None
    major, minor = ctypes.c_uint32(), ctypes.c_uint32()
    functions["ApiVersion"](ctypes.byref(major), ctypes.byref(minor))
    if major.value != MAJOR:
        raise ImportError(f"{library._name} has version {major.value}.{minor.value} of the interface, not {MAJOR}.x")
    # The library starts workers by what the environment says: Python models run with the interpreter of this program,
    # and others by the command that came with the package.
    os.environ.setdefault("NESO_PYTHON", sys.executable)
    command = Path(__file__).resolve().parents[1] / "bin" / "neso"
    if command.exists():
        os.environ.setdefault("NESO_BINARY", str(command))
    return functions


def value(name: str, *arguments: Any) -> Any:
    """What a function gives that gives no error."""
    return _loaded()[name](*arguments)


def call(name: str, *arguments: Any) -> None:
    """Calls a function that gives an error, and raises that. Raises TypeError for an argument of another type.

    The first call loads the library, and raises FileNotFoundError where there is none.
    """
    try:
        error = _loaded()[name](*arguments)
    except ctypes.ArgumentError as e:
        raise TypeError(f"TRITONSERVER_{name}: {e}") from None
    if error:
        try:
            raised = error_of(error)
        finally:
            value("ErrorDelete", error)
        raise raised


def error_of(error: int) -> _errors.TritonError:
    """The exception for an error of the library, which stays as it is."""
    message = value("ErrorMessage", error) or b""
    return _errors.made(value("ErrorCode", error), message.decode(errors="replace"))


def text(given: Any, what: str) -> bytes:
    """A text, or a path, as the library takes it. Raises TypeError for anything else."""
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    if not isinstance(given, str):
        raise TypeError(f"{what} must be a str, not {type(given).__name__}")
    if "\0" in given:
        raise _errors.InvalidArgumentError(f"{what} has a null character: {given!r}")
    return given.encode()


def number(given: Any, what: str, bits: int = 64, signed: bool = False) -> int:
    """A whole number that fits. Raises TypeError for another type, InvalidArgumentError for one that does not fit."""
    if not isinstance(given, int):
        try:
            given = given.__index__()  # of numpy
        except AttributeError:
            raise TypeError(f"{what} must be an int, not {type(given).__name__}") from None
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= given <= high:
        raise _errors.InvalidArgumentError(f"{what} must be between {low} and {high}, got {given}")
    return int(given)


def message(function: str, *arguments: Any) -> Any:
    """What a function says as JSON."""
    made, base, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    call(function, *arguments, ctypes.byref(made))
    try:
        call("MessageSerializeToJson", made, ctypes.byref(base), ctypes.byref(size))
        return json.loads(ctypes.string_at(base.value or 0, size.value)) if size.value else None
    finally:
        call("MessageDelete", made)
