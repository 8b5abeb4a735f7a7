"""Takes out of a result what need not be the same: paths, times, the order of what ran at the same time."""

from __future__ import annotations

import json
import re
from typing import Any

from .program import Program, mentions, touched
from .sides import Side

LAST = re.compile(r"[A-Za-z_.]*(Error|Exception)\b.*")
CONTROLS = ("START", "END", "READY", "CORRID")


def canonical(value: Any, side: Side) -> Any:
    """Paths of the side's folders, wherever they are written."""
    text = json.dumps(value)
    for path, word in ((str(side.repository), "<MODELS>"), (str(side.record), "<RECORD>"), (str(side.home), "<HOME>")):
        text = text.replace(path, word)
    return json.loads(re.sub(r"workspace_\w+", "<WORKSPACE>", text))


def loosen(program: Program, result: Any) -> Any:
    """Forgets the order, and the batches, of what clients did at the same time. Twice is as good as once.

    Triton ends an iterative sequence by a request of its own, which may be in a batch (docs/differences.md).
    """
    ending = {m["name"] for m in program["models"] if m["kind"] == "iterative"}
    loose = set(ending)
    refused: set[str] = set()
    asked: set[str] = set()
    for threads, phase in zip(program["phases"], result["phases"]):
        together = len(threads) > 1
        meanwhile = touched(program, [[step for step in thread if step["do"] == "meanwhile"] for thread in threads])
        asked |= meanwhile
        if together:
            loose |= {name for name in touched(program, threads) if _may_batch(program, name)}
        refused |= {
            n
            for n, events in phase["saw"].items()
            if any(e["event"] == "refuses" for e in events if isinstance(e, dict))
        }
        for name, events in phase["saw"].items():
            called = any(mentions(m, name) for m in program["models"] if m["name"] != name)
            if isinstance(events, str):  # forgotten already
                continue
            if name in ending:
                events = _real(events)
                if together:
                    _unnumber(events)
            phase["saw"][name] = _events(events, together or _many(program, name), called)
            if together and _whole_batches(_model(program, name)):
                phase["saw"][name] = "batches of chance"
            if name in meanwhile:
                phase["saw"][name] = "as many requests as there was time for"
        phase["threads"] = [
            [_answer(step, _error(answer), loose, refused, asked) for step, answer in zip(thread, answers)]
            for thread, answers in zip(threads, phase["threads"])
        ]
    return result


def _error(answer: Any) -> Any:
    """Of a traceback of PyTriton's the last line: the frames are those of its own code."""
    if isinstance(answer, list):
        return [_error(each) for each in answer]
    if not isinstance(answer, dict):
        return answer
    if "Traceback (most recent call last)" in str(answer.get("error", "")):
        last = [line for line in answer["error"].splitlines() if LAST.match(line)]
        return {**answer, "error": last[-1] if last else answer["error"]}
    return {key: _error(value) for key, value in answer.items()}


def _model(program: Program, name: str) -> dict[str, Any]:
    return next(m for m in program["models"] if m["name"] == name)


def _whole_batches(model: dict[str, Any]) -> bool:
    """Whether it sees the requests of a batch as one: which are in it is chance where clients work at the same time."""
    return bool(model.get("decorators")) and model["config"]["max_batch_size"] > 1


def _may_batch(program: Program, name: str) -> bool:
    config = _model(program, name)["config"]
    return "dynamic_batching" in config or "sequence_batching" in config or "ensemble_scheduling" in config


def _many(program: Program, name: str) -> bool:
    """Whether it has several instances, which run and write at the same time."""
    groups = _model(program, name)["config"].get("instance_group", [])
    return sum(g.get("count", 1) for g in groups) > 1


def _events(events: list[Any], loose: bool, called: bool) -> list[Any]:
    """What a model saw in a phase: its starts, each once, then its requests; loose: each by itself, in an order of their own."""
    starts = {json.dumps(e, sort_keys=True): e for e in events if e["event"] == "initialize"}
    return [starts[text] for text in sorted(starts)] + _executed(
        [e for e in events if e["event"] != "initialize"], loose, called
    )


def _executed(events: list[Any], loose: bool, called: bool) -> list[Any]:
    for event in events:
        for request in event.get("requests", []):
            _request(request, called)
    if not loose:
        return events
    apart = []
    for event in events:
        if event["event"] == "execute":
            apart += [{**event, "requests": [request]} for request in event["requests"] if not _is_null(request)]
        else:
            apart.append(event)
    return sorted(apart, key=lambda e: json.dumps(e, sort_keys=True))


def _real(events: list[Any]) -> list[Any]:
    """Events without the requests that fill slots."""
    apart = [
        {**e, "requests": [r for r in e["requests"] if not _is_null(r)]} if e["event"] == "execute" else e
        for e in events
    ]
    return [e for e in apart if e.get("requests", [e])]


def _unnumber(events: list[Any]) -> None:
    """Takes out the correlation ids: requests without one are numbered by the server as they arrive, which is chance."""
    for event in events:
        for request in event.get("requests", []):
            request["inputs"] = [[n, t, s, "numbered" if n == "CORRID" else d] for n, t, s, d in request["inputs"]]


def _is_null(request: dict[str, Any]) -> bool:
    """Whether it fills a slot that has no sequence; how many there are follows from the batches."""
    return any(i[0] == "READY" and i[-1] in ([0], [False]) for i in request["inputs"])


def _request(request: dict[str, Any], called: bool) -> None:
    """Control inputs, and those of a step of an ensemble or of a call, come in the order of a hash table.

    Null requests of the direct strategy have memory that nobody wrote.
    """
    request["inputs"].sort(key=lambda i: i[0] if called or i[0] in CONTROLS else "")
    if _is_null(request):
        request["inputs"] = [[n, t, s, "undefined" if n.startswith("IN") else d] for n, t, s, d in request["inputs"]]


def _answer(step: dict[str, Any], answer: Any, loose: set[str], refused: set[str], asked: set[str]) -> Any:
    """refused: models that answered with an error, which Triton counts as a success: only the sum is the same.

    asked: models that clients have asked as often as there was time for.
    """
    if step["do"] == "stats" and isinstance(answer, list):
        for version in answer:
            if version["name"] in asked:
                return [{"name": version["name"]}]
            if version["name"] in refused and "stats" in version:
                stats = version["stats"]
                return [{"name": version["name"], "ended": stats["success"] + stats["fail"]}]
            if version["name"] in loose:
                version.pop("execution_count", None)
                version.pop("batches", None)
        return answer
    if step["do"] == "metrics":
        return {
            key: {k: v for k, v in found.items() if k != "nv_inference_exec_count" or key.split()[0] not in loose}
            for key, found in answer.items()
            if key.split()[0] not in refused | asked
        }
    return answer
