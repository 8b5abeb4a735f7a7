"""The names of pytriton.constants, from neso.constants."""

from neso.constants import (
    DEFAULT_GRPC_PORT,
    DEFAULT_HTTP_PORT,
    DEFAULT_METRICS_PORT,
    DEFAULT_TRITON_STARTUP_TIMEOUT_S,
    TRITON_CONTEXT_FIELD_NAME,
    TRITON_LOCAL_IP,
)
from neso.utils.workspace import home

# Where workspaces without a path are made.
PYTRITON_HOME = home()
# Values that mean nothing here; scripts may name them.
TRITON_PYTHON_BACKEND_INTERPRETER_DIRNAME = "python_backend_interpreter"
CREATE_TRITON_CLIENT_TIMEOUT_S = 10

__all__ = [
    "CREATE_TRITON_CLIENT_TIMEOUT_S",
    "DEFAULT_GRPC_PORT",
    "DEFAULT_HTTP_PORT",
    "DEFAULT_METRICS_PORT",
    "DEFAULT_TRITON_STARTUP_TIMEOUT_S",
    "PYTRITON_HOME",
    "TRITON_CONTEXT_FIELD_NAME",
    "TRITON_LOCAL_IP",
    "TRITON_PYTHON_BACKEND_INTERPRETER_DIRNAME",
]
