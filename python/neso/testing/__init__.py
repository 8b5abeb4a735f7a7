"""Tests of a model.py without a server: ``Model("models/add_sub").infer(INPUT0=a, INPUT1=b)``.

What runs is the model's own class in this process, with the configuration that the server would give it. Whole
servers are what ``neso test-model`` and the client libraries are for.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any, Callable, Optional, Union

import numpy as np

from neso_runtime.request import InferenceRequest
from neso_worker import local as _local
from neso_worker import triton_python_backend_utils as pb_utils
from neso_worker.model import complete_config, import_model

from .._server import find_binary
from . import _checks

Arrays = dict[str, np.ndarray[Any, Any]]
# Another model: a function of arrays by input name that returns arrays by output name, or a list of such.
StandIn = Callable[..., Union[Mapping[str, Any], Iterable[Mapping[str, Any]]]]


class ModelError(Exception):
    """A response that is an error."""

    def __init__(self, error: Any) -> None:
        super().__init__(error.message())
        self.code = error.code()


class _Sender:
    """The response sender of a request."""

    def __init__(self, request: _Request) -> None:
        self._request = request

    def send(self, response: Any = None, flags: int = 0) -> None:
        """Sends a response, a final mark, or both."""
        if self._request.final:
            raise pb_utils.TritonModelException("Unable to send response. Response sender has been closed.")
        if response is None and not flags:
            raise pb_utils.TritonModelException(
                "Inference Response object must be provided when the response flags is set to zero."
            )
        if response is not None:
            self._request.responses.append(response)
        self._request.final = bool(flags & pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def is_cancelled(self) -> bool:
        """Whether the test has cancelled the request."""
        return self._request.is_cancelled()


class _Request(InferenceRequest):
    """A request as a model receives it."""

    __slots__ = ("cancelled", "final", "rescheduled", "responses")

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.responses: list[Any] = []
        self.final = self.cancelled = self.rescheduled = False

    def get_response_sender(self) -> Any:
        return _Sender(self)

    def is_cancelled(self) -> bool:
        return self.cancelled

    def set_release_flags(self, flags: int) -> None:
        self.rescheduled = flags == pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE


class Model:
    """A model of a repository, made as the server makes it; ``with`` finalizes it at the end.

    Args:
        path: the model's directory, ``<repository>/<model>``.
        config: its configuration, in place of that of config.pbtxt, which needs the neso binary to be read.
        version: default the highest.
        models: stand-ins for the models that it calls.
        strict: whether answers that are not as configured (a datatype, a shape, a missing output) raise ModelError, as
            a server with --strict-outputs refuses them; the model's parameter ``strict_outputs`` says otherwise. Other
            servers pass them on and say so in their log.
    """

    def __init__(
        self,
        path: Union[str, os.PathLike[str]],
        config: Optional[dict[str, Any]] = None,
        version: Optional[int] = None,
        models: Optional[Mapping[str, StandIn]] = None,
        strict: bool = True,
    ) -> None:
        directory = os.path.abspath(path)
        self.name = os.path.basename(directory)
        if version is None:
            version = max((int(v) for v in os.listdir(directory) if v.isdigit()), default=0)
        folder = os.path.join(directory, str(version))
        self.config: dict[str, Any] = dict(config) if config is not None else _read(directory)
        self._strict = strict
        self._local = _local.Local()
        for name, stand_in in (models or {}).items():
            self._local.models[name] = _stand_in(stand_in)
        self._former = _local.replace(self._local)
        pb_utils._model_dir = folder
        self.model: Any = None
        try:
            file = os.path.join(folder, self.config.get("default_model_filename") or "model.py")
            # Each model is a package of its own, whatever else this process has imported.
            kind = import_model(file, directory, folder, f"neso_testing_{self.name}_{version}")
            completed = complete_config(kind, self.name, self.config)
            if completed is not None:
                self.config = completed
            self.model = kind()
            if hasattr(self.model, "initialize"):
                _finish(self.model.initialize(self._arguments(directory, version)))
        except BaseException:
            self.close()
            raise

    def _arguments(self, directory: str, version: int) -> dict[str, str]:
        return {
            "model_config": json.dumps(self.config),
            "model_instance_kind": "CPU",
            "model_instance_name": f"{self.name}_0_0",
            "model_instance_device_id": "0",
            "model_repository": directory,
            "model_version": str(version),
            "model_name": self.name,
        }

    def request(self, inputs: Mapping[str, Any], outputs: Iterable[str] = (), **fields: Any) -> Any:
        """A request as the model will see it; fields are those of pb_utils.InferenceRequest. Its attribute
        ``cancelled`` can be set."""
        tensors = [pb_utils.Tensor(name, np.asarray(value)) for name, value in inputs.items()]
        names = list(outputs) or [output["name"] for output in self.config.get("output", ())]
        return _Request(inputs=tensors, requested_output_names=names, model_name=self.name, **fields)

    def execute(self, *requests: Any) -> list[list[Any]]:
        """Runs one batch; for each request its responses, pb_utils.InferenceResponse.

        Raises ModelError when there are too few, or when outputs are not as configured; see ``strict``.
        """
        returned = _finish(self.model.execute(list(requests)))
        if returned is not None:
            if len(returned) != len(requests):
                raise ModelError(
                    pb_utils.TritonError(f"execute returned {len(returned)} responses to {len(requests)} requests")
                )
            for request, response in zip(requests, returned):
                if response is not None:
                    request.responses.append(response)
        if _checks.strict(self.config, self._strict):
            for request in requests:
                for response in request.responses:
                    self._check(request, response)
        return [request.responses for request in requests]

    def _check(self, request: Any, response: Any) -> None:
        if not response.has_error():
            faults = _checks.faults(self.name, self.config, request, response.output_tensors())
            if faults:
                raise ModelError(pb_utils.TritonError("; ".join(faults)))

    def infer(self, *, parameters: Optional[dict[str, Any]] = None, **inputs: Any) -> Arrays:
        """Runs one request; its only response as arrays by output name. An error response raises ModelError."""
        (responses,) = self.execute(self.request(inputs, parameters=parameters))
        if len(responses) != 1:
            raise ModelError(pb_utils.TritonError(f"the model sent {len(responses)} responses, expected one"))
        return arrays(responses[0])

    def stream(self, *, parameters: Optional[dict[str, Any]] = None, **inputs: Any) -> list[Arrays]:
        """Runs one request of a decoupled model; all its responses. An error response raises ModelError."""
        (responses,) = self.execute(self.request(inputs, parameters=parameters))
        return [arrays(response) for response in responses]

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric of the model; of a histogram the sum."""
        return self._local.metrics[name, tuple(sorted(labels.items()))].value

    def close(self) -> None:
        """Finalizes the model."""
        model, self.model = self.model, None
        try:
            if model is not None and hasattr(model, "finalize"):
                _finish(model.finalize())
        finally:
            if self._former is not self._local:
                _local.replace(self._former)
                self._former = self._local

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def arrays(response: Any) -> Arrays:
    """The outputs of a response by name; ModelError for an error."""
    if response.has_error():
        raise ModelError(response.error())
    return {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}


def _read(directory: str) -> dict[str, Any]:
    """The configuration as the server completes it before the model is loaded."""
    done = subprocess.run(
        [find_binary(), "config", "show", directory, "--format", "json"], capture_output=True, text=True
    )
    if done.returncode:
        raise ValueError((done.stdout + done.stderr).strip())
    config: dict[str, Any] = json.loads(done.stdout)
    return config


def _finish(result: Any) -> Any:
    if inspect.isawaitable(result):

        async def wait() -> Any:
            return await result

        return asyncio.run(wait())
    return result


def _stand_in(function: StandIn) -> Callable[[Any], Any]:
    def answer(request: Any) -> Any:
        made = function(**{tensor.name(): tensor.as_numpy() for tensor in request.inputs()})
        for outputs in [made] if isinstance(made, Mapping) else made:
            yield pb_utils.InferenceResponse([pb_utils.Tensor(name, np.asarray(v)) for name, v in outputs.items()])

    return answer
