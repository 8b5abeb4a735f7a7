"""Tensors on GPUs between this worker and others, without a copy to the host.

The server makes segments on a device as it makes those of host memory, and names them by a handle of the driver
instead of a descriptor. Numbers, blocks, entries, leases and RELEASE are those of host memory (``memory``). Nothing
here calls the driver before the model gives or takes a tensor on a GPU.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Optional

from .. import dlpack
from ..calls import Calls
from ..errors import TritonModelException
from ..frames import COUNT, DEVICES, DROPPED, GROW_DEVICE, MAX_DEVICES, ProtocolError, frame
from ..link import Link
from ..memory import Outputs, size_class
from ..store import grow
from . import cuda

OUTPUTS, LENT = 3, 4

# Memory for outputs is asked for in steps of what the driver allocates at least.
_STEP = 2 << 20
# Seconds without another question after the server has refused memory on a device.
_REFUSED = 1.0

Block = tuple[int, int]


class DeviceSegment:
    """Memory of a GPU that the server made, opened when it is first needed."""

    __slots__ = ("_address", "_handle", "_lock", "_number", "_size", "_uuid", "device")

    def __init__(self, number: int, size: int, uuid: bytes, handle: bytes) -> None:
        self._number, self._size, self._uuid, self._handle = number, size, uuid, handle
        # The garbage collector may run while it is held, and with it what asks again.
        self._lock = threading.RLock()
        self._address = 0
        # None while it is not open.
        self.device: Optional[cuda.Device] = None

    def __len__(self) -> int:
        return self._size

    def open(self) -> int:
        """The address of the first byte in this process."""
        with self._lock:
            if self.device is None:
                try:
                    device = cuda.driver().device_of(self._uuid)
                    self._address = device.open(self._handle)
                except TritonModelException as error:
                    raise TritonModelException(f"Memory on a GPU cannot be opened: {error}") from None
                self.device = device
            return self._address

    def check(self, offset: int, size: int) -> None:
        """Checks that a block lies inside."""
        if offset + size > self._size:
            raise ProtocolError(f"tensor entry: offset {offset}, {size} bytes, segment {self._number} has {self._size}")

    def close(self) -> None:
        """Lets go of the memory; nothing refers to it any more."""
        with self._lock:
            if self.device is not None:
                self.device.close(self._address)
                self.device = None


class DeviceOutputs(Outputs):
    """Blocks in the worker's output segments on one GPU."""

    def add(self, number: int, memory: Any) -> None:
        self._memory[number] = memory
        self._top[number] = 0

    def segment(self, number: int) -> DeviceSegment:
        """The segment with this number."""
        return self._memory[number]  # type: ignore[return-value]


class Devices:
    """What a worker has on GPUs: segments that it was lent, and those that its outputs lie in."""

    def __init__(self, link: Link, calls: Calls) -> None:
        self._link, self._calls = link, calls
        # Segments that other models' workers write, by number.
        self.lent: dict[int, DeviceSegment] = {}
        # Blocks for outputs by UUID of the device, and by number of the segment.
        self._outputs: dict[bytes, DeviceOutputs] = {}
        self._owners: dict[int, DeviceOutputs] = {}
        # Until when the server is not asked for memory on a device, and devices whose memory cannot be opened.
        self._refused: dict[bytes, float] = {}
        self._closed: set[bytes] = set()
        self._told: Optional[bool] = None
        # The server lends no memory of GPUs, and is told of none: tensors there are copied to the host.
        self.hidden = False
        self._telling = threading.Lock()

    def tell(self) -> bool:
        """Tells the server once which GPUs this process sees; returns whether it sees any."""
        if self.hidden:
            return False
        with self._telling:
            if self._told is None:
                try:
                    uuids = [device.uuid for device in cuda.driver().devices()][:MAX_DEVICES]
                except TritonModelException:
                    uuids = []
                if uuids:
                    self._link.writer.send(frame(DEVICES, 0, 0, COUNT.pack(len(uuids)), *uuids))
                self._told = bool(uuids)
            return self._told

    # Under the link's lock, as frames come.

    def add(self, number: int, kind: int, size: int, uuid: bytes, handle: bytes) -> None:
        """Takes note of a segment."""
        if size <= 0:
            raise ProtocolError(f"segment {number}: {size} bytes announced")
        segment = DeviceSegment(number, size, uuid, handle)
        if kind == LENT:
            self.lent[number] = segment
        elif kind == OUTPUTS:
            outputs = self._outputs.setdefault(uuid, DeviceOutputs())
            outputs.add(number, segment)
            self._owners[number] = outputs
        else:
            raise ProtocolError(f"segment {number}: unknown kind {kind}")

    def release(self, blocks: list[Block]) -> list[Block]:
        """Takes back blocks that the server no longer reads; returns those that are not on a device."""
        owners = self._owners
        if not owners:
            return blocks
        rest = []
        for block in blocks:
            outputs = owners.get(block[0])
            if outputs is None:
                rest.append(block)
            else:
                outputs.release([block])
        return rest

    # Anywhere.

    def close(self, number: int) -> None:
        """Closes a lent segment, which the server no longer refers to, and says so: only then may it be freed."""
        segment = self.lent.pop(number)
        try:
            segment.close()
        except TritonModelException as error:
            # It is closed when this process ends, which the server waits for as well.
            print(f"Memory on a GPU cannot be closed: {error}", file=sys.stderr)
            return
        self._link.writer.send(frame(DROPPED, 0, 0, COUNT.pack(number)))

    def put(self, memory: cuda.Memory) -> Optional[Block]:
        """Copies a tensor's memory into a block on the same device; None says that it must go by the host."""
        size = memory.size
        if not size or self.hidden:
            return None
        try:
            uuid = cuda.driver().device(memory.device).uuid
        except TritonModelException:
            return None  # the copy to the host says more, if it fails too
        if uuid in self._closed:
            return None
        with self._link.changed:
            outputs = self._outputs.setdefault(uuid, DeviceOutputs())
            block = outputs.take(size)
        while block is None:
            if time.monotonic() < self._refused.get(uuid, 0.0):
                return None
            want = -(-size_class(size) // _STEP) * _STEP
            block, refusal = grow(self._link, self._calls, outputs, size, GROW_DEVICE.pack(want, uuid))
            if refusal is not None:
                self._refused[uuid] = time.monotonic() + _REFUSED
                return None
        segment = outputs.segment(block[0])
        try:
            address = segment.open()
        except TritonModelException as error:
            print(f"Tensors on {cuda.uuid_text(uuid)} go by host memory from now on. {error}", file=sys.stderr)
            self._closed.add(uuid)
            return None
        try:
            segment.device.copy(address + block[1], memory.address, size)  # type: ignore[union-attr]
        except TritonModelException:
            with self._link.changed:
                outputs.release([block])
            return None
        return block

    def view(self, number: int, offset: int, size: int) -> tuple[cuda.Memory, Optional[cuda.Device], str]:
        """A block of a lent segment, which a tensor and its capsules share, the device that it lies on, and what is
        wrong: then it is on no device and has no bytes."""
        segment = self.lent[number]
        segment.check(offset, size)
        try:
            address = segment.open()
        except TritonModelException as error:
            return cuda.Memory(0, 0, dlpack.CUDA, 0, None), None, str(error)
        device = segment.device
        assert device is not None
        return cuda.Memory(address + offset, size, dlpack.CUDA, device.ordinal, segment), device, ""
