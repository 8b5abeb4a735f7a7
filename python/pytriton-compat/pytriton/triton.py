"""The names of pytriton.triton, from neso.triton."""

from neso._model import Model
from neso.client import ModelClient
from neso.client.utils import TritonUrl, create_client_from_url, wait_for_server_ready
from neso.constants import DEFAULT_TRITON_STARTUP_TIMEOUT_S
from neso.decorators import TritonContext
from neso.exceptions import PyTritonValidationError
from neso.model_config import ModelConfig, Tensor
from neso.proxy.telemetry import build_proxy_tracer_from_triton_config, get_telemetry_tracer, set_telemetry_tracer
from neso.triton import (
    DEFAULT_PROTECTED_ENDPOINTS,
    MODEL_CONFIG_URL,
    MODEL_INFER_URL,
    MODEL_READY_URL,
    MODEL_URL,
    MONITORING_PERIOD_S,
    TRITON_ACCESS_HEADER,
    VALID_TRITON_ENDPOINTS,
    DefaultTritonLifecyclePolicy,
    RemoteTriton,
    Triton,
    TritonBase,
    TritonConfig,
    TritonLifecyclePolicy,
    TritonSecurityConfig,
    VertextAILifecyclePolicy,
)
from neso.utils.workspace import Workspace

# Numbers that mean nothing here; scripts may name them.
WAIT_FORM_MODEL_TIMEOUT_S = 60.0
INITIAL_BACKEND_SHM_SIZE = 4194304
GROWTH_BACKEND_SHM_SIZE = 1048576

__all__ = [
    "DEFAULT_PROTECTED_ENDPOINTS",
    "DEFAULT_TRITON_STARTUP_TIMEOUT_S",
    "GROWTH_BACKEND_SHM_SIZE",
    "INITIAL_BACKEND_SHM_SIZE",
    "MODEL_CONFIG_URL",
    "MODEL_INFER_URL",
    "MODEL_READY_URL",
    "MODEL_URL",
    "MONITORING_PERIOD_S",
    "TRITON_ACCESS_HEADER",
    "VALID_TRITON_ENDPOINTS",
    "WAIT_FORM_MODEL_TIMEOUT_S",
    "DefaultTritonLifecyclePolicy",
    "Model",
    "ModelClient",
    "ModelConfig",
    "PyTritonValidationError",
    "RemoteTriton",
    "Tensor",
    "Triton",
    "TritonBase",
    "TritonConfig",
    "TritonContext",
    "TritonLifecyclePolicy",
    "TritonSecurityConfig",
    "TritonUrl",
    "VertextAILifecyclePolicy",
    "Workspace",
    "build_proxy_tracer_from_triton_config",
    "create_client_from_url",
    "get_telemetry_tracer",
    "set_telemetry_tracer",
    "wait_for_server_ready",
]
