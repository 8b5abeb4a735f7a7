"""Makes a program from a seed: models.py the models, requests.py what is sent to them, phases.py in which order."""

from __future__ import annotations

import random

from ..program import Program
from . import models, phases

FLAGS = [
    ["--disable-auto-complete-config"],
    ["--disable-auto-complete-config", "--cache-config=local,size=1048576", "--rate-limit=execution_count"],
    [],
]


def generate(seed: int) -> Program:
    rng = random.Random(seed)
    flags = rng.choices(FLAGS, [4, 3, 1])[0]  # completing takes Triton two seconds for each load
    made = models.some(rng, cache=len(flags) > 1, complete=not flags)
    program: Program = {"seed": seed, "flags": flags, "models": made, "phases": []}
    program["phases"] = phases.phases(rng, program)
    return program
