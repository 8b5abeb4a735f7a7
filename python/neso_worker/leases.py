"""Leases: which input blocks in shared memory a model still refers to.

Each received block is wrapped in an array of bytes of its own; every array over
it keeps that alive, so its death says that nobody can read the block any more.
A block that outlives its request's final response is given back with RELEASE
when it dies.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

import numpy as np

from .channel import Writer


class Lease(weakref.ref):
    """A weak reference to the array of one block."""

    __slots__ = ("block", "owed")

    block: tuple[int, int]
    owed: bool


class Leases:
    """Hands out leases and sends the releases that are owed.

    A lease dies wherever the last reference goes, even inside the garbage
    collector with the writer's lock held. The callback therefore only appends
    to a deque; it is emptied under the writer's lock.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._dead: deque[Any] = deque()
        # Weak references must live until they fire.
        self._keep: dict[int, Lease] = {}
        # True while a batch runs: its response will take the releases along.
        self.busy = False
        writer.before_send = self._collect

    def lease(self, view: np.ndarray, segment: int, offset: int) -> Lease:
        """A lease on a block that was received."""
        made = Lease(view, self._died)
        made.block = (segment, offset)
        made.owed = False
        return made

    def owe(self, view: np.ndarray, segment: int, offset: int) -> None:
        """Has RELEASE sent as soon as the block is no longer referenced."""
        lease = self.lease(view, segment, offset)
        lease.owed = True
        self._keep[id(lease)] = lease

    def held(self, leases: list[Lease]) -> bool:
        """Whether any block is still referenced; RELEASE will come for each of them.

        The protocol marks a request as a whole: when one of its blocks is
        still referenced, all of them are released one by one.
        """
        if all(lease() is None for lease in leases):
            return False
        for lease in leases:
            lease.owed = True
            if lease() is None:
                self._writer.release(*lease.block)
            else:
                self._keep[id(lease)] = lease
        return True

    def pending(self) -> bool:
        """Whether releases may wait for the next send."""
        return bool(self._dead)

    def _died(self, lease: Lease) -> None:
        self._dead.append(lease)
        if lease.owed and not self.busy:
            self._writer.try_flush()

    def _collect(self) -> None:
        dead = self._dead
        while dead:
            lease = dead.popleft()
            if lease.owed and self._keep.pop(id(lease), None) is not None:
                self._writer.release(*lease.block)
