"""Errors of the clients."""

from __future__ import annotations


class PyTritonClientError(Exception):
    """Base of all errors of the clients."""

    def __init__(self, message: str) -> None:
        """``message`` says what is wrong."""
        super().__init__(message)
        self._message = message

    def __str__(self) -> str:
        """The message."""
        return self._message

    @property
    def message(self) -> str:
        """What is wrong."""
        return self._message


class PyTritonClientValueError(PyTritonClientError):
    """An argument is wrong."""


class PyTritonClientInvalidUrlError(PyTritonClientValueError):
    """The URL is wrong."""


class PyTritonClientTimeoutError(PyTritonClientError):
    """The server was not ready, or did not answer, in time; or it cannot be reached."""


class PyTritonClientModelUnavailableError(PyTritonClientError):
    """The model cannot be used."""


class PyTritonClientClosedError(PyTritonClientError):
    """The client is closed."""


class PyTritonClientModelDoesntSupportBatchingError(PyTritonClientError):
    """The model takes samples only."""


class PyTritonClientInferenceServerError(PyTritonClientError):
    """The server answered with an error."""


class PyTritonClientQueueFullError(PyTritonClientError):
    """The queue of a client is full."""
