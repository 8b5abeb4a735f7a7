"""Private views of memory that others read too: what a model writes there only the model sees.

A second mapping of a segment is private (``MAP_PRIVATE``): the system copies a page when it is written to, and the
others go on reading theirs. From then on the page no longer follows the segment. So when a view has died its range is
looked at, and copied pages are dropped before anything else in the range is handed out; the tensor of that name is
copied as a whole from then on, which costs a twentieth of copying page by page.

Views that live at the same time never share a byte, and share a page (tensors that lie side by side) only where it was
not written to when the later one came: it would not see what its writer has put there since.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import threading
import weakref
from bisect import bisect_left
from collections import deque
from collections.abc import Hashable
from typing import Optional

import numpy as np

if sys.platform != "win32":
    import resource

PAGE = mmap.PAGESIZE
_SHIFT = PAGE.bit_length() - 1
_ENTRY = 8
# How many tensors that were written to are remembered.
_NAMES = 4096
# Of an entry of /proc/self/pagemap the highest byte has the bits 0x80, a page is there, 0x40, it is in swap, and 0x20,
# it belongs to a file. These values say that there is no page of the process's own.
_CLEAN = bytes(top for top in range(256) if not top & 0xC0 or top & 0x20)
# How much of /proc/self/pagemap is read at once.
_CHUNK = 1 << 16
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


class _Range(weakref.ref):
    """A weak reference to a view, which says where it lies: from start to end in memory."""

    __slots__ = ("end", "faults", "memory", "name", "start")

    memory: _Memory
    start: int
    end: int
    # The tensor that it was, and whose.
    name: Hashable
    # Page faults of the process when it was made, or before.
    faults: int


class _Memory:
    """The private mapping of one segment, and its ranges that are in use, in order."""

    def __init__(self, mapping: mmap.mmap) -> None:
        self.mapping = mapping
        self.view = memoryview(mapping)
        self.page = np.frombuffer(mapping, np.uint8, 1).__array_interface__["data"][0] >> _SHIFT
        self.starts: list[int] = []
        self.ranges: list[_Range] = []
        # Pages could not be dropped, or were copied though nobody wrote to them: nothing more is handed out.
        self.stale = False
        # Page faults of the process when its pages were last seen not to be copied unasked.
        self.faults = -1


class PrivateViews:
    """The private mappings of a process and the views in them. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pagemap = -1
        self._memories: dict[int, _Memory] = {}
        # Views die anywhere, even inside the garbage collector with the lock held.
        self._dead: deque[_Range] = deque()
        # Tensors that were written to: they are copied as a whole.
        self.written: set[Hashable] = set()

    def add(self, number: int, fd: int, size: int) -> None:
        """Maps a segment; where that cannot be, its tensors are copied."""
        pagemap = _usable(fd)
        if pagemap < 0:
            return
        self._pagemap = pagemap
        with contextlib.suppress(OSError):
            memory = _private(fd, size)
            if not self._copied(memory, 0, 1):  # the process locks, and so copies, whatever it maps
                self._memories[number] = memory

    def drop(self, number: int) -> None:
        """Lets go of a segment; the last view of it unmaps it."""
        self._memories.pop(number, None)

    def view(self, number: int, start: int, size: int, name: Hashable) -> Optional[np.ndarray]:
        """The bytes of a block that begins at start as an array of its own; None for one that is to be copied."""
        memory = self._memories.get(number)
        if memory is None or name in self.written or size <= 0:
            return None
        end = start + size
        with self._lock:
            faults = self._settle()
            if memory.stale:
                return None
            starts, ranges = memory.starts, memory.ranges
            at = bisect_left(starts, start)
            if at and not self._beside(memory, ranges[at - 1].end, start):
                return None
            if at < len(starts) and not self._beside(memory, end, starts[at]):
                return None
            if memory.faults != faults:  # mlockall copies all pages at once, which one of them tells
                page = start >> _SHIFT
                memory.stale = self._copied(memory, page, page + 1)
                if memory.stale:
                    return None
                memory.faults = faults
            view: np.ndarray = np.ndarray((size,), np.uint8, memory.view, start)
            made = _Range(view, self._dead.append)
            made.memory, made.start, made.end, made.name, made.faults = memory, start, end, name, faults
            starts.insert(at, start)
            ranges.insert(at, made)
        return view

    def untouched(self, number: int, start: int) -> bool:
        """Whether the view that begins there has not been written to, or there is none."""
        memory = self._memories.get(number)
        if memory is None:
            return True
        with self._lock:
            at = bisect_left(memory.starts, start)
            if at == len(memory.starts) or memory.starts[at] != start:
                return True
            found = memory.ranges[at]
            return not self._copied(memory, start >> _SHIFT, -(-found.end >> _SHIFT))

    def settle(self) -> None:
        """Drops what was written to views that have died."""
        if self._dead:
            with self._lock:
                self._settle()

    def _beside(self, memory: _Memory, end: int, start: int) -> bool:
        """Whether something may begin at start while, or that ends at end is in use."""
        if end > start:
            return False
        page = start >> _SHIFT
        return (end - 1) >> _SHIFT != page or not self._copied(memory, page, page + 1)

    def _settle(self) -> int:
        """Forgets views that have died, drops the pages copied for them, and returns the page faults so far."""
        ended = []
        while self._dead:
            ended.append(self._dead.popleft())
        faults = _faults()  # with all that those have caused
        for gone in ended:
            memory = gone.memory
            starts, ranges = memory.starts, memory.ranges
            at = bisect_left(starts, gone.start)
            del starts[at], ranges[at]
            if gone.faults == faults:
                continue  # no page was copied anywhere
            begin, end = gone.start >> _SHIFT, -(-gone.end >> _SHIFT)
            if not self._copied(memory, begin, end):
                continue
            if len(self.written) >= _NAMES:  # of instances that are long gone
                self.written.clear()
            self.written.add(gone.name)
            # What a neighbour has of the first and the last page goes with that one.
            if at and (ranges[at - 1].end - 1) >> _SHIFT == begin:
                begin += 1
            if at < len(starts) and starts[at] >> _SHIFT == end - 1:
                end -= 1
            try:
                if begin < end:
                    memory.mapping.madvise(mmap.MADV_DONTNEED, begin << _SHIFT, (end - begin) << _SHIFT)
            except OSError:  # the model has locked all its memory
                memory.stale = True
        return faults

    def _copied(self, memory: _Memory, begin: int, end: int) -> bool:
        """Whether the process has a page of its own from page begin up to end."""
        return has_own_page(self._pagemap, memory.page + begin, memory.page + end)


def _faults() -> int:
    """How many page faults the process has had. A page is copied by one."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt + usage.ru_majflt


# The descriptor of /proc/self/pagemap, -1 when it is of no use, and the process that opened it.
_opened = (-1, 0)


def _private(fd: int, size: int) -> _Memory:
    return _Memory(mmap.mmap(fd, size, mmap.MAP_PRIVATE | _NORESERVE, mmap.PROT_READ | mmap.PROT_WRITE))


def _usable(fd: int) -> int:
    """A descriptor of /proc/self/pagemap where the system does what this module needs; -1 where it does not.

    It is of no use where NESO_PRIVATE_INPUTS=0 says so. Limits on the memory of the process count private mappings
    whole, whatever is written to.
    """
    global _opened
    if sys.platform != "linux" or os.environ.get("NESO_PRIVATE_INPUTS") == "0":
        return -1
    for limit in (resource.RLIMIT_DATA, resource.RLIMIT_AS):
        if resource.getrlimit(limit)[0] != resource.RLIM_INFINITY:
            return -1
    if _opened[1] != os.getpid():
        _opened = (_try(fd), os.getpid())
    return _opened[0]


def _try(fd: int) -> int:
    """Opens /proc/self/pagemap and tries with one page of a segment whether all is as expected."""
    try:
        pagemap = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        memory = _private(fd, 1)
        mapping = memory.mapping
        first = mapping[0]
        seen = [has_own_page(pagemap, memory.page, memory.page + 1)]
        before = _faults()
        mapping[0] = first
        seen += [_faults() > before, has_own_page(pagemap, memory.page, memory.page + 1)]
        mapping.madvise(mmap.MADV_DONTNEED)
        seen.append(has_own_page(pagemap, memory.page, memory.page + 1))
        if seen == [False, True, True, False]:
            return pagemap
    except OSError:
        pass
    os.close(pagemap)
    return -1


def has_own_page(pagemap: int, begin: int, end: int) -> bool:
    """Whether the process has a page of its own among those numbered from begin up to end, not one of a file."""
    at, end = begin * _ENTRY, end * _ENTRY
    while at < end:
        entries = os.pread(pagemap, min(end - at, _CHUNK), at)
        if not entries or entries[_ENTRY - 1 :: _ENTRY].translate(None, _CLEAN):
            return True
        at += len(entries)
    return False
