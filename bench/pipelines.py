"""The scenarios of what stands between requests and models: ensembles, BLS, streams, sequences, the response cache.

Both sides serve the same files. The first word of a name is its group: `--only ensemble` runs one.
"""

from scenarios import MIB_FLOATS, Scenario

REPEATS = 100  # responses of the model `repeat` to a request
SEQUENCES, SEQUENCE_LENGTH = 1000, 10


def _each(name, protocol, model, elements, connections, repository="pipelines", **more):
    return [
        Scenario(f"{name}, c{c}", protocol, c, model, model, elements, repository=repository, **more)
        for c in connections
    ]


def _both(name, model, elements, connections, **more):
    found = []
    for protocol in ("HTTP", "gRPC"):
        found += _each(f"{name}, {protocol}", protocol.lower(), model, elements, connections, **more)
    return found


PIPELINES = [
    *_both("ensemble of three, 64 B", "ens_floats", 16, (8, 32)),
    *_both("ensemble of three, strings", "ens_strings", 16, (8, 32)),
    *_each("ensemble of three, 1 MiB, HTTP", "http", "ens_floats", MIB_FLOATS, (8,)),
    # What a call adds is the difference to its callee, asked alone.
    *_each("BLS callee alone, 64 B, HTTP", "http", "py_identity", 16, (1,)),
    *_each("BLS one exec, 64 B, HTTP", "http", "bls", 16, (1, 8, 32)),
    *_each("BLS one exec, 64 B, gRPC", "grpc", "bls", 16, (8, 32)),
    *_each("BLS callee alone, 1 MiB, HTTP", "http", "py_identity", MIB_FLOATS, (1,)),
    *_each("BLS one exec, 1 MiB, HTTP", "http", "bls", MIB_FLOATS, (1, 8, 32)),
    *_each(f"decoupled, {REPEATS} responses, gRPC stream", "stream", "repeat", 16, (1, 8)),
    *_each("sequences, HTTP", "sequences", "sums", 1, (SEQUENCES,), seconds=2),
    *_both("cache hit, 64 B", "cached_identity", 16, (8, 32), repository="cache"),
]
