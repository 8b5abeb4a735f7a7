"""The names of triton_python_backend_utils and the texts that models and clients may match."""

from __future__ import annotations

import copy
import json
import pickle
import struct

import numpy as np
import pytest

from neso_worker import triton_python_backend_utils as pb_utils

NAMES = """
get_input_tensor_by_name get_output_tensor_by_name get_input_config_by_name get_output_config_by_name
using_decoupled_model_transaction_policy triton_to_numpy_type numpy_to_triton_type triton_string_to_numpy
serialize_byte_tensor deserialize_bytes_tensor get_model_dir load_model unload_model is_model_ready TRITON_STRING_TO_NUMPY
TRITONSERVER_REQUEST_FLAG_SEQUENCE_START TRITONSERVER_REQUEST_FLAG_SEQUENCE_END TRITONSERVER_RESPONSE_COMPLETE_FINAL
TRITONSERVER_REQUEST_RELEASE_ALL TRITONSERVER_REQUEST_RELEASE_RESCHEDULE TRITONSERVER_MEMORY_GPU TRITONSERVER_MEMORY_CPU
MemoryType ModelConfig Tensor InferenceRequest InferenceResponse InferenceResponseSender TritonError TritonModelException
PreferredMemory InferenceTrace Logger MetricFamily Metric ResponseIterator json np struct
"""


def test_names():
    for name in NAMES.split():
        assert hasattr(pb_utils, name), name
    assert sorted(pb_utils.__all__) == sorted(NAMES.split())
    assert (pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END) == (
        1,
        2,
    )
    assert pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL == 1
    assert (pb_utils.TRITONSERVER_REQUEST_RELEASE_ALL, pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE) == (1, 2)


TYPES = [np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64, np.float16,
         np.float32, np.float64, np.object_]  # fmt: skip


def test_types():
    for number, kind in enumerate(TYPES, start=1):
        assert np.dtype(pb_utils.triton_to_numpy_type(number)) == np.dtype(kind)
        assert pb_utils.numpy_to_triton_type(kind) == number
        assert pb_utils.numpy_to_triton_type(np.dtype(kind)) == number
    assert pb_utils.numpy_to_triton_type(np.bytes_) == 13
    assert pb_utils.triton_to_numpy_type(0) is None and pb_utils.triton_to_numpy_type(99) is None
    assert pb_utils.numpy_to_triton_type(np.complex64) is None and pb_utils.numpy_to_triton_type("nonsense") is None
    assert np.dtype(pb_utils.triton_string_to_numpy("TYPE_STRING")) == np.dtype(object)
    assert np.dtype(pb_utils.triton_string_to_numpy("TYPE_FP16")) == np.dtype(np.float16)
    for name in ("TYPE_BF16", "FP32", "TYPE_INVALID"):
        with pytest.raises(KeyError):
            pb_utils.triton_string_to_numpy(name)


def test_byte_tensors():
    data = pb_utils.serialize_byte_tensor(np.array([["a", b"\x00\xff"], ["\u00fc", ""]], dtype=object))
    assert data == b"\1\0\0\0a\2\0\0\0\x00\xff\2\0\0\0\xc3\xbc\0\0\0\0"
    assert pb_utils.deserialize_bytes_tensor(data).tolist() == [b"a", b"\x00\xff", b"\xc3\xbc", b""]
    assert pb_utils.serialize_byte_tensor(np.array([], dtype=object)) == ()
    assert pb_utils.serialize_byte_tensor(np.zeros(2)) is None
    assert pb_utils.serialize_byte_tensor(np.array([b"ab"])) == b"\2\0\0\0ab"
    for wrong in (b"\1", b"\1\0\0\0", b"\xff\xff\xff\xffabc"):
        with pytest.raises(ValueError):
            pb_utils.deserialize_bytes_tensor(wrong)


def test_config_lookups():
    config = {"input": [{"name": "A"}], "output": [{"name": "B"}], "model_transaction_policy": {"decoupled": True}}
    assert pb_utils.get_input_config_by_name(config, "A") is config["input"][0]
    assert pb_utils.get_output_config_by_name(config, "B") is config["output"][0]
    assert (
        pb_utils.get_input_config_by_name(config, "B") is None and pb_utils.get_output_config_by_name({}, "B") is None
    )
    assert pb_utils.using_decoupled_model_transaction_policy(config) is True
    assert pb_utils.using_decoupled_model_transaction_policy({}) is False


def model_config(**more):
    return pb_utils.ModelConfig({"name": "M", "max_batch_size": 8, "input": [], "output": [], **more})


WHERE = "in auto-complete-config function for model 'M'"
I, O = {"name": "I", "data_type": "TYPE_A", "dims": [1]}, {"name": "O", "data_type": "TYPE_A", "dims": [1]}  # noqa: E741
CONFIG_ERRORS = [
    ({}, lambda c: c.set_max_batch_size(4), f"configuration specified max_batch_size 8, but {WHERE} specified max_batch_size 4"),
    ({"sequence_batching": {}}, lambda c: c.set_dynamic_batching(),
     "Configuration specified scheduling_choice as 'sequence_batching', but auto-complete-config function for model 'M' tries to "
     "set scheduling_choice as 'dynamic_batching'"),
    ({}, lambda c: c.add_input({**I, "x": 1}),
     f"input 'I' {WHERE} contains property other than 'name', 'data_type', 'dims' and 'optional'."),
    ({}, lambda c: c.add_output({**O, "optional": True}),
     f"output 'O' {WHERE} contains property other than 'name', 'data_type' and 'dims'."),
    ({}, lambda c: c.add_input({"data_type": "T", "dims": []}), f"input {WHERE} is missing 'name' property."),
    ({}, lambda c: c.add_input({"name": "I", "dims": []}), f"input 'I' {WHERE} is missing 'data_type' property."),
    ({}, lambda c: c.add_output({"name": "O", "data_type": "T"}), f"output 'O' {WHERE} is missing 'dims' property."),
    ({"input": [I]}, lambda c: c.add_input({**I, "data_type": "TYPE_B"}),
     "unable to load model 'M', configuration expects datatype TYPE_A for input 'I', model provides TYPE_B"),
    ({"output": [O]}, lambda c: c.add_output({**O, "dims": [2, -1]}),
     "model 'M', tensor 'O': the model expects dims [2, -1] but the model configuration specifies dims [1]"),
    ({"input": [{**I, "optional": False}]}, lambda c: c.add_input({**I, "optional": True}),
     "model 'M', tensor 'I': the model expects optional True but the model configuration specifies optional False"),
    ({}, lambda c: c.set_model_transaction_policy({"x": 1}),
     "model transaction property in auto-complete-config function for model 'M' contains property other than 'decoupled'."),
    ({"model_transaction_policy": {"decoupled": True}}, lambda c: c.set_model_transaction_policy({"decoupled": False}),
     "trying to change decoupled property in auto-complete-config for model 'M', which is already set to 'True'."),
]  # fmt: skip


@pytest.mark.parametrize("config,call,text", CONFIG_ERRORS)
def test_config_errors(config, call, text):
    with pytest.raises(ValueError) as failed:
        call(model_config(**config))
    assert str(failed.value) == text


def test_config():
    config = model_config()
    config.set_max_batch_size(16)
    config.set_dynamic_batching()
    config.add_input({**I, "optional": True})
    config.add_input(dict(I))
    config.add_output(dict(O))
    config.set_model_transaction_policy({"decoupled": True})
    config.set_model_transaction_policy({"decoupled": True})
    assert config.as_dict() == {
        "name": "M", "max_batch_size": 16, "input": [{**I, "optional": True}], "output": [O], "dynamic_batching": {},
        "model_transaction_policy": {"decoupled": True},
    }  # fmt: skip
    kept = {"preferred_batch_size": [4]}
    config = model_config(dynamic_batching=kept)
    config.set_dynamic_batching()
    assert config.as_dict()["dynamic_batching"] is kept


def test_config_of_a_text():
    """Triton's is made of JSON; tests of models make their own."""
    config = pb_utils.ModelConfig('{"name": "M", "max_batch_size": 8}')
    config.set_dynamic_batching()
    assert config.as_dict() == {"name": "M", "max_batch_size": 8, "dynamic_batching": {}}
    with pytest.raises(json.JSONDecodeError):
        pb_utils.ModelConfig("x")


A = np.zeros(1)
T = pb_utils.Tensor("A", A)
MODEL_ERRORS = [
    (lambda: pb_utils.Tensor("", A), "Tensor name cannot be an empty string."),
    (lambda: pb_utils.Tensor("A", np.zeros(1, np.complex64)), "NumPy dtype is not supported: tensor 'A' has dtype 'complex64'."),
    (lambda: pb_utils.Tensor("A", np.array(["x"], object)).to_dlpack(), "DLPack does not have support for string tensors."),
    (lambda: pb_utils.Tensor.from_dlpack("", A.__dlpack__()), "Tensor name cannot be an empty string."),
    (lambda: pb_utils.Tensor.from_dlpack("A", [1]),
     "Provided tensor is not supported. Tensor must be a DLPack capsule or have `__dlpack__` and `__dlpack_device__` attributes"),
    (lambda: pb_utils.Tensor.from_dlpack("A", np.zeros((4, 4))[:, ::2].__dlpack__()),
     "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are supported."),
    (lambda: pb_utils.InferenceResponse([None]), "Output tensor for inference response should not be empty."),
    (lambda: pb_utils.InferenceResponse([], parameters={1: "x"}), "Expect parameters keys to have type str, found type <class 'int'>"),
    (lambda: pb_utils.InferenceResponse([], parameters={"x": 1.5}),
     "Expect parameters values to have type bool/int/str, found type <class 'float'>"),
    (lambda: pb_utils.InferenceRequest(request_id="r", model_name="m", inputs=[None], requested_output_names=[]),
     "Input tensor for request with id 'r' and model name 'm' should not be empty."),
    (lambda: pb_utils.InferenceRequest(inputs=[], requested_output_names=[], model_name="m", correlation_id=1.5),
     "Correlation ID must be integer or string"),
]  # fmt: skip


@pytest.mark.parametrize("call,text", MODEL_ERRORS)
def test_model_errors(call, text):
    with pytest.raises(pb_utils.TritonModelException) as failed:
        call()
    assert str(failed.value) == text


@pytest.mark.parametrize("call", [
    lambda: pb_utils.Tensor("A", [1]), lambda: pb_utils.Tensor(5, A), lambda: pb_utils.InferenceResponse(["x"]),
    lambda: pb_utils.InferenceResponse([], "error"), lambda: pb_utils.TritonError(5),
    lambda: pb_utils.InferenceRequest("", 0, ["x"], ["Y"], "m"),
])  # fmt: skip
def test_wrong_types(call):
    with pytest.raises(TypeError):
        call()


def test_triton_error():
    codes = [
        "UNKNOWN",
        "INTERNAL",
        "NOT_FOUND",
        "INVALID_ARG",
        "UNAVAILABLE",
        "UNSUPPORTED",
        "ALREADY_EXISTS",
        "CANCELLED",
    ]
    assert [getattr(pb_utils.TritonError, name) for name in codes] == list(range(8))
    error = pb_utils.TritonError(message="m", code=pb_utils.TritonError.NOT_FOUND)
    assert (error.message(), error.code(), pb_utils.TritonError("x").code()) == ("m", 2, 1)


def test_request_of_a_model():
    request = pb_utils.InferenceRequest(
        "id",
        5,
        [T],
        ["X"],
        "m",
        3,
        1,
        70,
        pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU),
        None,
        {"a": True},
    )
    assert request.request_id() == "id" and request.correlation_id() == 5 and request.inputs() == [T]
    assert (
        request.requested_output_names() == {"X"} and request.timeout() == 70 and request.parameters() == '{"a": true}'
    )
    assert request.flags() == 1 and request.trace().get_context() is None
    request.set_flags(pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END)
    assert request.flags() == 2
    assert pb_utils.get_input_tensor_by_name(request, "A") is T
    needed = {"inputs": [T], "requested_output_names": ["X"], "model_name": "m"}
    assert request.priority() == 0 and pb_utils.InferenceRequest(**needed, priority=3).priority() == 3
    assert (pb_utils.TRITONSERVER_MEMORY_GPU, pb_utils.TRITONSERVER_MEMORY_CPU) == (0, 1)
    for wrong in ((), (1,), (0, 0), (None,)):
        with pytest.raises(TypeError):
            pb_utils.PreferredMemory(*wrong)
    for name in needed:
        with pytest.raises(TypeError, match=f"InferenceRequest needs {name}$"):
            pb_utils.InferenceRequest(**{k: v for k, v in needed.items() if k != name})
    with pytest.raises(TypeError, match=r"InferenceRequest needs inputs, requested_output_names, model_name$"):
        pb_utils.InferenceRequest()
    with pytest.raises(
        pb_utils.TritonModelException, match="Requested output name for request with id '' and model name 'm' should"
    ):
        pb_utils.InferenceRequest(**{**needed, "requested_output_names": ["X", ""]})
    for wrong in (
        {"priority": -1}, {"flags": -1}, {"flags": "1"}, {"timeout": 1.5}, {"timeout": 1 << 64}, {"correlation_id": -1},
        {"correlation_id": 1 << 64}, {"model_name": 1}, {"request_id": 1}, {"model_version": "1"}, {"trace": 1},
        {"model_version": 1 << 70}, {"requested_output_names": "X"},
    ):  # fmt: skip
        with pytest.raises(TypeError):
            pb_utils.InferenceRequest(**{**needed, **wrong})
    assert pb_utils.InferenceRequest(**needed, correlation_id=True, flags=np.int64(3)).correlation_id() == 1


def test_texts_may_be_bytes():
    """An element of a BYTES tensor is bytes: Triton's own example names the model of a call by one."""
    name = np.array([b"caf\xc3\xa9"], np.object_)[0]
    request = pb_utils.InferenceRequest(name, 0, [pb_utils.Tensor(name, A)], [name, "Y"], np.bytes_(name))
    assert request.request_id() == "café" and request.requested_output_names() == {"café", "Y"}
    assert request._model == "café" and pb_utils.get_input_tensor_by_name(request, "café") is request.inputs()[0]
    assert pb_utils.Tensor.from_dlpack(name, A).name() == "café" and pb_utils.TritonError(name).message() == "café"


def test_response():
    outputs = [T]
    response = pb_utils.InferenceResponse(outputs, parameters={"k": 1})
    outputs.clear()  # the model may reuse its list
    assert response.output_tensors() == [T] and not response.has_error() and response.error() is None
    assert response.parameters() == '{"k": 1}'
    assert (
        pb_utils.get_output_tensor_by_name(response, "A") is T
        and pb_utils.get_output_tensor_by_name(response, "B") is None
    )


def test_capsules_free_what_they_hold():
    from neso_runtime import dlpack

    array = np.arange(6.0).reshape(2, 3)
    tensor = pb_utils.Tensor("A", array)
    capsule = tensor.to_dlpack()
    assert len(dlpack._exported) == 1
    del capsule  # never taken
    assert len(dlpack._exported) == 0
    capsule = tensor.to_dlpack()
    shared = pb_utils.Tensor.from_dlpack("B", capsule)
    with pytest.raises(pb_utils.TritonModelException, match="already used"):
        pb_utils.Tensor.from_dlpack("C", capsule)
    array[0, 0] = 50  # the same memory
    view = shared.as_numpy()[0]
    del shared, capsule
    assert view[0] == 50 and len(dlpack._exported) == 1
    del view
    assert len(dlpack._exported) == 0


def test_capsules_of_numpy():
    for dtype in (np.bool_, np.int8, np.uint64, np.float16, np.float32):
        array = np.array([0, 1, 1], dtype)
        for source in (array.__dlpack__(), _Foreign(array)):
            tensor = pb_utils.Tensor.from_dlpack("A", source)
            assert tensor.as_numpy().dtype == dtype and tensor.as_numpy().tolist() == array.tolist()
        assert np.from_dlpack(pb_utils.Tensor("A", array)).tolist() == array.tolist()


class _Foreign:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class _Elsewhere(_Foreign):
    def __dlpack_device__(self):
        return (10, 0)


def test_other_devices():
    with pytest.raises(pb_utils.TritonModelException, match="DLDevice type 10 is not support by Python backend"):
        pb_utils.Tensor.from_dlpack("A", _Elsewhere(A))


Raised = pb_utils.TritonModelException
WRONG_INPUT = pb_utils.Tensor("X", np.zeros(1, np.int32))


def wrong_ask(**kw):
    return pb_utils.InferenceRequest(
        **{"model_name": "m", "inputs": [WRONG_INPUT], "requested_output_names": ["Y"], **kw}
    )


# Calls with wrong arguments and what Triton raises there.
WRONG_CALLS = [
    (lambda: pb_utils.Tensor(None, np.zeros(1)), TypeError, "Tensor name must be a str"),
    (lambda: pb_utils.Tensor("a", [1]), TypeError, "must be a numpy.ndarray"),
    (lambda: pb_utils.Tensor("a", None), TypeError, "must be a numpy.ndarray"),
    (lambda: pb_utils.Tensor("", None), TypeError, "must be a numpy.ndarray"),
    (lambda: pb_utils.Tensor("", np.zeros(1)), Raised, "Tensor name cannot be an empty string."),
    (lambda: pb_utils.Tensor("a", np.zeros(1, np.complex64)), Raised, "NumPy dtype is not supported"),
    (lambda: pb_utils.Tensor.from_dlpack("a", 1), Raised, "Provided tensor is not supported."),
    (lambda: pb_utils.Tensor.from_dlpack("a", None), Raised, "Provided tensor is not supported."),
    (lambda: pb_utils.Tensor.from_dlpack("", None), Raised, "Tensor name cannot be an empty string."),
    (lambda: pb_utils.Tensor.from_dlpack(1, WRONG_INPUT.to_dlpack()), TypeError, "Tensor name must be a str"),
    (lambda: pb_utils.TritonError(None), TypeError, "TritonError message"),
    (lambda: pb_utils.TritonError("a", "b"), TypeError, "str"),
    (lambda: pb_utils.TritonError("a", 1.0), TypeError, "float"),
    (lambda: pb_utils.InferenceResponse([None]), Raised, "should not be empty"),
    (lambda: pb_utils.InferenceResponse([1]), TypeError, "list of Tensor"),
    (lambda: pb_utils.InferenceResponse([WRONG_INPUT], error="x"), TypeError, "must be a TritonError"),
    (lambda: pb_utils.InferenceResponse([WRONG_INPUT], parameters=[]), Raised, "Expect parameters to be a dict"),
    (lambda: wrong_ask(parameters=1), Raised, "Expect parameters to be a dict"),
    (lambda: wrong_ask(parameters={1: 1}), Raised, "keys to have type str"),
    (lambda: wrong_ask(parameters={"a": 1.5}), Raised, "values to have type bool/int/str"),
    (lambda: wrong_ask(inputs=[None]), Raised, "should not be empty"),
    (lambda: wrong_ask(inputs=[1]), TypeError, "list of Tensor"),
    (lambda: wrong_ask(requested_output_names="Y"), TypeError, "a list of str"),
    (lambda: wrong_ask(requested_output_names=[None]), TypeError, "requested_output_names must be a str"),
    (lambda: wrong_ask(model_name=None), TypeError, "model_name"),
    (lambda: wrong_ask(request_id=1), TypeError, "request_id"),
    (lambda: wrong_ask(correlation_id=None), TypeError, "correlation_id"),
    (lambda: wrong_ask(correlation_id=1.5), Raised, "Correlation ID must be integer or string"),
    (lambda: wrong_ask(correlation_id=-1), TypeError, "from 0 to"),
    (lambda: wrong_ask(model_version="1"), TypeError, "str"),
    (lambda: wrong_ask(timeout=-1), TypeError, "from 0 to"),
    (lambda: wrong_ask(flags=None), TypeError, "NoneType"),
    (lambda: wrong_ask(preferred_memory=1), TypeError, "must be a PreferredMemory"),
    (lambda: wrong_ask(trace=1), TypeError, "must be an InferenceTrace"),
    (lambda: wrong_ask().exec(decoupled="x"), TypeError, "decoupled must be a bool"),
    (lambda: wrong_ask().exec(decoupled=None), TypeError, "decoupled must be a bool"),
    (lambda: wrong_ask().async_exec(decoupled="x"), TypeError, "decoupled must be a bool"),
    (lambda: pb_utils.PreferredMemory("x"), TypeError, "preferred_memory_type"),
    (lambda: pb_utils.PreferredMemory(9), TypeError, "preferred_memory_type"),
    (lambda: pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 1.5), TypeError, "float"),
    (lambda: pb_utils.InferenceTrace(1), TypeError, "context"),
    (lambda: pb_utils.Logger.log("x", "INFO"), TypeError, "level must be one of"),
    (lambda: pb_utils.Logger.log("x", None), TypeError, "level must be one of"),
    (lambda: pb_utils.Logger.log("x", 1), TypeError, "level must be one of"),
    (lambda: pb_utils.Logger.log("x", 99), TypeError, "level must be one of"),
    (lambda: pb_utils.Logger.log(None), TypeError, "log message"),
    (lambda: pb_utils.Logger.log_info(None), TypeError, "log message"),
    (lambda: pb_utils.Logger.log_warn(1), TypeError, "log message"),
    (lambda: pb_utils.Logger.log_warn(None), TypeError, "log message"),
    (lambda: pb_utils.Logger.log_error(None), TypeError, "log message"),
    (lambda: pb_utils.Logger.log_verbose(None), TypeError, "log message"),
    (lambda: pb_utils.load_model(1), TypeError, "model_name"),
    (lambda: pb_utils.load_model("a", files=1), Raised, "files should be a dictionary of file paths and file contents"),
    (lambda: pb_utils.load_model("a", files={1: b"x"}), TypeError, "files must have str as keys"),
    (lambda: pb_utils.load_model("a", files={"file:x": "x"}), TypeError, "bytes as values"),
    (lambda: pb_utils.unload_model("a", "x"), TypeError, "unload_dependents must be a bool"),
    (lambda: pb_utils.unload_model("a", None), TypeError, "unload_dependents must be a bool"),
    (lambda: pb_utils.is_model_ready("a", 1), TypeError, "model_version"),
    (lambda: pb_utils.is_model_ready("a", None), TypeError, "model_version"),
    (lambda: pb_utils.is_model_ready("a", "x"), Raised, "Failed to check model readiness: failed to get model version"),
    (lambda: pb_utils.is_model_ready("a", "0"), Raised, "Failed to check model readiness: failed to get model version"),
    (lambda: pb_utils.is_model_ready("a", "9" * 30), Raised, "should be an integral value > 0"),
    (lambda: pb_utils.MetricFamily("a", "b"), TypeError, "kind"),
    (lambda: pb_utils.MetricFamily("a", "b", "COUNTER"), TypeError, "kind must be one of"),
    (lambda: pb_utils.MetricFamily("a", None, pb_utils.MetricFamily.GAUGE), TypeError, "description"),
    (lambda: pb_utils.MetricFamily(1, "b", pb_utils.MetricFamily.GAUGE), TypeError, "name"),
    (lambda: pb_utils.MetricFamily("a b", "b", pb_utils.MetricFamily.GAUGE), Raised, "Invalid metric name"),
    (lambda: pb_utils.get_input_config_by_name(None, "a"), TypeError, "NoneType"),
    (lambda: pb_utils.using_decoupled_model_transaction_policy(None), TypeError, "NoneType"),
    (lambda: pb_utils.deserialize_bytes_tensor(1), TypeError, "bytes-like"),
    (lambda: pb_utils.deserialize_bytes_tensor("abc"), TypeError, "bytes-like"),
    (lambda: pb_utils.deserialize_bytes_tensor(b"abc"), struct.error, "3 bytes after the last"),
]


def test_wrong_arguments():
    for number, (call, kind, text) in enumerate(WRONG_CALLS):
        with pytest.raises(kind) as failed:
            call()
        assert type(failed.value) is kind or kind is struct.error, (number, failed.value)
        assert text in str(failed.value), (number, failed.value)
    family = pb_utils.MetricFamily("wrong_arguments", "d", pb_utils.MetricFamily.COUNTER)
    metric = family.Metric()
    for value in ("1", None, 1j, b"1"):
        with pytest.raises(TypeError, match="value must be a number"):
            metric.increment(value)
    # No exceptions in Triton either.
    for kind in ("x", None, "TYPE_FP32"):
        assert pb_utils.triton_to_numpy_type(kind) is None
    assert pb_utils.numpy_to_triton_type(None) is None
    assert pb_utils.get_input_config_by_name("{}", "a") is None
    assert pb_utils.get_output_config_by_name({"output": [{"name": "a"}]}, "a") == {"name": "a"}


def test_a_metric_family_has_no_copies():
    """The server lets go of a family with its object: the end of a copy would take the metrics of the other one."""
    family = pb_utils.MetricFamily("not_copied", "d", pb_utils.MetricFamily.GAUGE)
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot pickle 'MetricFamily' object"):
            make(family)
    family.Metric().set(1)
