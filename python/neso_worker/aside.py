"""What loads a model, or ends one, steps aside for models that serve.

A process that computes without a pause keeps its processor until the next tick of the clock, some milliseconds, from
one that has just got something to do. Linux 6.12 and later let that one in at once where its time slice is the shorter
one, so what loads has a longer one. Its share of the processors stays what it is, so that loads come to an end however
busy the others are; a policy or a nice value would take it away, and need a privilege to come back. Older kernels, and
other systems, know nothing of this.

One that has just had more than its share is not let in at once, and then waits for all of the slice: so what loads asks
in between, each millisecond or so, whether somebody waits.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from typing import Optional

# Above the slice that any process has by itself, which is 0.7 to 2.8 ms, and not by much: some kernels let a process
# that runs have all of it where the other one has just had more than its share.
SLICE_NS = 6_000_000

# The numbers of sched_getattr and sched_setattr by machine, and what they read and write: size, policy, flags, nice,
# priority, slice, and two that belong to deadlines.
_CALLS = {"x86_64": (315, 314), "aarch64": (275, 274)}
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
_OTHER = 0  # SCHED_OTHER

# How often threads and processes are looked for that others have begun meanwhile.
_LOOKS = 8


class Aside:
    """Whether this process, and what it starts, steps aside."""

    def __init__(self) -> None:
        self._usual = 0  # the slice before, in ns; 0 while it does not step aside
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall if os.name == "posix" else None
        if self._syscall is not None:
            self._syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        self._text = ctypes.create_string_buffer(_ATTRIBUTES.size)
        self._get, self._set = _CALLS.get(platform.machine(), (0, 0)) if os.path.exists("/proc/self/task") else (0, 0)

    def begin(self) -> None:
        """Steps aside: the calling thread, and all that it starts."""
        found = self._read(0)
        if found is not None and 0 < found[5] < SLICE_NS and self._write(0, found, SLICE_NS):
            self._usual = found[5]

    def give_way(self) -> None:
        """Lets whoever waits for this processor have it first; for between two parts of a load.

        It returns at once where nobody waits, and where this process does not step aside.
        """
        if self._usual:
            os.sched_yield()

    def end(self) -> None:
        """Has all threads of this process, and of what it has started, step aside no longer."""
        if not self._usual:
            return
        for _ in range(_LOOKS):
            if not self._back():
                break
        self._usual = 0

    def _back(self) -> bool:
        """Brings back what can be seen; whether there may be more by now."""
        own = _threads(os.getpid())
        if len(own) == 1 and not own[0][1]:
            # One thread, which has started nothing, as in most that are forked: it has begun none while it is here.
            found = self._read(0)
            if found is not None and found[5] == SLICE_NS:
                self._write(0, found, self._usual)
            return False
        any_found, processes = False, [os.getpid()]
        for process in processes:
            for thread, children in _threads(process):
                processes += children
                found = self._read(thread)
                if found is not None and found[5] == SLICE_NS:
                    any_found |= self._write(thread, found, self._usual)
        return any_found

    def _read(self, thread: int) -> Optional[tuple[int, ...]]:
        """The attributes of a thread, 0 for this one; None where there are none, or it is of another policy."""
        if not self._get or self._syscall is None:
            return None
        if self._syscall(self._get, thread, self._text, _ATTRIBUTES.size, 0) != 0:
            return None
        found = _ATTRIBUTES.unpack_from(self._text)
        return found if found[1] == _OTHER else None

    def _write(self, thread: int, found: tuple[int, ...], slice_ns: int) -> bool:
        _ATTRIBUTES.pack_into(self._text, 0, _ATTRIBUTES.size, _OTHER, found[2] & 1, found[3], 0, slice_ns, 0, 0)
        assert self._syscall is not None
        return bool(self._syscall(self._set, thread, self._text, 0, 0) == 0)


def _threads(process: int) -> list[tuple[int, list[int]]]:
    """The threads of a process, each with the numbers of the processes that it has started."""
    found = []
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            try:
                children = _contents(f"/proc/{process}/task/{thread}/children").split()
                found.append((int(thread), list(map(int, children))))
            except OSError:  # the kernel does not tell, or the thread has ended
                found.append((int(thread), []))
    except OSError:
        pass
    return found


def _contents(path: str) -> bytes:
    """A file of /proc; what open makes of one costs a forked process 70 pages more."""
    parts, fd = [], os.open(path, os.O_RDONLY)
    try:
        while part := os.read(fd, 1 << 16):
            parts.append(part)
    finally:
        os.close(fd)
    return b"".join(parts)
