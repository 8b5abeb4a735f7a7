"""Leases: which input blocks in shared memory a model still refers to.

Each received block is wrapped in an array of bytes of its own; every array over
it keeps that alive, so its death says that nobody can read the block any more.
A block that outlives its request's final response is given back with RELEASE
when it dies.

A block on a GPU is wrapped in a ``cuda.Memory``, whose death says less: the last reference may go before the last
kernel that reads it. It is given back when the device has done what the model told it, so always with RELEASE. A
thread of its own waits for that: a kernel may take long, and a driver that hangs must not hold up other senders, the
next batch or the end of the worker.
"""

from __future__ import annotations

import queue
import sys
import threading
import weakref
from collections import deque
from typing import Any, Optional, Union

import numpy as np

from .channel import Closed, Writer
from .datatypes import BYTES
from .errors import TritonModelException
from .gpu import cuda


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
        # Those on devices that are dead and owed, for the thread that waits for the devices. Unlike other queues it
        # may be given something inside the garbage collector.
        self._unfinished: queue.SimpleQueue[Lease] = queue.SimpleQueue()
        self._finisher: Optional[threading.Thread] = None
        self._starting = threading.Lock()
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
            if self._finisher is None:
                self._start()  # here, and not where the block dies: that may be anywhere
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
                self._unfinished.put(lease)
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
        while dead:
            lease = dead.popleft()
            if lease.owed and self._keep.pop(id(lease), None) is not None:
                if lease.device is None:
                    self._writer.release(*lease.block)
                else:
                    self._unfinished.put(lease)

    def _start(self) -> None:
        with self._starting:
            if self._finisher is None:
                self._finisher = threading.Thread(target=self._finish, name="neso-devices", daemon=True)
                self._finisher.start()

    def _finish(self) -> None:
        """Gives back blocks on devices, after one wait for each device with some. Ends with the process or the channel.

        What comes while a device is waited for waits for the next time: its kernels may have been started meanwhile.
        """
        waiting: list[Lease] = []
        failed: set[cuda.Device] = set()
        while True:
            waiting.append(self._unfinished.get())
            while not self._unfinished.empty():
                waiting.append(self._unfinished.get())
            idle: dict[cuda.Device, bool] = {}
            for lease in waiting:
                device = lease.device
                assert device is not None
                if device not in idle:
                    idle[device] = self._wait_for(device, failed)
            # Nobody knows what still reads on a device that failed: its blocks wait for the next one, and when this
            # process ends the server has them all.
            done = [lease for lease in waiting if idle[lease.device]]  # type: ignore[index]
            waiting = [lease for lease in waiting if not idle[lease.device]]  # type: ignore[index]
            if not done:
                continue
            try:
                with self._writer.lock:
                    for lease in done:
                        self._writer.release(*lease.block)
                    self._writer.send_locked(b"")
            except (Closed, OSError):
                return

    def _wait_for(self, device: cuda.Device, failed: set[cuda.Device]) -> bool:
        """Whether the device has done its work; the first failure of each is told."""
        try:
            device.synchronize()
        except TritonModelException as error:
            if device not in failed:
                failed.add(device)
                print(f"Memory on {cuda.uuid_text(device.uuid)} is not given back: {error}", file=sys.stderr)
            return False
        return True


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
