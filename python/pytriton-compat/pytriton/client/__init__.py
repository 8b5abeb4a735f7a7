"""The names of pytriton.client."""

from neso.client import (
    AsyncioDecoupledModelClient,
    AsyncioModelClient,
    DecoupledModelClient,
    FuturesModelClient,
    ModelClient,
)

from . import asyncio_utils, auth, client, exceptions, utils, warnings
from .exceptions import *  # noqa: F403

__all__ = [
    "AsyncioDecoupledModelClient",
    "AsyncioModelClient",
    "DecoupledModelClient",
    "FuturesModelClient",
    "ModelClient",
    "asyncio_utils",
    "auth",
    "client",
    "exceptions",
    "utils",
    "warnings",
]
