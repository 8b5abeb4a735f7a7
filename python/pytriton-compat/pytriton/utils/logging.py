"""The names of pytriton.utils.logging."""

from __future__ import annotations

import logging

__all__ = ["silence_3rd_party_loggers"]


def silence_3rd_party_loggers() -> None:
    """Libraries below this package log warnings only."""
    for name in ("asyncio", "grpc", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)
