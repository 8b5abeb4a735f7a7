"""What a process has with a server, whoever it runs: the connection, shared memory, frames, calls and answers.

Workers (``neso_worker``) and processes with bound callables (``neso._bound``) are its two users; it imports neither.
Start at ``frames`` (what is said), ``channel`` and ``link`` (how), ``connection`` (what belongs together); tensors,
requests and responses are as a ``model.py`` sees them. It needs the standard library and numpy only and runs on
CPython from 3.9 on.
"""
