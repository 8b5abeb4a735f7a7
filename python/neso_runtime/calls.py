"""Calls out of the worker: orders to the server that are answered by READY or FAILED."""

from __future__ import annotations

import itertools
from typing import Any, Optional

from .channel import Closed, Frame, end_text
from .errors import TritonModelException
from .frames import FAILED, ProtocolError, json_body, json_frame
from .link import Link, TimedOut


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

    def ask(self, kind: int, value: dict[str, Any], deadline: Optional[float] = None) -> tuple[int, dict[str, Any]]:
        """Sends an order and returns its answer: READY or FAILED, with what it says. Raises as the link does."""
        call = self.new()
        self._link.writer.send(json_frame(kind, 0, call, value))
        try:
            self._link.wait(lambda: call in self.answers, deadline)
        except TimedOut:
            self._ignored.add(call)
            raise
        return self.answers.pop(call)

    def order(self, kind: int, value: dict[str, Any], failed: str) -> dict[str, Any]:
        """Sends an order and returns what READY says; FAILED raises, with the text ``failed`` before its message."""
        try:
            answered, answer = self.ask(kind, value)
        except (Closed, ProtocolError) as error:
            raise TritonModelException(f"{failed}{end_text(error)}") from None
        if answered == FAILED:
            raise TritonModelException(f"{failed}{answer.get('message', '')}")
        return answer

    def tell(self, kind: int, value: dict[str, Any]) -> None:
        """Sends an order whose answer is dropped. Never waits for another sender."""
        call = self.new()
        self._ignored.add(call)
        self._link.writer.defer(json_frame(kind, 0, call, value))
