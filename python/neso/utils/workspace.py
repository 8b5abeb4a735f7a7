"""A folder for the files of one Triton object."""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
import warnings
import weakref
from typing import Optional, Union


class CleanupWarning(UserWarning):
    """A folder could not be removed."""


def home() -> pathlib.Path:
    """Where workspaces without a path are made: PYTRITON_HOME, else the user's cache folder."""
    if os.environ.get("PYTRITON_HOME"):
        return pathlib.Path(os.environ["PYTRITON_HOME"])
    cache = os.environ.get("XDG_CACHE_HOME")
    return (pathlib.Path(cache) if cache else pathlib.Path.home() / ".cache") / "pytriton"


def _remove(path: pathlib.Path) -> None:
    if not path.exists():
        return
    try:
        shutil.rmtree(path)
    except OSError as error:
        warnings.warn(f"Could not clean workspace {path}: {error}", CleanupWarning, stacklevel=2)


class Workspace:
    """Made at once, removed by ``clean``, or with the object."""

    def __init__(self, workspace_path: Optional[Union[str, pathlib.Path]] = None) -> None:
        """``workspace_path`` must not exist yet: FileExistsError. Without one a new folder is made in ``home()``."""
        if workspace_path is None:
            base = home()
            base.mkdir(parents=True, exist_ok=True)
            self._workspace_path = pathlib.Path(tempfile.mkdtemp(prefix="workspace_", dir=base)).resolve()
        else:
            self._workspace_path = pathlib.Path(workspace_path).resolve()
            self._workspace_path.mkdir(parents=True)
        # Where PyTriton puts models; scripts may look for it.
        self.model_store_path = self._workspace_path / "model-store"
        self.model_store_path.mkdir()
        self._finalizer = weakref.finalize(self, _remove, self._workspace_path)

    @property
    def path(self) -> pathlib.Path:
        """The folder."""
        return self._workspace_path

    def exists(self) -> bool:
        """Whether the folder is there."""
        return self._workspace_path.exists()

    def is_empty(self) -> bool:
        """Whether nothing is in it."""
        return not self.exists() or not any(self._workspace_path.iterdir())

    def clean(self) -> None:
        """Removes the folder; warns when that fails."""
        _remove(self._workspace_path)
