"""Errors of binding and serving. Errors of clients are in ``neso.client.exceptions``."""

from __future__ import annotations


class MessageError(Exception):
    """An error with a message."""

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


class PyTritonError(MessageError):
    """Base of all errors of binding and serving."""


class PyTritonValidationError(PyTritonError):
    """A value given by the user is wrong."""


class PyTritonInvalidOperationError(PyTritonError):
    """The operation is not possible in this state."""


class PyTritonBadParameterError(PyTritonError):
    """A parameter of a model or a decorator is wrong."""


class PyTritonModelConfigError(PyTritonError):
    """A model configuration is wrong."""


class PyTritonUnrecoverableError(PyTritonError):
    """Raised by a callable: nothing can go on, the whole server stops."""


class PyTritonRuntimeError(PyTritonError):
    """Something failed while serving."""
