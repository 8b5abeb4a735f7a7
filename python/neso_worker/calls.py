"""Calls out of the worker: orders to the server that are answered by READY or FAILED."""

from __future__ import annotations

import itertools
from typing import Any

from .channel import Closed, Frame, Link, end_text
from .errors import TritonModelException
from .frames import FAILED, ProtocolError, json_body, json_frame


class Calls:
    """Numbers calls and keeps their answers until they are fetched."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._numbers = itertools.count(1)
        # Kind and value by call; written under the link's lock.
        self.answers: dict[int, tuple[int, dict[str, Any]]] = {}
        # Calls whose answer nobody waits for.
        self._ignored: set[int] = set()

    def new(self) -> int:
        """A number for a call."""
        return next(self._numbers)

    def on_answer(self, frame: Frame) -> None:
        """Handles READY and FAILED; runs under the link's lock."""
        kind, _, call, data, start, end = frame
        if call in self._ignored:
            self._ignored.discard(call)
            return
        value = json_body(data, start, end) if end > start else {}
        self.answers[call] = (kind, value if isinstance(value, dict) else {})

    def order(self, kind: int, value: dict[str, Any], failed: str) -> dict[str, Any]:
        """Sends an order and returns what READY says; FAILED raises, with the text ``failed`` before its message."""
        call = self.new()
        try:
            self._link.writer.send(json_frame(kind, 0, call, value))
            self._link.wait(lambda: call in self.answers)
        except (Closed, ProtocolError) as error:
            raise TritonModelException(f"{failed}{end_text(error)}") from None
        answered, answer = self.answers.pop(call)
        if answered == FAILED:
            raise TritonModelException(f"{failed}{answer.get('message', '')}")
        return answer

    def tell(self, kind: int, value: dict[str, Any]) -> None:
        """Sends an order whose answer is dropped. Never waits for another sender."""
        call = self.new()
        self._ignored.add(call)
        self._link.writer.defer(json_frame(kind, 0, call, value))
