"""HTTP: any request of a program, and what came back."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any

from ..program import Answer, Step
from . import tensors

TIMEOUT = 30.0


def infer_body(step: Step) -> tuple[bytes, dict[str, str]]:
    """Body and headers of an infer step, as JSON alone or with the tensors behind it."""
    binary = step["form"] == "http-binary"
    inputs, tail = [], b""
    for tensor in step["inputs"]:
        made = {"name": tensor["name"], "datatype": tensor["datatype"], "shape": tensor["shape"]}
        if binary:
            raw = tensors.to_bytes(tensor["datatype"], tensor["data"])
            made["parameters"] = {"binary_data_size": len(raw)}
            tail += raw
        else:
            made["data"] = tensor["data"]
        inputs.append(made)
    head: dict[str, Any] = {"inputs": inputs}
    if step.get("id"):
        head["id"] = step["id"]
    parameters = dict(step.get("parameters", {}))
    if "outputs" in step:
        head["outputs"] = [{"name": name, "parameters": {"binary_data": binary}} for name in step["outputs"]]
    elif binary:
        parameters["binary_data_output"] = True
    if parameters:
        head["parameters"] = parameters
    text = json.dumps(head).encode()
    headers = {"Content-Type": "application/octet-stream" if binary else "application/json", **step.get("headers", {})}
    if binary:
        headers["Inference-Header-Content-Length"] = str(len(text))
    return text + tail, headers


def infer_path(step: Step) -> str:
    version = f"/versions/{step['version']}" if step.get("version") else ""
    return f"/v2/models/{step['model']}{version}/infer"


def call(port: int, method: str, path: str, body: bytes | str | None, headers: dict[str, str]) -> Answer:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    try:
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        return read(response.status, dict(response.getheaders()), response.read())
    except socket.timeout:
        return {"error": "no answer in time"}
    except (OSError, http.client.HTTPException) as error:
        return {"error": f"connection lost: {type(error).__name__}"}
    finally:
        connection.close()


def read(status: int, headers: dict[str, str], body: bytes) -> Answer:
    lower = {k.lower(): v for k, v in headers.items()}
    answer: dict[str, Any] = {"status": status}
    size = lower.get("inference-header-content-length")
    text, tail = (body, b"") if size is None else (body[: int(size)], body[int(size) :])
    try:
        parsed = json.loads(text) if text else None
    except ValueError:
        return {**answer, "text": body.decode("latin-1")[:500]}
    if isinstance(parsed, dict) and set(parsed) == {"error"}:
        return {**answer, "error": parsed["error"]}
    if isinstance(parsed, dict) and "outputs" in parsed and "model_version" in parsed:
        return {**answer, **read_outputs(parsed, tail)}
    return {**answer, "json": parsed}


def read_outputs(parsed: dict[str, Any], tail: bytes) -> Answer:
    outputs = {}
    for output in parsed["outputs"]:
        parameters = dict(output.get("parameters", {}))
        if "binary_data_size" in parameters:
            size = parameters.pop("binary_data_size")
            data, tail = tensors.from_bytes(output["datatype"], tail[:size]), tail[size:]
        else:
            data = output.get("data")
            if output["datatype"] == "BYTES":
                data = [v.encode("utf-8", "surrogatepass").decode("latin-1") for v in data]
        outputs[output["name"]] = [output["datatype"], output["shape"], data, parameters]
    rest = {k: v for k, v in parsed.items() if k != "outputs"}
    return {**rest, "order": [o["name"] for o in parsed["outputs"]], "outputs": outputs, "left": len(tail)}
