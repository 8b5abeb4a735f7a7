"""Shared memory: segments mapped from received descriptors, and blocks for outputs."""

from __future__ import annotations

import mmap
import os
import socket
import sys
from collections.abc import Hashable
from typing import Any, Optional

import numpy as np

from .channel import Stream
from .frames import ProtocolError
from .private import PrivateViews

INPUTS, OUTPUTS, LENT, BOARD, BELL = 0, 1, 2, 5, 6
# On the board, an instance's second word, from its first.
RECALLED = 8
ALIGNMENT = 64


class Segments:
    """The segments of one worker: inputs to read, outputs to write, and what other models' segments it was lent."""

    def __init__(self, descriptors: Stream, outputs: Outputs) -> None:
        self._descriptors = descriptors
        # Whether models are given copies of blocks that something else reads too, and not private views.
        self.copied = False
        self.inputs: dict[int, memoryview] = {}
        # Those of inputs that other models' workers write.
        self.lent: set[int] = set()
        # All of them once more, for models that write to what others read too.
        self.private = PrivateViews()
        self.outputs = outputs
        # The board's words; None before the server has sent it.
        self.board: Optional[memoryview] = None
        # The end of a pipe by which the server says that held answers are to be sent; comes with the board.
        self.bell: Optional[int] = None

    def add(self, number: int, kind: int, size: int) -> None:
        """Maps a segment whose descriptor comes next on the descriptor channel."""
        if sys.platform == "win32":
            self._add_section(number, kind, size)
            return
        fd = receive_descriptors(self._descriptors, 1)[0]
        if kind == BELL:
            self.bell = fd
            return
        try:
            if size <= 0 or os.fstat(fd).st_size < size:
                raise ProtocolError(f"segment {number}: {size} bytes announced, {os.fstat(fd).st_size} there")
            if kind == INPUTS:  # models write to blocks that nothing else reads where they lie
                mapping = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
                self.inputs[number] = memoryview(mapping)
                self.private.add(number, fd, size)
            elif kind == LENT:
                self.inputs[number] = memoryview(mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ))
                self.lent.add(number)
                self.private.add(number, fd, size)
            elif kind == OUTPUTS:
                mapping = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
                self.outputs.add(number, memoryview(mapping))
            elif kind == BOARD:
                mapping = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
                self.board = memoryview(mapping).cast("Q")
            else:
                raise ProtocolError(f"segment {number}: unknown kind {kind}")
        finally:
            os.close(fd)

    if sys.platform == "win32":

        def _add_section(self, number: int, kind: int, size: int) -> None:
            """The same on Windows, where there are no private views, and no board."""
            from .windows.sections import receive

            if kind not in (INPUTS, LENT, OUTPUTS):
                raise ProtocolError(f"segment {number}: unknown kind {kind}")
            memory = receive(self._descriptors, number, size, kind != LENT)
            if kind == OUTPUTS:
                self.outputs.add(number, memory)
                return
            self.inputs[number] = memory
            if kind == LENT:
                self.lent.add(number)

    def words(self, offset: Any) -> Optional[memoryview]:
        """An instance's words of the board, from begun to RECALLED; None when INIT said no offset."""
        if offset is None:
            return None
        begun = int(offset) // 8
        if self.board is None or not 0 <= begun < len(self.board) - RECALLED:
            raise ProtocolError(f"init: no board at offset {offset}")
        return self.board[begun : begun + RECALLED + 1]

    def drop(self, number: int) -> None:
        """Lets go of a lent segment, which the server no longer refers to; the last array over it unmaps it."""
        if number not in self.lent:
            raise ProtocolError(f"drop: segment {number} was not lent")
        self.lent.remove(number)
        del self.inputs[number]
        self.private.drop(number)

    def view(self, segment: int, offset: int, size: int) -> np.ndarray:
        """A block of an input segment as an array of its own bytes, which every array over it refers to.

        numpy lets views refer to the array that they come from, if that does not come from another one, but looks
        through a memoryview at what is behind it.
        """
        memory = self.inputs.get(segment)
        if memory is None:
            raise ProtocolError(f"tensor entry: unknown segment {segment}")
        if offset + size > len(memory):
            raise ProtocolError(f"tensor entry: offset {offset}, {size} bytes, segment {segment} has {len(memory)}")
        found: np.ndarray = np.ndarray((size,), np.uint8, memory, offset)
        return found

    def mine(self, segment: int, offset: int, size: int, name: Hashable) -> tuple[np.ndarray, bool]:
        """A block that something else reads too, for the model to write to: a private view, or (True) a copy.

        The name says which tensor of whom it is: what has written to it will write to the next one of the name.
        """
        if not self.copied:
            view = self.private.view(segment, offset, size, name)
            if view is not None:
                return view, False
        return self.view(segment, offset, size).copy(), True


def receive_descriptors(sock: socket.socket, count: int) -> list[int]:
    """The descriptors of the next message, count of them."""
    data, fds, flags, _ = socket.recv_fds(sock, 1, count)
    if not data:
        raise ProtocolError("descriptor channel: closed")
    if len(fds) != count or flags & socket.MSG_CTRUNC:
        for fd in fds:
            os.close(fd)
        raise ProtocolError(f"descriptor channel: {len(fds)} descriptors, want {count}")
    for fd in fds:
        os.set_inheritable(fd, False)
    return fds


def size_class(size: int) -> int:
    """The block size for a payload: four steps to each power of two, at least 64 bytes."""
    if size <= ALIGNMENT:
        return ALIGNMENT
    step = max(1 << ((size - 1).bit_length() - 3), ALIGNMENT)
    return (size + step - 1) // step * step


class Outputs:
    """Blocks in the worker's output segments.

    Released blocks wait in a list by size; when everything is free the
    segments start afresh, which undoes fragmentation.
    """

    def __init__(self) -> None:
        self._memory: dict[int, np.ndarray] = {}
        self._top: dict[int, int] = {}
        self._free: dict[int, list[tuple[int, int]]] = {}
        self._used: dict[tuple[int, int], int] = {}

    def add(self, number: int, memory: memoryview) -> None:
        """Takes a further segment into use."""
        self._memory[number] = np.frombuffer(memory, np.uint8)
        self._top[number] = 0

    def capacity(self) -> int:
        """Bytes of all segments."""
        return sum(map(len, self._memory.values()))

    def take(self, size: int) -> Optional[tuple[int, int]]:
        """A block of at least size bytes as (segment, offset), or None: more memory is needed."""
        want = size_class(size)
        blocks = self._free.get(want)
        if blocks:
            block = blocks.pop()
            self._used[block] = want
            return block
        for number, memory in self._memory.items():
            top = self._top[number]
            if top + want <= len(memory):
                self._top[number] = top + want
                block = (number, top)
                self._used[block] = want
                return block
        # Rather a block up to four times too large than more memory.
        fitting = [have for have, blocks in self._free.items() if blocks and want < have <= 4 * want]
        if not fitting:
            return None
        have = min(fitting)
        block = self._free[have].pop()
        self._used[block] = have
        return block

    def release(self, blocks: list[tuple[int, int]]) -> None:
        """Takes back blocks that the server no longer reads."""
        for block in blocks:
            size = self._used.pop(block, None)
            if size is None:
                raise ProtocolError(f"release: block at offset {block[1]} of segment {block[0]} is not in use")
            self._free.setdefault(size, []).append(block)
        if not self._used:
            self._free.clear()
            for number in self._top:
                self._top[number] = 0

    def write(self, block: tuple[int, int], data: np.ndarray) -> None:
        """Copies bytes, a flat uint8 array, into a block."""
        segment, offset = block
        self._memory[segment][offset : offset + data.size] = data
