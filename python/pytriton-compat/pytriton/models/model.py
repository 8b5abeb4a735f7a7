"""The names of pytriton.models.model that mean something here."""

from neso._context import inject as _inject_triton_context
from neso._model import Model
from neso.decorators import TritonContext
from neso.exceptions import PyTritonValidationError
from neso.model_config import DeviceKind, ModelConfig, Tensor
from neso.model_config.generator import ModelConfigGenerator
from neso.model_config.triton_model_config import ResponseCache, TensorSpec, TritonModelConfig
from neso.proxy.validators import TritonResultsValidator
from neso.utils.workspace import Workspace

__all__ = [
    "DeviceKind",
    "Model",
    "ModelConfig",
    "ModelConfigGenerator",
    "PyTritonValidationError",
    "ResponseCache",
    "Tensor",
    "TensorSpec",
    "TritonContext",
    "TritonModelConfig",
    "TritonResultsValidator",
    "Workspace",
    "_inject_triton_context",
]
