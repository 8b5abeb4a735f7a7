"""Shared-memory objects of a test, and requests that use them."""

from __future__ import annotations

import contextlib
import uuid
from pathlib import Path

import grpc
import numpy as np
import pytest
import server
from tritonclient.grpc import service_pb2, service_pb2_grpc

SYSTEM, CUDA = "/v2/systemsharedmemory", "/v2/cudasharedmemory"
FP32 = "identity_any_fp32"


class Region:
    """A shared-memory object with a name of its own, registered or not."""

    def __init__(self, size=64, data: bytes = b""):
        self.name = f"neso_e2e_{uuid.uuid4().hex}"
        self.path = Path("/dev/shm") / self.name
        self.path.write_bytes(data.ljust(size, b"\0"))
        self.size = size

    def register(self, server, name=None, offset=0, size=None):
        r = server.post(
            f"{SYSTEM}/region/{name or self.name}/register",
            {"key": "/" + self.name, "offset": offset, "byte_size": self.size if size is None else size},
        )
        assert (r.status, r.body) == (200, b""), r

    def floats(self, n, offset=0):
        return np.frombuffer(self.path.read_bytes(), np.float32, n, offset).tolist()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.path.unlink(missing_ok=True)


@contextlib.contextmanager
def two_regions(s):
    """A registered region of sixteen floats, 0 to 15, and one of zeros."""
    with Region(64, np.arange(16, dtype=np.float32).tobytes()) as a, Region(64) as b:
        a.register(s)
        b.register(s)
        yield a, b
        for r in (a, b):
            assert s.post(f"{SYSTEM}/region/{r.name}/unregister").status == 200


def part(region, offset=None, size=None):
    p = {"shared_memory_region": region.name if isinstance(region, Region) else region}
    if offset is not None:
        p["shared_memory_offset"] = offset
    if size is not None:
        p["shared_memory_byte_size"] = size
    return p


def infer(s, given, wanted=None, model=FP32, shape=(1, 4), **more):
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": list(shape), "parameters": given}], **more}
    if wanted is not None:
        body["outputs"] = [{"name": "OUTPUT0", "parameters": wanted}]
    return s.infer(model, body)


def infer_grpc(s, given, wanted=None, model=FP32, shape=(1, 4)):
    q = service_pb2.ModelInferRequest(model_name=model)
    tensors = [(q.inputs.add(name="INPUT0", datatype="FP32", shape=shape), given)]
    if wanted is not None:
        tensors.append((q.outputs.add(name="OUTPUT0"), wanted))
    for t, parameters in tensors:
        for k, v in parameters.items():
            if isinstance(v, str):
                t.parameters[k].string_param = v
            else:
                t.parameters[k].int64_param = v
    with grpc.insecure_channel(s.grpc) as channel:
        return service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(q, timeout=120)


CODES = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 500: "INTERNAL", 501: "UNIMPLEMENTED"}


def refused(s, status, text, *args, **kw):
    """The same request is refused alike over HTTP and gRPC."""
    r = infer(s, *args, **kw)
    assert (r.status, r.error) == (status, text)
    with pytest.raises(grpc.RpcError) as e:
        infer_grpc(s, *args, **kw)
    assert (e.value.code().name, e.value.details()) == (CODES[status], text)


def open_files(s):
    """The shared-memory objects that the server has open."""
    return sorted(f for f in server.open_files(s.process.pid) if f.startswith("/dev/shm/"))
