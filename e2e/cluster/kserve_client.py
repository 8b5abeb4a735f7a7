"""Calls a server by KServe's own Python client (PyPI: kserve), over HTTP and gRPC; prints what it answers.

usage: python kserve_client.py HTTP-URL GRPC-ADDRESS MODEL
"""

from __future__ import annotations

import asyncio
import json
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig

JSON = {"Accept": "application/json"}


def request(model: str) -> InferRequest:
    given = InferInput("INPUT0", [1, 4], "FP32")
    given.set_data_from_numpy(np.arange(4, dtype=np.float32).reshape(1, 4), binary_data=False)
    return InferRequest(model_name=model, infer_inputs=[given])


async def main(url: str, address: str, model: str) -> dict:
    rest = InferenceRESTClient(RESTConfig(protocol="v2"))
    said = {
        "live": await rest.is_server_live(url, headers=JSON),
        "ready": await rest.is_server_ready(url, headers=JSON),
        "model": await rest.is_model_ready(url, model),
        "http": (await rest.infer(url, request(model), model_name=model)).outputs[0].as_numpy().tolist(),
    }
    await rest.close()
    grpc = InferenceGRPCClient(address)
    said |= {
        "grpc live": await grpc.is_server_live(),
        "grpc ready": await grpc.is_server_ready(),
        "grpc model": await grpc.is_model_ready(model),
        "grpc": (await grpc.infer(request(model))).outputs[0].as_numpy().tolist(),
    }
    await grpc.close()
    return said


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
