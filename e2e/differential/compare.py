"""Tells two results of a program apart."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

from .program import Program

ABSENT = "(absent)"
NAME = re.compile(r"@\w+( \d+)?")


@dataclasses.dataclass(frozen=True)
class Difference:
    """One place where the sides differ. `what` is its kind, without numbers of phases, lanes and steps; `of` is the
    kind of the model that it is about."""

    where: str
    what: str
    step: str
    peer: str
    ours: str
    of: str = ""

    def line(self) -> str:
        return f"{self.where} [{self.what}]\n    step {self.step[:300]}\n    peer {self.peer[:600]}\n    ours {self.ours[:600]}"


def _apart(left: Any, right: Any, path: tuple[Any, ...], found: list[tuple[tuple[Any, ...], Any, Any]]) -> None:
    if type(left) is type(right) and left == right:
        return
    if isinstance(left, dict) and isinstance(right, dict) and ("error" in left) == ("error" in right):
        for key in [*left, *(k for k in right if k not in left)]:
            _apart(left.get(key, ABSENT), right.get(key, ABSENT), (*path, key), found)
        return
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (one, other) in enumerate(zip(left, right)):
            _apart(one, other, (*path, number), found)
        return
    if isinstance(left, list) and isinstance(right, list):
        # Of lists of different lengths the first place is told at which they part.
        at = next((n for n, (one, other) in enumerate(zip(left, right)) if one != other), min(len(left), len(right)))
        one, other = (side[at] if at < len(side) else ABSENT for side in (left, right))
        _apart(one, other, (*path, at), found)
        if isinstance(one, dict) and isinstance(other, dict):
            found.append(((*path, "length"), len(left), len(right)))
        return
    found.append((path, left, right))


def differences(program: Program, peer: Any, ours: Any) -> list[Difference]:
    found: list[tuple[tuple[Any, ...], Any, Any]] = []
    _apart(peer, ours, (), found)
    return [_difference(program, *each) for each in found]


def _difference(program: Program, path: tuple[Any, ...], peer: Any, ours: Any) -> Difference:
    step: Any = ""
    kind = list(path)
    if len(path) > 1 and path[0] == "phases":
        kind = kind[2:]
        if len(path) > 4 and path[2] == "lanes":
            step = program["phases"][path[1]][path[3]][path[4]]
            kind = [step["do"], step.get("form", ""), *path[5:]]
    what = "/".join("*" if isinstance(p, int) else NAME.sub("@", str(p)) for p in kind)
    name = step["model"] if "model" in step else next((str(p).split()[0] for p in path if NAME.match(str(p))), "")
    of = next((model["kind"] for model in program["models"] if model["name"] == name), "")
    return Difference("/".join(map(str, path)), what, _text(step), _text(peer), _text(ours), of)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
