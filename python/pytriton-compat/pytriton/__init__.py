"""The import name of PyTriton for neso."""

from neso import __version__ as neso_version

from . import client, model_config, triton

# The version of PyTriton whose API this is.
__version__ = "0.7.0"

__all__ = ["__version__", "client", "model_config", "neso_version", "triton"]
