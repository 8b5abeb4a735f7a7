"""The official clients over HTTP and gRPC, and requests whose tensors are arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from tritonclient import grpc, http

CLIENTS = {"http": http, "grpc": grpc}


@contextlib.contextmanager
def connected(server, transport: str = "http", **options) -> Iterator[Any]:
    """A client of a server; its attribute module is the one that has the transport's classes."""
    module = CLIENTS[transport]
    with module.InferenceServerClient(getattr(server, transport), **options) as client:
        client.module = module
        yield client


def datatype(array: np.ndarray) -> str:
    """The protocol's name of an array's datatype."""
    name = array.dtype.name
    return {"bfloat16": "BF16", "object": "BYTES", "bool": "BOOL"}.get(name) or name.upper().replace("FLOAT", "FP")


def tensors(client, inputs: dict[str, Any]) -> list:
    """Inputs of a request, of arrays or of arrays with their datatypes, by name."""
    made = []
    for name, value in inputs.items():
        array, kind = value if isinstance(value, tuple) else (value, datatype(value))
        tensor = client.module.InferInput(name, list(array.shape), kind)
        tensor.set_data_from_numpy(array)
        made.append(tensor)
    return made


def infer(client, model: str, inputs: dict[str, Any], outputs=None, **more) -> dict[str, np.ndarray]:
    """Arrays by name in, those that are answered out; outputs are the names that are asked for, None for all."""
    wanted = [client.module.InferRequestedOutput(name) for name in outputs] if outputs else None
    result = client.infer(model, tensors(client, inputs), outputs=wanted, **more)
    got = result.get_response()
    names = [o["name"] for o in got["outputs"]] if isinstance(got, dict) else [o.name for o in got.outputs]
    return {name: result.as_numpy(name) for name in names}
