"""A worker process: runs models and speaks the worker protocol.

Start at ``__main__`` (how a process begins), then ``worker`` (its loop) and ``instance`` (one execute). The protocol
itself is in ``neso_runtime``; ``triton_python_backend_utils`` is the module that a ``model.py`` sees. It needs the
standard library and numpy only and runs on CPython from 3.9 on.
"""
