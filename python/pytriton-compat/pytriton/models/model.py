"""The names of pytriton.models.model that mean something here."""

from neso._model import Model
from neso.decorators import _inject_triton_context

__all__ = ["Model", "_inject_triton_context"]
