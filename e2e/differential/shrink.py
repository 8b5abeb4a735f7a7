"""Makes a program that shows a difference small: takes away whatever it shows the difference without."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

from .program import Program, mentions

Shows = Callable[[Program], bool]


def shrink(program: Program, shows: Shows, seconds: float = 120) -> Program:
    """The smallest program found in that time for which `shows` still holds."""
    end = time.monotonic() + seconds
    again = True
    while again:
        again = False
        for smaller in _smaller(program):
            if time.monotonic() > end:
                return program
            if shows(smaller):
                program, again = smaller, True
                break
    return program


def _smaller(program: Program) -> Iterator[Program]:
    """Programs that lack something, those that lack most first."""
    phases = program["phases"]
    for size in (len(phases) // 2, 1):
        for at in range(0, len(phases) if size else 0, max(size, 1)):
            yield {**program, "phases": phases[:at] + phases[at + size :]}
    for model in reversed(program["models"]):
        if not any(mentions(other, model["name"]) for other in program["models"] if other is not model):
            yield _without_model(program, model["name"])
    for where in _places(program["phases"]):
        smaller = copy.deepcopy(program)
        _remove(smaller["phases"], where)
        yield smaller
    for number, model in enumerate(program["models"]):
        for path in _optional(model):
            smaller = copy.deepcopy(program)
            _remove(smaller["models"][number], path)
            yield smaller


def _without_model(program: Program, name: str) -> Program:
    phases = [
        [kept for thread in phase if (kept := [step for step in thread if not mentions(step, name)])]
        for phase in program["phases"]
    ]
    models = [m for m in program["models"] if m["name"] != name]
    return {**program, "models": models, "phases": [phase for phase in phases if phase]}


def _remove(value: Any, path: tuple[Any, ...]) -> None:
    for key in path[:-1]:
        value = value[key]
    del value[path[-1]]


def _places(phases: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Threads, steps, parts of bursts and streams, and what a request need not have."""
    for p, phase in enumerate(phases):
        if len(phase) > 1:
            yield from ((p, at) for at in range(len(phase)))
    for p, phase in enumerate(phases):
        for at, thread in enumerate(phase):
            yield from ((p, at, s) for s in range(len(thread)) if len(thread) > 1)
    for p, phase in enumerate(phases):
        for at, thread in enumerate(phase):
            for s, step in enumerate(thread):
                for key in ("queued", "requests", "steps"):
                    if len(step.get(key, [])) > 1:
                        yield from ((p, at, s, key, n) for n in range(len(step[key])))
                for key in ("outputs", "id", "version", "parameters"):
                    if key in step and step["do"] == "infer":
                        yield (p, at, s, key)


def _optional(model: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    for key in model["config"]:
        if key not in ("backend", "platform", "input", "output", "ensemble_scheduling", "max_batch_size"):
            yield ("config", key)
    for key, value in model["config"].items():
        if key.endswith("_batching"):
            yield from (("config", key, inner) for inner in value)
