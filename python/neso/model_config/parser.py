"""From the configuration that a server tells to TritonModelConfig."""

from __future__ import annotations

import json
import pathlib
from typing import Any, Optional

import numpy as np

from ..exceptions import PyTritonModelConfigError
from .common import DeviceKind, DynamicBatcher, ModelWarmup, QueuePolicy, TimeoutAction, WarmupInput
from .datatypes import NUMPY
from .triton_model_config import ResponseCache, TensorSpec, TritonModelConfig


def _either(fields: dict[str, Any], name: str, default: Any = None) -> Any:
    """A field by its name in snake case or camel case."""
    head, *rest = name.split("_")
    camel = head + "".join(part.capitalize() for part in rest)
    return fields.get(name, fields.get(camel, default))


def _convert_triton_dtype_to_dtype(data_type: str) -> Any:
    """The numpy type of TYPE_…; raises KeyError."""
    return NUMPY[data_type[5:] if data_type.startswith("TYPE_") else data_type]


class ModelConfigParser:
    """Reads model configurations."""

    @classmethod
    def from_dict(cls, model_config_dict: dict[str, Any]) -> TritonModelConfig:
        """Reads the JSON form of the protocol. Raises PyTritonModelConfigError."""
        d = model_config_dict
        inputs = [cls.rewrite_io_spec(item, "input", i) for i, item in enumerate(d.get("input", ()))]
        outputs = [cls.rewrite_io_spec(item, "output", i) for i, item in enumerate(d.get("output", ()))]
        batching = _either(d, "dynamic_batching")
        max_batch_size = int(_either(d, "max_batch_size", 0))
        cache = _either(d, "response_cache")
        policy = _either(d, "model_transaction_policy", {})
        versions = ((_either(d, "version_policy") or {}).get("specific") or {}).get("versions")
        return TritonModelConfig(
            model_name=d["name"],
            model_version=int(versions[0]) if versions else 1,
            batching=max_batch_size > 0,
            max_batch_size=max_batch_size,
            batcher=None if batching is None else _batcher(batching),
            inputs=inputs or None,
            outputs=outputs or None,
            instance_group={
                DeviceKind(g.get("kind", "KIND_CPU")): g.get("count") for g in _either(d, "instance_group", ())
            },
            decoupled=bool(policy.get("decoupled", False)),
            backend_parameters={k: _either(v, "string_value", "") for k, v in d.get("parameters", {}).items()},
            response_cache=ResponseCache(bool(cache.get("enable"))) if cache else None,
            model_warmup=[_warm_up(item) for item in _either(d, "model_warmup", ())] or None,
        )

    @classmethod
    def from_file(cls, *, config_path: pathlib.Path) -> TritonModelConfig:
        """Reads config.pbtxt; needs tritonclient[grpc]."""
        from google.protobuf import json_format, text_format
        from tritonclient.grpc import model_config_pb2

        message = text_format.Parse(pathlib.Path(config_path).read_text(), model_config_pb2.ModelConfig())
        fields = json.loads(json_format.MessageToJson(message, preserving_proto_field_name=True))
        return cls.from_dict(fields)

    @classmethod
    def rewrite_io_spec(cls, item: dict[str, Any], io_type: str, idx: int) -> TensorSpec:
        """One input or output; ``idx`` names it in errors."""
        name = item.get("name")
        if not name:
            raise PyTritonModelConfigError(f"Name for {io_type} at index {idx} not provided.")
        data_type = _either(item, "data_type")
        if not data_type:
            raise PyTritonModelConfigError(f"Data type for {io_type} with name `{name}` not defined.")
        if not data_type.startswith("TYPE_"):
            raise PyTritonModelConfigError(
                f"Invalid data type `{data_type}` for {io_type} with name `{name}` not defined. "
                "The expected name is TYPE_{type}."
            )
        dims = item.get("dims")
        if dims is None:
            raise PyTritonModelConfigError(f"Dimension for {io_type} with name `{name}` not defined.")
        try:
            dtype = _convert_triton_dtype_to_dtype(data_type)
        except KeyError:
            if data_type != "TYPE_BF16":
                raise PyTritonModelConfigError(
                    f"Unsupported data type `{data_type}` for {io_type} with name `{name}`"
                ) from None
            dtype = np.float32  # clients carry bfloat16 as FP32 values
        return TensorSpec(name, tuple(int(x) for x in dims), dtype, bool(item.get("optional", False)))


def _warm_up(d: dict[str, Any]) -> ModelWarmup:
    return ModelWarmup(
        name=d.get("name", ""),
        batch_size=int(_either(d, "batch_size", 0)),
        inputs={
            name: WarmupInput(
                dtype=_convert_triton_dtype_to_dtype(_either(item, "data_type")),
                shape=tuple(int(x) for x in item.get("dims", ())),
                zero_data=bool(_either(item, "zero_data", False)),
                random_data=bool(_either(item, "random_data", False)),
                input_data_file=_either(item, "input_data_file"),
            )
            for name, item in d.get("inputs", {}).items()
        },
        count=int(d.get("count", 0)),
    )


def _policy(d: dict[str, Any]) -> QueuePolicy:
    action = _either(d, "timeout_action", "REJECT")
    return QueuePolicy(
        timeout_action=TimeoutAction(action) if isinstance(action, str) else list(TimeoutAction)[action],
        default_timeout_microseconds=int(_either(d, "default_timeout_microseconds", 0)),
        allow_timeout_override=bool(_either(d, "allow_timeout_override", False)),
        max_queue_size=int(_either(d, "max_queue_size", 0)),
    )


def _batcher(d: dict[str, Any]) -> DynamicBatcher:
    default: Optional[dict[str, Any]] = _either(d, "default_queue_policy")
    policies = _either(d, "priority_queue_policy")
    return DynamicBatcher(
        max_queue_delay_microseconds=int(_either(d, "max_queue_delay_microseconds", 0)),
        preferred_batch_size=_either(d, "preferred_batch_size") or None,
        preserve_ordering=bool(_either(d, "preserve_ordering", False)),
        priority_levels=int(_either(d, "priority_levels", 0)),
        default_priority_level=int(_either(d, "default_priority_level", 0)),
        default_queue_policy=_policy(default) if default else None,
        priority_queue_policy={int(k): _policy(v) for k, v in policies.items()} if policies else None,
    )
