"""Requests of the official clients, one after another, from threads, for as long as a test does something to the cluster."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator

import numpy as np
from clients import CLIENTS, infer

PORTS = {"http": 8000, "grpc": 8001}
DEADLINE_S = 10.0


class Load:
    """What the requests have come to: answers, and faults with what was said."""

    def __init__(self):
        self.answers: Counter[str] = Counter()  # by transport
        self.faults: list[str] = []
        self._mu = threading.Lock()

    def note(self, transport: str, fault: str = "") -> None:
        with self._mu:
            if fault:
                self.faults.append(f"{transport}: {fault}")
            else:
                self.answers[transport] += 1

    def __str__(self) -> str:
        return f"{self.answers['http']} answers over HTTP, {self.answers['grpc']} over gRPC, {len(self.faults)} failed"


def send(load: Load, transport: str, host: str, ended: threading.Event) -> None:
    """Keeps one client, whose connections live as long as it and the server let them, until ended."""
    module = CLIENTS[transport]
    waits = {"connection_timeout": DEADLINE_S, "network_timeout": DEADLINE_S} if transport == "http" else {}
    more = {} if transport == "http" else {"client_timeout": DEADLINE_S}
    with module.InferenceServerClient(f"{host}:{PORTS[transport]}", **waits) as client:
        client.module = module
        number = 0
        while not ended.is_set():
            number += 1
            given = np.full((1, 4), number % 1000, np.float32)
            try:
                got = infer(client, "double", {"INPUT0": given}, **more)["OUTPUT0"]
                load.note(transport, "" if np.array_equal(got, given * 2) else f"{got} for {given}")
            except Exception as e:  # every fault of a request counts, of whatever class
                load.note(transport, f"{type(e).__name__}: {e}")
            ended.wait(0.01)  # constant load, not all that two cores can do


@contextlib.contextmanager
def loaded(host: str = "neso.default.svc.cluster.local", clients: int = 3) -> Iterator[Load]:
    """So many clients of each transport send requests meanwhile."""
    load, ended = Load(), threading.Event()
    threads = [
        threading.Thread(target=send, args=(load, transport, host, ended))
        for transport in PORTS
        for _ in range(clients)
    ]
    for t in threads:
        t.start()
    try:
        yield load
    finally:
        ended.set()
        for t in threads:
            t.join()
