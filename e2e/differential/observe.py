"""What a server says of itself, in a form that two servers share: counts, relations of times, states."""

from __future__ import annotations

import http.client
import re
import time
from typing import Any

COUNTS = {
    "nv_inference_request_success",
    "nv_inference_request_failure",
    "nv_inference_count",
    "nv_inference_exec_count",
    "nv_inference_pending_request_count",
    "nv_cache_num_hits_per_model",
    "nv_cache_num_misses_per_model",
}
SERIES = re.compile(r"^(nv_[a-z_]+)\{([^}]*)\} (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
LONG_NS = 200_000_000  # half of what a gate is held for; the work of a tiny model is far shorter


def metrics(port: int, prefix: str) -> dict[str, Any]:
    """Counts of the models of one run; of the other families only that they are there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics")
    body = connection.getresponse().read().decode()
    connection.close()
    found: dict[str, Any] = {}
    for line in body.splitlines():
        match = SERIES.match(line)
        if not match or f'model="{prefix}' not in match[2]:
            continue
        labels = dict(LABEL.findall(match[2]))
        key = f"{labels.pop('model')} {labels.pop('version', '')}"
        rest = " ".join(f"{k}={v}" for k, v in sorted(labels.items()))
        name = f"{match[1]} {rest}".strip()
        found.setdefault(key, {})[name] = float(match[3]) if match[1] in COUNTS else "there"
    return found


def pending(port: int, model: str) -> int:
    return int(sum(v.get("nv_inference_pending_request_count", 0) for v in metrics(port, f'{model}"').values()))


def statistics(raw: dict[str, Any], times: bool) -> list[Any]:
    """Counts of each version; of times only which were long, where a gate was held."""
    told = []
    for version in sorted(raw["model_stats"], key=lambda s: (s["name"], s["version"])):
        counts = {"name": version["name"], "version": version["version"]}
        for key in ("inference_count", "execution_count"):
            counts[key] = int(version[key])
        counts["ever"] = int(version["last_inference"]) > 0
        durations = version["inference_stats"]
        counts["stats"] = {k: int(durations[k]["count"]) for k in sorted(durations)}
        counts["batches"] = {
            str(b["batch_size"]): {k: int(v["count"]) for k, v in sorted(b.items()) if isinstance(v, dict)}
            for b in version.get("batch_stats", [])
        }
        counts["responses"] = {
            index: {k: int(v["count"]) for k, v in sorted(r.items())}
            for index, r in sorted(version.get("response_stats", {}).items())
        }
        if times:
            counts["long"] = sorted(k for k in durations if int(durations[k]["ns"]) >= LONG_NS)
        told.append(counts)
    return told


def settled(read: Any, rest: float, patience: float = 3.0) -> Any:
    """What is read when it has not changed for `rest` seconds: counters follow the answers a moment later."""
    end = time.monotonic() + patience
    last, since = read(), time.monotonic()
    while time.monotonic() < min(since + rest, end):
        time.sleep(0.03)  # polling another process: there is nothing to wait on
        now = read()
        if now != last:
            last, since = now, time.monotonic()
    return last
