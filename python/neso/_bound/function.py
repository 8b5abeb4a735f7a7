"""A callable as its requests meet it: what it is given, what it returns by name, and what its exceptions say."""

from __future__ import annotations

import traceback
from typing import Any, Optional

import numpy as np

from neso_runtime.errors import full_traceback

from .binding import BATCH, Binding
from .inputs import Request
from .outputs import OutputTables
from .returned import Split, is_coroutine, rows_of

# How many streams of a decoupled model a coroutine function may have at once, where its user does not say.
STREAMS = 32


def depth(binding: Binding) -> int:
    """How many batches one instance of a coroutine function has at once."""
    policy = binding.config.get("model_transaction_policy") or {}
    return STREAMS if binding.concurrency is None and policy.get("decoupled") else 1


class Function:
    """One callable of a binding, and the tables its frames are coded with."""

    def __init__(self, binding: Binding, index: int, tables: OutputTables, name: str) -> None:
        """name is that of the instance."""
        self._binding = binding
        self.tables = tables
        self.name = name
        self.model = binding.name
        self.callable = binding.callables[index]
        self.check = binding.check
        self.is_async = is_coroutine(self.callable)
        # How many batches it may have at once, as a coroutine function.
        self.depth = depth(binding)

    def named(self, result: Any) -> dict[str, Any]:
        """Outputs of a batch callable as a dict."""
        if isinstance(result, dict):
            return result
        names = self.tables.output_names
        if isinstance(result, (list, tuple)):
            if len(result) != len(names):
                raise ValueError("Outputs length different than config outputs length")
            return dict(zip(names, result))
        raise ValueError(f"Unsupported output type {type(result)}.")

    def call_requests(self, requests: list[Request]) -> Any:
        """Calls the callable; one of shape batch gets what the server would have gathered."""
        binding = self._binding
        if binding.shape != BATCH:
            make, names = binding.make_request, self.tables.output_names
            made = [
                make(r.inputs, r.parameters, None if r.wanted is None else [names[i] for i in r.wanted])
                for r in requests
            ]
            for request, r in zip(made, requests):
                if r.trace:
                    request.trace_context = r.trace
            return self.callable(made)
        if len(requests) == 1:
            return Split(self.named, self.callable(**requests[0].inputs), None).result()
        rows = [rows_of(r.inputs) for r in requests]
        inputs = {name: np.concatenate([r.inputs[name] for r in requests]) for name in requests[0].inputs}
        return Split(self.named, self.callable(**inputs), rows).result()

    def describe(self, error: BaseException) -> tuple[str, str]:
        """What the client and what the server's log gets.

        on_error has logged the traceback in this process, so that the server's log, which is most often shown beside
        it, need not have it again.
        """
        message: Optional[str] = None
        if self._binding.on_error is not None:
            try:
                message = self._binding.on_error(error)
            except Exception:
                traceback.print_exc()
        if message is None:
            try:
                text = str(error)
            except Exception:  # a broken __str__ must not hide the failure
                text = ""
            message = f"TritonModelException: Model execute error: {type(error).__name__}: {text}"
            return message, full_traceback(error)
        return message or type(error).__name__, ""
