"""The head of a request block, and the walk over the blocks of an EXECUTE body.

Workers (``received``) and processes with bound callables make different objects of the same bytes: both keep the
fixed fields as one tuple and the place of the texts, and read a text only when asked.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, TypeVar

from .frames import ONLY_REQUESTED, PAIR, REQUEST, U16, ProtocolError

# Places in the tuple of a request block.
HANDLE, CORRELATION, TIMEOUT, PRIORITY, FLAGS = 0, 1, 2, 3, 4
INPUTS, REQUESTED, ID, CORRELATION_TEXT, PARAMETERS, TRACE = 6, 7, 8, 9, 10, 11


class RequestHead:
    """What the head of a request says. A subclass has the three slots."""

    __slots__ = ()

    # The fields of the block, the bytes that the texts lie in, and where they begin.
    _head: tuple[int, ...]
    _data: Any
    _at: int

    def _text(self, place: int) -> str:
        """The text whose length is at this place."""
        head = self._head
        start = self._at + sum(head[ID:place])
        return str(self._data[start : start + head[place]], "utf-8", "replace")

    def _wanted(self) -> Optional[list[int]]:
        """Indices of the wanted outputs, None for all."""
        head = self._head
        if not head[FLAGS] & ONLY_REQUESTED:
            return None
        start = self._at + sum(head[ID:])
        return [U16.unpack_from(self._data, start + 2 * i)[0] for i in range(head[REQUESTED])]


Head = TypeVar("Head", bound=RequestHead)


def walk(kind: type[Head], data: Any, base: int, end: int, read: Callable[[Head, int], int]) -> list[Head]:
    """The requests of an EXECUTE body that lies at data[base:end].

    ``read(request, pos)`` takes the inputs of a request, whose entries begin at ``pos``, and returns where they end.
    Raises ProtocolError for what does not lie inside the body.
    """
    new, unpack = kind.__new__, REQUEST.unpack_from
    requests: list[Head] = []
    pos = base
    try:
        count, _ = PAIR.unpack_from(data, base)
        pos = base + 8
        for _ in range(count):
            request = new(kind)
            request._head = head = unpack(data, pos)
            pos += 56
            request._at = pos
            request._data = data
            extra = head[8] + head[9] + head[10] + head[11] + 2 * head[7]
            if extra or pos - base & 7:  # a block that follows a name begins anywhere
                pos += extra
                pos += base - pos & 7
            pos = read(request, pos)
            requests.append(request)
        if pos > end:
            raise ProtocolError(f"execute: {count} requests end at offset {pos - base} of a body of {end - base}")
    except ProtocolError:
        raise
    except Exception as error:
        raise ProtocolError(f"execute: request {len(requests)} at offset {pos - base}: {error}") from None
    return requests
