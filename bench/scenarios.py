"""The load scenarios: which model, which protocol, how many connections."""

from dataclasses import dataclass

MIB_FLOATS = 262144


@dataclass(frozen=True)
class Scenario:
    """One load. neso and peer name the models; they differ only where the peer has no such backend."""

    name: str
    protocol: str  # http, json, grpc, stream (gRPC stream), sequences (HTTP)
    connections: int
    neso: str
    peer: str
    elements: int
    streams: int = 1  # HTTP/2 streams a connection
    seconds: float = 1.0  # length relative to the others
    repository: str = ""  # of both sides; else it follows from the model
    library: tuple = ()  # kind and model file of the loop over the framework's own API that it is set against

    @property
    def same_model(self):
        return self.neso == self.peer

    @property
    def repositories(self):
        """Repository that each side's model lies in."""
        if self.repository:
            return (self.repository, self.repository)
        return tuple("noop" if model == "noop" else "python" for model in (self.neso, self.peer))


def _each(name, protocol, neso, peer, elements, connections=(1, 8, 32)):
    return [Scenario(f"{name}, c{c}", protocol, c, neso, peer, elements) for c in connections]


def _streams(connections, streams):
    name = f"no-op 64 B, gRPC, c{connections} x {streams} streams"
    return Scenario(name, "grpc", connections, "noop", "py_identity", 16, streams=streams)


SCENARIOS = [
    *_each("no-op 64 B, HTTP", "http", "noop", "py_identity", 16),
    *_each("no-op 64 B, gRPC", "grpc", "noop", "py_identity", 16),
    _streams(1, 32),
    _streams(4, 32),
    *_each("no-op 1 MiB, HTTP", "http", "noop", "py_identity", MIB_FLOATS),
    *_each("no-op 1 MiB, gRPC", "grpc", "noop", "py_identity", MIB_FLOATS),
    *_each("Python add/sub, HTTP", "http", "py_add_sub", "py_add_sub", 16),
    *_each("Python add/sub, gRPC", "grpc", "py_add_sub", "py_add_sub", 16),
    *_each("Python identity 64 B, HTTP", "http", "py_identity", "py_identity", 16, (8, 32)),
    *_each("Python identity 64 B, gRPC", "grpc", "py_identity", "py_identity", 16, (8, 32)),
    *_each("Python identity 1 MiB, HTTP", "http", "py_identity", "py_identity", MIB_FLOATS),
    *_each("Python identity 1 MiB, gRPC", "grpc", "py_identity", "py_identity", MIB_FLOATS),
    Scenario(
        "JSON 1 M floats, Python identity, c1",
        "json",
        1,
        "py_identity",
        "py_identity",
        1000000,
        seconds=2,
    ),
    Scenario(
        "JSON 1 M floats, Python identity, c2",
        "json",
        2,
        "py_identity",
        "py_identity",
        1000000,
        seconds=2,
    ),
    Scenario(
        "JSON 1 M floats, no-op, c1",
        "json",
        1,
        "noop",
        "py_identity",
        1000000,
        seconds=2,
    ),
]

# Long runs on one server: memory must stay flat and the slow requests near the median.
ENDURANCE = [
    Scenario("no-op 64 B, HTTP, c256", "http", 256, "noop", "py_identity", 16),
    Scenario("no-op 64 B, gRPC, c256", "grpc", 256, "noop", "py_identity", 16),
    Scenario("Python add/sub, HTTP, c256", "http", 256, "py_add_sub", "py_add_sub", 16),
]
