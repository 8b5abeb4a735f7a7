"""What ``serve`` prints: where everything is, how to ask it, and what takes long."""

from __future__ import annotations

import contextlib
import json
import math
import shlex
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, TextIO

from ..model_config.datatypes import triton_type
from ..model_config.triton_model_config import TritonModelConfig

# Seconds until a line says that something is still going on, and between such lines.
SLOW_AFTER = 3.0
SLOW_EVERY = 10.0


class Slow:
    """Something that may take long."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        # What it waits for, as far as that is known.
        self.why = ""
        # Says that when a line is due.
        self.ask: Callable[[], str] = lambda: self.why


@contextlib.contextmanager
def slow(what: str) -> Iterator[Slow]:
    """Prints a line when the block takes long, with what the block has noted as ``why``."""
    done = threading.Event()
    told = Slow()

    def tell() -> None:
        begun = time.monotonic()
        wait = SLOW_AFTER
        while not done.wait(wait):
            said = told.ask()
            why = f" ({said})" if said else ""
            sys.stderr.write(f"{what}: {time.monotonic() - begun:.0f} s so far{why} ...\n")
            sys.stderr.flush()
            wait = SLOW_EVERY

    thread = threading.Thread(target=tell, name="neso-progress", daemon=True)
    with contextlib.suppress(RuntimeError):  # at the end of the interpreter none can be started
        thread.start()
    try:
        yield told
    finally:
        done.set()
        if thread.ident is not None:
            thread.join()


# Elements of an input that a line shows; more are made by the shell.
SHOWN = 64


def _inputs(config: TritonModelConfig) -> Iterator[tuple[str, str, list[int], Any]]:
    """Name, datatype, shape and element of the inputs of a small request that the model takes."""
    for spec in config.inputs or ():
        if spec.optional:
            continue
        shape = [1 if d < 0 else d for d in spec.shape]
        if config.batching:
            shape.insert(0, 1)
        datatype = (triton_type(spec.dtype) or "TYPE_FP32")[5:]
        yield (
            spec.name,
            "BYTES" if datatype == "STRING" else datatype,
            shape,
            {"STRING": "text", "BOOL": True}.get(datatype, 1),
        )


def curl(config: TritonModelConfig, address: str) -> str:
    """A command for the shell that sends the model a small request; ``address`` is host and port of HTTP."""
    url = f"http://{address}/v2/models/{config.model_name}/"
    if config.decoupled:  # a stream, as server-sent events
        fields = {n: _nested(shape[1:] if config.batching else shape, e) for n, _, shape, e in _inputs(config)}
        return f"curl -s {url}generate_stream -d {shlex.quote(json.dumps(fields))}"
    # Parts of the body: text, or how often which element comes.
    parts: list[Any] = ['{"inputs": [']
    for number, (name, datatype, shape, element) in enumerate(_inputs(config)):
        head = json.dumps({"name": name, "datatype": datatype, "shape": shape, "data": []})[:-2]
        parts.append((", " if number else "") + head)
        count = math.prod(shape)
        parts.append(", ".join([json.dumps(element)] * count) if count <= SHOWN else (count, json.dumps(element)))
        parts.append("]}")
    parts.append("]}")
    if all(isinstance(part, str) for part in parts):
        return f"curl -s {url}infer -d {shlex.quote(''.join(parts))}"
    made = [
        f"printf %s {shlex.quote(part)}"
        if isinstance(part, str)
        else f"yes {shlex.quote(part[1])} | head -n {part[0]} | paste -sd, -"
        for part in parts
    ]
    return f"({'; '.join(made)}) | curl -s {url}infer -d @-"


def _nested(shape: Sequence[int], element: Any) -> Any:
    """An element in lists: none for a single one."""
    return element if math.prod(shape) == 1 else [_nested(shape[1:], element)] * shape[0]


def announce(addresses: Mapping[str, str], models: Sequence[TritonModelConfig], out: TextIO) -> None:
    """Prints the URLs, a curl line per model, and where the metrics are."""
    lines = [f"Serving {end:5} {end}://{addresses[end]}" for end in ("http", "grpc") if end in addresses]
    if "metrics" in addresses:
        lines.append(f"Metrics       http://{addresses['metrics']}/metrics")
    if "http" in addresses:
        for config in models:
            lines.append(f"  {curl(config, addresses['http'])}")
    # In one piece: the log of the server goes to the same place.
    out.write("".join(f"{line}\n" for line in lines))
    out.flush()
