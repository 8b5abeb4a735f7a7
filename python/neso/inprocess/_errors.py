"""Errors of the library, one class for each of its codes."""

from __future__ import annotations


class TritonError(Exception):
    """Base of the errors below. ``args[0]`` is the message; an error of a response has that as ``args[1]``."""

    def __str__(self) -> str:
        """The message."""
        return str(self.args[0]) if self.args else ""


class UnknownError(TritonError):
    """The server does not know what failed."""


class InternalError(TritonError):
    """The server, or a model, failed."""


class NotFoundError(TritonError):
    """What was named is not there."""


class InvalidArgumentError(TritonError):
    """An argument is wrong, or the object is not in the state for the call."""


class UnavailableError(TritonError):
    """What was named is there and cannot be used now, such as a model that is not loaded."""


class UnsupportedError(TritonError):
    """The server does not do that."""


class AlreadyExistsError(TritonError):
    """Something of that name is there already."""


class CancelledError(TritonError):
    """The request was cancelled."""


# The classes by the codes of TRITONSERVER_Error_Code.
CLASSES: tuple[type[TritonError], ...] = (
    UnknownError,
    InternalError,
    NotFoundError,
    InvalidArgumentError,
    UnavailableError,
    UnsupportedError,
    AlreadyExistsError,
    CancelledError,
)


def made(code: int, message: str) -> TritonError:
    """The error of a code and a message; UnknownError for a code that is none."""
    return (CLASSES[code] if 0 <= code < len(CLASSES) else UnknownError)(message)
