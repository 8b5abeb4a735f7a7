"""One connection with a server: what belongs together in it, and the frames that its memory is spoken of with."""

from __future__ import annotations

import os
import platform
from typing import Any, Optional

import numpy as np

from .answers import Answers
from .calls import Calls
from .channel import Frame, Stream
from .frames import (
    CANCEL,
    COUNT,
    CREDIT,
    DEFAULT_INLINE_LIMIT,
    DEVICE_SEGMENT_BODY,
    DROP,
    FAILED,
    HELLO,
    NOT_BEGUN,
    PROTOCOL,
    READY,
    RELEASE,
    SEGMENT,
    SEGMENT_BODY,
    ProtocolError,
    frame,
    json_frame,
    release_blocks,
)  # fmt: skip
from .gpu.devices import Devices
from .leases import Leases
from .link import Link
from .memory import RECALLED, Outputs, Segments
from .store import Store


def hello(**abilities: bool) -> bytes:
    """HELLO, the first frame of a process: ``lent`` says that it can be lent segments, ``board`` that it writes down
    which batch it begins."""
    body = {"pid": os.getpid(), "python": platform.python_version(), "numpy": np.__version__, "protocol": PROTOCOL}
    return json_frame(HELLO, 0, 0, {**body, **abilities})


class Connection:
    """The parts of a connection. Its handlers of frames run under the link's lock."""

    def __init__(
        self,
        control: Stream,
        descriptors: Stream,
        outputs: Optional[Outputs] = None,
        interruptible: bool = False,
    ) -> None:
        """outputs are those of a process that has more to say of its output memory; see Link for interruptible."""
        self.link = Link(control, descriptors, interruptible)
        self.segments = Segments(descriptors, Outputs() if outputs is None else outputs)
        self.leases = Leases(self.link.writer)
        self.calls = Calls(self.link)
        self.store = Store(self.link, self.segments.outputs, self.calls)
        self.devices = Devices(self.link, self.calls)
        self.answers = Answers(self.link)
        # Bytes up to which a tensor lies in its frame.
        self.inline_limit = DEFAULT_INLINE_LIMIT
        self.link.handlers.update(
            {
                READY: self.calls.on_answer,
                FAILED: self.calls.on_answer,
                CANCEL: self.answers.on_cancel,
                CREDIT: self.answers.on_credit,
                RELEASE: self._on_release,
                SEGMENT: self._on_segment,
                DROP: self._on_drop,
            }
        )

    def take_back(self, blocks: list[tuple[int, int]]) -> None:
        """Takes back blocks for outputs that nobody reads any more; the caller holds the link's lock."""
        blocks = self.devices.release(blocks)
        if blocks:
            self.segments.outputs.release(blocks)

    def give_back(self, blocks: list[tuple[int, int]]) -> None:
        """Takes back blocks that were not sent after all."""
        if blocks:
            with self.link.changed:
                self.take_back(blocks)

    def rest(self) -> None:
        """Sends what rides on other frames and found none; for who is about to wait for work."""
        self.segments.private.settle()
        if self.leases.pending() or self.link.writer.waiting():
            self.link.writer.flush()

    def _on_release(self, frame: Frame) -> None:
        self.take_back(release_blocks(*frame[3:]))

    def _on_segment(self, frame: Frame) -> None:
        _, _, _, data, start, end = frame
        if end - start == DEVICE_SEGMENT_BODY.size:
            self.devices.add(*DEVICE_SEGMENT_BODY.unpack_from(data, start))
            return
        if end - start != SEGMENT_BODY.size:
            raise ProtocolError(f"segment: body of {end - start} bytes")
        self.segments.add(*SEGMENT_BODY.unpack_from(data, start))

    def _on_drop(self, frame: Frame) -> None:
        _, _, _, data, start, end = frame
        if end - start != COUNT.size:
            raise ProtocolError(f"drop: body of {end - start} bytes")
        (number,) = COUNT.unpack_from(data, start)
        if number in self.devices.lent:
            self.link.others(frame)  # the driver may take its time, and nobody else should wait for it
        else:
            self.segments.drop(number)


class Tables:
    """What requests and responses of one instance are coded with."""

    def __init__(self, connection: Connection, instance: int, order: dict[str, Any]) -> None:
        """order is that of INIT."""
        self.connection = connection
        self.instance = instance
        self.link = connection.link
        self.segments = connection.segments
        self.leases = connection.leases
        self.store = connection.store
        self.devices = connection.devices
        self.inline_limit = int(order.get("inline_limit") or connection.inline_limit)
        self.decoupled = bool(order.get("decoupled"))
        # How much of a request's responses may be sent before the client takes them; 0 means no bound.
        self.window = int(order.get("window") or 0)
        # Names by the index in tensor entries.
        self.input_names: list[str] = list(order.get("inputs") or ())
        self.output_names: list[str] = list(order.get("outputs") or ())
        self.output_index = {name: index for index, name in enumerate(self.output_names)}
        # Where this process writes which batch the instance begins; None when nothing is sent ahead.
        self.board = connection.segments.words(order.get("board"))

    def begins(self, call: int) -> bool:
        """Writes on the board that a batch begins; False, and the server is told, where it has recalled the batch."""
        board = self.board
        assert board is not None
        # In this order: what the server recalls at this moment, it sees begun, or it is seen here.
        board[0] = call
        if call > board[RECALLED]:
            return True
        self.link.writer.send(frame(NOT_BEGUN, self.instance, call))
        return False
