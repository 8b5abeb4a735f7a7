"""memory_usage in the statistics of bound callables: the resident memory of the process that has bound them."""

from __future__ import annotations

import json
import pathlib
import urllib.request

import numpy as np

from neso import ModelClient, ModelConfig, Tensor

X = [Tensor((1,), np.float32, "x")]


def resident() -> int:
    """Of this process, in bytes."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_of_this_process(triton):
    def same(requests):
        return [{"x": r["x"]} for r in requests]

    triton.bind("remembering", [same, same], X, X, config=ModelConfig(batching=False))
    with ModelClient(triton.url, "remembering") as client:
        client.infer_sample(np.ones(1, np.float32))
    kept = np.ones(16 << 20, np.float32)
    asked = urllib.request.Request(f"{triton.url}/v2/models/remembering/stats")
    asked.add_header("triton-access-token", triton.get_access_token())
    with urllib.request.urlopen(asked) as reply:
        (usage,) = json.load(reply)["model_stats"][0]["memory_usage"]
    # Two callables, one process: it counts once.
    assert (usage["type"], usage["id"]) == ("CPU", 0)
    assert abs(usage["byte_size"] - resident()) < 16 << 20 and usage["byte_size"] > kept.nbytes
