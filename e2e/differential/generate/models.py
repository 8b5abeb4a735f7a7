"""Random models. Each is a dictionary with name, kind, config, behaviour and versions (see program.py)."""

from __future__ import annotations

import random
from typing import Any

from . import data

Model = dict[str, Any]


def some(rng: random.Random, cache: bool, complete: bool) -> list[Model]:
    """Two to four models, callees before their callers."""
    kinds = ["plain", "plain", "dynamic", "sequence", "oldest", "iterative", "decoupled", "optional", "versions"]
    made: list[Model] = []
    for number in range(rng.choice([1, 2, 2, 3])):
        made.append(one(rng, rng.choice(kinds), f"@m{number}", cache, complete))
    plain = [m for m in made if m["kind"] in ("plain", "dynamic", "decoupled", "versions")]
    if plain and rng.random() < 0.45:
        made.append(caller(rng, f"@b{len(made)}", plain))
    steps = [m for m in made if m["kind"] in ("plain", "dynamic", "versions", "decoupled")]
    if steps and rng.random() < 0.5:
        made.append(ensemble(rng, f"@e{len(made)}", rng.choice(steps)))
    if rng.random() < 0.12:
        made.append(faulty(rng, f"@f{len(made)}"))
    return made


def one(rng: random.Random, kind: str, name: str, cache: bool, complete: bool) -> Model:
    model = _base(rng, kind, name)
    config = model["config"]
    if kind == "dynamic":
        config["max_batch_size"] = rng.choice([2, 4, 8])
        config["dynamic_batching"] = dynamic(rng, config["max_batch_size"])
        if rng.random() < 0.3:
            _ragged(rng, model)
    elif kind in ("sequence", "oldest", "iterative"):
        _sequence(rng, model)
    elif kind == "decoupled":
        config["model_transaction_policy"] = {"decoupled": True}
        if config["max_batch_size"] and rng.random() < 0.4:
            config["dynamic_batching"] = {}
    elif kind == "optional":
        for tensor in config["input"][1:]:
            tensor["optional"] = True
        if config["max_batch_size"] and rng.random() < 0.5:
            config["dynamic_batching"] = {}
    elif kind == "versions":
        _versions(rng, model)
    if kind in ("plain", "dynamic", "optional") and rng.random() < 0.25:
        config["instance_group"] = [{"count": rng.choice([1, 2]), "kind": "KIND_CPU"}]
    if cache:
        if kind in ("plain", "dynamic", "optional") and rng.random() < 0.6:
            config["response_cache"] = {"enable": True}
            config.get("dynamic_batching", {}).pop("preserve_ordering", None)  # with both Triton stops answering
        if rng.random() < 0.4:
            config["instance_group"] = [_limited(rng)]
    if complete and kind in ("plain", "dynamic") and rng.random() < 0.6:
        _complete(rng, model)
    return model


def _base(rng: random.Random, kind: str, name: str) -> Model:
    inputs, outputs, entries = [], [], []
    for number in range(rng.choice([1, 2, 2, 3])):
        datatype = rng.choice(data.DATATYPES if kind != "optional" else data.OF_NUMPY)
        dims = rng.choice([[-1], [-1], [2], [2, -1], [1], [3, 2]])
        inputs.append({"name": f"IN{number}", "data_type": data.configured(datatype), "dims": dims})
        how = rng.choice(["identity", "identity", "flip", "size"])
        how = "identity" if datatype == "BF16" and how == "flip" else how
        made = "INT32" if how == "size" else datatype
        shape = [1] if how == "size" else dims
        outputs.append({"name": f"OUT{number}", "data_type": data.configured(made), "dims": shape})
        entries.append([f"OUT{number}", how, f"IN{number}"])
    if kind == "optional":
        inputs = [{**i, "dims": [-1]} for i in inputs]
        outputs = [{**o, "dims": [-1]} for o in outputs]
    if rng.random() < 0.12:
        _reshape(inputs[0], outputs[0], entries[0])
    config = {
        "backend": "python",
        "max_batch_size": rng.choice([0, 0, 1, 4]),
        "input": inputs,
        "output": outputs,
        "instance_group": [{"count": 1, "kind": "KIND_CPU"}],
    }
    return {"name": name, "kind": kind, "versions": ["1"], "config": config, "behaviour": {"outputs": entries}}


def _reshape(source: dict[str, Any], target: dict[str, Any], entry: list[str]) -> None:
    if source["dims"] == [3, 2] and entry[1] != "size":
        source["reshape"] = target["reshape"] = {"shape": [6]}


def _ragged(rng: random.Random, model: Model) -> None:
    """Requests of other shapes are of one batch."""
    config = model["config"]
    for number in rng.sample(range(len(config["input"])), rng.randrange(1, len(config["input"]) + 1)):
        source, target = config["input"][number], config["output"][number]
        if "reshape" not in source:
            source["allow_ragged_batch"], source["dims"] = True, [-1]
            target["dims"] = [1] if model["behaviour"]["outputs"][number][1] == "size" else [-1]


def _limited(rng: random.Random) -> dict[str, Any]:
    resources = [{"name": "R", "count": rng.choice([1, 2])}]
    if rng.random() < 0.5:
        resources.append({"name": "G", "count": 1, "global": True})
    limiter = {"resources": resources, "priority": rng.choice([1, 2])}
    return {"count": rng.choice([1, 1, 2]), "kind": "KIND_CPU", "rate_limiter": limiter}


def dynamic(rng: random.Random, most: int) -> dict[str, Any]:
    """Options of the dynamic batcher; no delay beside which the clock would decide."""
    config: dict[str, Any] = {}
    if rng.random() < 0.3:
        config["preferred_batch_size"] = sorted(rng.sample(range(1, most + 1), min(most, rng.choice([1, 2]))))
    if rng.random() < 0.3:
        config["preserve_ordering"] = True
    if rng.random() < 0.4:
        config["priority_levels"] = 3
        config["default_priority_level"] = rng.choice([1, 2, 3])
    if rng.random() < 0.4:
        policy: dict[str, Any] = {}
        if rng.random() < 0.6:
            policy["max_queue_size"] = rng.choice([1, 2, 3])
        if rng.random() < 0.6:
            policy["timeout_action"] = rng.choice(["REJECT", "DELAY"])
            policy["default_timeout_microseconds"] = 20_000_000  # never by itself, but by what requests ask for
            policy["allow_timeout_override"] = rng.random() < 0.7
        config["default_queue_policy"] = policy
    return config


def _sequence(rng: random.Random, model: Model) -> None:
    config, kind = model["config"], model["kind"]
    first = config["input"][0]
    first["data_type"], first["dims"] = rng.choice(["TYPE_FP32", "TYPE_INT32", "TYPE_INT64"]), [1]
    first.pop("reshape", None)
    config["input"], config["output"] = [first], [{"name": "OUT0", "data_type": "TYPE_FP32", "dims": [1]}]
    model["behaviour"]["outputs"] = [["OUT0", "sum", "IN0"]]
    controls = [_flag(rng, "START"), _flag(rng, "READY")]
    if rng.random() < 0.6:
        controls.append(_flag(rng, "END"))
    if rng.random() < 0.6:
        kinds = ["TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32"]
        control = {"kind": "CONTROL_SEQUENCE_CORRID", "data_type": rng.choice(kinds)}
        controls.append({"name": "CORRID", "control": [control]})
    batching: dict[str, Any] = {"max_sequence_idle_microseconds": 60_000_000, "control_input": controls}
    if kind == "oldest":
        batching["oldest"] = {"max_candidate_sequences": rng.choice([2, 4])}
        if rng.random() < 0.4:
            batching["oldest"]["preserve_ordering"] = True
    elif rng.random() < 0.5:
        batching["direct"] = {}
    config["max_batch_size"] = rng.choice([0, 2, 4])
    config["sequence_batching"] = batching
    if kind == "iterative":
        batching["iterative_sequence"] = True
        config["model_transaction_policy"] = {"decoupled": True}
        model["behaviour"]["iterative"] = rng.choice([1, 2, 3, 5])
        model["behaviour"]["outputs"] = [["OUT0", "identity", "IN0"]]
        config["output"][0]["data_type"] = first["data_type"]


def _flag(rng: random.Random, name: str) -> dict[str, Any]:
    field, values = rng.choice(
        [("int32_false_true", [0, 1]), ("fp32_false_true", [0.0, 1.0]), ("bool_false_true", [False, True])]
    )
    return {"name": name, "control": [{"kind": f"CONTROL_SEQUENCE_{name}", field: values}]}


def _versions(rng: random.Random, model: Model) -> None:
    model["versions"] = rng.sample(["1", "2", "3", "7", "10"], 3)
    policy = rng.choice(
        [None, {"latest": {"num_versions": 1}}, {"latest": {"num_versions": 2}}, {"all": {}},
         {"specific": {"versions": [int(model["versions"][0])]}}]
    )  # fmt: skip
    if policy:
        model["config"]["version_policy"] = policy


def _complete(rng: random.Random, model: Model) -> None:
    """Leaves to auto_complete_config what the model knows."""
    config = model["config"]
    plain = [{k: t[k] for k in ("name", "data_type", "dims")} for t in (*config["input"], *config["output"])]
    if any("reshape" in t for t in config["input"]):
        return
    split = len(config["input"])
    wanted: dict[str, Any] = {"inputs": plain[:split], "outputs": plain[split:]}
    if rng.random() < 0.7:
        wanted["max_batch_size"] = config.pop("max_batch_size")
        if "dynamic_batching" not in config and wanted["max_batch_size"] and rng.random() < 0.5:
            wanted["dynamic_batching"] = True
    model["behaviour"]["completes"] = wanted
    model["full"] = {"max_batch_size": wanted.get("max_batch_size", config.get("max_batch_size", 0))}
    if rng.random() < 0.7:
        model["full"].update(input=config.pop("input"), output=config.pop("output"))
    if rng.random() < 0.3:
        config.pop("instance_group")


def caller(rng: random.Random, name: str, callees: list[Model]) -> Model:
    """A model that calls others with its own inputs (the order for it is in the request)."""
    callee = rng.choice(callees)
    full = {**callee["config"], **callee.get("full", {})}
    inputs = [{k: t[k] for k in ("name", "data_type", "dims")} for t in full["input"]]
    outputs = [{"name": f"OUT{n}", "data_type": t["data_type"], "dims": t["dims"]} for n, t in enumerate(inputs)]
    entries = [[f"OUT{n}", "identity", t["name"]] for n, t in enumerate(inputs)]
    config = {
        "backend": "python",
        "max_batch_size": full["max_batch_size"],
        "input": inputs,
        "output": outputs,
        "instance_group": [{"count": 1, "kind": "KIND_CPU"}],
    }
    behaviour = {"outputs": entries, "callee": callee["name"]}
    return {"name": name, "kind": "caller", "versions": ["1"], "config": config, "behaviour": behaviour}


def ensemble(rng: random.Random, name: str, step: Model) -> Model:
    """One to three runs of a model, one behind another; the last outputs are the ensemble's."""
    full = {**step["config"], **step.get("full", {})}
    same = {e[2]: e[0] for e in step["behaviour"]["outputs"] if e[1] in ("identity", "flip")}
    runs = rng.choice([1, 2, 3]) if len(same) == len(full["input"]) else 1
    if step["kind"] == "decoupled":
        runs = 1
    inputs = [{"name": f"E_{t['name']}", "data_type": t["data_type"], "dims": t["dims"]} for t in full["input"]]
    outputs = [{"name": f"E_{t['name']}", "data_type": t["data_type"], "dims": t["dims"]} for t in full["output"]]
    steps = []
    for number in range(runs):
        first, last = number == 0, number == runs - 1
        steps.append(
            {
                "model_name": step["name"],
                "model_version": -1,
                "input_map": {
                    t["name"]: f"E_{t['name']}" if first else f"T{number - 1}_{same[t['name']]}" for t in full["input"]
                },
                "output_map": {
                    t["name"]: f"E_{t['name']}" if last else f"T{number}_{t['name']}" for t in full["output"]
                },
            }
        )
    config = {
        "platform": "ensemble",
        "max_batch_size": full["max_batch_size"],
        "input": inputs,
        "output": outputs,
        "ensemble_scheduling": {"step": steps},
    }
    return {"name": name, "kind": "ensemble", "versions": ["1"], "config": config, "of": step["kind"]}


def around(rng: random.Random, name: str, inner: Model) -> Model:
    """An ensemble of an ensemble, under other names."""
    config = inner["config"]
    made: dict[str, Any] = {"platform": "ensemble", "max_batch_size": config["max_batch_size"]}
    for side in ("input", "output"):
        made[side] = [{"name": f"O_{t['name']}", "data_type": t["data_type"], "dims": t["dims"]} for t in config[side]]
    step = {
        "model_name": inner["name"],
        "model_version": rng.choice([-1, -1, 1]),
        "input_map": {t["name"]: f"O_{t['name']}" for t in config["input"]},
        "output_map": {t["name"]: f"O_{t['name']}" for t in config["output"]},
    }
    made["ensemble_scheduling"] = {"step": [step]}
    return {"name": name, "kind": "ensemble", "versions": ["1"], "config": made, "of": inner["of"]}


def faulty(rng: random.Random, name: str) -> Model:
    """A model that does not load."""
    model = _base(rng, "faulty", name)
    config = model["config"]
    how = rng.choice(
        ["raise", "exception", "dims", "empty dims", "datatype", "backend", "batch", "priority", "both", "preferred",
         "count", "no inputs", "reshape", "control", "specific", "name"]
    )  # fmt: skip
    if how in ("raise", "exception"):
        model["behaviour"]["initialize"] = how
    elif how == "dims":
        config["input"][0]["dims"] = [0]
    elif how == "empty dims":
        config["input"][0]["dims"] = []
    elif how == "datatype":
        config["input"][0].pop("data_type")
    elif how == "backend":
        config["backend"] = "nowhere"
    elif how == "batch":
        config["max_batch_size"] = -1
    elif how == "priority":
        config["max_batch_size"] = 4
        config["dynamic_batching"] = {"priority_levels": 2, "default_priority_level": 3}
    elif how == "both":
        config["max_batch_size"] = 4
        config["dynamic_batching"] = {}
        config["sequence_batching"] = {}
    elif how == "preferred":
        config["max_batch_size"] = 4
        config["dynamic_batching"] = {"preferred_batch_size": [8]}
    elif how == "count":
        config["instance_group"] = [{"count": -1, "kind": "KIND_CPU"}]
    elif how == "no inputs":
        config.pop("output")
    elif how == "reshape":
        config["input"][0]["dims"] = [4]
        config["input"][0]["reshape"] = {"shape": [3]}
    elif how == "control":
        config["sequence_batching"] = {
            "control_input": [{"name": "START", "control": [{"kind": "CONTROL_SEQUENCE_START"}]}]
        }
    elif how == "specific":
        config["version_policy"] = {"specific": {"versions": [3]}}
    else:
        config["name"] = "another_name"
    return model
