"""How a user's process serves callables: the connection with the server, its memory, and a thread for each callable.

Start at ``connection``, then ``instance`` and ``job``. It stands on ``neso_runtime``, as workers do.
"""
