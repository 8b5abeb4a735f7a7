"""The host of framework models without their frameworks: completion, contradictions, batches, and errors of a load."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from neso_worker.frameworks import errors, host, specs
from neso_worker.frameworks.errors import LoadError
from neso_worker.frameworks.specs import TensorSpec, complete, validate

X = TensorSpec("X", "TYPE_FP32", (-1, 16))
Y = TensorSpec("Y", "TYPE_FP32", (-1,))
FIXED = TensorSpec("F", "TYPE_INT64", (3, 4))
SCALAR = TensorSpec("S", "TYPE_FP32", (), optional=True)


def io(name, kind="TYPE_FP32", dims=(16,), **more):
    return {"name": name, "data_type": kind, "dims": list(dims), **more}


@pytest.mark.parametrize(
    "config, inputs, outputs, want",
    [
        ({}, [X], [Y], {"max_batch_size": 4, "dynamic_batching": {}, "input": [io("X")],
                        "output": [io("Y", dims=[1], reshape={"shape": []})]}),
        ({"max_batch_size": 8, "sequence_batching": {}}, [X], [X],
         {"max_batch_size": 8, "sequence_batching": {}, "input": [io("X")], "output": [io("X")]}),
        ({}, [X], [FIXED], {"max_batch_size": 0, "input": [io("X", dims=[-1, 16])], "output": [io("F", "TYPE_INT64", [3, 4])]}),
        ({"input": [io("X")]}, [X], [X], {"max_batch_size": 0, "input": [io("X")], "output": [io("X", dims=[-1, 16])]}),
    ],
)  # fmt: skip
def test_completion(config, inputs, outputs, want):
    assert complete(config, inputs, outputs, 4) == want


def test_a_model_without_open_first_dimension_does_not_batch():
    with pytest.raises(LoadError, match=r"'F' has shape \[3,4\]; write max_batch_size: 0"):
        complete({"name": "m", "max_batch_size": 2}, [FIXED], [X], 4)


@pytest.mark.parametrize(
    "config, texts",
    [
        ({"max_batch_size": 4, "input": [io("X")], "output": [io("Y", dims=[1], reshape={"shape": []})]}, []),
        ({"input": [io("X", dims=[-1, 16])]}, []),
        ({"input": [io("X", dims=[2, 16])]}, []),
        ({"input": [io("X", dims=[-1, 16]), io("S", dims=[1])]}, []),
        ({"input": [io("X", dims=[-1, 16]), io("S", dims=[2])]}, ["tensor 'S': the model expects 0 dimensions (shape [])"]),
        ({"input": [io("X", "TYPE_INT32", [-1, 16])]},
         ["expects datatype TYPE_INT32 for input 'X', model provides TYPE_FP32 (write data_type: TYPE_FP32)"]),
        ({"max_batch_size": 4, "input": [io("X", dims=[8])]}, ["the model expects 2 dimensions (shape [-1,16])",
            "complete shape [-1,8]", "(write dims: [16])"]),
        ({"input": [io("x", dims=[-1, 16])]}, ["the configuration lacks 'X' (data_type: TYPE_FP32, dims: [-1,16])",
                                               "unexpected inference input 'x', allowed inputs are: X, S (write 'X')"]),
        ({"max_batch_size": 4, "input": [io("X", dims=[-1], allow_ragged_batch=True)]},
         ["shape [-1] for ragged input 'X', model provides [-1,16] (a ragged batch is one list"]),
        ({"input": [io("X", dims=[-1, 16])], "output": [io("Z")]}, ["unexpected inference output 'Z', allowed outputs are: Y"]),
    ],
)  # fmt: skip
def test_contradictions(config, texts):
    if not texts:
        validate({"name": "m", **config}, [X, SCALAR], [Y])
        return
    with pytest.raises(LoadError) as told:
        validate({"name": "m", **config}, [X, SCALAR], [Y])
    for text in texts:
        assert text in str(told.value)


def test_a_missing_framework_names_interpreter_and_package():
    with pytest.raises(LoadError) as told:
        errors.framework("no_such_framework", "pytorch", "torch")
    assert sys.executable in str(told.value) and f"'{sys.executable} -m pip install torch'" in str(told.value)
    assert told.value.code == errors.UNAVAILABLE


def test_an_old_framework_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "old_framework", types.SimpleNamespace(__version__="1.13.1+cpu"))
    with pytest.raises(LoadError, match=r"needs old_framework 2\.1 or later, .* has 1\.13\.1\+cpu"):
        errors.framework("old_framework", "pytorch", "torch", (2, 1))
    assert errors.framework("old_framework", "pytorch", "torch", (1, 13))


@pytest.mark.parametrize(
    "head, what",
    [(b"", "empty"), (b"version https://git-lfs.github.com/spec/v1", "git lfs pull"), (b"<!DOCTYPE html>", "web page"),
     (b"\x80\x04\x95", "a Python pickle"), (b"PK\x03\x04", "")],
)  # fmt: skip
def test_first_bytes(tmp_path, head, what):
    (tmp_path / "model").write_bytes(head)
    assert what in errors.looks_like(str(tmp_path / "model"))


@pytest.mark.parametrize("text, want", [("", True), ("true", True), ("1", True), ("0", False), ("False", False)])
def test_flags(text, want):
    order = host.Order({"model_path": "m", "config": {"parameters": {"P": {"string_value": text}}}})
    assert order.flag("P", True) is want


@pytest.mark.parametrize("call", [lambda o: o.flag("P", True), lambda o: o.number("P", 1)])
def test_parameters_that_are_no_flags_or_numbers(call):
    order = host.Order({"model_path": "m", "name": "m", "config": {"parameters": {"P": {"string_value": "-2"}}}})
    with pytest.raises(LoadError, match="parameter P is '-2', expected"):
        call(order)


def test_paths_of_the_machine_are_not_told():
    order = host.Order(
        {"model_path": "/srv/m/1/f", "model_directory": "/srv/m", "version_directory": "/srv/m/1", "name": "m"}
    )
    assert order.shown("cannot open /srv/m/1/f, /srv/m/labels") == "cannot open m/1/f, m/labels"


class FakeEngine:
    """As much of an engine as the loader asks; a stand-in for tensorrt, which needs a GPU."""

    num_io_tensors, num_optimization_profiles = 2, 1

    def get_tensor_name(self, place):
        return ("IN", "OUT")[place]

    def get_tensor_dtype(self, name):
        return np.float32

    def get_tensor_shape(self, name):
        return (-1, 8)

    def get_tensor_mode(self, name):
        return {"IN": "input", "OUT": "output"}[name]

    def get_tensor_profile_shape(self, name, profile):
        return [(1, 8), (4, 8), (16, 8)]


def fake_tensorrt(monkeypatch, engine, gpu=True):
    logger = type("Logger", (), {"WARNING": 1, "__init__": lambda self, level: None})
    runtime = type(
        "Runtime", (), {"__init__": lambda self, log: None, "deserialize_cuda_engine": lambda self, data: engine}
    )
    trt = types.SimpleNamespace(
        __version__="10.3.0", Logger=logger, Runtime=runtime, init_libnvinfer_plugins=lambda *a: None, nptype=lambda t: t,
        TensorIOMode=types.SimpleNamespace(INPUT="input", OUTPUT="output"),
    )  # fmt: skip
    cuda = types.SimpleNamespace(is_available=lambda: gpu, set_device=lambda d: None)
    monkeypatch.setitem(sys.modules, "tensorrt", trt)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(__version__="2.4.0", cuda=cuda, device=lambda d: d))


def tensorrt_loader(tmp_path, data=b"ftrt" + bytes(60)):
    from neso_worker.frameworks import tensorrt

    (tmp_path / "model.plan").write_bytes(data)
    return tensorrt.Loader(host.Order({"model_path": str(tmp_path / "model.plan"), "name": "m", "config": {}}))


def test_tensorrt_completes_from_the_engine(tmp_path, monkeypatch):
    """Only our use of the package: no engine runs here."""
    fake_tensorrt(monkeypatch, FakeEngine())
    loader = tensorrt_loader(tmp_path)
    hosted = type("Hosted", (host.HostedModel,), {"loader": loader})
    config = hosted.completed({"name": "m"})
    assert (
        config["max_batch_size"] == 16
        and config["input"] == [io("IN", dims=[8])]
        and config["output"] == [io("OUT", dims=[8])]
    )


def test_tensorrt_without_a_gpu_and_with_a_plan_of_another_version(tmp_path, monkeypatch):
    fake_tensorrt(monkeypatch, None, gpu=False)
    with pytest.raises(LoadError, match="needs an NVIDIA GPU and its driver: none is usable here"):
        tensorrt_loader(tmp_path).load(0)
    fake_tensorrt(monkeypatch, None)
    with pytest.raises(
        LoadError,
        match=r"TensorRT 10\.3\.0 cannot read the 64 bytes of .*: an engine runs only with the TensorRT version",
    ):
        tensorrt_loader(tmp_path).load(0)
    with pytest.raises(LoadError, match="it is a web page"):
        tensorrt_loader(tmp_path, b"<html>").load(0)


def test_shapes_are_shown_as_the_server_does():
    assert specs.show((-1, 8)) == "[-1,8]" and specs.data_type(np.dtype(np.float16)) == "TYPE_FP16"
