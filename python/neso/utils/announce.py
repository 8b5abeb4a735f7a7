"""What ``serve`` prints: where everything is, how to ask it, and what takes long."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from ..model_config.datatypes import triton_type
from ..model_config.triton_model_config import TritonModelConfig

# Seconds until a line says that something is still going on, and between such lines.
SLOW_AFTER = 3.0
SLOW_EVERY = 10.0


@contextlib.contextmanager
def slow(what: str) -> Iterator[None]:
    """Prints a line when the block takes long."""
    done = threading.Event()

    def tell() -> None:
        begun = time.monotonic()
        wait = SLOW_AFTER
        while not done.wait(wait):
            sys.stderr.write(f"{what}: {time.monotonic() - begun:.0f} s so far ...\n")
            sys.stderr.flush()
            wait = SLOW_EVERY

    thread = threading.Thread(target=tell, name="neso-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def example_request(config: TritonModelConfig) -> dict[str, Any]:
    """A small request that the model takes."""
    inputs: list[dict[str, Any]] = []
    for spec in config.inputs or ():
        if spec.optional:
            continue
        shape = [1 if d < 0 else d for d in spec.shape]
        if config.batching:
            shape.insert(0, 1)
        count = 1
        for d in shape:
            count *= d
        datatype = (triton_type(spec.dtype) or "TYPE_FP32")[5:]
        value: Any = {"STRING": "text", "BOOL": True}.get(datatype, 1)
        inputs.append(
            {
                "name": spec.name,
                "datatype": "BYTES" if datatype == "STRING" else datatype,
                "shape": shape,
                "data": [value] * min(count, 64),
            }
        )
    return {"inputs": inputs}


def announce(addresses: Mapping[str, str], models: Sequence[TritonModelConfig], out: TextIO) -> None:
    """Prints the URLs, a curl line per model, and where the metrics are."""
    lines = [f"Serving {end:5} {end}://{addresses[end]}" for end in ("http", "grpc") if end in addresses]
    if "metrics" in addresses:
        lines.append(f"Metrics       http://{addresses['metrics']}/metrics")
    if "http" in addresses:
        for config in models:
            body = json.dumps(example_request(config))
            url = f"http://{addresses['http']}/v2/models/{config.model_name}/infer"
            lines.append(f"  curl -s {url} -d '{body}'")
    # In one piece: the log of the server goes to the same place.
    out.write("".join(f"{line}\n" for line in lines))
    out.flush()
