"""gRPC: unary calls and streams by the protocol's messages."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf import json_format
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc as service

from ..program import Answer, Step
from . import tensors

TIMEOUT = 30.0


def set_parameter(target: Any, name: str, value: Any) -> None:
    if isinstance(value, bool):
        target[name].bool_param = value
    elif isinstance(value, int) and value >= 2**63:
        target[name].uint64_param = value
    elif isinstance(value, int):
        target[name].int64_param = value
    elif isinstance(value, float):
        target[name].double_param = value
    else:
        target[name].string_param = str(value)


def infer_request(step: Step) -> Any:
    request = messages.ModelInferRequest(model_name=step["model"], model_version=str(step.get("version", "")))
    request.id = step.get("id", "")
    for name, value in step.get("parameters", {}).items():
        set_parameter(request.parameters, name, value)
    for tensor in step["inputs"]:
        made = request.inputs.add(name=tensor["name"], datatype=tensor["datatype"])
        made.shape.extend(tensor["shape"])
        request.raw_input_contents.append(tensors.to_bytes(tensor["datatype"], tensor["data"]))
    for name in step.get("outputs", []):
        request.outputs.add(name=name)
    return request


def parameter(value: Any) -> Any:
    kind = value.WhichOneof("parameter_choice")
    return None if kind is None else getattr(value, kind)


def read_response(response: Any) -> Answer:
    outputs = {}
    for number, output in enumerate(response.outputs):
        raw = response.raw_output_contents[number] if number < len(response.raw_output_contents) else b""
        parameters = {k: parameter(v) for k, v in output.parameters.items()}
        data = tensors.from_bytes(output.datatype, raw)
        outputs[output.name] = [output.datatype, list(output.shape), data, parameters]
    return {
        "model_name": response.model_name,
        "model_version": response.model_version,
        "id": response.id,
        "parameters": {k: parameter(v) for k, v in sorted(response.parameters.items())},
        "order": [o.name for o in response.outputs],
        "outputs": outputs,
    }


def failure(error: grpc.RpcError) -> Answer:
    return {"code": error.code().name, "error": error.details()}


class Client:
    """A connection of one thread."""

    def __init__(self, port: int):
        options = [("grpc.use_local_subchannel_pool", 1)]
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=options)
        self.stub = service.GRPCInferenceServiceStub(self.channel)

    def close(self) -> None:
        self.channel.close()

    def infer(self, step: Step) -> Answer:
        try:
            return read_response(self.stub.ModelInfer(infer_request(step), timeout=TIMEOUT))
        except grpc.RpcError as error:
            return failure(error)

    def begin(self, step: Step) -> Any:
        """A call that runs, to be cancelled."""
        return self.stub.ModelInfer.future(infer_request(step), timeout=TIMEOUT)

    def ask(self, method: str, fields: dict[str, Any]) -> Answer:
        """Any other unary method, its request and response as JSON."""
        kind = {"ModelReady": "ModelReadyRequest", "RepositoryModelLoad": "RepositoryModelLoadRequest"}.get(method)
        request = getattr(messages, kind or f"{method}Request")()
        json_format.ParseDict(fields, request)
        try:
            response = getattr(self.stub, method)(request, timeout=TIMEOUT)
        except grpc.RpcError as error:
            return failure(error)
        return json_format.MessageToDict(
            response, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )

    def stream(self, requests: list[Step]) -> Answer:
        """One stream: everything is sent, then all that comes until each request has had its final response."""
        waiting: queue.Queue[Any] = queue.Queue()

        def ahead() -> Iterator[Any]:
            while (item := waiting.get()) is not None:
                yield item

        call = self.stub.ModelStreamInfer(ahead(), timeout=TIMEOUT)
        for step in requests:
            request = infer_request(step)
            request.parameters["triton_enable_empty_final_response"].bool_param = True
            waiting.put(request)
        open_ids = {step["id"] for step in requests}
        got: dict[str, list[Answer]] = {name: [] for name in sorted(open_ids)}
        try:
            for message in call:
                answer = read_response(message.infer_response)
                name = answer.pop("id")
                if message.error_message:
                    # The peer ends a request by an error; a model that goes on after one is answered no more.
                    answer = {"error": message.error_message}
                    open_ids.discard(name)
                elif answer["parameters"].get("triton_final_response"):
                    open_ids.discard(name)
                got.setdefault(name, []).append(answer)
                if not open_ids:
                    break
        except grpc.RpcError as error:
            got["the call"] = [failure(error)]
        waiting.put(None)
        call.cancel()
        return got
