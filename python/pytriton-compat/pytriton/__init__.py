"""The import name of PyTriton for neso."""

from neso import __version__ as neso_version

from . import _private, client, constants, decorators, exceptions, model_config, models, proxy, server, triton, utils

# The version of PyTriton whose API this is.
__version__ = "0.7.0"

__all__ = [
    "__version__",
    "_private",
    "client",
    "constants",
    "decorators",
    "exceptions",
    "model_config",
    "models",
    "neso_version",
    "proxy",
    "server",
    "triton",
    "utils",
]
