"""One instance of a framework's model: batches in batch shape, without a batch dimension requests one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..batchshape import BATCH_HELD, Entry, decode_batch, pack_batch
from ..datatypes import BYTES, DTYPES, number_of, pack_elements
from ..encode import ResponseFrame
from ..errors import full_traceback
from ..frames import BATCH_REQUEST, ENDS_BATCH, FINAL, INLINE, PAIR, done_frame
from ..instance import Instance
from ..leases import Lease
from ..store import flat
from ..tensor import DTYPE_NUMBERS


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
            self._fail_batch(number, frame, message, trace, leases)
            return
        inputs = None
        self._send_batch(number, entries, leases)

    def _entry(self, model: Any, name: str, array: np.ndarray) -> Entry:
        """One output, with its bytes or where they lie."""
        tables = self.tables
        index = tables.output_index[name]
        number = model.numbers(name) or DTYPE_NUMBERS.get(array.dtype) or number_of(array.dtype)
        if not number:
            raise TypeError(f"output '{name}' has the datatype {array.dtype}, which the protocol does not have")
        shape = array.shape
        if number == BYTES:
            data: Any = pack_elements(array)
            length = len(data)
        else:
            if DTYPES[number] is not None and array.dtype != DTYPES[number]:
                array = array.astype(DTYPES[number])  # the other byte order
            data = array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(shape)
            length = data.nbytes
        if length > tables.inline_limit:
            segment, offset = tables.store.put(flat(data))
            return index, number, shape, segment, offset, length, b""
        if number != BYTES:
            data = data.tobytes()
        return index, number, shape, INLINE, data, length, b""

    def _send_batch(self, number: int, entries: list[Entry], leases: list[Lease]) -> None:
        tables = self.tables
        writer = tables.link.writer
        try:
            if not leases:
                writer.send(pack_batch(tables.instance, number, entries, ENDS_BATCH))
                return
            with writer.lock:
                flags = ENDS_BATCH | BATCH_HELD if tables.leases.held(leases) else ENDS_BATCH
                writer.send_locked(pack_batch(tables.instance, number, entries, flags))
        except ValueError as error:  # more than a frame may have
            writer.send(done_frame(tables.instance, number, str(error), ""))

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

    def _fail_batch(self, number: int, frame: Any, message: str, trace: str, leases: list[Lease]) -> None:
        tables = self.tables
        writer = tables.link.writer
        with writer.lock:
            if leases and tables.leases.held(leases):
                writer.hold_locked(pack_batch(tables.instance, number, [], BATCH_HELD))
            if frame is not None:
                writer.send_locked(frame.pack(True))
                return
            writer.send_locked(done_frame(tables.instance, number, message, trace))
