"""What is shown of an error of a script: its own frames, not those of the command that runs it."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Optional

from ..exceptions import MessageError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _is_ours(frame: TracebackType) -> bool:
    file = frame.tb_frame.f_code.co_filename
    return file.startswith(_PACKAGE) or "runpy" in os.path.basename(file)


def _script_frames(frames: Optional[TracebackType], to_the_end: bool) -> Optional[TracebackType]:
    """A traceback without the frames of this package before the script, and unless ``to_the_end`` after it."""
    kept: list[TracebackType] = []
    while frames is not None:
        kept.append(frames)
        frames = frames.tb_next
    while kept and _is_ours(kept[0]):
        del kept[0]
    while kept and not to_the_end and _is_ours(kept[-1]):
        del kept[-1]
    out: Optional[TracebackType] = None
    for frame in reversed(kept):
        out = TracebackType(out, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return out


def show(error: Exception) -> None:
    """Prints an error as Python does, or as the script has it printed.

    One of this package, whose message says what is wrong, ends with the script's line that led to it.
    """
    told = isinstance(error, MessageError)
    error.__traceback__ = _script_frames(error.__traceback__, not told)
    if told:
        error.__cause__, error.__suppress_context__ = None, True
    sys.stdout.flush()
    sys.excepthook(type(error), error, error.__traceback__)
