"""A server that this process starts and serves callables to.

Interface (used by neso.triton):

    server = Server(["--http-port=0", ...], output=None)     # arguments of `neso serve`
    server.start(timeout=120.0)      # ServerError (with the server's last words) when it does not come up
    server.addresses                 # {"http": "127.0.0.1:8000", "grpc": ..., "metrics": ...}; what does not listen is missing
    config = server.bind(binding)    # final configuration; ServerError on refusal. Binding a bound version swaps it
    server.unbind(name, version)
    server.is_alive(); server.wait(timeout) -> True when it has ended; server.last_words()
    server.stop(timeout=None)        # drains, unloads, waits, kills if need be; safe twice and after a fork
    server.infer(...)                # in-process client
    remote = connect(url, token)     # the same interface without start, for RemoteTriton
"""
