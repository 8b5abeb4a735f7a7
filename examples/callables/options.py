"""What the examples beside this file take on their command line."""

import argparse

from neso import TritonConfig


def options(about):
    """Where to serve, and whether to ask once and end."""
    parser = argparse.ArgumentParser(description=about)
    ports = {"http_port": 8000, "grpc_port": 8001, "metrics_port": 8002}
    for name, default in ports.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    parser.add_argument("--once", action="store_true")
    given = parser.parse_args()
    addresses = {name.replace("port", "address"): "127.0.0.1" for name in ports}
    return TritonConfig(**addresses, **{name: getattr(given, name) for name in ports}), given.once
