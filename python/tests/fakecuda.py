"""GPUs of our own making for tests: the fake driver, what the server does with it, and what a framework does."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np

from neso_runtime import dlpack
from neso_runtime.datatypes import BF16, DTYPES, number_of
from neso_runtime.gpu import cuda
from neso_runtime.tensor import Tensor

SOURCE = Path(__file__).resolve().parents[2] / "internal" / "cuda" / "testdata" / "fakecuda.c"
FLIP = 1 << 62
UUIDS = [b"neso-fake-gpu-%02d" % n for n in range(8)]


def compile_driver(folder):
    """The path of the compiled library."""
    path = Path(folder) / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", path, SOURCE], check=True)
    return path


class Machine:
    """A machine with GPUs: the folder that its processes share, and the server's own use of the driver."""

    def __init__(self, compiled, folder, count=2):
        self.folder = Path(folder)
        self.folder.mkdir()
        # A copy is a library of its own, with nothing left of other tests in this process.
        self.library = str(shutil.copy(compiled, self.folder / "libcuda.so.1"))
        self.env = {"NESO_CUDA_DRIVER": self.library, "FAKE_CUDA": str(self.folder), "FAKE_CUDA_COUNT": str(count)}
        self.driver = ctypes.CDLL(self.library)

    def call(self, name, *arguments):
        status = getattr(self.driver, name)(*arguments)
        assert status == 0, (name, status)

    def allocate(self, size, uuid):
        """Memory on the device with this UUID, as the server makes it. FAKE_CUDA is in this process's environment."""
        handle, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuDeviceGet", ctypes.byref(handle), UUIDS.index(uuid))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
        self.call("cuCtxPushCurrent_v2", context)
        try:
            self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
            name = (ctypes.c_ubyte * 64)()
            self.call("cuIpcGetMemHandle", name, address)
        finally:
            self.call("cuCtxPopCurrent_v2", ctypes.byref(context))
        return Allocation(self, address.value, bytes(name))

    def fail(self, function, status):
        """Has a function of the driver fail in every process; 0 ends that."""
        path = self.folder / f"fail-{function}"
        if status:
            path.write_text(str(status))
        else:
            path.unlink()

    def log(self):
        """What processes did since the last call, each as (pid, what, bytes)."""
        path = self.folder / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        found = []
        for line in lines:
            pid, rest = line.split(" ", 1)
            what, size = rest.rsplit(" ", 1)
            found.append((int(pid), what, int(size)))
        faults = [entry for entry in found if entry[1].startswith("fault")]
        assert not faults, faults
        return found

    def opened(self):
        """The names of allocations that living processes have open."""
        return sorted(p.name for p in self.folder.glob("open-*") if os.path.exists(f"/proc/{p.name.rsplit('-', 1)[1]}"))

    def allocated(self):
        """The names of allocations that living processes have made."""
        return sorted(p.name for p in self.folder.glob("mem-*") if os.path.exists(f"/proc/{p.name.split('-')[2]}"))


class Allocation:
    """Memory on a device in the process that made it; slices are its bytes, as a kernel would see them."""

    def __init__(self, machine, address, handle):
        self.machine, self.address, self.handle = machine, address, handle

    def __getitem__(self, part):
        data = (ctypes.c_char * (part.stop - part.start))()
        self.machine.driver.fakeRead(data, ctypes.c_uint64(self.address + part.start), ctypes.c_size_t(len(data)))
        return data.raw

    def __setitem__(self, part, data):
        assert part.stop - part.start == len(data)
        to = ctypes.c_uint64(self.address + part.start)
        self.machine.driver.fakeWrite(to, bytes(data), ctypes.c_size_t(len(data)))


class OnDevice:
    """What a framework's tensor on a GPU looks like: the array's memory at a device address."""

    def __init__(self, array, number=None, device=0):
        self.array, self.device = array, device
        self.number = number or number_of(array.dtype)
        self.streams = []

    def __dlpack_device__(self):
        return (dlpack.CUDA, self.device)

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        address = self.array.ctypes.data ^ FLIP
        memory = cuda.Memory(address, self.array.nbytes, dlpack.CUDA, self.device, self.array)
        return dlpack.export_device(memory, self.array.shape, self.number)


class Allocated:
    """Memory of a real device, for as long as this object is there."""

    def __init__(self, array, device):
        self._device = cuda.driver().device(device)
        self.address = ctypes.c_uint64()
        with self._device._current():
            self._device._driver.call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(array.nbytes))
            data = ctypes.c_void_p(array.ctypes.data)
            self._device._driver.call("cuMemcpyHtoD_v2", self.address, data, ctypes.c_size_t(array.nbytes))

    def __del__(self):
        with self._device._current():
            self._device._driver.call("cuMemFree_v2", self.address)


def place(name, array, device=0, number=None):
    """A model's tensor on a GPU, on a real one where none is faked."""
    array = np.asarray(array, order="C")
    if "FAKE_CUDA" in os.environ:
        return Tensor.from_dlpack(name, OnDevice(array, number, device))
    allocated = Allocated(array, device)
    memory = cuda.Memory(allocated.address.value, array.nbytes, dlpack.CUDA, device, allocated)
    return Tensor.from_dlpack(name, dlpack.export_device(memory, array.shape, number or number_of(array.dtype)))


def look(tensor):
    """What lies in a tensor on a GPU, as a kernel would see it, and its device."""
    assert not tensor.is_cpu()
    (memory, shape), number = dlpack.load(tensor.to_dlpack())
    assert (memory.kind, memory.device) == tensor.__dlpack_device__()
    if "FAKE_CUDA" in os.environ:
        data = ctypes.create_string_buffer(memory.size)
        driver = ctypes.CDLL(os.environ["NESO_CUDA_DRIVER"])
        driver.fakeRead(data, ctypes.c_uint64(memory.address), ctypes.c_size_t(memory.size))
        found = data.raw
    else:
        found = bytes(memory.to_host())
    dtype = np.uint16 if number == BF16 else DTYPES[number]
    return np.frombuffer(found, dtype).reshape(shape), memory.device
