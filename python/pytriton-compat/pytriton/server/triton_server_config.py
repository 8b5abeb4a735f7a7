"""TritonServerConfig: options of the server by name."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

from neso.config import TritonConfig
from neso.exceptions import PyTritonError

_KEYS = (
    *(f.name.replace("_", "-") for f in dataclasses.fields(TritonConfig) if f.name in TritonConfig().to_dict()),
    "model-control-mode",
    "load-model",
    "backend-directory",
    "backend-config",
    "repository-poll-secs",
    "allow-soft-placement",
    "cuda-memory-pool-byte-size",
    "disable-auto-complete-config",
    "gpu-memory-fraction",
    "log-error",
    "log-format",
    "log-info",
    "log-warning",
    "min-supported-compute-capability",
    "model-store",
    "pinned-memory-pool-byte-size",
    "reuse-grpc-port",
    "reuse-http-port",
    "strict-model-config",
    "tensorflow-version",
)


class TritonServerConfig:
    """Options of the server, with dashes or underscores."""

    def __init__(self) -> None:
        """Makes an empty one."""
        self._args: dict[str, Any] = {}

    @classmethod
    def allowed_keys(cls) -> list[str]:
        """Names of options, both spellings."""
        return [*_KEYS, *(key.replace("-", "_") for key in _KEYS)]

    def update_config(self, params: dict[str, Any] | None = None) -> None:
        """Sets several."""
        for key, value in (params or {}).items():
            self[key.strip().replace("_", "-")] = value

    def _pairs(self) -> Iterator[tuple[str, Any]]:
        for key, value in self._args.items():
            for item in value if isinstance(value, (list, tuple)) else [value]:
                if item is not None:
                    yield f"--{key}", item

    def to_args_list(self) -> list[str]:
        """As arguments: an option, then its value."""
        return [str(part) for pair in self._pairs() for part in pair]

    def to_cli_string(self) -> str:
        """As one line, ``--option=value``."""
        return " ".join(f"{option}={value}" for option, value in self._pairs())

    def copy(self) -> TritonServerConfig:
        """One of its own."""
        return copy.deepcopy(self)

    def server_args(self) -> dict[str, Any]:
        """All options."""
        return self._args

    def __getitem__(self, key: str) -> Any:
        """An option, None when it is not set."""
        return self._args.get(key.replace("_", "-"))

    def __setitem__(self, key: str, value: Any) -> None:
        """Sets an option. Raises PyTritonError for an unknown name."""
        name = key.replace("_", "-")
        if name not in _KEYS:
            raise PyTritonError(
                f"The argument '{key}' to the Triton Inference Server is not supported by the pytriton."
            )
        self._args[name] = value

    def __contains__(self, key: str) -> bool:
        """Whether an option is set."""
        return self[key] is not None
