"""The server in this process."""

from __future__ import annotations

import ctypes
import json
import time
from typing import Any, Optional, Union

from . import _library
from ._enums import MetricFormat
from ._errors import InvalidArgumentError, UnavailableError
from ._model import Model, ModelDictionary
from ._options import Options
from ._parameters import parameters
from ._running import Running

# The states of models that are not loaded; None is one that never was.
_UNLOADED = (None, "UNAVAILABLE")


class Server:
    """A server in this process, without ports. A process may have several; every thread may use them.

    It ends with ``stop``, with the ``with`` block, when nothing refers to it nor its models and iterators any more, or
    with the program. All calls but ``start`` raise InvalidArgumentError while it does not run, and the library's
    errors.
    """

    def __init__(self, options: Optional[Options] = None, **fields: Any) -> None:
        """A server that has not been started. The arguments are the fields of Options, checked by ``start``."""
        self.options = Options(**fields) if options is None else options
        self._started: Optional[Running] = None

    @property
    def _running(self) -> Running:
        if self._started is None:
            raise InvalidArgumentError("Server not started")
        return self._started

    def __enter__(self) -> Server:
        """Starts the server unless it runs."""
        return self if self._started is not None else self.start()

    def __exit__(self, *_: object) -> None:
        """Stops it unless that was done."""
        if self._started is not None:
            self.stop()

    def start(
        self, wait_until_ready: bool = False, polling_interval: float = 0.1, timeout: Optional[float] = None
    ) -> Server:
        """Starts the server and loads its models.

        With ``wait_until_ready`` it returns when the server is ready, which is looked at every ``polling_interval``
        seconds; after ``timeout`` seconds UnavailableError is raised, and the server runs on. Raises
        FileNotFoundError where the library is not found, InvalidArgumentError when the server runs or an option cannot
        be, TypeError for an option of another type, InternalError when a model cannot be loaded.
        """
        if self._started is not None:
            raise InvalidArgumentError("Server already started")
        options = self.options.handle()
        try:
            self._started = Running(options)
        finally:
            options.close()
        if wait_until_ready and not _until(self.ready, polling_interval, timeout):
            raise UnavailableError("Timeout before ready")
        return self

    def stop(self) -> None:
        """Stops the server: waits for its requests, cancels them after the exit timeout, and unloads its models.

        Raises InternalError when the exit timeout has passed; the server has ended all the same.
        """
        running, self._started = self._running, None
        running.stop()

    def live(self) -> bool:
        """Whether the server is live."""
        return self._whether("ServerIsLive")

    def ready(self) -> bool:
        """Whether the server can be asked."""
        return self._whether("ServerIsReady")

    def _whether(self, function: str) -> bool:
        answer = ctypes.c_bool()
        self._running.ask(function, ctypes.byref(answer))
        return answer.value

    def metadata(self) -> dict[str, Any]:
        """Name, version and extensions."""
        return dict(self._running.told("ServerMetadata"))

    def metrics(self, metric_format: MetricFormat = MetricFormat.PROMETHEUS) -> str:
        """The metrics of the server, and the custom ones of the process, in the text format of Prometheus."""
        made, base, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        self._running.ask("ServerMetrics", ctypes.byref(made))
        try:
            _library.call("MetricsFormatted", made, metric_format, ctypes.byref(base), ctypes.byref(size))
            return ctypes.string_at(base.value or 0, size.value).decode() if size.value else ""
        finally:
            _library.call("MetricsDelete", made)

    def model(self, model_name: str, model_version: int = -1) -> Model:
        """A model by its name and version; -1 is what its version policy chooses. Nothing is checked."""
        return Model(self._running, model_name, model_version)

    def models(self, exclude_not_ready: bool = False) -> ModelDictionary:
        """The models of the repositories with their states; the version of one that is not loaded is -1."""
        running = self._running
        index = running.told("ServerModelIndex", 1 if exclude_not_ready else 0) or []
        models = (Model(running, m["name"], int(m.get("version", -1)), m.get("state"), m.get("reason")) for m in index)
        return ModelDictionary(running, models)

    def load(self, model_name: str, parameters: Optional[dict[str, Union[str, int, bool, bytes]]] = None) -> Model:
        """Loads a model, and returns when it is loaded. In mode EXPLICIT.

        The parameter ``config`` is a configuration in JSON, which takes the place of the one in the repository;
        ``file:1/model.py`` and the like are the bytes of files, which take the place of the model's directory. Raises
        InternalError when the model cannot be loaded.
        """
        name = _library.text(model_name, "The name of a model")
        if parameters is None:
            self._running.ask("ServerLoadModel", name)
        else:
            with _named(parameters) as (array, count):
                self._running.ask("ServerLoadModelWithParameters", name, array, count)
        return self.model(model_name)

    def unload(
        self,
        model: Union[str, Model],
        unload_dependents: bool = False,
        wait_until_unloaded: bool = False,
        polling_interval: float = 0.1,
        timeout: Optional[float] = None,
    ) -> None:
        """Unloads a model, and with ``unload_dependents`` those that it brought in. In mode EXPLICIT.

        It returns at once; with ``wait_until_unloaded`` when no version is loaded any more, which is looked at every
        ``polling_interval`` seconds, or after ``timeout`` seconds.
        """
        named = model if isinstance(model, str) else model.name
        name = _library.text(named, "The name of a model")
        self._running.ask("ServerUnloadModelAndDependents" if unload_dependents else "ServerUnloadModel", name)
        if wait_until_unloaded:
            _until(lambda: self._unloaded(named), polling_interval, timeout)

    def _unloaded(self, name: str) -> bool:
        return all(model.state in _UNLOADED for model in self.models().values() if model.name == name)

    def rollout(self, model_name: str, change: Union[str, dict[str, Any], None] = None) -> dict[str, Any]:
        """Which versions of a model get which requests, and what has happened under these rules; Triton has none.

        With ``change`` the rules are changed before, all at once, in mode EXPLICIT: a dict with the sections of
        ``rollout.yaml``, or their text. A section that it lacks stays as it is, and None takes one away. Raises
        InvalidArgumentError for rules that cannot hold, NotFoundError for a model that is not there.
        """
        name = _library.text(model_name, "The name of a model")
        if change is not None:
            text = change if isinstance(change, str) else json.dumps(change)
            self._running.ask("ServerSetModelRollout", name, _library.text(text, "The change of the rules"))
        return dict(self._running.told("ServerModelRollout", name))

    def register_model_repository(self, repository_path: str, name_mapping: Optional[dict[str, str]] = None) -> None:
        """Adds a model repository; ``name_mapping`` gives directories in it another model name. In mode EXPLICIT.

        Raises AlreadyExistsError for one that is there already.
        """
        path = _library.text(repository_path, "repository_path")
        with _named(name_mapping or {}) as (array, count):
            self._running.ask("ServerRegisterModelRepository", path, array, count)

    def unregister_model_repository(self, repository_path: str) -> None:
        """Takes a model repository away. In mode EXPLICIT. Raises InvalidArgumentError for one that is not there."""
        self._running.ask("ServerUnregisterModelRepository", _library.text(repository_path, "repository_path"))

    def poll_model_repository(self) -> None:
        """Looks for changes of the repositories. In mode POLL; raises UnavailableError in others."""
        self._running.ask("ServerPollModelRepository")


# A parameter of ``load`` has its name.
_named = parameters


def _until(done: Any, interval: float, timeout: Optional[float]) -> bool:
    """Waits until it is done; whether it is."""
    end = None if timeout is None else time.monotonic() + timeout
    while not done():
        left = interval if end is None else min(interval, end - time.monotonic())
        if left < 0 or (left == 0 and interval > 0):
            return False
        time.sleep(left)
    return True
