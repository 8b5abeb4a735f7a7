"""The names of pytriton.utils.distribution that mean something here: the server is one binary inside ``neso``."""

from __future__ import annotations

import pathlib

__all__ = ["get_root_module_path"]


def get_root_module_path() -> pathlib.Path:
    """The folder of the package ``pytriton``."""
    return pathlib.Path(__file__).resolve().parent.parent
