"""Errors of models: TritonError, TritonModelException, and the texts clients see."""

from __future__ import annotations

import os
import traceback
from operator import index
from types import FrameType, TracebackType
from typing import Any, Optional

# Characters of a text of a model that the server is told; a frame of texts has a bound there.
MAX_TEXT = 1 << 20

_BESIDE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Where code lies that is not the user's.
_OWN = tuple(os.path.join(_BESIDE, package, "") for package in ("neso_runtime", "neso_worker"))


class TritonModelException(Exception):  # noqa: N818 (the name models know)
    """Raised by calls of this module; models may raise it too."""


def as_text(what: str, value: Any) -> str:
    """A text that a model gave: str, or bytes as an element of a BYTES tensor is, which Triton takes too."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        return str(value, "utf-8", "replace")
    raise TypeError(f"{what} must be a str, found type '{type(value)}'")


def bounded(text: str) -> str:
    """The text, without its middle where it is longer than MAX_TEXT characters."""
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[-half:]}"


def as_flag(what: str, value: Any) -> bool:
    """A flag that a model gave: True, False, or what is a number."""
    if isinstance(value, (bool, int)) or (value is not None and hasattr(type(value), "__bool__")):
        return bool(value)
    raise TypeError(f"{what} must be a bool, found type '{type(value)}'")


class TritonError:
    """The error of one response: a text that goes out unchanged, and a code."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)

    __slots__ = ("_code", "_message")

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        message = as_text("TritonError message", message)
        code = index(code)
        self._message = message
        self._code = code if 0 <= code <= 7 else TritonError.UNKNOWN

    def message(self) -> str:
        """The text."""
        return self._message

    def code(self) -> int:
        """The code, one of the class's constants."""
        return self._code

    def __repr__(self) -> str:
        return f"TritonError({self._message!r}, {self._code})"


def _user_frames(trace: Optional[TracebackType]) -> list[tuple[FrameType, int]]:
    """The frames of the model's own code and its libraries, innermost first."""
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith(_OWN) and not code.co_filename.startswith("<frozen importlib"):
            frames.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    frames.reverse()
    return frames


def describe(error: BaseException) -> str:
    """What the client sees of an exception: type, text, and where in the model's code it came from."""
    try:
        text = bounded(str(error))
    except Exception:  # a broken __str__ must not hide the failure
        text = ""
    frames = _user_frames(error.__traceback__)
    if not frames and type(error) is TritonModelException:  # a fault of the model that is found here
        return text
    places = _syntax_place(error)
    places += [f"  {frame.f_code.co_filename}({line}): {frame.f_code.co_name}\n" for frame, line in frames]
    what = f"{type(error).__name__}: {text or '<EMPTY MESSAGE>'}"
    return what + "\n\nAt:\n" + "".join(places) if places else what


def _syntax_place(error: BaseException) -> list[str]:
    """Where code that cannot be read is wrong, with the line itself: it has not run, so no frame tells."""
    if not isinstance(error, SyntaxError) or not error.filename or not error.lineno:
        return []
    line = error.text.strip() if isinstance(error.text, str) else ""
    return [f"  {error.filename}({error.lineno}): {line[:200] or '<module>'}\n"]


def full_traceback(error: BaseException) -> str:
    """The whole traceback, for the log."""
    try:
        return bounded("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    except Exception:
        return describe(error)
