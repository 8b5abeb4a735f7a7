"""What a program serves: a name, a configuration and the callables behind it.

This is the border between the public classes (``Triton.bind``) and the way of
the data (``_server``, ``_instance``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

REQUESTS, BATCH = "requests", "batch"


class PlainRequest(dict):  # type: ignore[type-arg]
    """A request where no other class is asked for: the inputs by name."""

    def __init__(self, data: dict[str, Any], parameters: Optional[dict[str, Any]], wanted: Optional[list[str]]) -> None:
        super().__init__(data)
        self.parameters = parameters
        self.requested_output_names = wanted


@dataclass
class Binding:
    """One version of a model and the callables that serve it.

    In shape ``requests`` a callable takes a list of requests and returns a list
    with one dict of arrays each. In shape ``batch`` it takes the inputs as
    keyword arguments, concatenated along the batch axis, and returns a dict of
    arrays, or a sequence in the order of the outputs. Both may be coroutine
    functions, and generators (also asynchronous ones), which give responses one
    after the other.
    """

    name: str
    # One instance each; the same object may come several times.
    callables: Sequence[Callable[..., Any]]
    # The model configuration in the form of the config endpoint: max_batch_size, input, output, dynamic_batching, ...
    # The server completes and checks it.
    config: Mapping[str, Any]
    version: int = 1
    shape: str = REQUESTS
    # Makes a request of (inputs by name, parameters or None, names of the wanted outputs or None for all). One that the
    # server traces is then given its attribute trace_context.
    make_request: Callable[[dict[str, Any], Optional[dict[str, Any]], Optional[list[str]]], Any] = PlainRequest
    # Looks at the dict of arrays of each response (in shape batch: of the whole batch), raises what the client gets.
    check: Optional[Callable[[dict[str, Any]], None]] = None
    # Told of every exception of a callable before it is sent; returns the text for the client, or None for the usual.
    on_error: Optional[Callable[[BaseException], Optional[str]]] = None
    # Seconds after which a batch that is not back is answered with an error; None means never.
    timeout: Optional[float] = None
    # How many batches a coroutine function may have at once: it has so many instances on one event loop. None: one, or
    # 32 streams when the model is decoupled.
    concurrency: Optional[int] = None
    # Names in the order of the configuration; filled by the server's answer.
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
