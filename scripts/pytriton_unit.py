"""PyTriton's own unit tests over pytriton-compat: a plugin for pytest, see scripts/pytriton.sh.

The tests reach into PyTriton's private parts. Where we have the same behaviour under another name this leads there,
so that the behaviour is tested; what has no counterpart here is left to fail (scripts/pytriton-differences.txt).
"""

import sys
import types

import neso.client.utils
import neso.config
import pytriton.proxy.validators
import pytriton.triton
from neso.config import TritonSecurityConfig
from neso.model_config.generator import ModelConfigGenerator
from neso.proxy.validators import TritonResultsValidator
from neso.triton import Triton
from pytriton.server.triton_server_config import TritonServerConfig


def piece(*fields):
    """One of PyTriton's private steps: writes these fields of the configuration into a dictionary."""

    def write(self, into):
        config = self.get_config()
        into.update({field: config[field] for field in fields if field in config})

    return write


ModelConfigGenerator._set_batching = piece("max_batch_size", "dynamic_batching")
ModelConfigGenerator._set_instance_group = piece("instance_group")
ModelConfigGenerator._set_model_transaction_policy = piece("model_transaction_policy")
ModelConfigGenerator._set_backend_parameters = piece("parameters")
ModelConfigGenerator._set_model_signature = piece("input", "output")


def validate_outputs(model_config, model_outputs, outputs, strict, requests_number):
    validator = TritonResultsValidator(model_config, strict)
    # The requests have no inputs: there are no rows to compare.
    requests = [types.SimpleNamespace(values=tuple, requested_output_names=[])] * requests_number
    validator.validate_responses(requests, outputs)


def validate_data(model_config, name, value):
    TritonResultsValidator(model_config, False).validate({name: value})


def validate_shape(model_config, model_outputs, name, value):
    request = types.SimpleNamespace(values=tuple, requested_output_names=[])
    TritonResultsValidator(model_config, True).validate({name: value}, request)


pytriton.proxy.validators._validate_outputs = validate_outputs
pytriton.proxy.validators._validate_output_data = validate_data
pytriton.proxy.validators._validate_output_dtype_and_shape = validate_shape

# What conftest.py and a module import, and never use here.
pytriton.triton.TRITONSERVER_DIST_DIR = None
data = sys.modules["pytriton.proxy.data"] = types.ModuleType("pytriton.proxy.data")
data.BaseRequestsResponsesSerializerDeserializer = object
backend = sys.modules["pytriton.server.python_backend_config"] = types.ModuleType(
    "pytriton.server.python_backend_config"
)
backend.PythonBackendConfig = dict


def prepare(self, workspace=None):
    """What the server would be started with."""
    self._triton_server_config = TritonServerConfig()
    self._triton_server_config.update_config({k: v for k, v in self.config.to_dict().items() if v is not None})
    if self.config.model_repository:
        self._triton_server_config["model_repository"] = str(self.config.model_repository)
    for argument in self._private_arguments():
        name, _, value = argument[2:].partition("=")
        self._triton_server_config[name] = value


Triton._prepare_triton_inference_server = prepare
Triton._prepare_triton_config = prepare
Triton._initialize_server = prepare
pytriton.triton.secrets = neso.config.secrets
TritonSecurityConfig._validate_endpoint_names = lambda names: TritonSecurityConfig(restricted_endpoints=names)


def is_grpc(client, real=neso.client.utils.is_grpc):
    """Their doubles of gRPC clients know no client_timeout, which is only given while something is waited for."""
    return real(client) and not sys._getframe(1).f_code.co_name.startswith("wait_for_")


neso.client.utils.is_grpc = is_grpc
