"""Binds the callables of a program: callables.py PROGRAM HTTP GRPC METRICS. Either package is imported as pytriton.

What a callable saw goes, a line for each event, to DIFFERENTIAL_RECORD/<model>.jsonl, as models/recorder.py does it.
"""

import json
import os
import sys
import threading
import time

import numpy as np
from pytriton import decorators
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

FOLDER = os.environ["DIFFERENTIAL_RECORD"]
PATIENCE = 20.0
LOCK = threading.Lock()


def record(model, event, **facts):
    with LOCK, open(os.path.join(FOLDER, model + ".jsonl"), "a") as out:
        out.write(json.dumps({"event": event, **facts}) + "\n")


def plain(array):
    return [v.decode("latin-1") if isinstance(v, bytes) else v for v in array.reshape(-1).tolist()]


def scalar(value):
    """What first_value makes of an input."""
    plain = value.item() if isinstance(value, np.generic) else value
    return [type(value).__name__, plain.decode("latin-1") if isinstance(plain, bytes) else plain]


def facts(mapping):
    return [
        [name, str(v.dtype), list(v.shape), plain(v)] if isinstance(v, np.ndarray) else [name, *scalar(v)]
        for name, v in mapping.items()
    ]


def context_facts(context, function):
    """What a callable is told of itself."""
    config = context.model_configs[function]
    return {
        "name": config.model_name,
        "batches": [config.batching, config.max_batch_size, config.decoupled],
        "inputs": [[t.name, np.dtype(t.dtype).str, list(t.shape), t.optional] for t in config.inputs],
        "outputs": [[t.name, np.dtype(t.dtype).str, list(t.shape)] for t in config.outputs],
    }


def dtype(word):
    return (
        np.bytes_
        if word == "TYPE_STRING"
        else np.dtype({"TYPE_BOOL": "bool"}.get(word, word[5:].lower().replace("fp", "float"))).type
    )


class Callable:
    """One callable of a program: how it is called, what it answers and which decorators it has."""

    def __init__(self, model):
        self.model, self.name = model, model["name"]
        self.behaviour, self.config = model["behaviour"], model["config"]
        self.outputs = {o["name"]: dtype(o["data_type"]) for o in self.config["output"]}
        self.batches = self.config["max_batch_size"] > 0
        self.firsts = {d.split()[1] for d in model["decorators"] if d.startswith("first_value")}

    def wait(self):
        """As long as the driver has closed the gate of this model."""
        closed = os.path.join(FOLDER, self.name + ".closed")
        if os.path.exists(closed):
            record(self.name, "waits", gate=open(closed).read())
            end = time.monotonic() + PATIENCE
            while os.path.exists(closed) and time.monotonic() < end:
                time.sleep(0.002)  # polling the driver: there is nothing to wait on

    def answer(self, inputs, fault="", number=0):
        """The outputs for inputs that may be those of a batch."""
        if fault == "raise":
            raise ValueError("kaboom")
        if fault == "error_at":
            record(self.name, "refuses")
            raise RuntimeError(f"no answer {number}")
        made = {}
        for name, how, source in self.behaviour["outputs"]:
            array = inputs[source] if source in inputs else None
            if array is not None and source in self.firsts:  # what is left is one row of it
                rows = next((len(v) for n, v in inputs.items() if n not in self.firsts), 1)
                array = np.repeat(np.atleast_1d(array)[None], rows, axis=0)
            if array is None:
                rows = next((len(v) for v in inputs.values() if isinstance(v, np.ndarray) and v.ndim), 1)
                kind = self.outputs[name]
                array = np.full([rows, 1] if self.batches else [1], b"" if kind is np.bytes_ else 0, kind)
            elif how == "flip":
                array = array[..., ::-1]
            elif how == "size":
                rows = len(array) if self.batches else 1
                array = np.full([rows, 1] if self.batches else [1], array.size // rows, np.int32)
            made[name] = array
        if fault == "missing":
            made.pop(next(iter(made)))
        elif fault == "extra":
            made["ANOTHER"] = next(iter(made.values()))
        elif fault == "datatype":
            name = next(iter(made))
            made[name] = np.zeros(made[name].shape, np.int16)
        elif fault == "shape":
            name = next(iter(made))
            made[name] = made[name][..., None]
        elif fault == "list":
            return [made]
        elif fault == "none":
            return None
        return made

    def returned(self, made):
        """As a dictionary or in the order of the outputs: decorated functions may do either."""
        if not isinstance(made, dict) or self.behaviour.get("returns", "dict") == "dict":
            return made
        values = [made[name] for name in self.outputs if name in made]
        return tuple(values) if self.behaviour["returns"] == "tuple" else values

    # -- called with requests

    def look(self, requests):
        seen = [{"inputs": facts(r), "parameters": r.parameters or {}} for r in requests]
        record(self.name, "execute", requests=seen)
        self.wait()
        return [json.loads((r.parameters or {}).get("do", "{}")) for r in requests]

    def all(self, requests, asked, number=0):
        faults = [do.get("fault", "") for do in asked]
        if "few" in faults:
            return [self.answer(r) for r in requests][:-1]
        if "type" in faults:
            return "a text"
        made = []
        for request, do, fault in zip(requests, asked, faults):
            fault = "error_at" if do.get("error_at") == number else fault
            made.append(self.answer(request, fault, number))
        return made

    def with_requests(self, requests):
        return self.all(requests, self.look(requests))

    async def with_requests_awaited(self, requests):
        return self.all(requests, self.look(requests))

    def times(self, asked):
        return max(do.get("n", self.behaviour.get("n", 1)) for do in asked)

    def yielding(self, requests):
        asked = self.look(requests)
        for number in range(self.times(asked)):
            yield self.all(requests, asked, number)

    async def yielding_awaited(self, requests):
        asked = self.look(requests)
        for number in range(self.times(asked)):
            yield self.all(requests, asked, number)

    # -- called with inputs

    def decorated(self):
        """A function under decorators. It has the inputs by name, in whatever order it is given them."""

        def look(inputs):
            more = {}
            if "triton_context" in inputs:
                more["context"] = context_facts(inputs.pop("triton_context"), made)
            record(self.name, "execute", requests=[{"inputs": facts(inputs)}], **more)

        def function(**inputs):
            look(inputs)
            self.wait()
            return self.returned(self.answer(inputs, self.behaviour.get("fault", "")))

        def stream(**inputs):
            look(inputs)
            for number in range(self.behaviour.get("n", 1)):
                yield self.returned(self.answer(inputs, "", number))

        made = stream if self.model["form"] == "generator" else function
        for decorator in reversed(self.model["decorators"]):
            made = self.decorator(decorator)(made)
        return made

    def decorator(self, word):
        name, _, argument = word.partition(" ")
        if name == "fill_optionals":
            values = {}
            for tensor in self.config["input"]:
                if tensor.get("optional"):
                    kind = dtype(tensor["data_type"])
                    values[tensor["name"]] = np.full(
                        [1], b"no" if kind is np.bytes_ else 1, kind if kind is not np.bytes_ else np.object_
                    )
            return decorators.fill_optionals(**values)
        if name in ("first_value", "group_by_values"):
            return getattr(decorators, name)(argument)
        return getattr(decorators, name)

    def bound(self):
        form = self.model["form"]
        if self.model["decorators"]:
            return self.decorated()
        if form == "coroutine":
            return self.with_requests_awaited
        if form == "generator":
            return self.yielding
        if form == "async generator":
            return self.yielding_awaited
        if form == "lambda":
            return lambda requests: self.with_requests(requests)
        return self.with_requests


def tensors(entries):
    return [
        Tensor(name=e["name"], dtype=dtype(e["data_type"]), shape=tuple(e["dims"]), optional=e.get("optional", False))
        for e in entries
    ]


def model_config(model):
    config = model["config"]
    made = {"decoupled": "model_transaction_policy" in config}
    if not config["max_batch_size"]:
        return ModelConfig(batching=False, **made)
    batcher = {k: v for k, v in config["dynamic_batching"].items() if k != "default_queue_policy"}
    return ModelConfig(max_batch_size=config["max_batch_size"], batcher=DynamicBatcher(**batcher), **made)


def main():
    program = json.load(open(sys.argv[1]))
    http, grpc, metrics = map(int, sys.argv[2:5])
    config = TritonConfig(
        http_address="127.0.0.1", http_port=http, grpc_address="127.0.0.1", grpc_port=grpc,
        metrics_address="127.0.0.1", metrics_port=metrics, http_header_forward_pattern="x-.*",
    )  # fmt: skip
    with Triton(config=config) as triton:
        for model in program["models"]:
            functions = [Callable(model).bound() for _ in range(model.get("instances", 1))]
            error = None
            try:
                triton.bind(
                    model_name=model["name"], infer_func=functions if len(functions) > 1 else functions[0],
                    inputs=tensors(model["config"]["input"]), outputs=tensors(model["config"]["output"]),
                    config=model_config(model), strict=model.get("strict", False),
                )  # fmt: skip
            except Exception as failure:  # what bind says is compared
                error = f"{type(failure).__name__}: {failure}"
            record(model["name"], "bound", error=error)
        open(os.path.join(FOLDER, "ready"), "w").close()
        triton.serve()


if __name__ == "__main__":
    main()
