"""In which order clients do what: loads first, then phases of many kinds, numbers between and at the end."""

from __future__ import annotations

import random
from collections.abc import Callable

from ..program import Phase, Program, Step, Thread, mentions
from ..repository import full_config
from . import ensembles, requests
from .models import Model

SEQUENCES = ("sequence", "oldest", "iterative")
FAULTS = ["raise", "exception", "error", "error:INVALID_ARG", "error:NOT_FOUND", "error:CANCELLED", "error:UNAVAILABLE",
          "error:UNSUPPORTED", "error:ALREADY_EXISTS", "error:UNKNOWN", "few", "type", "item", "missing", "extra", "shape",
          "datatype"]  # fmt: skip


class Maker:
    """Makes the phases of one program."""

    def __init__(self, rng: random.Random, program: Program):
        self.rng = rng
        self.models: list[Model] = program["models"]
        self.limited = any(flag.startswith("--rate-limit") for flag in program.get("flags", []))
        self.number = 0
        self.open: dict[str, int] = {}  # sequences that nobody ends, by model

    def next(self) -> int:
        self.number += 1
        return self.number

    def pick(self, *kinds: str) -> Model | None:
        fit = [m for m in self.models if m["kind"] in kinds]
        return self.rng.choice(fit) if fit else None

    def streams(self, model: Model) -> bool:
        return model["kind"] in ("decoupled", "iterative") or model.get("of") == "decoupled"

    # -- single steps

    def right(self, model: Model) -> Step:
        rng = self.rng
        if model["kind"] in SEQUENCES:
            number = self.next()
            step = requests.good(rng, model, number)
            if self.streams(model):
                return self.streamed([step])
            step["parameters"] = {"sequence_id": 1000 + number, "sequence_start": True, "sequence_end": True}
            return step
        do = {}
        if model["kind"] == "caller" and rng.random() < 0.8:
            do = {"calls": self.calls(model)}
        if self.streams(model) and rng.random() < 0.7:
            do = {"n": rng.choice([0, 1, 2, 5]), "final": rng.choice(["with", "alone"]), "thread": rng.random() < 0.3}
            if rng.random() < 0.2:
                do["error_at"] = rng.randrange(3)
        elif model["kind"] in ("plain", "dynamic") and rng.random() < 0.15:
            do = {"sender": True, "final": rng.choice(["with", "alone"])}
        step = requests.good(rng, model, self.next(), **do)
        return self.streamed([step]) if self.streams(model) and rng.random() < 0.9 else step

    def streamed(self, steps: list[Step]) -> Step:
        for number, step in enumerate(steps):
            step["form"], step["id"] = "grpc", f"s{number}"
        return {"do": "stream", "requests": steps}

    def calls(self, model: Model) -> list[Step]:
        rng = self.rng
        callee = next(m for m in self.models if m["name"] == model["behaviour"]["callee"])
        config = requests.config_of(callee)
        call: Step = {
            "model": callee["name"],
            "inputs": [[t["name"], t["name"]] for t in config["input"]],
            "outputs": [o["name"] for o in config["output"]],
            "id": "inner",
        }
        if callee["kind"] == "decoupled":
            call["decoupled"] = rng.random() < 0.8
        fault = rng.choice(["", "", "", "model", "input", "output", "version", "parameters"])
        if fault == "model":
            call["model"] = "@nowhere"
        elif fault == "input":
            call["inputs"] = call["inputs"][1:]
        elif fault == "output":
            call["outputs"] = ["NOTHING"]
        elif fault == "version":
            call["version"] = rng.choice([1, 55])
        elif fault == "parameters":
            call["parameters"] = {"inner": 5, "word": "a"}
        call["must"] = rng.random() < 0.5
        return [call]

    def any_step(self, alone: bool = True) -> Step:
        rng = self.rng
        model = rng.choice(self.models)
        chance = rng.random()
        if chance < 0.5:
            return self.right(model)
        if chance < 0.7:
            return requests.wrong(rng, model, self.next())
        if chance < 0.8:
            return requests.raw(rng, model, alone)
        return requests.query(rng, model)

    # -- phases

    def mixed(self) -> Phase:
        return [[self.any_step() for _ in range(self.rng.randrange(3, 9))]]

    def together(self) -> Phase:
        return [
            [self.any_step(False) for _ in range(self.rng.randrange(2, 6))] for _ in range(self.rng.choice([2, 3, 4]))
        ]

    def faults(self) -> Phase | None:
        model = self.pick("plain", "dynamic", "optional", "versions")
        if model is None:
            return None
        steps = [
            requests.good(self.rng, model, self.next(), fault=self.rng.choice(FAULTS))
            for _ in range(self.rng.randrange(1, 4))
        ]
        return [[*steps, requests.good(self.rng, model, self.next())]]

    def same_again(self) -> Phase | None:
        """The same request several times: the response cache."""
        model = self.pick("plain", "dynamic", "optional", "ensemble")
        if model is None or self.streams(model):
            return None
        step = requests.good(self.rng, model, self.next())
        return [[dict(step) for _ in range(3)]]

    def burst(self) -> Phase | None:
        model = self.pick("plain", "dynamic", "optional")
        if model is None or requests.config_of(model).get("instance_group", [{}])[0].get("count", 1) > 1:
            return None
        queued = []
        levels = model["config"].get("dynamic_batching", {}).get("priority_levels")
        policy = model["config"].get("dynamic_batching", {}).get("default_queue_policy", {})
        for _ in range(self.rng.randrange(2, 7)):
            step = requests.good(self.rng, model, self.next())
            extra: Step = {}
            if levels and self.rng.random() < 0.6:
                extra["priority"] = self.rng.choice([0, 1, 2, 3, 9])
            if policy.get("default_timeout_microseconds") and self.rng.random() < 0.4:
                extra["timeout"] = self.rng.choice([0, 100_000, 30_000_000])
            step["parameters"] = {**step.get("parameters", {}), **extra}
            queued.append(step)
        gate = f"@gate{self.next()}"
        plug = requests.good(self.rng, model, self.next(), gate=gate)
        burst: Step = {"do": "burst", "gate": gate, "plug": plug, "queued": queued}
        if policy:
            burst["counts"] = False  # some are refused, so that the number of those that wait is not known
        return [[burst, {"do": "stats", "model": model["name"], "times": True}]]

    def sequences(self) -> Phase | None:
        model = self.pick("sequence", "oldest")
        if model is None:
            return None
        rng, threads = self.rng, []
        for _ in range(rng.choice([1, 1, 2, 3])):
            number: int | str = 100 + self.next()
            thread: Thread = []
            for at in range(length := rng.randrange(2, 6)):
                step = requests.good(rng, model, self.next())
                step["parameters"] = {"sequence_id": number}
                if at == 0 and rng.random() < 0.95:
                    step["parameters"]["sequence_start"] = True
                if at == length - 1 and (rng.random() < 0.9 or not self.leaves_open(model)):
                    step["parameters"]["sequence_end"] = True
                thread.append(step)
            threads.append(thread)
        return threads

    def leaves_open(self, model: Model) -> bool:
        """Notes a sequence without an end, if one more leaves a slot: without any, clients wait for a minute in vain."""
        config = model["config"]
        oldest = config["sequence_batching"].get("oldest", {})
        slots = oldest.get("max_candidate_sequences", max(config["max_batch_size"], 1))
        if self.open.get(model["name"], 0) + 1 >= slots:
            return False
        self.open[model["name"]] = self.open.get(model["name"], 0) + 1
        return True

    def iterations(self) -> Phase | None:
        model = self.pick("iterative")
        if model is None:
            return None
        threads = []
        for _ in range(self.rng.choice([1, 2, 3])):
            threads.append([self.streamed([requests.good(self.rng, model, self.next())])])
        return threads

    def many_streams(self) -> Phase | None:
        model = self.pick("decoupled")
        if model is None:
            return None
        threads = []
        for _ in range(self.rng.choice([1, 2, 3])):
            steps = [
                requests.good(self.rng, model, self.next(), n=self.rng.choice([0, 1, 3, 8]))
                for _ in range(self.rng.randrange(1, 4))
            ]
            threads.append([self.streamed(steps)])
        return threads

    def cancels(self) -> Phase | None:
        model = self.pick("plain", "dynamic")
        if model is None or "response_cache" in model["config"]:
            return None  # whether the answer that nobody waits for is kept is not said
        mark = f"@mark{self.next()}"
        step = requests.good(self.rng, model, self.next(), until="cancelled", mark=mark)
        step["form"] = "grpc"
        return [[{"do": "cancel", "mark": mark, "request": step}, requests.good(self.rng, model, self.next())]]

    def ensembles(self) -> Phase | None:
        return ensembles.changes(self)

    def meanwhile(self) -> Phase | None:
        return ensembles.meanwhile(self)

    def repository(self) -> Phase:
        """Loads and unloads, of everything that is there or is not."""
        rng, thread = self.rng, []
        steps = [m for m in self.models if any(m is not e and mentions(e, m["name"]) for e in self.models)]
        gone: set[str] = set()
        for _ in range(rng.randrange(1, 4)):
            model = rng.choice(self.models)
            form = rng.choice(["http", "grpc"])
            what = rng.choice(["unload", "write", "config", "nowhere", "write", "count"])
            if model["name"] in gone:
                thread.append({"do": "load", "model": model["name"], "form": form})
                gone.discard(model["name"])
            elif what == "unload":
                thread.append({"do": "unload", "model": model["name"], "form": form, "dependents": rng.random() < 0.3})
                gone.add(model["name"])
            elif what == "nowhere":
                thread.append({"do": rng.choice(["load", "unload"]), "model": "@nowhere", "form": form})
            elif model["kind"] in ("plain", "dynamic", "optional", "decoupled") and model not in steps:
                thread += self.changed(model, what, form)
            thread.append({"do": "index", "ready": rng.random() < 0.3})
            thread.append(self.right(model))
            thread.append(requests.query(rng, model))
        return [thread]

    def changed(self, model: Model, what: str, form: str) -> Thread:
        load: Step = {"do": "load", "model": model["name"], "form": form}
        if what == "config" and "completes" not in model["behaviour"]:
            load["config"] = {**full_config(model), "max_batch_size": self.rng.choice([0, 1, 4, 16])}
            return [load]
        config = dict(model["config"])
        if what == "count":
            config["instance_group"] = [{"count": 3, "kind": "KIND_CPU"}]
        else:
            config["metric_tags"] = {"tag": f"t{self.next()}"}
        changes = {"config": config, "versions": self.rng.choice([model["versions"], ["1", "2"]])}
        return [{"do": "write", "model": model["name"], "changes": changes}, load]


def phases(rng: random.Random, program: Program, of_ensembles: bool = False) -> list[Phase]:
    maker = Maker(rng, program)
    names = [m["name"] for m in program["models"]]
    made: list[Phase] = [[[*({"do": "load", "model": name} for name in names), {"do": "index"}]]]
    made.append([[{"do": "http", "method": "GET", "path": f"/v2/models/{name}/config"} for name in names]])
    kinds: list[Callable[[], Phase | None]] = [
        maker.mixed, maker.mixed, maker.together, maker.faults, maker.same_again, maker.burst, maker.sequences,
        maker.iterations, maker.many_streams, maker.cancels, maker.repository, maker.ensembles,
    ]  # fmt: skip
    if of_ensembles:
        kinds = [maker.ensembles, maker.ensembles, maker.ensembles, maker.meanwhile, maker.mixed, maker.same_again]
    for _ in range(rng.randrange(2, 5) if of_ensembles else rng.randrange(2, 6)):
        phase = rng.choice(kinds)()
        if phase:
            made.append(phase)
            if rng.random() < 0.4:
                made.append([_numbers(names)])
    made.append([[*_numbers(names), {"do": "index"}]])
    return made


def _numbers(names: list[str]) -> Thread:
    return [*({"do": "stats", "model": name} for name in names), {"do": "metrics"}]
