"""Whether tests can use a GPU here."""

from __future__ import annotations

import sys

from server import ROOT

sys.path.append(str(ROOT / "python"))
from neso_runtime.errors import TritonModelException  # noqa: E402
from neso_runtime.gpu import cuda  # noqa: E402


def fault() -> str:
    """Why no GPU can be used, by its driver; empty if one can."""
    try:
        cuda.driver().devices()[0].uuid  # noqa: B018
    except TritonModelException as error:
        return str(error)
    except IndexError:
        return "the CUDA driver sees no device"
    return ""
