"""One instance of a framework's model: batches in batch shape, without a batch dimension requests one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from neso_runtime.batchshape import Entry, decode_batch, fail_batch, make_entry, send_batch
from neso_runtime.datatypes import number_of
from neso_runtime.encode import ResponseFrame
from neso_runtime.errors import full_traceback
from neso_runtime.frames import BATCH_REQUEST, FINAL, PAIR, done_frame
from neso_runtime.tensor import DTYPE_NUMBERS

from ..instance import Instance


class HostedInstance(Instance):
    """An instance whose model is a HostedModel."""

    def execute_batch(self, number: int, data: Any, start: int, end: int) -> None:
        """Runs one batch of gathered inputs."""
        tables, model = self.tables, self._model
        _, inputs, leases = decode_batch(tables, data, start, end)
        try:
            entries = [self._entry(model, name, array) for name, array in model.run(inputs).items()]
        except BaseException as error:
            frame = self._apart(number, inputs, data, start)
            message, trace = model.loader.explain(error), full_traceback(error)
            error.__traceback__ = None
            inputs = None
            done = done_frame(tables.instance, number, message, trace) if frame is None else frame.pack(True)
            fail_batch(tables, number, leases, done)
            return
        inputs = None
        try:
            send_batch(tables, number, entries, leases)
        except ValueError as error:  # more than a frame may have
            tables.link.writer.send(done_frame(tables.instance, number, str(error), ""))

    def _entry(self, model: Any, name: str, array: np.ndarray) -> Entry:
        """One output, with its bytes or where they lie."""
        tables = self.tables
        index = tables.output_index[name]
        number = model.numbers(name) or DTYPE_NUMBERS.get(array.dtype) or number_of(array.dtype)
        if not number:
            raise TypeError(f"output '{name}' has the datatype {array.dtype}, which the protocol does not have")
        return make_entry(tables, index, number, array)

    def _apart(self, number: int, inputs: Any, data: Any, start: int) -> Any:
        """The answers of a failed batch whose requests have run one by one, None when they cannot: a bad one fails alone."""
        count, total = PAIR.unpack_from(data, start)
        if count < 2 or any(array.shape[:1] != (total,) for array in inputs.values()):
            return None
        frame = ResponseFrame(self.tables, number)
        model, begin = self._model, 0
        for handle, rows in BATCH_REQUEST.iter_unpack(bytes(data[start + 8 : start + 8 + 16 * count])):
            try:
                part = {name: array[begin : begin + rows] for name, array in inputs.items()}
                response = model.response(model.run(part))
            except Exception as error:
                response = model.failure(error)
            part = None
            begin += rows
            frame.add(handle, response, None, FINAL)
        return frame
