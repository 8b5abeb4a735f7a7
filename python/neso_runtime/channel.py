"""The control channel: frames in and out of stream sockets; ``link`` shares them between threads.

Small frames are read many at a time into fresh bytes objects, so that arrays
can be views of what was received; large ones straight into memory of their own.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import sys
import threading
from collections import deque
from typing import Any, Callable, Optional

from .frames import (
    HEADER_SIZE,
    HEADER_WORDS,
    LAST_KIND,
    MAX_BODY,
    SIGNATURE,
    ProtocolError,
    header_fault,
    release_frame,
)

if sys.platform == "win32":
    from .windows.pipe import Pipe
    from .windows.pipe import inherited as inherited

    Stream = Pipe
else:
    # What frames come and go over.
    Stream = socket.socket

    def inherited(number: int) -> socket.socket:
        """A channel that this process was started with, and does not hand on."""
        os.set_inheritable(number, False)
        return socket.socket(fileno=number)


CHUNK = 65536
# Windows' sockets cannot be read so, but pipes are.
DONTWAIT: int = getattr(socket, "MSG_DONTWAIT", 0x40)

# How sending fails when the channel has ended: at the other side, or at this one by close.
_ENDED = (errno.EPIPE, errno.ECONNRESET, errno.EBADF)

# A received frame: kind, instance, number, data, start and end of the body in data.
Frame = tuple[int, int, int, Any, int, int]


class Closed(Exception):  # noqa: N818 (not an error: how every worker ends)
    """The other side closed the control channel: the worker ends."""


def end_of(error: BaseException) -> BaseException:
    """What everybody who waits is told when reading or handling frames failed with an error."""
    if isinstance(error, ConnectionResetError):
        return Closed()
    if isinstance(error, (Closed, ProtocolError)) or not isinstance(error, Exception):
        return error
    return ProtocolError(f"{type(error).__name__}: {error}")


def end_text(failure: Optional[BaseException]) -> str:
    """What to say to whoever asks the server for something behind the end of the channel."""
    if failure is None or isinstance(failure, Closed):
        return "The server is gone."
    return f"The connection with the server is broken: {failure}"


def readable(stream: Stream, seconds: Optional[float]) -> bool:
    """Whether something can be read before some seconds have passed, None without end."""
    if sys.platform == "win32":
        return stream.readable(seconds)
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


class Reader:
    """Takes frames out of a socket. One thread at a time may use it."""

    def __init__(self, sock: Stream) -> None:
        self._socket = sock
        self._rest: bytes = b""

    def read(self, flags: int = 0) -> list[Frame]:
        """The frames of one receive; none when it held only part of a frame. Raises Closed at the end.

        With DONTWAIT in flags and nothing to read it raises BlockingIOError.
        """
        chunk = self._socket.recv(CHUNK, flags)
        if not chunk:
            raise Closed
        if self._rest:
            chunk = self._rest + chunk
        frames: list[Frame] = []
        pos, size = 0, len(chunk)
        unpack = HEADER_WORDS.unpack_from
        while size - pos >= HEADER_SIZE:
            word, length, instance, reserved, number = unpack(chunk, pos)
            kind = word >> 24
            if word & 0xFFFFFF != SIGNATURE or reserved or length > MAX_BODY or not 0 < kind <= LAST_KIND:
                raise header_fault(chunk, pos)
            start = pos + HEADER_SIZE
            end = start + length
            if end > size:
                if length <= CHUNK:
                    break
                frames.append((kind, instance, number, self._large(chunk, start, length), 0, length))
                self._rest = b""
                return frames
            if pos & 7:
                # Bodies begin at a multiple of 8 in memory, so that the arrays in them are aligned.
                frames.append((kind, instance, number, chunk[start:end], 0, length))
            else:
                frames.append((kind, instance, number, chunk, start, end))
            pos = end
        self._rest = chunk[pos:] if pos < size else b""
        return frames

    def _large(self, chunk: bytes, start: int, length: int) -> memoryview:
        """The body of a large frame whose first bytes are at start in chunk, read-only."""
        body = memoryview(bytearray(length))
        filled = len(chunk) - start
        body[:filled] = memoryview(chunk)[start:]
        receive = self._socket.recv_into
        while filled < length:
            count = receive(body[filled:])
            if not count:
                raise Closed
            filled += count
        return body.toreadonly()


class Writer:
    """Sends frames; any thread may use it.

    Frames may be held back, to leave in one send with later ones. Releases of
    shared memory ride in front of the next frame.
    """

    def __init__(self, sock: Stream) -> None:
        self._socket = sock
        # Held around everything that leaves, so that frames never mix.
        self.lock = threading.Lock()
        self._held: list[bytes] = []
        self._releases: list[tuple[int, int]] = []
        # Frames made where waiting for the lock could deadlock: inside the garbage collector.
        self._deferred: deque[bytes] = deque()
        # Called under the lock before anything is sent: moves blocks that died to releases.
        self.before_send: Callable[[], None] = lambda: None

    def release(self, segment: int, offset: int) -> None:
        """Notes a block that the server may reuse; the caller holds the lock."""
        self._releases.append((segment, offset))

    def hold(self, data: bytes) -> None:
        """Queues a frame for the next send."""
        with self.lock:
            self._held.append(data)

    def hold_locked(self, data: bytes) -> None:
        """Like hold; the caller holds the lock."""
        self._held.append(data)

    def send(self, data: bytes) -> None:
        """Sends a frame, and before it all that was held back."""
        with self.lock:
            self.send_locked(data)

    def flush(self) -> None:
        """Sends what was held back, if anything."""
        with self.lock:
            self.send_locked(b"")

    def defer(self, data: bytes) -> None:
        """Like send, but never waits for another sender: then the frame leaves with the next one."""
        self._deferred.append(data)
        self.try_flush()

    def try_flush(self) -> None:
        """Sends what waits unless somebody is sending; errors are left to whoever sends next."""
        if self.lock.acquire(blocking=False):
            try:
                self.send_locked(b"")
            except (Closed, OSError):
                pass
            finally:
                self.lock.release()

    def holds(self) -> bool:
        """Whether frames are held back."""
        return bool(self._held)

    def waiting(self) -> bool:
        """Whether deferred frames wait for the next send."""
        return bool(self._deferred)

    def send_locked(self, data: bytes) -> None:
        """Like send; the caller holds the lock."""
        self.before_send()
        if self._releases:
            self._held.append(release_frame(self._releases))
            self._releases = []
        while self._deferred:
            self._held.append(self._deferred.popleft())
        if self._held:
            if data:
                self._held.append(data)
            data = b"".join(self._held)
            self._held.clear()
        if data:
            try:
                self._socket.sendall(data)
            except OSError as error:
                if error.errno not in _ENDED:
                    raise
                raise Closed from None
