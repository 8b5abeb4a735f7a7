"""Makes a program from a seed: models.py the models, requests.py what is sent to them, phases.py in which order.

ensembles.py has what becomes of ensembles when the models of their steps come, go, change and fail.
"""

from __future__ import annotations

import random

from ..program import Program
from . import ensembles, models, phases

FLAGS = [
    ["--disable-auto-complete-config"],
    ["--disable-auto-complete-config", "--cache-config=local,size=1048576", "--rate-limit=execution_count"],
    [],
]


def generate(seed: int) -> Program:
    rng = random.Random(seed)
    return _program(seed, rng, rng.random() < 0.25)


def of_ensembles(seed: int) -> Program:
    return _program(seed, random.Random(seed), True)


def _program(seed: int, rng: random.Random, of_ensembles: bool) -> Program:
    flags = rng.choices(FLAGS, [4, 3, 1])[0]  # completing takes Triton two seconds for each load
    cache = len(flags) > 1
    made = ensembles.some(rng, cache) if of_ensembles else models.some(rng, cache, complete=not flags)
    program: Program = {"seed": seed, "sealed": True, "flags": flags, "models": made, "phases": []}
    program["phases"] = phases.phases(rng, program, of_ensembles)
    return program
