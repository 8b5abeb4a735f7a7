"""The channels on Windows: a named pipe is what a stream socket is elsewhere, and says so by its methods.

The pipes are made by whoever starts the other side, who opens both ends and lets one be inherited: nobody can open them
by name. All calls are overlapped. On a handle for ordinary calls a read that waits would hold up every write.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sys
import threading
from typing import Any, Optional

assert sys.platform == "win32"  # nothing imports it elsewhere

import _winapi  # noqa: E402

# How much lies in a pipe for a reader that is late, and how much is read at once.
BUFFER = 256 << 10
CHUNK = 65536
_PART = 1 << 20
# How Windows says that the other end is gone, or this one: BROKEN_PIPE, NO_DATA, PIPE_NOT_CONNECTED, INVALID_HANDLE,
# OPERATION_ABORTED.
_ENDED = (109, 232, 233, 6, 995)
_FIRST_INSTANCE, _OVERLAPPED, _REJECT_REMOTE, _ANONYMOUS = 0x00080000, 0x40000000, 0x8, 0x00100000


def _ended(error: OSError) -> bool:
    return getattr(error, "winerror", None) in _ENDED


class Pipe:
    """One end. One thread at a time may read, and one may write."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._lock = threading.Lock()  # guards the handle against its close while a call begins
        self._open = True
        self._reading: Any = None  # an overlapped read that was begun
        self._writing: Any = None

    def _begin_read(self, size: int) -> bool:
        """Begins a read unless one waits already; False at the end."""
        with self._lock:
            if not self._open:
                return False
            if self._reading is None:
                try:
                    self._reading, _ = _winapi.ReadFile(self._handle, size, overlapped=True)
                except OSError as error:
                    if _ended(error):
                        return False
                    raise
        return True

    def _end_read(self) -> bytes:
        """Waits for the read that was begun; nothing at the end."""
        reading = self._reading
        try:
            reading.GetOverlappedResult(True)
            data: Optional[bytes] = reading.getbuffer()
        except OSError as error:
            if not _ended(error):
                raise
            data = None
        finally:
            self._reading = None
        return data or b""

    def readable(self, seconds: Optional[float]) -> bool:
        """Whether something can be read, or the end, before some seconds have passed (None: without end)."""
        if not self._begin_read(CHUNK):
            return True
        wait = _winapi.INFINITE if seconds is None else max(0, int(seconds * 1000 + 0.999))
        return bool(_winapi.WaitForMultipleObjects([self._reading.event], False, wait) == _winapi.WAIT_OBJECT_0)

    def recv(self, _: int = CHUNK, flags: int = 0) -> bytes:
        """What is there, at most CHUNK bytes; none at the end. With flags BlockingIOError comes in place of a wait."""
        if flags and not self.readable(0):
            raise BlockingIOError
        if not self._begin_read(CHUNK):
            return b""
        return self._end_read()

    def recv_into(self, buffer: memoryview) -> int:
        """Reads into a buffer, and returns how much; nobody has begun to read before."""
        if not self._begin_read(min(len(buffer), _PART)):
            return 0
        data = self._end_read()
        buffer[: len(data)] = data
        return len(data)

    def exactly(self, size: int) -> bytes:
        """As many bytes, fewer at the end; of a pipe that is read by nothing else."""
        data = b""
        while len(data) < size and self._begin_read(size - len(data)):
            part = self._end_read()
            if not part:
                break
            data += part
        return data

    def sendall(self, data: Any) -> None:
        """Writes all; BrokenPipeError where the other side is gone."""
        view = memoryview(data)
        while len(view):
            try:
                with self._lock:
                    if not self._open:
                        raise BrokenPipeError(errno.EPIPE, "the pipe is closed")
                    self._writing, _ = _winapi.WriteFile(self._handle, view, overlapped=True)
                written, failed = self._writing.GetOverlappedResult(True)
            except OSError as error:
                if _ended(error):
                    raise BrokenPipeError(errno.EPIPE, "the pipe has ended") from None
                raise
            finally:
                self._writing = None
            if failed in _ENDED:
                raise BrokenPipeError(errno.EPIPE, "the pipe has ended")
            view = view[written:]

    def close(self) -> None:
        """Closes this end, which both sides see; whatever waits here returns."""
        with self._lock:
            if not self._open:
                return
            self._open = False
            for waiting in (self._reading, self._writing):
                if waiting is not None:
                    with contextlib.suppress(OSError):
                        waiting.cancel()
            _winapi.CloseHandle(self._handle)

    def shutdown(self, _: int) -> None:
        """The same: a pipe has no ends that go one by one."""
        self.close()

    def detach(self) -> int:
        """The handle, which is the caller's from now on."""
        with self._lock:
            self._open = False
        return self._handle


def inherited(handle: int) -> Pipe:
    """An end that this process was started with, and does not hand on."""
    os.set_handle_inheritable(handle, False)
    return Pipe(handle)


def pair() -> tuple[Pipe, int]:
    """A pipe: the end of this process, and the handle of the other one, for a child that inherits it."""
    # It has one instance, and this process is at both ends of that. No other machine can open it, and by the access
    # list that comes by default no other user can write to it.
    path = rf"\\.\pipe\neso-{secrets.token_hex(16)}"
    ours = _winapi.CreateNamedPipe(
        path,
        _winapi.PIPE_ACCESS_DUPLEX | _OVERLAPPED | _FIRST_INSTANCE,
        _REJECT_REMOTE,
        1,
        BUFFER,
        BUFFER,
        0,
        _winapi.NULL,
    )
    try:
        theirs = _winapi.CreateFile(
            path, _winapi.GENERIC_READ | _winapi.GENERIC_WRITE, 0, _winapi.NULL, _winapi.OPEN_EXISTING,
            _OVERLAPPED | _ANONYMOUS, _winapi.NULL,
        )  # fmt: skip
    except BaseException:
        _winapi.CloseHandle(ours)
        raise
    return Pipe(ours), theirs
