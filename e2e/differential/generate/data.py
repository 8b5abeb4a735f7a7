"""Random tensors that are the same in every form: numbers that JSON and each datatype hold exactly."""

from __future__ import annotations

import random
from typing import Any

OF_NUMPY = [
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES",
]  # fmt: skip
DATATYPES = [*OF_NUMPY, "BF16"]
WORDS = ["", "a", "two words", "z\u00fc", "a\x00b", '"quoted"', "\\", "\n", "0"]


def configured(datatype: str) -> str:
    """The word of a configuration for a datatype."""
    return "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"


def of_config(word: str) -> str:
    return "BYTES" if word == "TYPE_STRING" else word.removeprefix("TYPE_")


def value(rng: random.Random, datatype: str) -> Any:
    if datatype == "BOOL":
        return rng.random() < 0.5
    if datatype == "BYTES":
        return rng.choice(WORDS).encode("utf-8").decode("latin-1")
    if datatype.startswith("FP") or datatype == "BF16":
        return rng.choice([0.0, -1.0, 0.5, 1.25, -3.75, 1024.0, float(rng.randrange(-100, 100))])
    bits = int(datatype.lstrip("UINT"))
    low, high = (0, 2**bits - 1) if datatype.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return rng.choice([low, high, 0, 1, rng.randrange(low, high + 1)])


def shape(rng: random.Random, dims: list[int]) -> list[int]:
    return [rng.choice([1, 2, 3]) if d < 0 else d for d in dims]


def count(dims: list[int]) -> int:
    total = 1
    for d in dims:
        total *= max(d, 0)
    return total


def tensor(rng: random.Random, name: str, datatype: str, dims: list[int]) -> dict[str, Any]:
    """A tensor of a request, its shape already chosen."""
    return {
        "name": name,
        "datatype": datatype,
        "shape": dims,
        "data": [value(rng, datatype) for _ in range(count(dims))],
    }
