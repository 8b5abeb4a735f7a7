"""Writes the models of a program as a model repository."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

RECORDER = Path(__file__).with_name("models") / "recorder.py"
ENUM = re.compile(r"(TYPE|KIND|CONTROL_SEQUENCE|FORMAT|MODE|BATCH|MODEL_RATE)_[A-Z0-9_]+|REJECT|DELAY")
MAPS = {
    "parameters",
    "input_map",
    "output_map",
    "priority_queue_policy",
    "metric_tags",
    "inputs",
    "cc_model_filenames",
}


def text(message: dict[str, Any], indent: str = "") -> str:
    """A message as protobuf's text format. Values of enumerations are strings of their own words."""
    lines = []
    for name, value in message.items():
        if name in MAPS and isinstance(value, dict):
            value = [{"key": key, "value": v} for key, v in value.items()]
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                lines.append(f"{indent}{name} {{\n{text(one, indent + '  ')}{indent}}}\n")
            elif isinstance(one, str) and not (ENUM.fullmatch(one) and name not in ("key", "name")):
                lines.append(f"{indent}{name}: {json.dumps(one)}\n")
            else:
                lines.append(f"{indent}{name}: {one if isinstance(one, str) else json.dumps(one)}\n")
    return "".join(lines)


def full_config(model: dict[str, Any]) -> dict[str, Any]:
    """The configuration with the model's name and its behaviour."""
    config = {"name": model["name"], **model["config"]}
    if "behaviour" in model:
        behaviour = {"behaviour": {"string_value": json.dumps(model["behaviour"])}}
        config["parameters"] = {**config.get("parameters", {}), **behaviour}
    return config


def write(repository: Path, model: dict[str, Any], sealed: bool = False) -> None:
    """The folder of one model, anew. sealed: Python puts no byte code there, which Triton takes for a change of the model."""
    folder = repository / model["name"]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.pbtxt").write_text(model["text"] if "text" in model else text(full_config(model)))
    for version in model.get("versions", ["1"]):
        (folder / str(version)).mkdir()
        if "behaviour" in model:
            shutil.copy(RECORDER, folder / str(version) / "model.py")
        if sealed:
            (folder / str(version) / "__pycache__").touch()
