"""One inference, in every form the wire has, through the official clients."""

from __future__ import annotations

import queue

import numpy as np
import tritonclient.grpc as tgrpc
import tritonclient.http as thttp

DATATYPES = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "BYTES": np.object_,
}


class Refused(Exception):
    """What the server answered instead of a result."""

    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status, self.message = str(status), message


def _http(server, model, inputs, binary, outputs, kw):
    with thttp.InferenceServerClient(server.http, network_timeout=30) as client:
        tensors = []
        for name, array in inputs.items():
            t = thttp.InferInput(name, list(array.shape), _datatype(array))
            t.set_data_from_numpy(array, binary_data=binary)
            tensors.append(t)
        wanted = [thttp.InferRequestedOutput(n, binary_data=binary) for n in outputs] if outputs else None
        result = client.infer(model, tensors, outputs=wanted, **kw)
        names = [o["name"] for o in result.get_response()["outputs"]]
        return {n: result.as_numpy(n) for n in names}


def _grpc_inputs(inputs):
    tensors = []
    for name, array in inputs.items():
        t = tgrpc.InferInput(name, list(array.shape), _datatype(array))
        t.set_data_from_numpy(array)
        tensors.append(t)
    return tensors


def json_form(server, model, inputs, outputs=None, **kw):
    return _http(server, model, inputs, False, outputs, kw)


def binary_form(server, model, inputs, outputs=None, **kw):
    return _http(server, model, inputs, True, outputs, kw)


def grpc_form(server, model, inputs, outputs=None, **kw):
    with tgrpc.InferenceServerClient(server.grpc) as client:
        wanted = [tgrpc.InferRequestedOutput(n) for n in outputs] if outputs else None
        result = client.infer(model, _grpc_inputs(inputs), outputs=wanted, client_timeout=30, **kw)
        return {o.name: result.as_numpy(o.name) for o in result.get_response().outputs}


def stream_form(server, model, inputs, outputs=None, **kw):
    answers: queue.Queue = queue.Queue()
    with tgrpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        wanted = [tgrpc.InferRequestedOutput(n) for n in outputs] if outputs else None
        client.async_stream_infer(model, _grpc_inputs(inputs), outputs=wanted, **kw)
        result, error = answers.get(timeout=30)
        client.stop_stream()
    if error is not None:
        raise error
    return {o.name: result.as_numpy(o.name) for o in result.get_response().outputs}


FORMS = {"json": json_form, "binary": binary_form, "grpc": grpc_form, "stream": stream_form}


def _datatype(array: np.ndarray) -> str:
    for name, dtype in DATATYPES.items():
        if array.dtype == dtype:
            return name
    raise ValueError(f"no datatype for {array.dtype}")
