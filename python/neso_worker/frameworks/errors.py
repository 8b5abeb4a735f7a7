"""What a load tells the user: what is wrong, where, and what to do."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from typing import Any

from neso_runtime.errors import TritonError

INVALID_ARG, INTERNAL, UNAVAILABLE = TritonError.INVALID_ARG, TritonError.INTERNAL, TritonError.UNAVAILABLE
UNSUPPORTED, NOT_FOUND = TritonError.UNSUPPORTED, TritonError.NOT_FOUND


class LoadError(Exception):
    """A load that failed for a reason that is known. The text goes to the client as it is."""

    plain = True

    def __init__(self, message: str, code: int = INVALID_ARG) -> None:
        super().__init__(message)
        self.code = code


def framework(module: str, backend: str, install: str, least: tuple[int, ...] = ()) -> Any:
    """Imports the package of a framework, or says which interpreter lacks it and what to install."""
    python = sys.executable
    where = f"the Python {platform.python_version()} of {python}"
    how = (
        f"run '{python} -m pip install {install}', or name an interpreter that has it with --python or the model's "
        "parameter EXECUTION_ENV_PATH"
    )
    try:
        package = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise LoadError(
                f"backend '{backend}': {where} cannot import '{module}': {error}; {how}", UNAVAILABLE
            ) from None
        raise LoadError(
            f"backend '{backend}' needs the package '{module}', which {where} does not have: {how}", UNAVAILABLE
        ) from None
    except Exception as error:  # a broken installation: a library that is missing, another numpy
        fault = f"backend '{backend}': {where} cannot import '{module}': {first_line(error)}"
        if not _of_memory(error):
            fault += f"; {how}"
        raise LoadError(fault, UNAVAILABLE) from None
    version = str(getattr(package, "__version__", "0"))
    numbers = tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in version.split("+")[0].split(".")[:2])
    if least and numbers < least:
        want = ".".join(map(str, least))
        raise LoadError(
            f"backend '{backend}' needs {module} {want} or later, {where} has {version}: {how}", UNAVAILABLE
        )
    return package


def _of_memory(error: BaseException) -> bool:
    """Whether an import may have failed for want of memory. Python loses the exception where there is none for it."""
    return isinstance(error, (MemoryError, SystemError)) or any(text in str(error) for text in _MEMORY)


# Beginnings of files that people put in place of a model.
_FORMATS = (
    (b"version https://git-lfs", "a Git LFS pointer, not the model: fetch the content with 'git lfs pull'"),
    (b"<!DOCTYPE", "a web page: the download went wrong, fetch the file again"),
    (b"<html", "a web page: the download went wrong, fetch the file again"),
    (b"\x1f\x8b", "a gzip archive: unpack it"),
    (b"<?xml", "an XML file: models of OpenVINO are served by the backend openvino"),
    (b"\x89HDF", "an HDF5 file: save the model as .keras or as a SavedModel"),
    (b"\x80\x02", "a Python pickle"), (b"\x80\x03", "a Python pickle"), (b"\x80\x04", "a Python pickle"), (b"\x80\x05", "a Python pickle"),
)  # fmt: skip
LITE = b"TFL3"


def looks_like(path: str) -> str:
    """What a file is by its first bytes, with what to do about it; "" for anything not known."""
    with open(path, "rb") as file:
        head = file.read(64)
    if not head:
        return "empty: write the model again"
    for magic, what in _FORMATS:
        if head.startswith(magic):
            return what
    if head[4:8] == LITE:
        return "a TensorFlow Lite model: name it model.tflite, for the backend tensorflow"
    if head[:1] == b"\x08" and b"onnx" in head.lower():
        return "an ONNX model: name it model.onnx, for the backend onnxruntime"
    return ""


def is_lite(path: str) -> bool:
    """Whether a file begins as TensorFlow Lite models do."""
    try:
        with open(path, "rb") as file:
            return file.read(8)[4:] == LITE
    except OSError:
        return False  # a directory, or nothing


def size_of(path: str) -> int:
    """Bytes of a file, or of all files of a directory."""
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(path) for f in files)


_MEMORY = ("can't allocate memory", "bad_alloc", "out of memory", "OOM when", "MemoryError", "Cannot allocate memory")


def memory_hint(error: BaseException, path: str) -> str:
    """What to say when there was too little memory for a model, else ""."""
    if isinstance(error, MemoryError) or any(text in str(error) for text in _MEMORY):
        return (
            f"there is not enough memory for the model ({size_of(path) >> 20} MiB on disk): use fewer instances, a smaller "
            "model, or a larger machine"
        )
    return ""


def first_line(error: BaseException) -> str:
    """An exception's type and the lines of its text that say something, on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines)
    if len(text) > 600:
        text = text[:600] + " ..."
    return f"{type(error).__name__}: {text or '<EMPTY MESSAGE>'}"
