"""ModelConfig: what auto_complete_config reads and extends."""

from __future__ import annotations

import json
from typing import Any, Union

_WHERE = "in auto-complete-config function for model"


class ModelConfig:
    """A model configuration to be completed. Every method keeps what the user configured, or raises ValueError."""

    def __init__(self, model_config: Union[str, dict[str, Any]]) -> None:
        """Of a configuration as JSON, as Triton's, or as a dictionary, which is kept and not copied."""
        self._model_config = model_config if isinstance(model_config, dict) else json.loads(model_config)

    def as_dict(self) -> dict[str, Any]:
        """The configuration itself, not a copy."""
        return self._model_config

    def _name(self) -> str:
        return self._model_config.get("name", "")

    def set_max_batch_size(self, max_batch_size: int) -> None:
        """Raises the maximum batch size; it cannot be lowered."""
        configured = self._model_config.get("max_batch_size", 0)
        if configured > max_batch_size:
            raise ValueError(
                f"configuration specified max_batch_size {configured}, but {_WHERE} '{self._name()}' specified "
                f"max_batch_size {max_batch_size}"
            )
        self._model_config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self) -> None:
        """Turns on the dynamic batcher with its defaults, unless it is configured."""
        for choice in ("sequence_batching", "ensemble_scheduling"):
            if self._model_config.get(choice) is not None:
                raise ValueError(
                    f"Configuration specified scheduling_choice as '{choice}', but auto-complete-config function for "
                    f"model '{self._name()}' tries to set scheduling_choice as 'dynamic_batching'"
                )
        if self._model_config.get("dynamic_batching") is None:
            self._model_config["dynamic_batching"] = {}

    def add_input(self, input: dict[str, Any]) -> None:
        """Adds an input; one that is configured already must agree."""
        self._add("input", input, ("name", "data_type", "dims", "optional"))

    def add_output(self, output: dict[str, Any]) -> None:
        """Adds an output; one that is configured already must agree."""
        self._add("output", output, ("name", "data_type", "dims"))

    def _add(self, kind: str, tensor: dict[str, Any], allowed: tuple[str, ...]) -> None:
        model = self._name()
        if any(key not in allowed for key in tensor):
            names = ", ".join(f"'{key}'" for key in allowed[:-1])
            raise ValueError(
                f"{kind} '{tensor.get('name', '')}' {_WHERE} '{model}' contains property other than {names} and "
                f"'{allowed[-1]}'."
            )
        if "name" not in tensor:
            raise ValueError(f"{kind} {_WHERE} '{model}' is missing 'name' property.")
        name = tensor["name"]
        for key in ("data_type", "dims"):
            if key not in tensor:
                raise ValueError(f"{kind} '{name}' {_WHERE} '{model}' is missing '{key}' property.")
        tensors = self._model_config.setdefault(kind, [])
        for configured in tensors:
            if configured.get("name") == name:
                self._merge(kind, configured, tensor)
                return
        tensors.append(tensor)

    def _merge(self, kind: str, configured: dict[str, Any], tensor: dict[str, Any]) -> None:
        model, name = self._name(), tensor["name"]
        have, want = configured.get("data_type"), tensor["data_type"]
        if have is not None and have != "TYPE_INVALID" and have != want:
            raise ValueError(
                f"unable to load model '{model}', configuration expects datatype {have} for {kind} '{name}', model "
                f"provides {want}"
            )
        dims, model_dims = configured.get("dims"), tensor["dims"]
        if dims and list(dims) != list(model_dims):
            raise ValueError(
                f"model '{model}', tensor '{name}': the model expects dims {model_dims} but the model configuration "
                f"specifies dims {dims}"
            )
        if "optional" in configured and "optional" in tensor and configured["optional"] != tensor["optional"]:
            raise ValueError(
                f"model '{model}', tensor '{name}': the model expects optional {tensor['optional']} but the model "
                f"configuration specifies optional {configured['optional']}"
            )
        configured.update(tensor)

    def set_model_transaction_policy(self, transaction_policy_dict: dict[str, Any]) -> None:
        """Sets the transaction policy; a configured one cannot be changed."""
        if any(key != "decoupled" for key in transaction_policy_dict):
            raise ValueError(
                f"model transaction property {_WHERE} '{self._name()}' contains property other than 'decoupled'."
            )
        policy = self._model_config.get("model_transaction_policy")
        if policy is None:
            self._model_config["model_transaction_policy"] = transaction_policy_dict
            return
        configured = policy.get("decoupled")
        wanted = transaction_policy_dict.get("decoupled")
        if configured is not None and wanted is not None and configured != wanted:
            raise ValueError(
                f"trying to change decoupled property in auto-complete-config for model '{self._name()}', which is "
                f"already set to '{configured}'."
            )
        policy.update(transaction_policy_dict)
