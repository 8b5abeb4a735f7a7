"""Leases: which input blocks in shared memory a model still refers to.

Each received block is wrapped in an array of bytes of its own; every array over
it keeps that alive, so its death says that nobody can read the block any more.
A block that outlives its request's final response is given back with RELEASE
when it dies.

A block on a GPU is wrapped in a ``cuda.Memory``, whose death says less: the last reference may go before the last
kernel that reads it. It is given back when the device has done what the model told it, so always with RELEASE.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from typing import Any, Optional, Union

import numpy as np

from . import cuda
from .channel import Writer
from .datatypes import BYTES
from .errors import TritonModelException


class Lease(weakref.ref):
    """A weak reference to the array of one block."""

    __slots__ = ("block", "owed")

    block: tuple[int, int]
    owed: bool

    # What must have done its work before the block is given back.
    device: Optional[cuda.Device] = None


class DeviceLease(Lease):
    """A weak reference to the memory of one block on a GPU."""

    __slots__ = ("device",)


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
        # Those on devices that are dead and owed, those whose device could not be waited for, and these devices.
        self._unfinished: list[Lease] = []
        self._stuck: list[Lease] = []
        self._failed: set[cuda.Device] = set()
        # True while a batch runs: its response will take the releases along.
        self.busy = False
        writer.before_send = self._collect

    def lease(
        self, view: Union[np.ndarray, cuda.Memory], segment: int, offset: int, device: Optional[cuda.Device] = None
    ) -> Lease:
        """A lease on a block that was received; device is the one that it lies on, None for host memory."""
        if device is None:
            made = Lease(view, self._died)
        else:
            made = DeviceLease(view, self._died)
            made.device = device
        made.block = (segment, offset)
        made.owed = False
        return made

    def owe(
        self, view: Union[np.ndarray, cuda.Memory], segment: int, offset: int, device: Optional[cuda.Device] = None
    ) -> None:
        """Has RELEASE sent as soon as the block is no longer referenced."""
        lease = self.lease(view, segment, offset, device)
        lease.owed = True
        self._keep[id(lease)] = lease

    def held(self, leases: list[Lease]) -> bool:
        """Whether any block is still referenced; RELEASE will come for each of them.

        The protocol marks a request as a whole: when one of its blocks is
        still referenced, all of them are released one by one. The caller holds
        the writer's lock and sends next.
        """
        if not self.needed(leases):
            return False
        for lease in leases:
            lease.owed = True
            if lease() is not None:
                self._keep[id(lease)] = lease
            elif lease.device is None:
                self._writer.release(*lease.block)
            else:
                self._unfinished.append(lease)
        return True

    def needed(self, leases: list[Lease]) -> bool:
        """Whether any block is still referenced, or may be read by a device that works on."""
        return any(lease() is not None or lease.device is not None for lease in leases)

    def pending(self) -> bool:
        """Whether releases may wait for the next send."""
        return bool(self._dead)

    def _died(self, lease: Lease) -> None:
        self._dead.append(lease)
        if lease.owed and not self.busy:
            self._writer.try_flush()

    def _collect(self) -> None:
        dead = self._dead
        while dead or self._unfinished:
            if not dead:
                self._finish()
                continue
            lease = dead.popleft()
            if lease.owed and self._keep.pop(id(lease), None) is not None:
                if lease.device is None:
                    self._writer.release(*lease.block)
                else:
                    self._unfinished.append(lease)

    def _finish(self) -> None:
        """Gives back blocks on devices, once for each device that has done its work."""
        leases = self._stuck + self._unfinished
        self._stuck, self._unfinished = [], []
        idle: dict[cuda.Device, bool] = {}
        for lease in leases:
            device = lease.device
            assert device is not None
            if device not in idle:
                try:
                    device.synchronize()
                    idle[device] = True
                except TritonModelException as error:
                    # Nobody knows what still reads there: the next one to be given back tries again, and when this
                    # process ends the server has them all.
                    idle[device] = False
                    if device not in self._failed:
                        self._failed.add(device)
                        print(f"Memory on {cuda.uuid_text(device.uuid)} is not given back: {error}", file=sys.stderr)
            if idle[device]:
                self._writer.release(*lease.block)
            else:
                self._stuck.append(lease)


def lease_of(tensor: Any) -> Optional[Lease]:
    """The lease on the block that a received tensor lies in, if it is sent as it came: nobody has asked for its data.

    Who sends the block in place of a copy must keep the model from writing to it: a memoryview over the array of the
    block in its place has the tensor's data copied for whoever asks.
    """
    source = tensor._source
    if type(source) is memoryview:
        source = source.obj
    if tensor._array is not None or tensor._number == BYTES or type(source) is not np.ndarray:
        return None
    for reference in weakref.getweakrefs(source):
        if type(reference) is Lease:
            return reference
    return None
