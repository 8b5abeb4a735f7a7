"""The names of pytriton.utils.workspace, from neso.utils.workspace."""

from neso.utils.workspace import (
    CleanupWarning,
    Workspace,
)

__all__ = [
    "CleanupWarning",
    "Workspace",
]
