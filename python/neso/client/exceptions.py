"""Errors of the clients."""

from __future__ import annotations

from ..exceptions import MessageError


class PyTritonClientError(MessageError):
    """Base of all errors of the clients."""


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
