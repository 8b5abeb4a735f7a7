"""Shared memory on Windows: sections without names, whose handles the server puts into this process."""

from __future__ import annotations

import ctypes
import sys
import weakref
from typing import Any

assert sys.platform == "win32"  # nothing imports it elsewhere

import _winapi  # noqa: E402

from ..frames import ProtocolError  # noqa: E402

_kernel = ctypes.WinDLL("kernel32", use_last_error=True)
_kernel.MapViewOfFile.restype = ctypes.c_void_p
_kernel.MapViewOfFile.argtypes = [
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.c_uint32,
    ctypes.c_uint32,
    ctypes.c_size_t,
]
_kernel.UnmapViewOfFile.argtypes = [ctypes.c_void_p]

_WRITE, _READ = 0x2, 0x4
# A handle is a number of this many bytes on the descriptor channel.
_HANDLE = 8


def receive(descriptors: Any, number: int, size: int, writable: bool) -> memoryview:
    """Maps the segment whose handle comes next on the descriptor channel. The last view of it unmaps it."""
    told = descriptors.exactly(_HANDLE)
    if len(told) != _HANDLE:
        raise ProtocolError("descriptor channel: closed")
    handle = int.from_bytes(told, "little")
    try:
        if size <= 0:
            raise ProtocolError(f"segment {number}: {size} bytes announced")
        address = _kernel.MapViewOfFile(handle, _READ | (_WRITE if writable else 0), 0, 0, size)
        if not address:
            error = ctypes.WinError(ctypes.get_last_error())
            raise ProtocolError(f"segment {number}: {size} bytes cannot be mapped: {error}")
    finally:
        _winapi.CloseHandle(handle)
    return _view(address, size, writable)


def _view(address: int, size: int, writable: bool) -> memoryview:
    # What every array over the memory refers to is this one, no array of numpy: see Segments.view.
    memory = (ctypes.c_char * size).from_address(address)
    weakref.finalize(memory, _kernel.UnmapViewOfFile, address).atexit = False
    view = memoryview(memory)
    return view if writable else view.toreadonly()
