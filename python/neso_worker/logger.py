"""pb_utils.Logger: lines for the server's log, with the caller's file and line."""

from __future__ import annotations

import enum
import sys
from typing import Any

from neso_runtime.errors import as_text, bounded
from neso_runtime.frames import LOG, LOG_BODY, frame


class LogLevel(enum.IntEnum):
    """How much a line matters."""

    INFO = 0
    WARNING = 1
    ERROR = 2
    VERBOSE = 3


INFO, WARNING, ERROR, VERBOSE = LogLevel

# Set by the worker once it has a channel: sends a frame.
_send: Any = None


def connect(send: Any) -> None:
    """Sends lines over the control channel from now on."""
    global _send
    _send = send


def _write(message: str, level: LogLevel) -> None:
    message = bounded(as_text("log message", message))
    if type(level) is not LogLevel:  # a number is not one to Triton either
        raise TypeError(f"level must be one of Logger.INFO, WARNING, ERROR and VERBOSE, found {level!r}")
    if _send is None:
        print(message, file=sys.stderr)
        return
    caller = sys._getframe(2)
    file = caller.f_code.co_filename.encode("utf-8", "replace")[-1000:]
    text = message.encode("utf-8", "replace")
    _send(frame(LOG, 0, 0, LOG_BODY.pack(level, max(caller.f_lineno or 0, 0), len(file), len(text)), file, text))


class Logger:
    """Writes to the server's log; before there is a server, to stderr."""

    LogLevel = LogLevel
    INFO, WARNING, ERROR, VERBOSE = INFO, WARNING, ERROR, VERBOSE

    @staticmethod
    def log(message: str, level: LogLevel = INFO) -> None:
        """Writes a line at a level, one of the class's constants: TypeError for anything else, a number too."""
        _write(message, level)

    @staticmethod
    def log_info(message: str) -> None:
        """Writes a line at level INFO."""
        _write(message, INFO)

    @staticmethod
    def log_warn(message: str) -> None:
        """Writes a line at level WARNING."""
        _write(message, WARNING)

    @staticmethod
    def log_error(message: str) -> None:
        """Writes a line at level ERROR."""
        _write(message, ERROR)

    @staticmethod
    def log_verbose(message: str) -> None:
        """Writes a line at level VERBOSE."""
        _write(message, VERBOSE)
