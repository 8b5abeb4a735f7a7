"""Backend libraries in the process of a program that has the server as C library, and why the server's command refuses them."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import threading

import pytest
from libraries import backend, have_host, hosts, model
from server import Server
from test_library import CC, LIBRARY, program, run
from test_native import MISUSES_TOLD

pytestmark = pytest.mark.skipif(not CC or not LIBRARY.exists(), reason="needs a C compiler and `make capi`")

NONE = 'parameters { key: "isolation" value { string_value: "none" } }\n'
DECOUPLED = "model_transaction_policy { decoupled: true }\n"


@pytest.fixture
def served(tmp_path):
    have_host()
    models, backends = tmp_path / "models", tmp_path / "backends"
    ident = backend(backends, "ident", "identity.c")
    backend(backends, "asks", "asks.c")
    backend(backends, "behave", "behave.c")
    model(models, "ident", "ident", NONE)
    model(models, "two", "ident", NONE + "dynamic_batching { }\ninstance_group [ { count: 2 kind: KIND_CPU } ]\n")
    model(models, "asks", "asks", NONE)
    model(models, "behave", "behave", NONE + DECOUPLED)
    model(models, "one", "behave", NONE)
    bound = 'parameters { key: "WORKER_OPEN_FILES" value { string_value: "100" } }\n'
    model(models, "bounded", "ident", NONE + bound)
    return models, backends, ident


def test_program(served, tmp_path):
    done = run(program("here", tmp_path, "-ldl"), *served, NESO_HOST="/nowhere/neso-host")  # which it does not need
    for _, told in MISUSES_TOLD:
        assert all(line in done.stderr for line in told), done.stderr[-3000:]
    # No line speaks of a process that is not there, also not when the server is gone and a library comes back.
    assert "neso-host" not in done.stderr and "broken pipe" not in done.stderr, done.stderr[-3000:]
    order = re.findall(r"order: (\w+)", done.stderr)
    assert order.count("Initialize") == order.count("Finalize") == 2, order  # once for each server
    assert order.count("ModelInitialize") == order.count("ModelFinalize"), order
    assert order.count("ModelInstanceInitialize") == order.count("ModelInstanceFinalize") == 3 + 1 + 3, order
    first = order[: order.index("Finalize") + 1]
    assert first[0] == "Initialize" and first[-1] == "Finalize" and first.count("Initialize") == 1, order


@pytest.mark.parametrize("flags", [(), ("-fsanitize=address",)], ids=["plain", "sanitized"])
def test_final_response(flags, served, tmp_path):
    """It comes when the program's allocator has returned, also where the request was failed meanwhile."""
    made = program("final", tmp_path, *flags)
    run(made, *served[:2], ASAN_OPTIONS="detect_leaks=0:detect_odr_violation=0:handle_segv=0")


def test_a_hostile_program(served, tmp_path):
    """Everything is deleted in callbacks and by other threads, under AddressSanitizer, while libraries answer and servers end."""
    made = program("hostile", tmp_path, "-fsanitize=address")
    run(made, *served[:2], "4", "1", ASAN_OPTIONS="detect_leaks=0:detect_odr_violation=0:handle_segv=0")


COUNTS = """input [ { name: "N" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "ORDER" data_type: TYPE_INT32 dims: [ 1 ] } ]
instance_group [ { count: 1 kind: KIND_CPU } ]
"""
BATCHED = "dynamic_batching { max_queue_delay_microseconds: 500 }\n"


@pytest.mark.parametrize("name", ["plain", "batched", "here_plain", "here_batched"])
def test_order(name, tmp_path):
    """An instance is given requests in the order in which one thread has sent them, with and without batches, wherever it runs."""
    have_host()
    backends, batched = tmp_path / "backends", name.endswith("batched")
    backend(backends, "counts", "counts.c")
    extra = (NONE if name.startswith("here") else "") + (BATCHED if batched else "")
    model(tmp_path / "models", name, "counts", extra, COUNTS, 8 if batched else 0)
    run(program("order", tmp_path), tmp_path / "models", backends, name)


def test_order_of_a_worker_that_stands_still(tmp_path):
    """What a worker does not come to is taken back, and nothing overtakes it meanwhile."""
    have_host()
    backend(tmp_path / "backends", "counts", "counts.c")
    model(tmp_path / "models", "batched", "counts", BATCHED, COUNTS, 8)
    over = threading.Event()
    stands = threading.Thread(target=stand_still, args=(over,))
    stands.start()
    try:
        run(program("order", tmp_path), tmp_path / "models", tmp_path / "backends", "batched", "200")
    finally:
        over.set()
        stands.join()


def stand_still(over: threading.Event) -> None:
    """Stops the workers of this process's children for longer than the server waits for them, again and again."""
    random.seed(1)
    while not over.wait(0.01):
        for worker in hosts(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGSTOP)
                over.wait(random.uniform(0.003, 0.012))
                os.kill(worker, signal.SIGCONT)


def test_command(served):
    models, backends, _ = served
    with Server(models, "--model-control-mode=explicit", f"--backend-directory={backends}") as s:
        r = s.post("/v2/repository/models/ident/load", {})
        assert r.status == 400 or r.status == 501, r
        assert "'isolation: none', which is for programs that have the server as C library" in r.error
