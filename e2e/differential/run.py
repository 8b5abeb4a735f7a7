"""Runs a program on a side and gives what clients, models and the server said, in a form that can be compared."""

from __future__ import annotations

import json
import shutil
import threading
from typing import Any

from . import canonical
from .program import Answer, Program, Thread, named, unnamed
from .sides import Pool, Side
from .steps import Runner

END_PATIENCE_S = 10.0
Result = dict[str, Any]


def run(pool: Pool, program: Program) -> Result:
    """The whole program. The server stays, unless it has died or does not answer any more."""
    side = pool.side(program.get("flags", []))
    side.runs += 1
    prefix = f"r{side.runs}q"
    own = named(program, prefix)
    side.install(own)
    phases: list[Any] = []
    for phase in own["phases"]:
        phases.append(_phase(side, own, prefix, phase))
        if not side.alive():
            break
    alive = side.alive()
    result = {"phases": phases, "alive": alive, "ended": _clear(side, own, prefix)}
    text = json.dumps(result)
    if not alive or "no answer in time" in text or "DEADLINE_EXCEEDED" in text:
        side.stop()
    return canonical.loosen(program, canonical.canonical(unnamed(result, prefix), side))


def _phase(side: Side, program: Program, prefix: str, threads: list[Thread]) -> Any:
    before = {m["name"]: len(_seen(side, m["name"])) for m in program["models"]}
    answers: list[list[Answer]] = [[] for _ in threads]
    runners = [Runner(side, program, prefix) for _ in threads]

    def go(number: int) -> None:
        for step in threads[number]:
            try:
                answers[number].append(runners[number].run(step))
            except Exception as error:  # noqa: BLE001  a server that has died answers in many ways
                answers[number].append({"error": f"the driver: {type(error).__name__}: {error}"})

    started = [threading.Thread(target=go, args=(number,)) for number in range(len(threads))]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    for runner in runners:
        runner.close()
    seen = {name: [e for e in _seen(side, name)[at:] if e["event"] != "finalize"] for name, at in before.items()}
    return {"threads": answers, "saw": {k: v for k, v in seen.items() if v}}


def _seen(side: Side, model: str) -> list[Any]:
    path = side.record / f"{model}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _clear(side: Side, program: Program, prefix: str) -> dict[str, Any]:
    """Unloads the models and takes away their folders; whether each instance of them that began has ended.

    An unload is answered before the model has gone, and a load before the old one has: when a model ends is not said.
    """
    told = side.remove(program)
    if told is not None:
        return told
    runner = Runner(side, program, prefix)
    names = [m["name"] for m in program["models"]]

    def ended() -> dict[str, bool]:
        events = {name: [e["event"] for e in _seen(side, name)] for name in names}
        return {name: e.count("initialize") == e.count("finalize") for name, e in events.items()}

    if side.alive():
        for name in reversed(names):
            runner.manage("unload", {"model": name}, {"unload_dependents": True})
        runner.wait_for(lambda: all(ended().values()), END_PATIENCE_S)
    for name in names:
        shutil.rmtree(side.repository / name, ignore_errors=True)
    return ended()


def run_both(peer: Pool, ours: Pool, program: Program) -> tuple[Result, Result]:
    """Both sides at the same time. What keeps one of them from running is raised: it says nothing of a difference."""
    results: dict[str, Result] = {}
    errors: list[RuntimeError] = []

    def go(name: str, pool: Pool) -> None:
        try:
            results[name] = run(pool, program)
        except RuntimeError as error:
            errors.append(error)

    threads = [threading.Thread(target=go, args=item) for item in (("peer", peer), ("ours", ours))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results["peer"], results["ours"]


__all__ = ["Result", "run", "run_both"]
