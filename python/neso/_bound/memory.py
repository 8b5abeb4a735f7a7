"""Output memory of a user's process: blocks that the server reads, and arrays that are allocated in them."""

from __future__ import annotations

import contextlib
import math
import mmap
import threading
import weakref
from collections import deque
from typing import Any, Optional

import numpy as np

from neso_runtime.frames import DEFAULT_INLINE_LIMIT
from neso_runtime.memory import ALIGNMENT, Outputs

Block = tuple[int, int]

# The store of the connection whose callable runs on this thread.
current = threading.local()


class _Root(weakref.ref):  # type: ignore[type-arg]
    """A weak reference to the array of bytes that all arrays in one block come from."""

    __slots__ = ("address", "block", "key")

    address: int
    block: Block
    key: int


def _punch(memory: memoryview, start: int, end: int) -> None:
    """Gives back the whole pages between start and end, which read as zeros then."""
    start, end = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
    if start < end and hasattr(mmap, "MADV_REMOVE"):
        with contextlib.suppress(OSError):  # advice
            memory.obj.madvise(mmap.MADV_REMOVE, start, end - start)  # type: ignore[attr-defined]


class SharedOutputs(Outputs):
    """Blocks, some of which arrays of the user lie in.

    Such a block is free again when its array is gone and the server has
    released everything of it that was sent.
    """

    def __init__(self) -> None:
        super().__init__()
        self._mappings: dict[int, memoryview] = {}
        self._roots: dict[int, _Root] = {}  # by id of the array of bytes
        self._holds: dict[Block, int] = {}  # by block: the array, and what was sent of it
        self._sent: dict[Block, list[Block]] = {}  # what was sent, and the block that it lies in
        # Whether a block was taken since the last look, and whether free ones may hold pages.
        self._busy = self._dirty = False
        # Roots that died; the garbage collector may run anywhere, so they wait for the next call.
        self._dead: deque[_Root] = deque()

    def add(self, number: int, memory: memoryview) -> None:
        super().add(number, memory)
        # Arrays over an array would refer to what that one comes from; over the mapping itself they do not.
        self._mappings[number] = memory

    def take(self, size: int) -> Optional[Block]:
        if self._dead:
            self._bury()
        self._busy = self._dirty = True
        return super().take(size)

    def trim(self) -> None:
        """Gives the pages of free blocks back to the system unless a block was taken since the last call."""
        if self._dead:
            self._bury()
        busy, self._busy = self._busy, False
        if busy or not self._dirty:
            return
        self._dirty = False
        if not self._used:
            for memory in self._mappings.values():
                _punch(memory, 0, len(memory))
            return
        for size, blocks in self._free.items():
            for segment, offset in blocks:
                _punch(self._mappings[segment], offset, offset + size)

    def array(self, block: Block, size: int) -> np.ndarray[Any, Any]:
        """The bytes of a block that was taken, as an array that owns the block."""
        memory = self._memory[block[0]]
        root: np.ndarray[Any, Any] = np.ndarray[Any, Any]((size,), np.uint8, self._mappings[block[0]], block[1])
        made = _Root(root, self._dead.append)
        made.block, made.key, made.address = block, id(root), memory.ctypes.data + block[1]
        self._roots[made.key] = made
        self._holds[block] = 1
        return root

    def find(self, array: np.ndarray[Any, Any]) -> Optional[Block]:
        """Where an array lies that was allocated here, as it is sent; None for any other."""
        base = array.base
        if base is None:
            return None
        root = self._roots.get(id(base))
        if root is None or root() is not base:
            return None
        segment, offset = root.block
        offset += array.__array_interface__["data"][0] - root.address
        if offset % ALIGNMENT:
            return None
        where = (segment, offset)
        self._holds[root.block] += 1
        self._sent.setdefault(where, []).append(root.block)
        return where

    def release(self, blocks: list[Block]) -> None:
        if self._sent:
            rest = []
            for block in blocks:
                owners = self._sent.get(block)
                if owners:
                    self._let_go(owners.pop())
                    if not owners:
                        del self._sent[block]
                else:
                    rest.append(block)
            blocks = rest
        if blocks:
            super().release(blocks)

    def _let_go(self, block: Block) -> None:
        self._holds[block] -= 1
        if not self._holds[block]:
            del self._holds[block]
            super().release([block])

    def _bury(self) -> None:
        while self._dead:
            root = self._dead.popleft()
            del self._roots[root.key]
            self._let_go(root.block)


def empty(shape: Any, dtype: Any = float) -> np.ndarray[Any, Any]:
    """An array for an output, uninitialized like ``numpy.empty``.

    Inside a bound callable a large one lies in memory that the server reads:
    returned as an output, also in parts along the first axis, it is not copied.
    Anywhere else it is an ordinary array.
    """
    kind = np.dtype(dtype)
    dims = tuple(int(d) for d in np.atleast_1d(shape)) if np.ndim(shape) == 0 else tuple(int(d) for d in shape)
    store = getattr(current, "store", None)
    size = math.prod(dims) * kind.itemsize
    if store is None or kind.hasobject or size <= DEFAULT_INLINE_LIMIT:
        return np.empty(dims, kind)
    made: np.ndarray[Any, Any] = np.ndarray[Any, Any](dims, kind, store.bytes(size))
    return made
