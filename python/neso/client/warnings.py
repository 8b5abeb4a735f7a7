"""Warnings of the clients."""


class PyTritonWarning(UserWarning):
    """Base of all warnings."""


class NotSupportedTimeoutWarning(PyTritonWarning):
    """A timeout that has no effect."""
