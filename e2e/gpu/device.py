"""Memory of the GPU as a client of CUDA shared memory has it, through the driver alone."""

from __future__ import annotations

import ctypes
import subprocess

import gpus
import numpy as np

IDENTITY = (
    'backend: "identity"\ninput [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]\noutput [ { name: "OUT" data_type: TYPE_FP32 '
    "dims: [ -1 ] } ]\n"
)


class Handle(ctypes.Structure):
    """What names an allocation to other processes; the driver takes it by value."""

    _fields_ = [("reserved", ctypes.c_ubyte * 64)]


class Memory:
    """An allocation on device 0, with its handle for other processes. A context manager."""

    def __init__(self, size: int):
        self.size, self.call = size, gpus.cuda.driver().call
        device, self.context, self.address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxPushCurrent_v2", self.context)
        self.call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(size))
        handle = Handle()
        self.call("cuIpcGetMemHandle", ctypes.byref(handle), self.address)
        self.handle = bytes(handle.reserved)

    def write(self, array):
        data = np.ascontiguousarray(array).tobytes()
        assert len(data) <= self.size
        self.call("cuMemcpyHtoD_v2", self.address, data, ctypes.c_size_t(len(data)))
        self.call("cuCtxSynchronize")

    def read(self, dtype, shape):
        array = np.empty(shape, dtype)
        self.call("cuMemcpyDtoH_v2", array.ctypes.data_as(ctypes.c_void_p), self.address, ctypes.c_size_t(array.nbytes))
        return array

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call("cuMemFree_v2", self.address)


def query(what: str) -> list[str]:
    """nvidia-smi's answer, a line each device."""
    command = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip().splitlines()


def used_mib() -> int:
    """Memory in use on device 0."""
    return int(query("memory.used")[0])
