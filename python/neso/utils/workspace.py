"""A folder for the files of one Triton object."""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
import warnings
from typing import Optional, Union


class CleanupWarning(UserWarning):
    """A folder could not be removed."""


def home() -> pathlib.Path:
    """Where workspaces without a path are made: PYTRITON_HOME, else the user's cache folder."""
    if os.environ.get("PYTRITON_HOME"):
        return pathlib.Path(os.environ["PYTRITON_HOME"])
    cache = os.environ.get("XDG_CACHE_HOME")
    return (pathlib.Path(cache) if cache else pathlib.Path.home() / ".cache") / "pytriton"


class Workspace:
    """Made when it is first asked for without a path, at once with one."""

    def __init__(self, workspace_path: Optional[Union[str, pathlib.Path]] = None) -> None:
        """``workspace_path`` must not exist yet: FileExistsError."""
        self._path: Optional[pathlib.Path] = None
        if workspace_path is not None:
            path = pathlib.Path(workspace_path).resolve()
            path.mkdir(parents=True)
            self._path = path

    @property
    def path(self) -> pathlib.Path:
        """The folder."""
        if self._path is None:
            base = home()
            base.mkdir(parents=True, exist_ok=True)
            self._path = pathlib.Path(tempfile.mkdtemp(prefix="workspace_", dir=base))
        return self._path

    def exists(self) -> bool:
        """Whether the folder is there."""
        return self._path is not None and self._path.exists()

    def is_empty(self) -> bool:
        """Whether nothing is in it."""
        return not self.exists() or not any(self.path.iterdir())

    def clean(self) -> None:
        """Removes the folder; warns when that fails."""
        if not self.exists():
            return
        try:
            shutil.rmtree(self.path)
        except OSError as error:
            warnings.warn(f"Could not clean workspace {self._path}: {error}", CleanupWarning, stacklevel=2)
