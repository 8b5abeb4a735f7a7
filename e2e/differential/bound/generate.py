"""Makes a program of bind() calls from a seed."""

from __future__ import annotations

import random
from typing import Any

from ..generate import data, models, requests
from ..generate.phases import Maker
from ..program import Phase, Program, Step, Thread

FAULTS = ["raise", "few", "type", "list", "missing", "extra", "datatype", "shape"]
FORMS = ["method", "method", "lambda", "coroutine", "generator"]


def generate(seed: int) -> Program:
    rng = random.Random(seed)
    made = [model(rng, f"@m{number}") for number in range(rng.choice([2, 3, 4]))]
    program: Program = {"kind": "bound", "seed": seed, "models": made, "phases": []}
    program["phases"] = _phases(rng, program)
    return program


def model(rng: random.Random, name: str) -> dict[str, Any]:
    """A callable: its signature, its form, its decorators."""
    kind = rng.choice(["plain", "dynamic", "dynamic", "optional", "decoupled"])
    count = rng.choice([1, 2, 3])
    inputs, outputs, entries = [], [], []
    for number in range(count):
        datatype = rng.choice(data.OF_NUMPY)
        dims = [-1] if kind == "optional" else rng.choice([[-1], [2], [2, -1], [1]])
        how = rng.choice(["identity", "flip", "size"])
        tensor = {"name": f"IN{number}", "data_type": data.configured(datatype), "dims": dims}
        if kind == "optional" and number:
            tensor["optional"] = True
        inputs.append(tensor)
        made = "TYPE_INT32" if how == "size" else tensor["data_type"]
        outputs.append(
            {
                "name": f"OUT{number}",
                "data_type": made,
                "dims": [-1] if kind == "optional" else [1] if how == "size" else dims,
            }
        )
        entries.append([f"OUT{number}", how, f"IN{number}"])
    rng.shuffle(inputs)
    config: dict[str, Any] = {
        "max_batch_size": 0 if kind == "plain" else rng.choice([1, 2, 4]),
        "input": inputs,
        "output": outputs,
    }
    made_model = {
        "name": name, "kind": kind, "versions": ["1"], "config": config, "strict": rng.random() < 0.4,
        "behaviour": {"outputs": entries}, "form": rng.choice(FORMS), "decorators": [],
    }  # fmt: skip
    if config["max_batch_size"]:
        config["dynamic_batching"] = {}
        if rng.random() < 0.3:
            config["dynamic_batching"] = {
                k: v for k, v in models.dynamic(rng, config["max_batch_size"]).items() if k != "default_queue_policy"
            }
            if config["dynamic_batching"].get("preserve_ordering"):
                # With priorities it does not load, which ends PyTriton's server.
                for key in ("priority_levels", "default_priority_level"):
                    config["dynamic_batching"].pop(key, None)
    if kind == "decoupled":
        config["dynamic_batching"].pop("preserve_ordering", None)  # does not load, nor does what is bound after it
        config["model_transaction_policy"] = {"decoupled": True}
        made_model["form"] = rng.choice(["generator", "generator", "async generator"])
        made_model["behaviour"]["n"] = rng.choice([1, 3])
    if rng.random() < 0.6 and made_model["form"] in ("method", "generator"):
        _decorate(rng, made_model)
    if rng.random() < 0.15 and not made_model["decorators"]:
        made_model["instances"] = 2
        config["instance_group"] = [{"count": 2}]  # what canonical.py asks for
    return made_model


def _decorate(rng: random.Random, made: dict[str, Any]) -> None:
    config, kind = made["config"], made["kind"]
    if kind == "plain":
        made["decorators"] = ["sample"]
    else:
        made["decorators"] = ["batch"]
        first = next(t for t in config["input"] if not t.get("optional"))
        if kind == "optional":
            # Without these a batch of requests with other inputs is an error.
            made["decorators"] = rng.choice(
                [["group_by_keys", "batch"], ["group_by_keys", "fill_optionals", "batch"], ["fill_optionals", "batch"]]
            )
            if any(t.get("optional") and t["data_type"] == "TYPE_STRING" for t in config["input"]):
                made["decorators"] = ["group_by_keys", "batch"]  # PyTriton takes no texts as defaults
        elif kind == "dynamic" and rng.random() < 0.3:
            made["decorators"].append(f"group_by_values {first['name']}")
            first["dims"] = [1]
        elif kind == "dynamic" and rng.random() < 0.3:
            # Rows that are added are an error in PyTriton, unless the callable takes them off (docs/use/pytriton.md).
            made["decorators"].append("pad_batch")
            config["max_batch_size"], config["dynamic_batching"] = 1, {}
        elif kind == "dynamic" and rng.random() < 0.6:
            _first_value(rng, made, first)
    if rng.random() < 0.4:
        made["decorators"].append("triton_context")
    made["behaviour"]["returns"] = rng.choice(["dict", "dict", "list", "tuple"])
    if any(d.startswith("group_by_values") for d in made["decorators"]):
        made["behaviour"]["returns"] = "dict"  # PyTriton knows nothing else there
    if kind != "decoupled":
        made["form"] = "method"
        if rng.random() < 0.15:
            made["behaviour"]["fault"] = _fitting(made, rng.choice(["raise", "missing", "extra", "datatype"]))


def _fitting(made: dict[str, Any], fault: str) -> str:
    """Another fault where docs/use/pytriton.md says that `strict` does not see this one in PyTriton."""
    return "extra" if made["strict"] and fault == "missing" else fault


def _first_value(rng: random.Random, made: dict[str, Any], first: dict[str, Any]) -> None:
    """Only where no requests with other values come into the batch: of which ones the error tells is chance."""
    if rng.random() < 0.5 or len(made["config"]["input"]) == 1:
        made["config"]["max_batch_size"] = 1
        made["config"]["dynamic_batching"] = {}
        if first["data_type"] == "TYPE_STRING":
            first["dims"] = [1]  # several texts are never equal in PyTriton
    else:
        first["dims"] = [1]
        made["decorators"].append(f"group_by_values {first['name']}")
    made["decorators"].append(f"first_value {first['name']}")


class BoundMaker(Maker):
    """The phases that make sense for callables: nothing is loaded, and statistics are restricted."""

    def any_step(self, alone: bool = True) -> Step:
        model = self.rng.choice(self.models)
        chance = self.rng.random()
        if chance < 0.6:
            return self.right(model)
        if chance < 0.85:
            return requests.wrong(self.rng, model, self.next())
        return requests.query(self.rng, model)

    def faults(self) -> Phase | None:
        fit = [m for m in self.models if not m["decorators"] and m["kind"] != "decoupled"]
        if not fit:
            return None
        thread: Thread = []
        for _ in range(self.rng.randrange(1, 4)):
            model = self.rng.choice(fit)
            fault = _fitting(model, self.rng.choice(FAULTS))
            thread.append(requests.good(self.rng, model, self.next(), fault=fault))
            thread.append(requests.good(self.rng, model, self.next()))
        return [thread]

    def burst(self) -> Phase | None:
        phase = super().burst()
        return phase and [phase[0][:1]]


def _phases(rng: random.Random, program: Program) -> list[Phase]:
    maker = BoundMaker(rng, program)
    names = [m["name"] for m in program["models"]]
    made: list[Phase] = [
        [[{"do": "http", "method": "GET", "path": f"/v2/models/{n}{what}"} for n in names for what in ("", "/config")]]
    ]
    kinds = [maker.mixed, maker.mixed, maker.together, maker.faults, maker.burst, maker.burst, maker.many_streams]
    for _ in range(rng.randrange(3, 7)):
        phase = rng.choice(kinds)()
        if phase:
            made.append(phase)
    made.append([[{"do": "metrics"}]])
    return made
