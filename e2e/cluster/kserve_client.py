"""Calls a server by KServe's own Python client (PyPI: kserve), over HTTP and gRPC; prints what it answers.

usage: python kserve_client.py HTTP-URL GRPC-ADDRESS MODEL <INPUTS, which is JSON: [[name, datatype, shape, [values]], ...]
"""

from __future__ import annotations

import asyncio
import json
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig

JSON = {"Accept": "application/json"}


TYPES = {"FP32": np.float32, "FP64": np.float64, "INT32": np.int32, "INT64": np.int64}


def request(model: str, inputs: list) -> InferRequest:
    made = []
    for name, datatype, shape, values in inputs:
        made.append(InferInput(name, shape, datatype))
        made[-1].set_data_from_numpy(np.array(values, TYPES[datatype]).reshape(shape), binary_data=False)
    return InferRequest(model_name=model, infer_inputs=made)


def outputs(reply) -> dict:
    return {o.name: o.as_numpy().tolist() for o in reply.outputs}


async def main(url: str, address: str, model: str) -> dict:
    inputs = json.load(sys.stdin)
    rest = InferenceRESTClient(RESTConfig(protocol="v2"))
    said = {
        "live": await rest.is_server_live(url, headers=JSON),
        "ready": await rest.is_server_ready(url, headers=JSON),
        "model": await rest.is_model_ready(url, model),
        "http": outputs(await rest.infer(url, request(model, inputs), model_name=model)),
    }
    await rest.close()
    grpc = InferenceGRPCClient(address)
    said |= {
        "grpc live": await grpc.is_server_live(),
        "grpc ready": await grpc.is_server_ready(),
        "grpc model": await grpc.is_model_ready(model),
        "grpc": outputs(await grpc.infer(request(model, inputs))),
    }
    await grpc.close()
    return said


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
