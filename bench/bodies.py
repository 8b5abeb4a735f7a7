"""Request bodies for the load generators, and the check that a server answers them rightly."""

import base64
import json
import pathlib
import queue
import struct
from dataclasses import dataclass, field

import engines
import frameworks
import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

GRPC_HEADERS = {"content-type": "application/grpc", "te": "trailers"}


@dataclass
class Payload:
    """The tensors sent to one model and those that must come back."""

    model: str
    inputs: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    tolerance: float = 0.0


@dataclass
class Body:
    path: pathlib.Path
    headers: dict[str, str] = field(default_factory=dict)


def identity(model, elements, batched):
    """A payload for a model that gives INPUT0 back."""
    values = np.random.default_rng(7).random(elements, np.float32)
    values = values.reshape(1, elements) if batched else values
    return Payload(model, {"INPUT0": values}, {"OUTPUT0": values})


def add_sub(model):
    random = np.random.default_rng(7)
    a, b = random.random((1, 16), np.float32), random.random((1, 16), np.float32)
    return Payload(model, {"INPUT0": a, "INPUT1": b}, {"OUTPUT0": a + b, "OUTPUT1": a - b})


def strings(model, elements):
    """A payload of short strings for a model that gives them back."""
    values = np.array([[f"word number {i}".encode() for i in range(elements)]], np.object_)
    return Payload(model, {"INPUT0": values}, {"OUTPUT0": values})


def payload(model, elements):
    """What the model of that name is asked; the models are those of bench/models."""
    if model in ("py_add_sub", "nvidia_add_sub", "onnx_add_sub"):
        return add_sub(model)
    if model == "ens_strings":
        return strings(model, elements)
    if model == "onnx_mlp":
        values = np.random.default_rng(7).random((1, elements), np.float32)
        return Payload(model, {"INPUT0": values}, {"OUTPUT0": frameworks.mlp_answer(values)}, 1e-5)
    if model in engines.MODELS:
        return Payload(model, engines.inputs_of(model), *engines.answers_of(model))
    return identity(model, elements, batched=model not in ("noop", "repeat", "native_identity"))


def http_tensors(payload, binary):
    inputs = []
    for name, values in payload.inputs.items():
        tensor = httpclient.InferInput(name, list(values.shape), np_to_triton_dtype(values.dtype))
        tensor.set_data_from_numpy(values, binary_data=binary)
        inputs.append(tensor)
    outputs = [httpclient.InferRequestedOutput(name, binary_data=binary) for name in payload.expected]
    return inputs, outputs


def grpc_tensors(payload):
    inputs = []
    for name, values in payload.inputs.items():
        tensor = grpcclient.InferInput(name, list(values.shape), np_to_triton_dtype(values.dtype))
        tensor.set_data_from_numpy(values)
        inputs.append(tensor)
    return inputs, [grpcclient.InferRequestedOutput(name) for name in payload.expected]


def http_body(payload, binary, path):
    """Writes the body that the official client sends."""
    inputs, outputs = http_tensors(payload, binary)
    data, header_length = httpclient.InferenceServerClient.generate_request_body(inputs, outputs=outputs)
    path.write_bytes(data)
    if header_length is None:
        return Body(path, {"Content-Type": "application/json"})
    return Body(path, {"Inference-Header-Content-Length": str(header_length)})


def frame(message):
    """A gRPC message frame: not compressed, length, message."""
    return b"\0" + struct.pack(">I", len(message)) + message


def perf_data(payload, path):
    """Writes the data of neso perf for the same request; None where a request has more than one row, or no row at all."""
    inputs = {}
    for name, values in payload.inputs.items():
        if payload.model not in ("noop", "repeat"):
            if values.shape[0] != 1:
                return None
            values = values[0]
        shape = list(values.shape)
        if values.dtype == np.object_:
            inputs[name] = {"content": [value.decode() for value in values.reshape(-1)], "shape": shape}
        else:
            inputs[name] = {"b64": base64.b64encode(values.tobytes()).decode(), "shape": shape}
    path.write_text(json.dumps({"data": [inputs]}), encoding="utf-8")
    return path


def grpc_body(payload, path):
    request = grpcclient.service_pb2.ModelInferRequest(model_name=payload.model)
    for name, values in payload.inputs.items():
        tensor = request.inputs.add(name=name, datatype=np_to_triton_dtype(values.dtype))
        tensor.shape.extend(values.shape)
        raw = serialize_byte_tensor(values).item() if values.dtype == np.object_ else values.tobytes()
        request.raw_input_contents.append(raw)
    for name in payload.expected:
        request.outputs.add(name=name)
    path.write_bytes(frame(request.SerializeToString()))
    return Body(path, dict(GRPC_HEADERS))


class WrongAnswer(Exception):
    pass


def _equal(got, want, tolerance):
    if want.dtype == np.object_:
        return np.array_equal(got, want)
    return np.allclose(got, want, rtol=1e-6, atol=tolerance)


def compare(payload, result):
    for name, want in payload.expected.items():
        got = result.as_numpy(name)
        if got is None or got.shape != want.shape or not _equal(got, want, payload.tolerance):
            raise WrongAnswer(f"{payload.model}: output {name} is {got!r}, expected {want!r}")


def check_http(payload, address, binary):
    with httpclient.InferenceServerClient(address, network_timeout=60, connection_timeout=60) as client:
        inputs, outputs = http_tensors(payload, binary)
        compare(payload, client.infer(payload.model, inputs, outputs=outputs))


def check_grpc(payload, address):
    with grpcclient.InferenceServerClient(address) as client:
        inputs, outputs = grpc_tensors(payload)
        compare(
            payload,
            client.infer(payload.model, inputs, outputs=outputs, client_timeout=60),
        )


def check_stream(payload, address, count):
    """One request on a stream: count responses, each right, and the end mark after them."""
    answers = queue.SimpleQueue()
    inputs, outputs = grpc_tensors(payload)
    with grpcclient.InferenceServerClient(address) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer(payload.model, inputs, outputs=outputs, enable_empty_final_response=True)
        number = 0
        while True:
            result, error = answers.get(timeout=60)
            if error:
                raise error
            if result.get_response().parameters["triton_final_response"].bool_param:
                break
            compare(payload, result)
            number += 1
    if number != count:
        raise WrongAnswer(f"{payload.model}: {number} responses, expected {count}")
