"""Request bodies for the load generators, and the check that a server answers them rightly."""

import pathlib
import struct
from dataclasses import dataclass, field

import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

GRPC_HEADERS = {"content-type": "application/grpc", "te": "trailers"}


@dataclass
class Payload:
    """The tensors sent to one model and those that must come back."""

    model: str
    inputs: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]


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


def http_tensors(payload, binary):
    inputs = []
    for name, values in payload.inputs.items():
        tensor = httpclient.InferInput(name, list(values.shape), "FP32")
        tensor.set_data_from_numpy(values, binary_data=binary)
        inputs.append(tensor)
    outputs = [httpclient.InferRequestedOutput(name, binary_data=binary) for name in payload.expected]
    return inputs, outputs


def grpc_tensors(payload):
    inputs = []
    for name, values in payload.inputs.items():
        tensor = grpcclient.InferInput(name, list(values.shape), "FP32")
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


def grpc_body(payload, path):
    request = grpcclient.service_pb2.ModelInferRequest(model_name=payload.model)
    for name, values in payload.inputs.items():
        tensor = request.inputs.add(name=name, datatype="FP32")
        tensor.shape.extend(values.shape)
        request.raw_input_contents.append(values.tobytes())
    for name in payload.expected:
        request.outputs.add(name=name)
    path.write_bytes(frame(request.SerializeToString()))
    return Body(path, dict(GRPC_HEADERS))


class WrongAnswer(Exception):
    pass


def compare(payload, result):
    for name, want in payload.expected.items():
        got = result.as_numpy(name)
        if got is None or got.shape != want.shape or not np.allclose(got, want, rtol=1e-6, atol=0):
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
