"""Random requests to a model: right ones, and wrong ones of all kinds."""

from __future__ import annotations

import json
import random
from typing import Any

from ..program import Step
from . import data
from .models import Model

FORMS = ["http-json", "http-binary", "grpc"]


def config_of(model: Model) -> dict[str, Any]:
    """The whole configuration; of a model that does not load for want of them, with outputs."""
    return {"output": [], **model["config"], **model.get("full", {})}


def good(rng: random.Random, model: Model, number: int, **do: Any) -> Step:
    """A request that the model serves."""
    config = config_of(model)
    rows = [rng.choice([1, 1, 2])] if config["max_batch_size"] > 1 else [1] if config["max_batch_size"] else []
    if model["kind"] in ("sequence", "oldest", "iterative") and rows:
        rows = [1]
    inputs = []
    for tensor in config["input"]:
        if tensor.get("optional") and rng.random() < 0.5:
            continue
        shape = rows + data.shape(rng, tensor["dims"])
        inputs.append(data.tensor(rng, tensor["name"], data.of_config(tensor.get("data_type", "TYPE_FP32")), shape))
    datatypes = {t["datatype"] for t in inputs}
    forms = FORMS if not datatypes & {"FP16", "BF16", "BYTES"} else FORMS[1:]
    # JSON has no FP16, and text that is not UTF-8 only in binary tensors.
    if any(o["data_type"] in ("TYPE_FP16", "TYPE_BF16") for o in config["output"]):
        forms = FORMS[1:]
    step: Step = {
        "do": "infer",
        "form": rng.choice(forms),
        "model": model["name"],
        "id": f"q{number}",
        "inputs": inputs,
    }
    if rng.random() < 0.25:
        names = [o["name"] for o in config["output"]]
        step["outputs"] = rng.sample(names, rng.randrange(1, len(names) + 1)) if names else []
    if rng.random() < 0.3:
        step["parameters"] = {"text": "a value", "number": rng.choice([0, -5, 2**40]), "truth": rng.random() < 0.5}
    if rng.random() < 0.2:
        rng.shuffle(inputs)
    if rng.random() < 0.15:
        step.pop("id")
    if len(model["versions"]) > 1 and rng.random() < 0.5:
        step["version"] = rng.choice(model["versions"])
    if do:
        ask(step, **do)
    return step


def numbers_sequences(model: Model) -> bool:
    """Whether the model is told a sequence's correlation id as a number."""
    controls = config_of(model).get("sequence_batching", {}).get("control_input", [])
    kinds = [kind for tensor in controls for kind in tensor["control"] if kind["kind"] == "CONTROL_SEQUENCE_CORRID"]
    return any(kind["data_type"] != "TYPE_STRING" for kind in kinds)


def ask(step: Step, **do: Any) -> None:
    """Orders for the model, in the parameter that it reads."""
    step["parameters"] = {**step.get("parameters", {}), "do": json.dumps(do)}


def wrong(rng: random.Random, model: Model, number: int) -> Step:
    """A request that has one fault."""
    step = good(rng, model, number)
    first = step["inputs"][0]
    faults = ["model", "version", "no input", "another input", "datatype", "shape", "rank", "rows", "output", "bytes",
              "twice", "control", "negative"]  # fmt: skip
    fault = rng.choice(faults)
    if fault == "model":
        step["model"] = "@nowhere"
    elif fault == "version":
        step["version"] = rng.choice(["99", "0", "-1", "x", "1x", "01"])
    elif fault == "no input":
        # Where the number of inputs fits, Triton runs a request that lacks a required one.
        step["inputs"] = step["inputs"][1:] if model["kind"] != "optional" else []
    elif fault == "another input":
        step["inputs"].append({**first, "name": "NOBODY"})
    elif fault == "datatype":
        first["datatype"] = rng.choice(["FP32", "INT32", "BOOL", "WORD", ""])
        if first["datatype"] in ("FP32", "INT32", "BOOL"):
            first["data"] = [data.value(rng, first["datatype"]) for _ in first["data"]]
        else:
            step["form"] = "grpc"
    elif fault == "shape":
        first["shape"] = [*first["shape"][:-1], first["shape"][-1] + 1]
        if rng.random() < 0.6:
            first["data"] = [data.value(rng, first["datatype"]) for _ in range(data.count(first["shape"]))]
    elif fault == "rank":
        first["shape"] = [*first["shape"], 1]
    elif fault == "rows":
        # Of several faults the one is told that a hash table has first.
        for tensor in step["inputs"][: rng.choice([1, 9]) if config_of(model)["max_batch_size"] else 1]:
            tensor["shape"] = [9, *tensor["shape"][1:]]
            tensor["data"] = [data.value(rng, tensor["datatype"]) for _ in range(data.count(tensor["shape"]))]
    elif fault == "output":
        step["outputs"] = ["NOTHING"]
    elif fault == "bytes":
        first["data"] = first["data"][:-1]
    elif fault == "twice":
        step["inputs"].append(dict(first))
    elif fault == "control":
        # Triton reads a text's bytes as the number of a control (docs/differences.md).
        ids = [7, 7] if numbers_sequences(model) else [7, "seven"]
        step["parameters"] = {"sequence_id": rng.choice(ids), "sequence_start": True}
    else:
        first["shape"] = [-1, *first["shape"][1:]]
    return step


RAW = [
    ("POST", "/v2/models/{}/infer", "{"),
    ("POST", "/v2/models/{}/infer", "[]"),
    ("POST", "/v2/models/{}/infer", '{"inputs": 5}'),
    ("POST", "/v2/models/{}/infer", '{"inputs": []}'),
    ("POST", "/v2/models/{}/infer", '{"inputs": [{"name": "IN0"}]}'),
    ("POST", "/v2/models/{}/infer", '{"inputs": [{"name": "IN0", "shape": [1], "datatype": "FP32"}]}'),
    ("POST", "/v2/models/{}/infer", '{"inputs": [{"name": "IN0", "shape": [1], "datatype": "FP32", "data": ["x"]}]}'),
    ("POST", "/v2/models/{}/infer", '{"inputs": [{"name": "IN0", "shape": "1", "datatype": "FP32", "data": [1]}]}'),
    ("POST", "/v2/models/{}/infer", '{"id": 5, "inputs": [{"name": "IN0", "shape": [1], "datatype": "FP32", "data": [1]}]}'),
    ("POST", "/v2/models/{}/infer", '{"parameters": 5, "inputs": [{"name": "IN0", "shape": [1], "datatype": "FP32", "data": [1]}]}'),
    ("POST", "/v2/models/{}/infer",
     '{"parameters": {"a": [1]}, "inputs": [{"name": "IN0", "shape": [1], "datatype": "FP32", "data": [1]}]}'),
    ("GET", "/v2/models/{}/infer", None),
    ("PUT", "/v2/models/{}", None),
    ("GET", "/v2/models/{}/nothing", None),
    ("GET", "/v2/models/{}/versions/1", None),
    ("GET", "/v2/models/{}/versions/77", None),
    ("GET", "/v2/models/{}/versions/x", None),
    ("GET", "/v2/models/{}/versions/1/config", None),
    ("GET", "/v2/models/{}/versions/1/ready", None),
    ("GET", "/v2/models/{}/versions/77/ready", None),
    ("GET", "/v2/models/{}/versions/1/stats", None),
    ("GET", "/v2/models/{}/versions/77/stats", None),
    ("POST", "/v2/models/{}/generate", '{"IN0": 1}'),
    ("POST", "/v2/models/{}/generate", '{"NOBODY": 1}'),
    ("POST", "/v2/models/{}/generate_stream", '{"IN0": [1]}'),
    ("POST", "/v2/repository/models/{}/load", "{"),
    ("POST", "/v2/repository/models/{}/load", '{"parameters": {"config": 5}}'),
    ("GET", "/v2/models/{}/trace/setting", None),
]  # fmt: skip


def raw(rng: random.Random, model: Model, alone: bool) -> Step:
    """alone: nobody else uses the model, which the request may load again."""
    method, path, body = rng.choice([r for r in RAW if alone or not r[1].endswith("load")])
    step: Step = {"do": "http", "method": method, "path": path.format(model["name"])}
    return {**step, "body": body} if body is not None else step


QUERIES = [
    ("ModelMetadata", {"name": "{}"}),
    ("ModelMetadata", {"name": "{}", "version": "1"}),
    ("ModelMetadata", {"name": "{}", "version": "88"}),
    ("ModelConfig", {"name": "{}"}),
    ("ModelReady", {"name": "{}"}),
    ("ModelReady", {"name": "{}", "version": "88"}),
    ("ModelReady", {"name": "@nowhere"}),
    ("ModelStatistics", {"name": "@nowhere"}),
    ("ServerLive", {}),
]


def query(rng: random.Random, model: Model) -> Step:
    """What can be asked of a model, over either protocol."""
    if rng.random() < 0.5:
        method, fields = rng.choice(QUERIES)
        return {"do": "ask", "method": method, "fields": {k: v.format(model["name"]) for k, v in fields.items()}}
    path = rng.choice(["", "/config", "/ready", "/versions/1", "/versions/1/config"])
    return {"do": "http", "method": "GET", "path": f"/v2/models/{model['name']}{path}"}
