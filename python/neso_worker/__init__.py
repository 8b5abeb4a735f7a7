"""The runtime of a worker process: runs models and speaks the worker protocol.

Start at ``__main__`` (how a process begins), then ``worker`` (its loop) and
``instance`` (one execute). It needs the standard library and numpy only and
runs on CPython from 3.9 on; ``triton_python_backend_utils`` is the module that
a ``model.py`` sees.
"""

from __future__ import annotations

PROTOCOL = 1
