"""The import name pytriton: every module and name of PyTriton 0.7 that has a meaning here, and its command."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest
from conftest import config

from neso import ModelClient, Tensor, Triton

# What a module of PyTriton 0.7 defines. Not here: what drives its bundled server and the processes around that.
NAMES = """
pytriton.check.add_sub: prepare_triton infer_add_sub_model serve_triton add_sub_example
pytriton.check.utils: DEFAULT_LOG_FORMAT ScriptThread find_free_port ProcessMonitoring get_current_container_version
  verify_docker_image_in_readme_same_as_tested search_warning_on_too_verbose_log_level ProcessMonitoringThread
pytriton.client: AsyncioDecoupledModelClient AsyncioModelClient DecoupledModelClient FuturesModelClient ModelClient
pytriton.client.asyncio_utils: LATEST_MODEL_VERSION asyncio_get_model_state asyncio_get_model_config
  asyncio_wait_for_server_ready asyncio_wait_for_model_status_loaded asyncio_wait_for_model_ready
pytriton.client.auth: TRITON_ACCESS_HEADER extract_access_token_from_headers create_auth_headers
pytriton.client.client: DEFAULT_INFERENCE_TIMEOUT_S BaseModelClient ModelClient DecoupledModelClient
  AsyncioModelClient AsyncioDecoupledModelClient FuturesModelClient
pytriton.client.exceptions: PyTritonClientError PyTritonClientValueError PyTritonClientInvalidUrlError
  PyTritonClientTimeoutError PyTritonClientModelUnavailableError PyTritonClientClosedError
  PyTritonClientModelDoesntSupportBatchingError PyTritonClientInferenceServerError PyTritonClientQueueFullError
pytriton.client.utils: DEFAULT_GRPC_PORT DEFAULT_HTTP_PORT LATEST_MODEL_VERSION ModelState parse_http_response
  parse_grpc_response get_model_state get_model_config wait_for_server_ready wait_for_model_ready
  create_client_from_url TritonUrl
pytriton.client.warnings: PyTritonWarning NotSupportedTimeoutWarning
pytriton.constants: DEFAULT_HTTP_PORT DEFAULT_GRPC_PORT DEFAULT_METRICS_PORT TRITON_LOCAL_IP TRITON_CONTEXT_FIELD_NAME
  TRITON_PYTHON_BACKEND_INTERPRETER_DIRNAME DEFAULT_TRITON_STARTUP_TIMEOUT_S CREATE_TRITON_CLIENT_TIMEOUT_S
  PYTRITON_HOME
pytriton.decorators: TRITON_CONTEXT_FIELD_NAME get_inference_request_batch_size ModelConfigDict TritonContext
  get_triton_context get_model_config convert_output sample batch group_by_values ConstantPadder group_by_keys
  fill_optionals triton_context pad_batch first_value
pytriton.exceptions: PyTritonError PyTritonValidationError PyTritonInvalidOperationError PyTritonBadParameterError
  PyTritonModelConfigError PyTritonUnrecoverableError PyTritonRuntimeError
pytriton.model_config: DeviceKind DynamicBatcher QueuePolicy TimeoutAction ModelConfig Tensor
pytriton.model_config.common: DeviceKind TimeoutAction QueuePolicy DynamicBatcher WarmupInput ModelWarmup
  generate_warmup_data generate_warmup_requests
pytriton.model_config.generator: ModelConfigGenerator
pytriton.model_config.model_config: ModelConfig
pytriton.model_config.parser: ModelConfigParser
pytriton.model_config.tensor: Tensor
pytriton.model_config.triton_model_config: ResponseCache TensorSpec TritonModelConfig
pytriton.models.model: Model
pytriton.proxy.telemetry: set_telemetry_tracer get_telemetry_tracer get_span_dict start_span_from_remote
  start_span_from_span parse_trace_config traced_span build_proxy_tracer_from_triton_config raise_if_no_telemetry
  end_span
pytriton.proxy.types: Request Response
pytriton.proxy.validators: TritonResultsValidator
pytriton.server.triton_server_config: TritonServerConfig
pytriton.triton: DEFAULT_TRITON_STARTUP_TIMEOUT_S MONITORING_PERIOD_S WAIT_FORM_MODEL_TIMEOUT_S
  INITIAL_BACKEND_SHM_SIZE GROWTH_BACKEND_SHM_SIZE MODEL_URL MODEL_READY_URL MODEL_CONFIG_URL MODEL_INFER_URL
  VALID_TRITON_ENDPOINTS DEFAULT_PROTECTED_ENDPOINTS TRITON_ACCESS_HEADER TritonConfig TritonLifecyclePolicy
  DefaultTritonLifecyclePolicy VertextAILifecyclePolicy TritonSecurityConfig TritonBase Triton RemoteTriton
pytriton.utils.dataclasses: kwonly_dataclass
pytriton.utils.distribution: get_root_module_path
pytriton.utils.endpoint_utils: DEFAULT_GRPC_PORT DEFAULT_HTTP_PORT DEFAULT_METRICS_PORT TRITON_LOCAL_IP get_endpoint
pytriton.utils.logging: silence_3rd_party_loggers
pytriton.utils.workspace: CleanupWarning Workspace
"""


def names():
    """Pairs of a module and the names it must have."""
    for entry in NAMES.strip().replace("\n  ", " ").splitlines():
        module, _, rest = entry.partition(":")
        yield pytest.param(module, rest.split(), id=module)


@pytest.mark.parametrize(("module", "wanted"), list(names()))
def test_names(module, wanted):
    found = importlib.import_module(module)
    assert [name for name in wanted if not hasattr(found, name)] == []


def test_errors_and_classes_are_ours():
    """A script may mix both names."""
    import pytriton.exceptions
    import pytriton.model_config
    import pytriton.triton

    import neso
    import neso.exceptions

    assert pytriton.triton.Triton is neso.Triton
    assert pytriton.model_config.Tensor is neso.Tensor
    assert pytriton.exceptions.PyTritonError is neso.exceptions.PyTritonError
    assert pytriton.__version__.startswith("0.7")


def test_private_names_that_scripts_reach_for():
    """Those of PyTriton's own tests; they are on our classes as soon as its name is imported, and not before."""
    text = """if True:
        from neso import AsyncioModelClient, ModelClient, Triton
        names = ((Triton, "_triton_server"), (ModelClient, "_infer_client"), (AsyncioModelClient, "_general_client"))
        print([hasattr(kind, name) for kind, name in names])
        import pytriton
        print([hasattr(kind, name) for kind, name in names])
        """
    out = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    assert out.split("\n")[:2] == ["[False, False, False]", "[True, True, True]"]
    from pytriton.decorators import _SPECIAL_KEYS, _get_wrapt_stack, _inject_triton_context, batch

    def function(x):
        return {"x": x}

    assert callable(_inject_triton_context) and len(_SPECIAL_KEYS) == 1
    outer, inner = _get_wrapt_stack(batch(function))
    assert inner == (function, None) and callable(outer.wrapper)
    triton = Triton(config=config())
    assert triton._triton_server is None
    triton.bind("m", lambda requests: requests, [Tensor((1,), np.float32, "x")], [Tensor((1,), np.float32, "x")])
    with triton:
        assert triton._triton_server.is_alive()
        with ModelClient(triton.url, "m") as client:
            assert client._general_client is client._infer_client
            assert client._general_client.is_server_live()
    assert not triton._triton_server.is_alive()


@pytest.mark.parametrize(("command", "text"), [("check", "ok: grpc://"), ("env", "PyTriton API 0.7")])
def test_the_command(command, text):
    said = subprocess.run([sys.executable, "-m", "pytriton", command], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert text in said.stdout


def test_options_as_arguments():
    from pytriton.server.triton_server_config import TritonServerConfig

    options = TritonServerConfig()
    options.update_config({"http_port": 1, "cache-config": ["a", "b"], "id": None})
    assert options.to_args_list() == ["--http-port", "1", "--cache-config", "a", "--cache-config", "b"]
    assert options.to_cli_string() == "--http-port=1 --cache-config=a --cache-config=b"


def test_endpoints():
    from pytriton.server.triton_server_config import TritonServerConfig
    from pytriton.utils.endpoint_utils import get_endpoint

    config = TritonServerConfig()
    assert get_endpoint(config, "http") == "http://127.0.0.1:8000"
    config.update_config({"grpc_port": 9, "http-address": "10.0.0.1", "grpc-address": "0.0.0.0"})
    assert get_endpoint(config, "grpc") == "grpc://127.0.0.1:9"
    assert get_endpoint(config, "metrics") == "http://10.0.0.1:8002"


def test_importing_the_package_gives_its_modules():
    text = "import pytriton; pytriton.proxy, pytriton.models, pytriton.server, pytriton.constants, pytriton.decorators"
    subprocess.run([sys.executable, "-c", text], check=True)
