"""What the tests of bound callables share: a real server that this process started, and a small HTTP client."""

from __future__ import annotations

import http.client
import json
import os
import pathlib

import numpy as np

from neso._bound.binding import Binding
from neso._server import Server

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("NESO_BINARY") or str(ROOT / "bin" / "neso")
ANY_PORTS = [
    "--http-address=127.0.0.1", "--http-port=0", "--grpc-address=127.0.0.1", "--grpc-port=0",
    "--metrics-address=127.0.0.1", "--metrics-port=0", "--model-control-mode=explicit",
]  # fmt: skip

NAMES = {
    "BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
    "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "FP16": np.float16, "FP32": np.float32, "FP64": np.float64,
}  # fmt: skip
WORDS = {np.dtype(kind): name for name, kind in NAMES.items()}


def pending(server, model):
    """How many requests of a model wait for a callable."""
    host, port = server.addresses["metrics"].rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        connection.request("GET", "/metrics")
        for line in connection.getresponse().read().decode().splitlines():
            if line.startswith("nv_inference_pending_request_count") and f'model="{model}"' in line:
                return int(float(line.split()[-1]))
        return 0
    finally:
        connection.close()


def make_server(*extra, **options):
    log = []
    server = Server([*ANY_PORTS, *extra], binary=BINARY, output=log.append, **options)
    server.log = log
    server.start(120)
    return server


def tensor(name, datatype, dims, **more):
    return {"name": name, "data_type": f"TYPE_{'STRING' if datatype == 'BYTES' else datatype}", "dims": dims, **more}


def config(inputs, outputs, batch=8, **more):
    made = {"max_batch_size": batch, "input": inputs, "output": outputs, **more}
    if batch:
        made.setdefault("dynamic_batching", {})
    return made


ADD_SUB = config(
    [tensor("a", "FP32", [-1]), tensor("b", "FP32", [-1])], [tensor("sum", "FP32", [-1]), tensor("diff", "FP32", [-1])]
)


def add_sub(a, b):
    return {"sum": a + b, "diff": a - b}


class Refused(Exception):  # noqa: N818
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def encode(array):
    if array.dtype == object:
        return b"".join(len(x).to_bytes(4, "little") + x for x in array.ravel())
    return array.tobytes()


def decode(data, datatype, shape):
    if datatype != "BYTES":
        return np.frombuffer(data, NAMES[datatype]).reshape(shape)
    items, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        items.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    made = np.empty(len(items), object)
    made[:] = items
    return made.reshape(shape)


class Http:
    """One connection to a server."""

    def __init__(self, server, timeout=60):
        host, port = server.addresses["http"].rsplit(":", 1)
        self.connection = http.client.HTTPConnection(host, int(port), timeout=timeout)

    def __del__(self):
        self.connection.close()

    def ask(self, method, path, body=b"", headers=None):
        self.connection.request(method, path, body, headers or {})
        answer = self.connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()

    def status(self, path):
        return self.ask("GET", path)[0]

    def infer(self, model, *, parameters=None, outputs=None, headers=None, **inputs):
        head = {"inputs": [], "parameters": {"binary_data_output": True, **(parameters or {})}}
        if outputs is not None:
            head["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in outputs]
        data = b""
        for name, array in inputs.items():
            raw = encode(array)
            word = "BYTES" if array.dtype == object else WORDS[array.dtype]
            head["inputs"].append(
                {
                    "name": name,
                    "shape": list(array.shape),
                    "datatype": word,
                    "parameters": {"binary_data_size": len(raw)},
                }
            )
            data += raw
        text = json.dumps(head).encode()
        more = {"Inference-Header-Content-Length": str(len(text)), **(headers or {})}
        status, answered, body = self.ask("POST", f"/v2/models/{model}/infer", text + data, more)
        if status != 200:
            raise Refused(status, json.loads(body)["error"])
        length = int({k.lower(): v for k, v in answered}.get("inference-header-content-length", len(body)))
        found, at = {}, length
        for out in json.loads(body[:length])["outputs"]:
            size = out["parameters"]["binary_data_size"]
            found[out["name"]] = decode(body[at : at + size], out["datatype"], out["shape"])
            at += size
        return found


def bind(server, name, callables, settings, **more):
    if not isinstance(callables, (list, tuple)):
        callables = [callables]
    return server.bind(Binding(name, callables, settings, **more))
