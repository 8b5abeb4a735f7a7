"""Binds one callable after the other, each to a server of its own, as the lines of its input order.

A line says which callable, and the URL of the server; an empty line ends that one.
"""

import json
import sys

import numpy as np
from neso.decorators import batch
from neso.model_config import ModelConfig, Tensor
from neso.triton import RemoteTriton

NAMES = {
    "BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
    "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "FP16": np.float16, "FP32": np.float32, "FP64": np.float64, "BYTES": bytes,
}  # fmt: skip


def identity(requests):
    return [{"OUT": request["IN"]} for request in requests]


def failing(requests):
    if any((request["IN"] < 0).any() for request in requests):
        raise ValueError("negative")
    return identity(requests)


def calling(requests):
    return [{"OUT": triton.client("echo").infer_batch(request["IN"])["OUT"]} for request in requests]


def decoupled(requests):
    (request,) = requests
    for _ in range(int(request["IN"].ravel()[0])):
        yield [{"OUT": request["IN"]}]


def whole(call):
    """The callable for arrays of the whole batch."""

    @batch
    def infer(IN):  # noqa: N803
        (answer,) = call([{"IN": IN}])
        return answer

    return infer


calls = {f.__name__: f for f in (identity, failing, calling, decoupled)}
for line in sys.stdin:
    order = json.loads(line)
    call = calls[order["callable"]]
    spec = {"dtype": NAMES[order["datatype"]], "shape": (-1,)}
    tensors = [Tensor(name="IN", **spec)], [Tensor(name="OUT", **spec)]
    config = ModelConfig(
        batching=order["batch"] > 0, max_batch_size=max(order["batch"], 1), decoupled=order["decoupled"]
    )
    with RemoteTriton(order["url"]) as triton:
        triton.bind("model", whole(call) if order["whole"] else call, *tensors, config=config)
        if call is calling:  # what it calls is the server's own; the client takes the description
            triton.bind("echo", identity, *tensors, config=config)
        print("bound", flush=True)
        sys.stdin.readline()
    print("ended", flush=True)
