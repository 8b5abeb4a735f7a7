"""What a program is: models, and phases of clients' steps. All of it is JSON, so that it can be kept and replayed.

A program has `models` (name, config, versions, behaviour) and `phases`. A phase is a list of threads, which run at the
same time; a thread is a list of steps, which run one after the other. Between phases everything is at rest. Model names
begin with "@": each run replaces it with a prefix of its own, so that many programs can share a server and its metrics.
Steps are dictionaries with a `do`; clients/ and steps.py say which there are.
"""

from __future__ import annotations

import json
import re
from typing import Any

Step = dict[str, Any]
Thread = list[Step]
Phase = list[Thread]
Program = dict[str, Any]
Answer = Any

MARK = "@"


def named(program: Program, prefix: str) -> Program:
    """The program with the names of one run."""
    return json.loads(json.dumps(program).replace(MARK, prefix))


def unnamed(result: Any, prefix: str) -> Any:
    """A result with the names of the program."""
    return json.loads(json.dumps(result).replace(prefix, MARK))


def steps_of(program: Program) -> list[Step]:
    return [step for phase in program["phases"] for thread in phase for step in thread]


def inferences(step: Step) -> list[Step]:
    """The inferences of a step: itself, or those of a burst, a stream, a cancel."""
    found = [step] if step["do"] == "infer" else []
    found += [step[key] for key in ("plug", "request") if key in step]
    found += inferences(step["ask"]) if "ask" in step else []
    return found + [each for key in ("queued", "requests") for each in step.get(key, [])]


def mentions(thing: Any, model: str) -> bool:
    """Whether a step, or another model, names the model."""
    return re.search(re.escape(model) + r"\b", json.dumps(thing)) is not None


def reaches(program: Program, model: str) -> set[str]:
    """The models that a request to this one may run: itself, the steps of an ensemble, what it calls."""
    by_name = {m["name"]: m for m in program["models"]}
    found: set[str] = set()
    ahead = [model]
    while ahead:
        name = ahead.pop()
        if name in found or name not in by_name:
            continue
        found.add(name)
        ahead += [other for other in by_name if other != name and mentions(by_name[name], other)]
    return found


def touched(program: Program, threads: list[Thread]) -> set[str]:
    """The models that requests of these threads may run."""
    found: set[str] = set()
    for model in program["models"]:
        if any(mentions(step, model["name"]) for thread in threads for step in thread):
            found |= reaches(program, model["name"])
    return found


def dump(program: Any) -> str:
    """JSON that is small, and readable line by line: a step, a model, a result of a step in each."""
    return _dump(program, 0) + "\n"


def _dump(value: Any, depth: int) -> str:
    flat = json.dumps(value, ensure_ascii=True)
    if len(flat) <= 140 or not isinstance(value, (dict, list)):
        return flat
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        parts = [f"{pad}{json.dumps(k)}: {_dump(v, depth + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(parts) + "\n" + " " * depth + "}"
    return "[\n" + ",\n".join(pad + _dump(v, depth + 1) for v in value) + "\n" + " " * depth + "]"
