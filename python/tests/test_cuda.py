"""Tensors on a GPU, with a driver library of our own making, and how they come to the host."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest
from fakecuda import Machine, OnDevice, compile_driver
from harness import DTYPES
from test_bls import serve, triple
from test_execute import code, script

from neso_runtime import dlpack
from neso_runtime.gpu import cuda
from neso_worker import triton_python_backend_utils as pb_utils


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return str(compile_driver(tmp_path_factory.mktemp("cuda")))


@pytest.fixture
def driver(library, monkeypatch, tmp_path):
    monkeypatch.setattr(cuda, "_driver", None)
    machine = Machine(library, tmp_path / "machine")
    for name, value in machine.env.items():
        monkeypatch.setenv(name, value)
    machine.driver.log, machine.driver.fail = machine.log, machine.fail
    return machine.driver


@pytest.fixture(autouse=True)
def _nothing_is_left():
    """Exceptions keep the frames they came through, and tensors in these."""
    yield
    gc.collect()
    assert not dlpack._exported


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
    assert tensor._payload() == array.tobytes() and driver.fakeDepth() == 0
    assert [what for _, what, _ in driver.log()] == ["synchronise", "dtoh"]
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
    driver.fail("cuMemcpyDtoH_v2", 700)
    with pytest.raises(pb_utils.TritonModelException) as failed:
        tensor._payload()
    assert str(failed.value) == "cuMemcpyDtoH_v2 failed: an illegal memory access was encountered (CUDA error 700)"
    assert driver.fakeDepth() == 0
    driver.fail("cuMemcpyDtoH_v2", 0)
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
    from fakecuda import OnDevice
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
    from fakecuda import OnDevice
    q = pb_utils.InferenceRequest(model_name="other", requested_output_names=[], inputs=[
        pb_utils.Tensor.from_dlpack("A", OnDevice(np.arange(4, dtype=np.int32)))])
    return [text(q.exec().output_tensors()[0].as_numpy().tolist())]
    """
    with script(tmp_path, env={"NESO_CUDA_DRIVER": library}) as m:
        assert serve(m, source, triple(m, [])) == [0, 3, 6, 9]


def test_outside_of_a_server(monkeypatch):
    """A model under test hands its tensors to stand-ins as they are, with no driver at all."""
    from neso_worker import local

    monkeypatch.setenv("NESO_CUDA_DRIVER", "/nowhere/libcuda.so.1")
    monkeypatch.setattr(cuda, "_driver", None)
    made = local.Local()
    made.models["other"] = lambda q: pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("Y", q.inputs()[0])])
    former = local.replace(made)
    try:
        gpu = pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 0)
        tensor = pb_utils.Tensor.from_dlpack("X", OnDevice(np.arange(3)))
        answer = pb_utils.InferenceRequest("", 0, [tensor], [], "other", preferred_memory=gpu).exec()
        (out,) = answer.output_tensors()
        assert (out.name(), out.is_cpu(), out._memory is tensor._memory) == ("Y", False, True)
    finally:
        local.replace(former)
