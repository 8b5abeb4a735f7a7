"""Where outputs of a user's process go that are too large for a frame."""

from __future__ import annotations

from typing import Any

import numpy as np

from neso_runtime.store import Store, flat

from .memory import Block, SharedOutputs


class BoundStore(Store):
    """The worker's store, which also knows arrays that lie in output memory already."""

    _outputs: SharedOutputs

    def place(self, data: Any) -> Block:
        """Where a payload lies for the server: copied, unless it was allocated there."""
        if type(data) is not bytes:
            with self._link.changed:
                block = self._outputs.find(data)
            if block is not None:
                return block
        return self.put(flat(data))

    def bytes(self, size: int) -> np.ndarray[Any, Any]:
        """A new block as an array of bytes that owns it."""
        with self._link.changed:
            block = self._outputs.take(size)
        while block is None:
            block = self._grow(size)
        with self._link.changed:
            return self._outputs.array(block, size)
