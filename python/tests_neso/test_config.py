"""Model configurations, TritonConfig, workspaces and what bind refuses."""

from __future__ import annotations

import numpy as np
import pytest

from neso import DynamicBatcher, ModelConfig, QueuePolicy, Tensor, TimeoutAction, Triton, TritonConfig
from neso.exceptions import (
    PyTritonBadParameterError,
    PyTritonInvalidOperationError,
    PyTritonModelConfigError,
    PyTritonValidationError,
)
from neso.model_config.common import WarmupInput
from neso.model_config.generator import ModelConfigGenerator
from neso.model_config.parser import ModelConfigParser
from neso.model_config.triton_model_config import TensorSpec, TritonModelConfig
from neso.triton import TritonSecurityConfig
from neso.utils.workspace import Workspace

POLICY = QueuePolicy()
ONE = [Tensor((1,), np.float32)]

FULL = TritonModelConfig(
    "m",
    max_batch_size=8,
    batcher=DynamicBatcher(
        max_queue_delay_microseconds=5,
        preferred_batch_size=[2],
        preserve_ordering=True,
        priority_levels=2,
        default_priority_level=1,
        default_queue_policy=QueuePolicy(max_queue_size=3),
        priority_queue_policy={1: QueuePolicy(TimeoutAction.DELAY, allow_timeout_override=True)},
    ),
    decoupled=True,
    backend_parameters={"a": 'b"c'},
    inputs=[TensorSpec("x", (-1,), np.float32, True)],
    outputs=[TensorSpec("y", (2,), np.bytes_)],
)


def test_configuration_goes_out_and_comes_back(tmp_path):
    generator = ModelConfigGenerator(FULL)
    assert ModelConfigParser.from_dict(generator.get_config()) == FULL
    generator.to_file(tmp_path / "config.pbtxt")
    assert ModelConfigParser.from_file(config_path=tmp_path / "config.pbtxt") == FULL


def test_warm_up_is_read(tmp_path):
    (tmp_path / "config.pbtxt").write_text(
        """name: "m" max_batch_size: 4 model_warmup [{ name: "w" batch_size: 2 count: 3 inputs [
        { key: "a" value { data_type: TYPE_FP32 dims: [2, 3] zero_data: true } },
        { key: "b" value { data_type: TYPE_STRING dims: [1] input_data_file: "b.bin" } }] }]"""
    )
    (found,) = ModelConfigParser.from_file(config_path=tmp_path / "config.pbtxt").model_warmup
    assert (found.name, found.batch_size, found.count) == ("w", 2, 3)
    assert found.inputs["a"] == WarmupInput(np.float32, (2, 3), zero_data=True)
    assert (found.inputs["b"].shape, found.inputs["b"].input_data_file) == ((1,), "b.bin")


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({}, "Name for input at index 0 not provided."),
        ({"name": "x"}, "Data type for input with name `x` not defined."),
        ({"name": "x", "data_type": "TYPE_FP32"}, "Dimension for input with name `x` not defined."),
        ({"name": "x", "data_type": "TYPE_X", "dims": [1]}, "Unsupported data type `TYPE_X` for input with name `x`"),
    ],
)
def test_parser_refuses(item, text):
    with pytest.raises(PyTritonModelConfigError, match=text):
        ModelConfigParser.from_dict({"name": "m", "input": [item]})


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"model_name": ""}, PyTritonValidationError, "Model name cannot be empty"),
        ({"model_name": "a b"}, PyTritonValidationError, "can only contain alphanumeric"),
        ({"model_name": 7}, PyTritonValidationError, "must be a string"),
        ({"infer_func": 3}, PyTritonValidationError, "either callable or sequence of callables"),
        ({"infer_func": []}, PyTritonValidationError, "either callable or sequence of callables"),
        ({"infer_func": [len, 3]}, PyTritonValidationError, "either callable or sequence of callables"),
        ({"inputs": "x"}, PyTritonValidationError, "inputs of model `m` must be a list of Tensor"),
        ({"outputs": None}, PyTritonValidationError, "outputs of model `m` must be a list of Tensor"),
        ({"trace_config": "mode=opentelemetry"}, PyTritonValidationError, "must be a list of strings"),
        ({"inputs": [3]}, PyTritonValidationError, "is no Tensor"),
        ({"inputs": [Tensor((1,), np.float32, "x")] * 2}, PyTritonValidationError, "two input tensors named `x`"),
        ({"inputs": [Tensor((1,), complex)]}, PyTritonValidationError, "not supported"),
        ({"inputs": [Tensor((1,), np.ndarray)]}, PyTritonValidationError, "not supported"),
        ({"inputs": [Tensor((1,), list)]}, PyTritonValidationError, "not supported"),
        ({"inputs": [Tensor(("a",), np.float32)]}, PyTritonValidationError, "must hold positive numbers"),
        ({"outputs": [Tensor((1,), np.float32, optional=True)]}, PyTritonValidationError, "cannot be optional"),
        ({"model_version": 0}, PyTritonValidationError, "must be a positive number"),
        ({"model_name": None}, PyTritonValidationError, "Model name cannot be empty"),
        ({"model_name": ".."}, PyTritonValidationError, "can only contain alphanumeric"),
        ({"infer_func": None}, PyTritonValidationError, "either callable or sequence of callables"),
        ({"outputs": [Tensor((1,), np.float32, "y")] * 2}, PyTritonValidationError, "two output tensors named `y`"),
        ({"inputs": [Tensor((0,), np.float32)]}, PyTritonValidationError, "must hold positive numbers"),
        ({"inputs": [Tensor(3, np.float32)]}, PyTritonValidationError, "must hold positive numbers"),
        ({"inputs": [Tensor((1,), None)]}, PyTritonValidationError, "not supported"),
        ({"config": {"max_batch_size": 3}}, PyTritonValidationError, "must be a ModelConfig"),
        ({"config": ModelConfig(max_batch_size=0)}, PyTritonBadParameterError, "greater or equal to 1"),
        ({"config": ModelConfig(max_batch_size=-1)}, PyTritonBadParameterError, "greater or equal to 1"),
        ({"config": ModelConfig(max_batch_size="8")}, PyTritonBadParameterError, "must be a whole number, not '8'"),
        ({"config": ModelConfig(max_batch_size=2.5)}, PyTritonBadParameterError, "must be a whole number, not 2.5"),
        ({"config": ModelConfig(max_batch_size=None)}, PyTritonBadParameterError, "must be a whole number, not None"),
        ({"config": ModelConfig(batcher="fast")}, PyTritonBadParameterError, "must be a DynamicBatcher, not 'fast'"),
        (
            {"config": ModelConfig(batcher=DynamicBatcher(preferred_batch_size=4))},
            PyTritonBadParameterError,
            "must be a list of sizes, not 4",
        ),
        (
            {"config": ModelConfig(batcher=DynamicBatcher(max_queue_delay_microseconds=-1))},
            PyTritonBadParameterError,
            "greater or equal to 0",
        ),
        (
            {"config": ModelConfig(batcher=DynamicBatcher(priority_levels=2, priority_queue_policy={7: POLICY}))},
            PyTritonBadParameterError,
            "Invalid `priority`=7 provided",
        ),
        (
            {"config": ModelConfig(batcher=DynamicBatcher(priority_levels=2, default_priority_level=5))},
            PyTritonBadParameterError,
            "between 1 and 2",
        ),
        (
            {"config": ModelConfig(batcher=DynamicBatcher(priority_queue_policy={1: QueuePolicy()}))},
            PyTritonBadParameterError,
            "Provide the `priority_levels`",
        ),
    ],
)
def test_bind_refuses(arguments, error, text):
    usual = {"model_name": "m", "infer_func": lambda requests: requests, "inputs": ONE, "outputs": ONE}
    with pytest.raises(error, match=text):
        Triton().bind(**{**usual, **arguments})


def test_names_are_taken_once():
    triton = Triton()
    triton.bind("m", lambda requests: requests, ONE, ONE)
    with pytest.raises(PyTritonInvalidOperationError, match="Cannot add model with the same name twice"):
        triton.bind("M", lambda requests: requests, ONE, ONE)
    triton.bind("m", lambda requests: requests, ONE, ONE, model_version=2)
    triton.bind("m", lambda requests: requests, ONE, ONE, replace=True)
    with pytest.raises(PyTritonInvalidOperationError, match="is not bound"):
        triton.unbind("other")


def test_python_types_are_numpy_types():
    assert [Tensor((1,), t).dtype for t in (bool, int, float, str)] == [np.bool_, np.int64, np.float64, bytes]
    assert Tensor((1,), np.dtype("float32")).dtype is np.float32


def test_settings_from_the_environment(monkeypatch):
    monkeypatch.setenv("PYTRITON_TRITON_CONFIG_ALLOW_METRICS", "False")
    monkeypatch.setenv("PYTRITON_TRITON_CONFIG_HTTP_PORT", "9000")
    monkeypatch.setenv("PYTRITON_TRITON_CONFIG_CACHE_CONFIG_1", "local,size=1")
    monkeypatch.setenv("PYTRITON_TRITON_CONFIG_CACHE_CONFIG_7", "b")
    monkeypatch.setenv("PYTRITON_TRITON_CONFIG_NOT_A_FIELD", "1")
    found = TritonConfig.from_env()
    assert (found.allow_metrics, found.http_port, found.cache_config) == (False, 9000, ["local,size=1", "b"])
    assert Triton(config=TritonConfig(http_port=1)).config.http_port == 1
    assert "--cache-config=b" in found.arguments()
    assert "--allow-metrics=false" in found.arguments()


def test_settings_are_checked():
    with pytest.raises(PyTritonValidationError, match="endpoint has to be allowed"):
        TritonConfig(allow_http=False, allow_grpc=False)
    with pytest.raises(PyTritonValidationError, match=r"Invalid endpoint names: a, b\. Valid endpoints are: health"):
        TritonSecurityConfig(restricted_endpoints=["b", "a"])
    with pytest.raises(TypeError):
        TritonConfig(no_such_field=1)
    with pytest.raises(TypeError):
        TritonConfig("name")


def test_workspace(tmp_path):
    place = tmp_path / "w"
    workspace = Workspace(place)
    assert workspace.exists()
    assert not workspace.is_empty()  # it has a model-store, as there
    with pytest.raises(FileExistsError):
        Workspace(place)
    workspace.clean()
    workspace.clean()
    assert not place.exists()
