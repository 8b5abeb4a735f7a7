"""Whom the code of a model asks: the server of its worker, or what stands in where there is none.

A ``model.py`` has nothing to pass on: ``InferenceRequest(...).exec()`` finds the server here.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional


class Asked(NamedTuple):
    """Runs requests for other models (``exec``, ``async_exec``), and obeys orders (``order``, ``tell``)."""

    bls: Any
    calls: Any


_server: Optional[Asked] = None
_stand_in: Optional[Callable[[], Any]] = None


def connect(server: Asked) -> None:
    """Has this one asked from now on."""
    global _server
    _server = server


def without_server(stand_in: Callable[[], Any]) -> None:
    """Says what gives the one that is asked while nothing is connected; it has ``bls`` and ``calls`` too."""
    global _stand_in
    _stand_in = stand_in


def asked() -> Any:
    """Who is asked."""
    if _server is not None:
        return _server
    assert _stand_in is not None  # whoever imports the module of models has set it
    return _stand_in()
