"""Tells two results of a program apart."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

from .program import Program, Step, inferences, reaches, steps_of

ABSENT = "(absent)"
NAME = re.compile(r"@\w+( \d+)?")


@dataclasses.dataclass(frozen=True)
class Difference:
    """One place where the sides differ. `what` is its kind, without numbers of phases, threads and steps; `of` is the
    kind of the model that it is about, with "alike" where the cache can take its requests for each other, "reloads a
    cache" where that begins anew, and "reshapes" where its configuration does; `after` what was done before with it, the
    models it uses and those that use it."""

    where: str
    what: str
    step: str
    peer: str
    ours: str
    of: str = ""
    path: tuple[Any, ...] = ()
    after: str = ""

    def below(self, places: set[tuple[Any, ...]]) -> bool:
        """Whether this is one of the places, below one or above one."""
        own = place(self.path)
        return any(own[: len(other)] == other[: len(own)] for other in places)

    def line(self) -> str:
        return f"{self.where} [{self.what}]\n    step {self.step[:300]}\n    peer {self.peer[:600]}\n    ours {self.ours[:600]}"


def _of_a_kind(left: dict[str, Any], right: dict[str, Any]) -> bool:
    """Whether two things have the same parts: both errors or none, or the same event of a model."""
    return ("error" in left) == ("error" in right) and left.get("event") == right.get("event")


def _apart(left: Any, right: Any, path: tuple[Any, ...], found: list[tuple[tuple[Any, ...], Any, Any]]) -> None:
    if type(left) is type(right) and left == right:
        return
    if isinstance(left, dict) and isinstance(right, dict) and _of_a_kind(left, right):
        for key in [*left, *(k for k in right if k not in left)]:
            _apart(left.get(key, ABSENT), right.get(key, ABSENT), (*path, key), found)
        return
    if isinstance(left, list) and isinstance(right, list) and len(path) == 4 and path[2] == "saw":
        _starts_apart(left, right, path, found)
        left, right = ([e for e in side if not _is_start(e)] for side in (left, right))
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (one, other) in enumerate(zip(left, right)):
            _apart(one, other, (*path, number), found)
        return
    if isinstance(left, list) and isinstance(right, list):
        # Of lists of different lengths the first place is told at which they part.
        at = next((n for n, (one, other) in enumerate(zip(left, right)) if one != other), min(len(left), len(right)))
        one, other = (side[at] if at < len(side) else ABSENT for side in (left, right))
        _apart(one, other, (*path, at), found)
        if isinstance(one, dict) and isinstance(other, dict) and _of_a_kind(one, other):
            found.append(((*path, "length"), len(left), len(right)))
        return
    found.append((path, left, right))


def _is_start(event: Any) -> bool:
    return isinstance(event, dict) and event.get("event") == "initialize"


def _starts_apart(
    left: list[Any], right: list[Any], path: tuple[Any, ...], found: list[tuple[tuple[Any, ...], Any, Any]]
) -> None:
    """The starts of a model that one side alone has: their order is chance, and one more does not shift the others."""
    starts = [[e for e in side if _is_start(e)] for side in (left, right)]
    found += [((*path, "start"), e, ABSENT) for e in starts[0] if e not in starts[1]]
    found += [((*path, "start"), ABSENT, e) for e in starts[1] if e not in starts[0]]


def place(path: tuple[Any, ...]) -> tuple[Any, ...]:
    """Where something stands or falls together: of what a model saw in a phase all of it, since one event more shifts the rest."""
    return path[:4] if len(path) > 4 and path[2] == "saw" else path


def _keyed(program: Program, result: Any) -> Any:
    """The result with the models of an index by name and version: one more is one difference, not one in each place."""

    def keyed(step: Step, answer: Any) -> Any:
        if step["do"] != "index" or not isinstance(answer, list):
            return answer
        return {f"{m['name']} {m.get('version', '')}".strip(): m for m in answer}

    phases = [
        {
            **phase,
            "threads": [
                [keyed(*both) for both in zip(thread, answers)] for thread, answers in zip(threads, phase["threads"])
            ],
        }
        for threads, phase in zip(program["phases"], result["phases"])
    ]
    return {**result, "phases": phases}


def differences(program: Program, peer: Any, ours: Any) -> list[Difference]:
    found: list[tuple[tuple[Any, ...], Any, Any]] = []
    _apart(_keyed(program, peer), _keyed(program, ours), (), found)
    return [_difference(program, *each) for each in found]


def _difference(program: Program, path: tuple[Any, ...], peer: Any, ours: Any) -> Difference:
    step: Any = ""
    kind = list(path)
    if len(path) > 1 and path[0] == "phases":
        kind = kind[2:]
        if len(path) > 4 and path[2] == "threads":
            step = program["phases"][path[1]][path[3]][path[4]]
            kind = [step["do"], step.get("form", ""), *path[5:]]
    what = "/".join("*" if isinstance(p, int) else NAME.sub("@", str(p)) for p in kind)
    about = [each["model"] for each in (step, *inferences(step)) if "model" in each] if step else []
    name = next(iter([*about, *(str(p).split()[0] for p in path if NAME.match(str(p)))]), "")
    of = next((model["kind"] for model in program["models"] if model["name"] == name), "")
    of += " alike" if any(_alike(program, model) for model in reaches(program, name)) else ""
    of += " reloads a cache" if _reloads_a_cache(program, name) else ""
    of += " reshapes" if any(name == m["name"] and '"reshape"' in _text(m["config"]) for m in program["models"]) else ""
    return Difference(
        "/".join(map(str, path)), what, _text(step), _text(peer), _text(ours), of, path, _done(program, path, name)
    )


def _alike(program: Program, name: str) -> bool:
    """Whether a model with the response cache gets requests of the same bytes that are not the same requests.

    Those of an ensemble that it is a step of come under other names, and perhaps with the ensemble's bytes.
    """
    model = next((m for m in program["models"] if m["name"] == name), {"config": {}})
    if "response_cache" not in model["config"]:
        return False
    asked: dict[str, set[str]] = {}
    for request in (request for step in steps_of(program) for request in inferences(step)):
        if name in reaches(program, request["model"]):
            data = sorted(_text(i["data"]) for i in request["inputs"])
            rest = {k: v for k, v in request.items() if k not in ("form", "id", "inputs")}
            shapes = sorted([i["name"], i["datatype"], i["shape"]] for i in request["inputs"])
            asked.setdefault(_text(data), set()).add(_text([rest, shapes]))
    return any(len(different) > 1 for different in asked.values())


def _reloads_a_cache(program: Program, name: str) -> bool:
    """Whether a model with the response cache, or one that it is made of, is loaded more than once."""
    near = [m for m in program["models"] if m["name"] in reaches(program, name)]
    if not any("response_cache" in m["config"] for m in near):
        return False
    steps = [each for step in steps_of(program) for each in (step, *step.get("steps", []))]
    names = {m["name"] for m in near}
    return sum(step["do"] == "load" and step["model"] in names for step in steps) > len(names)


def _done(program: Program, path: tuple[Any, ...], name: str) -> str:
    """The kinds of the earlier steps about a model, each once."""
    if len(path) < 5 or path[2] != "threads":
        return ""
    earlier = [step for phase in program["phases"][: path[1]] for thread in phase for step in thread]
    earlier += program["phases"][path[1]][path[3]][: path[4]]
    near = reaches(program, name) | {m["name"] for m in program["models"] if name in reaches(program, m["name"])}
    done = {each["do"] for step in earlier if step.get("model") in near for each in (step, *step.get("steps", []))}
    return " ".join(sorted(done | {"retag" for model in near if _retagged(model, earlier)}))


def _retagged(name: str, steps: list[Step]) -> bool:
    """Whether a load gave the model metric tags, or none, as it had them before another load took them away."""
    written: Any = {}
    served: list[Any] = [{}]
    for step in steps:
        if step.get("model") == name and step["do"] == "write":
            written = step["changes"].get("config", {}).get("metric_tags", {})
        elif step.get("model") == name and step["do"] == "load":
            tags = step["config"].get("metric_tags", {}) if "config" in step else written
            served += [tags] if tags != served[-1] else []
    return any(tags in served[:at] for at, tags in enumerate(served))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
