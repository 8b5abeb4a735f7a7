"""Memory of NVIDIA GPUs, through the driver library alone: no toolkit and no third-party module.

The library is opened when the first tensor on a GPU must come to the host. ``NESO_CUDA_DRIVER`` names another one.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import Any, Optional

from .errors import TritonModelException

_lock = threading.Lock()
_driver: Optional[Driver] = None


class Driver:
    """The functions of the driver library that are used here."""

    def __init__(self, path: str) -> None:
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise TritonModelException(f"A tensor is stored in GPU and there is no CUDA driver: {error}") from None
        self._contexts: dict[int, ctypes.c_void_p] = {}
        self._call("cuInit", ctypes.c_uint(0))

    def _call(self, name: str, *arguments: Any) -> None:
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

    def _context(self, device: int) -> ctypes.c_void_p:
        """The context that the frameworks use too; kept until the process ends."""
        context = self._contexts.get(device)
        if context is None:
            handle = ctypes.c_int()
            self._call("cuDeviceGet", ctypes.byref(handle), ctypes.c_int(device))
            context = ctypes.c_void_p()
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
            self._contexts[device] = context
        return context

    def to_host(self, address: int, size: int, device: int) -> bytearray:
        """A copy of device memory, after everything that the device was told to do before."""
        data = bytearray(size)
        if not size:
            return data
        with _lock:
            context = self._context(device)
        self._call("cuCtxPushCurrent_v2", context)
        try:
            self._call("cuCtxSynchronize")
            target = (ctypes.c_char * size).from_buffer(data)
            self._call("cuMemcpyDtoH_v2", target, ctypes.c_uint64(address), ctypes.c_size_t(size))
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
        return data


def driver() -> Driver:
    """The driver; TritonModelException where there is none."""
    global _driver
    with _lock:
        if _driver is None:
            name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
            _driver = Driver(os.environ.get("NESO_CUDA_DRIVER") or name)
        return _driver


class Memory:
    """A tensor's data on a GPU. The owner frees it when the last reference is gone."""

    __slots__ = ("address", "device", "kind", "owner", "size")

    def __init__(self, address: int, size: int, kind: int, device: int, owner: Any) -> None:
        self.address, self.size, self.kind, self.device, self.owner = address, size, kind, device, owner

    def to_host(self) -> bytearray:
        """A copy in host memory."""
        return driver().to_host(self.address, self.size, self.device)
