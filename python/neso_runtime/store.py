"""Where a worker puts what is too large for a frame: blocks of shared memory, more of it when needed."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from .calls import Calls
from .errors import TritonModelException
from .frames import FAILED, GROW, GROW_BODY, frame
from .link import Link
from .memory import Outputs

_MIN_GROWTH, _MAX_GROWTH = 1 << 20, 256 << 20


class Store:
    """Takes blocks and fills them; any thread may use it."""

    def __init__(self, link: Link, outputs: Outputs, calls: Calls) -> None:
        self._link, self._outputs, self._calls = link, outputs, calls

    def put(self, data: np.ndarray) -> tuple[int, int]:
        """Copies a flat array of bytes into a block, (segment, offset); asks the server for more memory if needed."""
        with self._link.changed:
            block = self._outputs.take(data.size)
        while block is None:
            block = self._grow(data.size)
        self._outputs.write(block, data)
        return block

    def place(self, data: Any) -> tuple[int, int]:
        """Where a payload lies for the server."""
        return self.put(flat(data))

    def _grow(self, size: int) -> Optional[tuple[int, int]]:
        """Asks for a segment; returns a block, or None when another thread took what came."""
        outputs = self._outputs
        want = max(size + 4096, _MIN_GROWTH, min(outputs.capacity(), _MAX_GROWTH))
        block, refusal = grow(self._link, self._calls, outputs, size, GROW_BODY.pack(want))
        if refusal is not None:
            raise TritonModelException(f"No memory for a tensor of {size} bytes: {refusal}")
        return block


def grow(
    link: Link, calls: Calls, outputs: Outputs, size: int, body: bytes
) -> tuple[Optional[tuple[int, int]], Optional[str]]:
    """Asks for a segment with the body of a GROW; returns a block in it, None when another thread took what came, and
    the server's reason if it refuses."""
    answers = calls.answers
    before = outputs.capacity()
    call = calls.new()
    link.writer.send(frame(GROW, 0, call, body))

    taken: list[tuple[int, int]] = []

    # The answer of success is SEGMENT, which names no call. Whoever wakes the thread that waits asks too, so a block is
    # kept from the first time on.
    def grown() -> Any:
        block = taken[0] if taken else outputs.take(size)
        if block is not None:
            taken[:] = [block]
            return "taken", block
        if call in answers:
            return "refused", None
        return outputs.capacity() > before and ("missed", None)

    state, block = link.wait(grown)
    answer = answers.pop(call, None)
    if state == "refused" and answer is not None and answer[0] == FAILED:
        return None, str(answer[1].get("message", ""))
    return block, None


def flat(data: Any) -> np.ndarray:
    """Any payload as a flat array of bytes."""
    if type(data) is bytes:
        return np.frombuffer(data, np.uint8)
    made: np.ndarray = data.reshape(-1).view(np.uint8)
    return made
