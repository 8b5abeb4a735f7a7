"""infer_sample and infer_batch: the two calls that all clients of one model have."""

from __future__ import annotations

from typing import Any, Optional

from ._inputs import Call, Values


class Infers:
    """Takes the arguments of a call and hands it to ``_infer``, which each kind of client has.

    What comes back is a dictionary of arrays by the name of the output: from asyncio clients an awaitable of it, from
    clients of decoupled models an iterator over such dictionaries, from both in one an asynchronous iterator.
    """

    def _infer(self, call: Call) -> Any:
        raise NotImplementedError

    def infer_sample(
        self,
        *inputs: Any,
        parameters: Optional[Values] = None,
        headers: Optional[Values] = None,
        priority: Optional[Any] = None,
        timeout: Optional[Any] = None,
        **named: Any,
    ) -> Any:
        """Infers on one sample: its arrays, and those that come back, have no batch dimension.

        ``inputs`` are arrays in the order of the model's inputs, ``named`` arrays by the input's name; one way or the
        other. Arrays of BYTES hold bytes; anything that is no array is made one. ``parameters`` go to the callable
        (strings, integers, booleans), ``headers`` with the request. ``priority`` is a level of the model's queue from
        1, the most urgent, default 0: the model's own; ``timeout`` the microseconds that the request may wait there,
        default: the model's own. Given as an array either is an input of that name.

        Raises PyTritonClientValueError for wrong arguments, PyTritonClientTimeoutError when the model is not ready or
        the answer not there in time, and PyTritonClientInferenceServerError with what the server says.
        """
        return self._infer(Call(True, inputs, named, parameters, headers, priority, timeout))

    def infer_batch(
        self,
        *inputs: Any,
        parameters: Optional[Values] = None,
        headers: Optional[Values] = None,
        priority: Optional[Any] = None,
        timeout: Optional[Any] = None,
        **named: Any,
    ) -> Any:
        """Infers on a batch: the first dimension of each array is the number of samples, the same for all.

        Arguments and errors are those of ``infer_sample``; PyTritonClientModelDoesntSupportBatchingError when the
        model takes samples only.
        """
        return self._infer(Call(False, inputs, named, parameters, headers, priority, timeout))
