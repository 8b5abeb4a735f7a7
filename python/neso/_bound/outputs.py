"""What callables return, checked and put into frames."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Optional

import numpy as np

from neso_runtime.batchshape import Entry, make_entry
from neso_runtime.connection import Connection, Tables
from neso_runtime.datatypes import BYTES, masked, number_of
from neso_runtime.encode import ResponseFrame
from neso_runtime.frames import FINAL, FIRST_OUTPUT, INLINE, NO_ERROR
from neso_runtime.leases import Lease
from neso_runtime.private import PrivateViews
from neso_runtime.tensor import DTYPE_NUMBERS

from .store import BoundStore

ndarray = np.ndarray


class OutputError(ValueError):
    """A callable returned what is no answer."""


def check_list(model: str, outputs: Any, count: int) -> None:
    """Refuses what is not a list of one response per request."""
    if not isinstance(outputs, list):
        raise OutputError(
            f"Outputs returned by `{model}` model callable must be list of response dicts with numpy arrays. "
            f"Got outputs={outputs} instead."
        )
    if len(outputs) != count:
        raise OutputError(
            f"Number of outputs returned by `{model}` inference callable ({len(outputs)}) does not match number of "
            f"requests ({count}) received from Triton."
        )


def check_response(model: str, response: Any) -> Any:
    """The dict of arrays of one response."""
    if not isinstance(response, dict):
        data = getattr(response, "data", None)
        if isinstance(data, dict):
            return data
        raise OutputError(
            f"Outputs returned by `{model}` model callable must be list of response dicts with numpy arrays. "
            f"Got response={response} instead."
        )
    return response


def _array(model: str, name: Any, value: Any) -> np.ndarray[Any, Any]:
    """An output that is not plainly right: refused in the peer's words, or made right."""
    if not isinstance(name, str):
        raise OutputError(f"Not all keys returned by `{model}` model callable are string")
    if not isinstance(value, ndarray):
        raise OutputError(f"Not all values returned by `{model}` model callable are numpy arrays")
    fault = masked(f"Output `{name}` of model `{model}`", value)
    if fault:
        raise OutputError(fault)
    kind = value.dtype.kind
    if number_of(value.dtype) == 0 and kind not in "OSU":
        raise OutputError(
            "Only bool, numeric, string, unicode and object arrays are supported by Triton (dtype.kind: biufOSU). "
            f"Returned `{name}` for model `{model}` has `{kind}` dtype.kind."
        )
    if kind == "O":
        for item in value.ravel().tolist():
            if isinstance(item, str):
                raise OutputError(
                    f"Use string/byte-string instead of object for passing string in NumPy array from model `{model}`."
                )
            if not isinstance(item, bytes):
                raise OutputError(
                    "Only bytes as objects dtype are supported by PyTriton. "
                    f"Returned `{name}` from `{model}` has `{type(item)}` type."
                )
    return value


def _in_inputs(
    array: np.ndarray[Any, Any], leases: Sequence[Lease], private: PrivateViews
) -> Optional[tuple[int, int]]:
    """Where an array lies that is a view of an input; None also if only this process sees what was written there."""
    for lease in leases:
        memory: Any = lease()
        if memory is None or id(memory) != id(array.base):
            continue
        segment, start = lease.block
        if not private.untouched(segment, start):
            return None
        address: int = array.__array_interface__["data"][0]
        return segment, start + address - memory.__array_interface__["data"][0]
    return None


class OutputTables(Tables):
    """What frames of one instance are coded with, and how what its callable returns becomes entries."""

    store: BoundStore

    def __init__(self, connection: Connection, instance: int, order: dict[str, Any]) -> None:
        super().__init__(connection, instance, order)
        self.model = str((order.get("config") or {}).get("name") or "")

    def entry(
        self, name: Any, array: Any, wanted: Optional[list[int]] = None, leases: Sequence[Lease] = ()
    ) -> Optional[Entry]:
        """One output; None for one that the model does not have or that is not wanted.

        An output that lies in an input of these leases stays there; ``settle`` must follow.
        """
        number = DTYPE_NUMBERS.get(array.dtype) if type(array) is ndarray and type(name) is str else None
        if number is None or number == BYTES:
            array = _array(self.model, name, array)
            number = number_of(array.dtype)
        index = self.output_index.get(name)
        if index is None or (wanted is not None and index not in wanted):
            return None
        return make_entry(self, index, number, array, partial(self._place, leases) if leases else None)

    def _place(self, leases: Sequence[Lease], data: Any) -> tuple[int, int]:
        """Where a payload lies for the server, which may be in an input."""
        found = _in_inputs(data, leases, self.segments.private) if type(data) is ndarray else None
        return found or self.store.place(data)

    def settle(self, entries: list[Entry], leases: Sequence[Lease]) -> None:
        """Copies outputs that lie in inputs to which the callable still refers: it may change them after the answer.

        To be called when nothing here refers to the inputs any more, without the writer's lock.
        """
        try:
            for number, entry in enumerate(entries):
                if entry[3] >= FIRST_OUTPUT:
                    continue
                for lease in leases:
                    memory, (segment, start) = lease(), lease.block
                    if memory is not None and segment == entry[3] and start <= entry[4] < start + memory.size:
                        begin = entry[4] - start
                        block = self.store.put(memory[begin : begin + entry[5]])
                        entries[number] = (*entry[:3], *block, *entry[5:])
        except BaseException:
            self.drop(entries)
            raise

    def drop(self, entries: list[Entry]) -> None:
        """Takes back the memory of entries that are not sent."""
        own = [entry for entry in entries if entry[3] >= FIRST_OUTPUT and entry[3] != INLINE]
        self.connection.give_back([(entry[3], entry[4]) for entry in own])


class Responses(ResponseFrame):
    """A RESPONSES frame made of dicts of arrays."""

    __slots__ = ()

    _tables: OutputTables

    def add_dict(
        self,
        handle: int,
        outputs: dict[str, Any],
        wanted: Optional[list[int]],
        flags: int = FINAL,
        leases: Sequence[Lease] = (),
    ) -> None:
        """Adds a response; wanted are the indices of the outputs to send, None for all. See entry for leases."""
        tables = self._tables
        entries: list[Entry] = []
        size = self._size + 24
        try:
            for name, array in outputs.items():
                entry = tables.entry(name, array, wanted, leases)
                if entry is not None:
                    entries.append(entry)
                    size += 24 + 8 * len(entry[2])
        except BaseException:
            tables.drop(entries)
            raise
        self._outputs += entries
        self._blocks.append((handle, flags, NO_ERROR, len(entries), b"", b""))
        self._size = size
