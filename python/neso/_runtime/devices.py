"""What the process of a user has on GPUs, as far as the server is concerned: nothing."""

from __future__ import annotations

from typing import Any

from neso_worker.devices import Devices


class NoDevices(Devices):
    """The server lends no memory of GPUs to the process of a user: tensors there are copied to the host."""

    def tell(self) -> bool:
        """Tells the server nothing."""
        return False

    def put(self, memory: Any) -> None:
        """Has no place."""
