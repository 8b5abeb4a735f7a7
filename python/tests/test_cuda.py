"""Tensors on a GPU, with a driver library of our own making: it knows what a GPU would be told, and keeps "device"
memory where the host must not look for it."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys

import numpy as np
import pytest
from harness import DTYPES
from test_bls import serve, triple
from test_execute import code, script

from neso_worker import cuda, dlpack
from neso_worker import triton_python_backend_utils as pb_utils

# Device addresses are those of the host with one bit flipped, so that reading them without the driver fails.
SOURCE = r"""
#include <stddef.h>
#include <stdint.h>
#include <string.h>
static const uint64_t flip = 1ULL << 62;
static int depth, fail;
static void *current;
int calls_synchronize;
void fake_fail(int status) { fail = status; }
int fake_depth(void) { return depth; }
int cuInit(unsigned flags) { return flags ? 1 : 0; }
int cuGetErrorString(int status, const char **text) { *text = status == 700 ? "an illegal memory access was encountered" : 0; return *text ? 0 : 1; }
int cuDeviceGet(int *device, int ordinal) { if (ordinal > 1) return 101; *device = ordinal + 40; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(uintptr_t)(device + 1000); return 0; }
int cuCtxPushCurrent_v2(void *context) { depth++; current = context; return 0; }
int cuCtxPopCurrent_v2(void **context) { depth--; *context = current; current = 0; return 0; }
int cuCtxSynchronize(void) { calls_synchronize++; return current ? 0 : 201; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
  if (!current) return 201;
  if (fail) return fail;
  memcpy(to, (void *)(uintptr_t)(from ^ flip), size);
  return 0;
}
"""
FLIP = 1 << 62


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cuda")
    (folder / "cuda.c").write_text(SOURCE)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", folder / "cuda.c"], check=True)
    return str(folder / "libcuda.so.1")


@pytest.fixture
def driver(library, monkeypatch):
    monkeypatch.setenv("NESO_CUDA_DRIVER", library)
    monkeypatch.setattr(cuda, "_driver", None)
    fake = ctypes.CDLL(library)
    fake.fake_fail(0)
    return fake


@pytest.fixture(autouse=True)
def _nothing_is_left():
    """Exceptions keep the frames they came through, and tensors in these."""
    yield
    gc.collect()
    assert not dlpack._exported


class OnDevice:
    """What a framework's tensor on a GPU looks like: the array's memory at a device address."""

    def __init__(self, array, number=None, device=0):
        self.array, self.device = array, device
        self.number = number or pb_utils.numpy_to_triton_type(array.dtype)
        self.streams = []

    def __dlpack_device__(self):
        return (dlpack.CUDA, self.device)

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        address = self.array.ctypes.data ^ FLIP
        memory = cuda.Memory(address, self.array.nbytes, dlpack.CUDA, self.device, self.array)
        return dlpack.export_device(memory, self.array.shape, self.number)


def test_a_tensor_on_a_gpu(driver):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    source = OnDevice(array, device=1)
    tensor = pb_utils.Tensor.from_dlpack("A", source)
    assert source.streams == [1]
    assert (tensor.name(), tensor.shape(), tensor.triton_dtype(), tensor.is_cpu()) == ("A", [2, 3], 11, False)
    assert tensor.__dlpack_device__() == (dlpack.CUDA, 1)
    with pytest.raises(pb_utils.TritonModelException) as failed:
        tensor.as_numpy()
    assert str(failed.value) == "Tensor is stored in GPU and cannot be converted to NumPy."
    assert tensor._payload() == array.tobytes() and driver.fake_depth() == 0
    assert ctypes.c_int.in_dll(driver, "calls_synchronize").value > 0
    # Another name, and a capsule of a tensor: still the same memory.
    for again in (pb_utils.Tensor.from_dlpack("B", tensor), pb_utils.Tensor.from_dlpack("B", tensor.to_dlpack())):
        array[0, 0] += 1
        assert again.is_cpu() is False and again.name() == "B" and again._raw().tolist() == array.tolist()


def test_the_memory_is_kept_and_freed(driver):
    array = np.arange(4, dtype=np.int16)
    before = sys.getrefcount(array)
    tensor = pb_utils.Tensor.from_dlpack("A", OnDevice(array))
    second = pb_utils.Tensor.from_dlpack("B", tensor)
    del tensor
    assert second._raw().tolist() == [0, 1, 2, 3] and sys.getrefcount(array) > before
    capsule = second.to_dlpack()
    del second
    assert sys.getrefcount(array) > before
    del capsule
    assert sys.getrefcount(array) == before and len(dlpack._exported) == 0


def test_bf16_and_empty(driver):
    raw = np.array([1, 2, 3], np.uint16)
    tensor = pb_utils.Tensor.from_dlpack("A", OnDevice(raw, number=14))
    assert tensor.triton_dtype() == 14 and tensor._payload() == raw.tobytes()
    empty = pb_utils.Tensor.from_dlpack("A", OnDevice(np.zeros((0, 3), np.float64)))
    assert empty._payload() == b"" and empty.shape() == [0, 3]


def test_faults_of_the_driver(driver):
    tensor = pb_utils.Tensor.from_dlpack("A", OnDevice(np.zeros(4, np.float32)))
    driver.fake_fail(700)
    with pytest.raises(pb_utils.TritonModelException) as failed:
        tensor._payload()
    assert str(failed.value) == "cuMemcpyDtoH_v2 failed: an illegal memory access was encountered (CUDA error 700)"
    assert driver.fake_depth() == 0
    driver.fake_fail(0)
    other = pb_utils.Tensor.from_dlpack("A", OnDevice(np.zeros(4, np.float32), device=7))
    with pytest.raises(pb_utils.TritonModelException, match=r"cuDeviceGet failed: CUDA error 101"):
        other._payload()


def test_no_driver(monkeypatch):
    monkeypatch.setenv("NESO_CUDA_DRIVER", "/nowhere/libcuda.so.1")
    monkeypatch.setattr(cuda, "_driver", None)
    tensor = pb_utils.Tensor.from_dlpack("A", OnDevice(np.zeros(4, np.float32)))
    with pytest.raises(pb_utils.TritonModelException, match="there is no CUDA driver"):
        tensor._payload()


@pytest.mark.parametrize("count", [4, 40_000])
def test_an_output_on_a_gpu_comes_to_the_host(tmp_path, library, count):
    source = f"""
    import sys
    sys.path.insert(0, {__file__.rsplit("/", 1)[0]!r})
    from test_cuda import OnDevice
    a = np.arange({count}, dtype=np.float32)
    return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", OnDevice(a))])]
    """
    with script(tmp_path, env={"NESO_CUDA_DRIVER": library}) as m:
        out = m.run(code(source)).outputs[0]
        assert DTYPES[out.number] == np.float32 and out.array().tolist() == list(range(count))
    with script(tmp_path / "without", env={"NESO_CUDA_DRIVER": "/nowhere/libcuda.so.1"}) as m:
        response = m.run(code(source))
        assert "there is no CUDA driver" in response.message and not response.outputs


def test_an_input_of_a_call_on_a_gpu_comes_to_the_host(tmp_path, library):
    source = f"""
    import sys
    sys.path.insert(0, {__file__.rsplit("/", 1)[0]!r})
    from test_cuda import OnDevice
    q = pb_utils.InferenceRequest(model_name="other", inputs=[
        pb_utils.Tensor.from_dlpack("A", OnDevice(np.arange(4, dtype=np.int32)))])
    return [text(q.exec().output_tensors()[0].as_numpy().tolist())]
    """
    with script(tmp_path, env={"NESO_CUDA_DRIVER": library}) as m:
        assert serve(m, source, triple(m, [])) == [0, 3, 6, 9]
