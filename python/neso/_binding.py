"""What the package hands to the runtime that serves bound models: plain data, no behaviour."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Union

if TYPE_CHECKING:
    import numpy as np

    from .proxy.types import Request

    Arrays = Dict[str, "np.ndarray[Any, Any]"]
    # Several answers are given by an iterator: each item answers every request of the batch once.
    BatchCall = Callable[[Arrays], Union[Arrays, Iterator[Arrays]]]
    RequestsCall = Callable[[List[Request]], Union[List[Arrays], Iterator[List[Arrays]]]]


@dataclasses.dataclass
class Instance:
    """One instance of a bound model, as the runtime calls it on a thread of its own.

    What the calls return is checked and complete: names are outputs of the model, arrays have the datatype of the
    output (BYTES: object arrays of bytes), in any memory layout; a missing output is left out. Nothing else may be
    assumed, the number of rows of a batch included only as far as ``batch`` says.

    Coroutines are run inside; no awaitable comes out.
    """

    # The requests shape. Each request is ``neso.proxy.types.Request(data, parameters, requested_output_names)`` with
    # writable arrays that the callable may keep. Always there: for a model with ``batch`` it takes the batches whose requests
    # have different sets of inputs.
    requests: RequestsCall
    # The batch shape: arrays joined along the first axis; the first dimension of each output is the number of rows.
    batch: Optional[BatchCall] = None
    # So many calls may run at the same time, each on a thread of the runtime's.
    concurrency: int = 1


@dataclasses.dataclass
class Binding:
    """A model to serve from this process."""

    name: str
    version: int
    # The model configuration in the JSON form of the protocol, with backend "python" and instance_group count.
    config: Dict[str, Any]
    instances: Sequence[Instance]
    # Called with what an instance raised (on the thread of the call, inside the except block); returns the error text for the client.
    # It logs, and asks the server to stop when it has to.
    failure: Callable[[BaseException], str]
    # A decoupled model gives any number of answers, the last one when its iterator ends.
    decoupled: bool = False
    # Names in the order of the configuration: the index tables of tensor entries.
    inputs: List[str] = dataclasses.field(default_factory=list)
    outputs: List[str] = dataclasses.field(default_factory=list)
