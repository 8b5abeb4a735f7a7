"""The program under load: models bound with PyTriton's API, out of the package that the first argument names."""

import importlib
import sys

import numpy as np

PACKAGE, HTTP, GRPC, METRICS = sys.argv[1], *map(int, sys.argv[2:5])

Batch = importlib.import_module(f"{PACKAGE}.decorators").batch
ModelConfig = importlib.import_module(f"{PACKAGE}.model_config").ModelConfig
Tensor = importlib.import_module(f"{PACKAGE}.model_config").Tensor
Triton = importlib.import_module(f"{PACKAGE}.triton").Triton
TritonConfig = importlib.import_module(f"{PACKAGE}.triton").TritonConfig

RESPONSES = 100


@Batch
def add_sub(INPUT0, INPUT1):  # noqa: N803  the names of the tensors
    return {"OUTPUT0": INPUT0 + INPUT1, "OUTPUT1": INPUT0 - INPUT1}


@Batch
def identity(INPUT0):  # noqa: N803
    return {"OUTPUT0": INPUT0}


def single(requests):
    return [{"OUTPUT0": request["INPUT0"]} for request in requests]


def stream(requests):
    for number in range(RESPONSES):
        yield [{"OUTPUT0": np.array([number], np.float32)} for _ in requests]


def tensors(word, *names, size=-1):
    return [Tensor(name=f"{word}{name}", dtype=np.float32, shape=(size,)) for name in names]


config = TritonConfig(
    http_address="127.0.0.1", http_port=HTTP, grpc_address="127.0.0.1", grpc_port=GRPC,
    metrics_address="127.0.0.1", metrics_port=METRICS,
)  # fmt: skip
with Triton(config=config) as triton:
    batching = ModelConfig(max_batch_size=64)
    triton.bind("add_sub", add_sub, tensors("INPUT", 0, 1), tensors("OUTPUT", 0, 1), config=batching)
    triton.bind("identity", identity, tensors("INPUT", 0), tensors("OUTPUT", 0), config=batching)
    triton.bind("single", single, tensors("INPUT", 0), tensors("OUTPUT", 0), config=ModelConfig(batching=False))
    triton.bind(
        "stream", stream, tensors("INPUT", 0), tensors("OUTPUT", 0), config=ModelConfig(batching=False, decoupled=True)
    )
    triton.serve()
