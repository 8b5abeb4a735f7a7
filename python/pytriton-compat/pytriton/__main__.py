"""``pytriton`` and ``python -m pytriton``: checks that models can be served here."""

from __future__ import annotations

import pathlib
import platform
import sys

import numpy as np


def check() -> int:
    """Serves a small model and asks it; returns the exit status."""
    from pytriton.client import ModelClient
    from pytriton.decorators import batch
    from pytriton.model_config import Tensor
    from pytriton.triton import Triton, TritonConfig

    @batch
    def add_sub(a, b):
        return {"add": a + b, "sub": a - b}

    tensors = {n: Tensor(name=n, dtype=np.float32, shape=(-1,)) for n in ("a", "b", "add", "sub")}
    config = TritonConfig(http_address="127.0.0.1", grpc_address="127.0.0.1", http_port=0, grpc_port=0, metrics_port=0)
    with Triton(config=config) as triton:
        triton.bind("AddSub", add_sub, [tensors["a"], tensors["b"]], [tensors["add"], tensors["sub"]])
        for url in (triton.url, triton.grpc_url):
            with ModelClient(url, "AddSub") as client:
                one = np.ones(4, np.float32)
                answer = client.infer_sample(one, one)
                if answer["add"].tolist() != [2.0] * 4 or answer["sub"].tolist() != [0.0] * 4:
                    print(f"wrong answer over {url}: {answer}")
                    return 1
                print(f"ok: {url}")
    return 0


def environment() -> None:
    """Prints what matters of this machine."""
    import neso
    import pytriton

    print(f"neso {neso.__version__} (PyTriton API {pytriton.__version__})")
    print(f"python {platform.python_version()}, numpy {np.__version__}, {platform.platform()}")


def main() -> None:
    """The command: ``check`` (default) or ``env``; ``--workspace PATH`` names a folder that must not exist."""
    arguments = sys.argv[1:]
    for flag in ("-w", "--workspace"):
        if flag in arguments:
            at = arguments.index(flag)
            if at + 1 < len(arguments) and pathlib.Path(arguments[at + 1]).exists():
                sys.exit(1)
            del arguments[at : at + 2]
    arguments = [a for a in arguments if a != "--zip"]
    command = arguments[0] if arguments else "check"
    if command == "env":
        environment()
    elif command in ("check", "examples", "example-add-sub", "example-add-sub-script"):
        environment()
        sys.exit(check())
    else:
        sys.exit(f"pytriton: no such command: {command}")


if __name__ == "__main__":
    main()
