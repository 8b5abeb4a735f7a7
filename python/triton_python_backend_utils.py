"""The module that every model.py imports, for tests of a model outside of a server.

Inside a server this file is not used: the worker that runs the model brings the module along.
"""

from __future__ import annotations

import sys

from neso_worker import triton_python_backend_utils

sys.modules[__name__] = triton_python_backend_utils
