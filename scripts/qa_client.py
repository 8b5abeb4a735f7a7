"""Stands in for Triton's C++ examples simple_http_infer_client and simple_grpc_infer_client in the tests of scripts/qa.sh.

`qa_client.py http|grpc [-v] [-u URL] [-H HEADER:VALUE]... [-i ENCODING] [-o ENCODING] [-C ENCODING]` asks the model
`simple` once for the sums and differences of 16 numbers, and checks them. The Python examples of those names ask twice.
"""

from __future__ import annotations

import argparse
import importlib

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("protocol", choices=["http", "grpc"])
parser.add_argument("-v", action="store_true", help="print what goes over the wire")
parser.add_argument("-u", metavar="URL")
parser.add_argument("-H", action="append", default=[], metavar="HEADER:VALUE")
parser.add_argument("-i", metavar="ENCODING", help="of the request, over HTTP")
parser.add_argument("-o", metavar="ENCODING", help="of the response, over HTTP")
parser.add_argument("-C", metavar="ENCODING", help="over gRPC")
a = parser.parse_args()

api = importlib.import_module(f"tritonclient.{a.protocol}")
client = api.InferenceServerClient(a.u or {"http": "localhost:8000", "grpc": "localhost:8001"}[a.protocol], verbose=a.v)
x, y = np.arange(16, dtype=np.int32).reshape(1, 16), np.ones((1, 16), np.int32)
inputs = [api.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
for tensor, data in zip(inputs, (x, y)):
    tensor.set_data_from_numpy(data)
if a.protocol == "http":
    more = {"request_compression_algorithm": a.i, "response_compression_algorithm": a.o}
else:
    more = {"compression_algorithm": a.C}
result = client.infer(
    "simple",
    inputs,
    outputs=[api.InferRequestedOutput(name) for name in ("OUTPUT0", "OUTPUT1")],
    headers=dict(h.split(":", 1) for h in a.H),
    **more,
)
assert (result.as_numpy("OUTPUT0") == x + y).all() and (result.as_numpy("OUTPUT1") == x - y).all()
print("PASS : Infer")
