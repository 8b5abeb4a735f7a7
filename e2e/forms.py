"""One inference, in every form the wire has, through the official clients."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue

import numpy as np
import tritonclient.grpc as tgrpc
import tritonclient.http as thttp
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException, serialize_byte_tensor, triton_to_np_dtype

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
    with thttp.InferenceServerClient(server.http, network_timeout=120) as client:
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
        result = client.infer(model, _grpc_inputs(inputs), outputs=wanted, client_timeout=120, **kw)
        return {o.name: result.as_numpy(o.name) for o in result.get_response().outputs}


def stream_form(server, model, inputs, outputs=None, **kw):
    answers: queue.Queue = queue.Queue()
    with tgrpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        wanted = [tgrpc.InferRequestedOutput(n) for n in outputs] if outputs else None
        client.async_stream_infer(model, _grpc_inputs(inputs), outputs=wanted, **kw)
        result, error = answers.get(timeout=120)
        client.stop_stream()
    if error is not None:
        raise error
    return {o.name: result.as_numpy(o.name) for o in result.get_response().outputs}


_regions = itertools.count()


@contextlib.contextmanager
def region(client, size):
    """A registered region of shared memory: its name and handle."""
    name = f"neso_e2e_{os.getpid()}_{next(_regions)}"
    handle = shm.create_shared_memory_region(name, "/" + name, max(1, size))
    try:
        client.register_system_shared_memory(name, "/" + name, max(1, size))
        yield name, handle
        client.unregister_system_shared_memory(name)
    finally:
        shm.destroy_shared_memory_region(handle)


def raw(array: np.ndarray) -> np.ndarray:
    """The bytes of a tensor."""
    if array.dtype != np.object_:
        return np.frombuffer(array.tobytes(), np.uint8)
    return np.frombuffer(serialize_byte_tensor(array).item() if array.size else b"", np.uint8)


def placed(module, client, inputs, outputs, room, run):
    """Runs an inference with all tensors in shared memory: run(inputs, requested outputs) returns the result."""
    total = sum(raw(a).size for a in inputs.values())
    with (
        region(client, total) as (source, source_handle),
        region(client, room * len(outputs)) as (target, target_handle),
    ):
        tensors, at = [], 0
        for name, array in inputs.items():
            data = raw(array)
            if data.size:
                shm.set_shared_memory_region(source_handle, [data], offset=at)
            t = module.InferInput(name, list(array.shape), _datatype(array))
            # An offset lies in its region, also that of no bytes.
            t.set_shared_memory(source, data.size, offset=min(at, max(0, total - 1)))
            tensors.append(t)
            at += data.size
        wanted = []
        for i, name in enumerate(outputs):
            wanted.append(module.InferRequestedOutput(name))
            wanted[-1].set_shared_memory(target, room, offset=i * room)
        result, found = run(tensors, wanted), {}
        for i, name in enumerate(outputs):
            o = result.get_output(name)
            if not isinstance(o, dict):
                assert not any(result.get_response().raw_output_contents), "the tensor came in the response, too"
                o = {"name": o.name, "shape": list(o.shape), "datatype": o.datatype}
            assert set(o) == {"name", "shape", "datatype"}, o
            dtype = triton_to_np_dtype(o["datatype"])
            found[name] = (
                shm.get_contents_as_numpy(target_handle, dtype, o["shape"], offset=i * room).copy()
                if 0 not in o["shape"]
                else np.empty(o["shape"], dtype)
            )
        return found


def _placed_form(module, client, model, inputs, outputs, kw):
    if outputs is None:
        try:
            meta = client.get_model_metadata(model)
        except InferenceServerException:
            meta = {"outputs": []}
        outputs = [o["name"] for o in meta["outputs"]] if isinstance(meta, dict) else [o.name for o in meta.outputs]
    room = 4096 + 2 * sum(raw(a).size for a in inputs.values())
    return placed(
        module,
        client,
        inputs,
        outputs,
        room,
        lambda tensors, wanted: client.infer(model, tensors, outputs=wanted, **kw),
    )


def http_memory_form(server, model, inputs, outputs=None, **kw):
    with thttp.InferenceServerClient(server.http, network_timeout=120) as client:
        return _placed_form(thttp, client, model, inputs, outputs, kw)


def grpc_memory_form(server, model, inputs, outputs=None, **kw):
    with tgrpc.InferenceServerClient(server.grpc) as client:
        return _placed_form(tgrpc, client, model, inputs, outputs, {"client_timeout": 120, **kw})


FORMS = {
    "json": json_form,
    "binary": binary_form,
    "grpc": grpc_form,
    "stream": stream_form,
    "http-memory": http_memory_form,
    "grpc-memory": grpc_memory_form,
}


def _datatype(array: np.ndarray) -> str:
    for name, dtype in DATATYPES.items():
        if array.dtype == dtype:
            return name
    raise ValueError(f"no datatype for {array.dtype}")
