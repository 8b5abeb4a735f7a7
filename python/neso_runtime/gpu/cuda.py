"""Memory of NVIDIA GPUs, through the driver library alone: no toolkit and no third-party module.

The library is opened for the first tensor on a GPU, or for a model that takes its inputs there; a worker that has
neither never does. ``NESO_CUDA_DRIVER`` names another one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any, Optional

from ..errors import TritonModelException

HANDLE_SIZE = 64
_LAZY_PEER_ACCESS = 1

# Held while a driver, device or context is made. The garbage collector may run meanwhile, and with it what asks again.
_lock = threading.RLock()
_driver: Optional[Driver] = None


class _Handle(ctypes.Structure):
    """What names an allocation to other processes; the driver takes it by value."""

    _fields_ = [("reserved", ctypes.c_ubyte * HANDLE_SIZE)]


class Driver:
    """The driver library, and the devices that this process sees."""

    def __init__(self, path: str) -> None:
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise TritonModelException(f"A tensor is stored in GPU and there is no CUDA driver: {error}") from None
        self._devices: dict[int, Device] = {}
        self.call("cuInit", ctypes.c_uint(0))

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function; what it returns but 0 is a TritonModelException."""
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise TritonModelException(f"The CUDA driver has no function {name}.") from None
        function.restype = ctypes.c_int
        status = function(*arguments)
        if status:
            raise TritonModelException(f"{name} failed: {self._text(status)}")

    def _text(self, status: int) -> str:
        text = ctypes.c_char_p()
        describe = getattr(self._library, "cuGetErrorString", None)
        if describe is None or describe(status, ctypes.byref(text)) or text.value is None:
            return f"CUDA error {status}"
        return f"{text.value.decode('utf-8', 'replace')} (CUDA error {status})"

    def device(self, ordinal: int) -> Device:
        """The device that has this number in this process."""
        device = self._devices.get(ordinal)
        if device is None:
            with _lock:
                device = self._devices[ordinal] = self._devices.get(ordinal) or Device(self, ordinal)
        return device

    def devices(self) -> list[Device]:
        """All devices of this process, in its order."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return [self.device(ordinal) for ordinal in range(count.value)]

    def device_of(self, uuid: bytes) -> Device:
        """The device with this UUID; other processes may number devices otherwise."""
        for device in self.devices():
            if device.uuid == uuid:
                return device
        raise TritonModelException(f"The process does not see the GPU with UUID {uuid_text(uuid)}.")


class Device:
    """One GPU, in the context that the frameworks use too, which is kept until the process ends."""

    def __init__(self, driver: Driver, ordinal: int) -> None:
        self._driver = driver
        self.ordinal = ordinal
        self._handle = ctypes.c_int()
        driver.call("cuDeviceGet", ctypes.byref(self._handle), ctypes.c_int(ordinal))
        self._uuid: Optional[bytes] = None
        self._context: Optional[ctypes.c_void_p] = None

    @property
    def uuid(self) -> bytes:
        """16 bytes that name the device, or the part of it that the process was given, on the whole machine."""
        if self._uuid is None:
            uuid = (ctypes.c_ubyte * 16)()
            self._driver.call("cuDeviceGetUuid_v2", uuid, self._handle)
            self._uuid = bytes(uuid)
        return self._uuid

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        """Makes the device's context current on this thread."""
        call = self._driver.call
        if self._context is None:
            with _lock:
                if self._context is None:
                    context = ctypes.c_void_p()
                    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._handle)
                    self._context = context
        call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def synchronize(self) -> None:
        """Waits for all that the device was told to do in this process, on any stream."""
        with self._current():
            self._driver.call("cuCtxSynchronize")

    def to_host(self, address: int, size: int) -> bytearray:
        """A copy of device memory, after everything that the device was told to do before."""
        data = bytearray(size)
        with self._current():
            self._driver.call("cuCtxSynchronize")
            target = (ctypes.c_char * size).from_buffer(data)
            self._driver.call("cuMemcpyDtoH_v2", target, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return data

    def copy(self, to: int, address: int, size: int) -> None:
        """Copies within the device, after everything that it was told to do before; returns when the copy is there."""
        with self._current():
            self._driver.call("cuCtxSynchronize")
            self._driver.call("cuMemcpyDtoD_v2", ctypes.c_uint64(to), ctypes.c_uint64(address), ctypes.c_size_t(size))
            # A copy within a device returns before it is done, and no other process's stream waits for it.
            self._driver.call("cuCtxSynchronize")

    def open(self, handle: bytes) -> int:
        """The address of another process's allocation."""
        address = ctypes.c_uint64()
        given = _Handle.from_buffer_copy(handle)
        with self._current():
            self._driver.call("cuIpcOpenMemHandle_v2", ctypes.byref(address), given, ctypes.c_uint(_LAZY_PEER_ACCESS))
        return address.value

    def close(self, address: int) -> None:
        """Lets go of what open gave."""
        with self._current():
            self._driver.call("cuIpcCloseMemHandle", ctypes.c_uint64(address))


def driver() -> Driver:
    """The driver; TritonModelException where there is none."""
    global _driver
    with _lock:
        if _driver is None:
            name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
            _driver = Driver(os.environ.get("NESO_CUDA_DRIVER") or name)
        return _driver


def uuid_text(uuid: bytes) -> str:
    """A device's UUID as nvidia-smi shows it."""
    text = uuid.hex()
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Memory:
    """A tensor's data on a GPU. The owner frees it when the last reference is gone."""

    __slots__ = ("__weakref__", "address", "device", "kind", "owner", "size")

    def __init__(self, address: int, size: int, kind: int, device: int, owner: Any) -> None:
        self.address, self.size, self.kind, self.device, self.owner = address, size, kind, device, owner

    def to_host(self) -> bytearray:
        """A copy in host memory."""
        if not self.size:
            return bytearray()
        return driver().device(self.device).to_host(self.address, self.size)
