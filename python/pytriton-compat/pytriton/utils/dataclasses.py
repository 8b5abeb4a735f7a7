"""The names of pytriton.utils.dataclasses."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["kwonly_dataclass"]


def kwonly_dataclass(cls: type[Any]) -> type[Any]:
    """A dataclass whose fields are given by name only."""
    made = dataclasses.dataclass(cls)
    init = made.__init__

    def by_name(self: Any, *positional: Any, **fields: Any) -> None:
        if positional:
            raise TypeError(f"{cls.__name__} initialization can't be used with positional arguments")
        init(self, **fields)

    made.__init__ = by_name  # type: ignore[method-assign]
    return made
