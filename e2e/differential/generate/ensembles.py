"""What becomes of ensembles when the models of their steps come, go, change and fail, and the other way round."""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, Any

from ..program import Phase, Step, Thread, mentions
from . import models, requests
from .models import Model

if TYPE_CHECKING:
    from .phases import Maker

UNREADABLE = "name: 7 {"


def some(rng: random.Random, cache: bool) -> list[Model]:
    """One or two models, an ensemble of one of them, and at times another one beside it or around it."""
    kinds = ["plain", "plain", "dynamic", "versions", "decoupled"]
    all_models = [models.one(rng, rng.choice(kinds), f"@m{n}", cache, False) for n in range(rng.choice([1, 1, 2]))]
    step = rng.choice(all_models)
    inner = models.ensemble(rng, "@e0", step)
    all_models.append(inner)
    if rng.random() < 0.4:
        all_models.append(models.around(rng, "@e1", inner))
    elif rng.random() < 0.4:
        all_models.append(models.ensemble(rng, "@e1", step))
    return all_models


class Story:
    """One thread of changes, with what is to be seen of them in between."""

    def __init__(self, maker: Maker):
        self.maker, self.rng = maker, maker.rng
        self.ensembles = [m for m in maker.models if m["kind"] == "ensemble"]
        self.steps = [m for m in maker.models if self.is_step(m)]
        self.thread: Thread = []

    def is_step(self, model: Model) -> bool:
        """Whether it runs in an ensemble and its file says all there is to its configuration."""
        used = any(mentions(e, model["name"]) for e in self.ensembles)
        return used and "completes" not in model.get("behaviour", {"completes": {}})

    def told(self) -> list[Step]:
        """The index, and requests to everything: all is at rest."""
        rng = self.rng
        seen: list[Step] = [{"do": "index", "ready": rng.random() < 0.2}]
        for model in (*self.steps, *self.ensembles):
            seen.append(self.maker.right(model))
            if rng.random() < 0.4:
                seen.append(requests.query(rng, model))
        if rng.random() < 0.3:
            seen += [{"do": "stats", "model": m["name"]} for m in (*self.steps, *self.ensembles)]
        return seen

    def load(self, model: Model) -> Step:
        return {"do": "load", "model": model["name"], "form": self.rng.choice(["http", "grpc"])}

    def unload(self, model: Model) -> Step:
        return {**self.load(model), "do": "unload", "dependents": self.rng.random() < 0.4}

    def write(self, model: Model, **changes: Any) -> Step:
        return {"do": "write", "model": model["name"], "changes": changes}

    def any_load(self, step: Model) -> Step:
        """Of the step, mostly; of an ensemble that is made of it, which brings it along."""
        return self.load(step if self.rng.random() < 0.7 else self.rng.choice(self.ensembles))

    def turn(self) -> list[Step]:
        """A change, and mostly what takes it back, each with what is to be seen then."""
        rng, step = self.rng, self.rng.choice(self.steps)
        what = rng.choice(["go", "go", "other", "other", "fail", "text", "same", "ensemble", "both", "idle"])
        restored = self.write(step, config=step["config"], behaviour=step["behaviour"], versions=step["versions"])
        back = [restored, self.any_load(step), *self.told()] if rng.random() < 0.8 else []
        if what == "go":
            return [self.unload(step), *self.told(), self.any_load(step), *self.told()]
        if what == "other":
            return [self.write(step, **other(rng, step)), self.any_load(step), *self.told(), *back]
        if what == "fail":
            broken = {**step["behaviour"], "initialize": rng.choice(["raise", "exception"])}
            first = [self.unload(step)] if rng.random() < 0.4 else []
            return [*first, self.write(step, behaviour=broken), self.any_load(step), *self.told(), *back]
        if what == "text":
            first = [self.unload(step)] if rng.random() < 0.4 else []
            return [*first, self.write(step, text=UNREADABLE), self.any_load(step), *self.told(), *back]
        if what == "same":
            tagged = {**step["config"], "metric_tags": {"tag": f"t{self.maker.next()}"}}
            return [self.write(step, config=tagged), self.any_load(step), *self.told()]
        if what == "ensemble":
            ensemble = rng.choice(self.ensembles)
            return [self.unload(ensemble), *self.told(), self.load(rng.choice(self.ensembles)), *self.told()]
        if what == "both":
            order = rng.sample([step, rng.choice(self.ensembles)], 2)
            away = [self.unload(m) for m in order]
            return [*away, *self.told(), *[self.load(m) for m in rng.sample(order, 2)], *self.told()]
        return [self.load(rng.choice([step, *self.ensembles])), *self.told()]


def changes(maker: Maker) -> Phase | None:
    """One change after the other, each seen when all is at rest."""
    story = Story(maker)
    if not story.steps:
        return None
    thread: Thread = []
    for _ in range(maker.rng.choice([1, 2, 2, 3])):
        thread += story.turn()
    return [thread]


def meanwhile(maker: Maker) -> Phase | None:
    """Changes while clients ask an ensemble: what they see in between is chance, but no answer is wrong.

    Not with a rate limiter: a request of Triton's whose model is loaded anew may wait for a minute then.
    """
    story = Story(maker)
    if not story.steps or maker.limited:
        return None
    rng, step, ensemble = maker.rng, maker.rng.choice(story.steps), maker.rng.choice(story.ensembles)
    ask = maker.right(ensemble)
    quiet = rng.random() < 0.5  # nothing takes the ensemble away: no request may fail
    inner: list[Step] = []
    for _ in range(rng.choice([1, 2, 3])):
        tagged = {**step["config"], "metric_tags": {"tag": f"t{maker.next()}"}}
        if quiet or rng.random() < 0.3:
            inner += [story.write(step, config=tagged), story.load(step)]
        else:
            inner += rng.choice(
                [[story.unload(step), story.load(step)], [story.unload(ensemble), story.load(ensemble)]]
            )
    return [[{"do": "meanwhile", "model": ensemble["name"], "ask": ask, "quiet": quiet, "steps": inner}, *story.told()]]


def other(rng: random.Random, step: Model) -> dict[str, Any]:
    """Changes of a model after which ensembles mostly do not fit it any more."""
    config, behaviour = copy.deepcopy(step["config"]), copy.deepcopy(step["behaviour"])
    source, target = config["input"][0], config["output"][0]
    what = rng.choice(["datatype", "datatype", "dims", "name", "output", "batch", "versions", "more"])
    if what == "datatype":
        source["data_type"] = "TYPE_INT16" if source["data_type"] != "TYPE_INT16" else "TYPE_FP32"
    elif what == "dims":
        source.pop("reshape", None)
        source["dims"] = [5, 3, 2, 1]
    elif what == "name":
        behaviour["outputs"] = [[o, how, "OTHER" if i == source["name"] else i] for o, how, i in behaviour["outputs"]]
        source["name"] = "OTHER"
    elif what == "output":
        behaviour["outputs"] = [["OTHER" if o == target["name"] else o, how, i] for o, how, i in behaviour["outputs"]]
        target["name"] = "OTHER"
    elif what == "batch":
        config["max_batch_size"] = 0 if config["max_batch_size"] else 8
        if not config["max_batch_size"]:
            config.pop("dynamic_batching", None)
    elif what == "versions":
        return {"versions": ["11"]} if "version_policy" not in config else {"versions": [*step["versions"], "11"]}
    else:
        config["output"].append({"name": "MORE", "data_type": "TYPE_INT32", "dims": [1]})
        behaviour["outputs"] = [*behaviour["outputs"], ["MORE", "size", source["name"]]]
    return {"config": config, "behaviour": behaviour}
