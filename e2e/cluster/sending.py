"""Requests of the official clients, one after another, from threads, until they are told to end. What sends them is a pod: sender.py."""

from __future__ import annotations

import functools
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from clients import CLIENTS, tensors

SERVICE = "neso.default.svc.cluster.local"
# What finds every pod by the headless Service, and asks it again when a connection ends.
HEADLESS = "dns:///neso-headless.default.svc.cluster.local:8001"
# Each client has a connection of its own: channels to one address in one process share one otherwise.
OWN = (("grpc.use_local_subchannel_pool", 1),)
SPREAD = (*OWN, ("grpc.lb_policy_name", "round_robin"), ("grpc.dns_min_time_between_resolutions_ms", 1000))
# A connection whose peer is gone without a word is noticed within seconds, not in fifteen minutes.
KEEPALIVE = (
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_timeout_ms", 1000),
    ("grpc.keepalive_permit_without_calls", 1),
)


@dataclass(frozen=True)
class Calls:
    """How the clients call."""

    http: str = f"{SERVICE}:8000"
    grpc: str = f"{SERVICE}:8001"
    clients: int = 3  # of each transport
    deadline_s: float = 10.0
    pause_s: float = 0.01  # constant load, not all that two cores can do
    channel: tuple = OWN  # arguments of gRPC channels
    ca: str = ""  # the text of certificates: with it calls go over TLS
    retry: bool = False  # a request that fails is sent again until it is answered


@dataclass(frozen=True)
class Fault:
    transport: str
    begun: float  # time.monotonic, which all of one machine share
    took_s: float
    text: str


@dataclass
class Load:
    """What the requests have come to."""

    calls: Calls
    answers: Counter[str] = field(default_factory=Counter)  # by transport
    versions: Counter[str] = field(default_factory=Counter)  # answers by the model's version
    faults: list[Fault] = field(default_factory=list)
    recovered: int = 0  # requests that failed, and were answered when they were sent again
    tries: int = 0  # the most failures that one request had before it was answered
    lost: int = 0  # that were not, until the load ended
    _mu: threading.Lock = field(default_factory=threading.Lock)

    def answered(self, transport: str, version: str, tries: int) -> None:
        with self._mu:
            self.answers[transport] += 1
            self.versions[version] += 1
            self.recovered += tries > 0
            self.tries = max(self.tries, tries)

    def failed(self, fault: Fault) -> None:
        with self._mu:
            self.faults.append(fault)

    def lose(self) -> None:
        with self._mu:
            self.lost += 1

    def told(self, since: int) -> dict:
        """All of it, the faults from a number on, as JSON takes it."""
        with self._mu:
            numbers = {name: getattr(self, name) for name in ("recovered", "tries", "lost")}
            faults = [[f.transport, f.begun, f.took_s, f.text] for f in self.faults[since:]]
            return {"answers": dict(self.answers), "versions": dict(self.versions), "faults": faults, **numbers}

    def take(self, told: dict) -> None:
        """What another has told."""
        with self._mu:
            self.faults += [Fault(*f) for f in told["faults"]]
            self.answers, self.versions = Counter(told["answers"]), Counter(told["versions"])
            self.recovered, self.tries, self.lost = told["recovered"], told["tries"], told["lost"]

    def total(self) -> int:
        return sum(self.answers.values())

    def said(self) -> str:
        """The faults in brief, for the message of a test that fails."""
        seen = Counter(f"{f.transport}: {f.text[:160]}" for f in self.faults)
        return "; ".join(f"{n} x {text}" for text, n in seen.most_common(5))

    def clean(self) -> None:
        """No request has failed, over any transport."""
        assert not self.faults, (
            f"{len(self.faults)} of {self.total() + len(self.faults)} requests failed: {self.said()}"
        )
        assert all(self.answers[t] > 20 for t in ("http", "grpc")), self.answers


@functools.cache
def file_of(text: str) -> str:
    """The clients take certificates as files alone."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem", delete=False) as f:
        f.write(text)
    return f.name


def connect(calls: Calls, transport: str) -> Any:
    module = CLIENTS[transport]
    if transport == "http":
        tls = {"ssl": True, "ssl_options": {"ca_certs": file_of(calls.ca)}, "insecure": False} if calls.ca else {}
        client = module.InferenceServerClient(
            calls.http, connection_timeout=calls.deadline_s, network_timeout=calls.deadline_s, **tls
        )
    else:
        tls = {"ssl": True, "root_certificates": file_of(calls.ca)} if calls.ca else {}
        client = module.InferenceServerClient(calls.grpc, channel_args=list(calls.channel), **tls)
    client.module = module
    return client


def ask(client, number: int, **more) -> str:
    """One request, whose answer is checked; the version of the model that answered."""
    given = np.full((1, 4), number, np.float32)
    result = client.infer("double", tensors(client, {"INPUT0": given}), **more)
    got = result.as_numpy("OUTPUT0")
    assert np.array_equal(got, given * 2), f"{got} for {given}"
    said = result.get_response()
    return said["model_version"] if isinstance(said, dict) else said.model_version


def send(load: Load, transport: str, ended: threading.Event) -> None:
    """Keeps one client, whose connections live as long as it and the server let them, until ended."""
    calls = load.calls
    more = {"client_timeout": calls.deadline_s} if transport == "grpc" else {}
    number, tries = 1, 0
    with connect(calls, transport) as client:
        while not ended.is_set() or tries:
            begun = time.monotonic()
            try:
                version = ask(client, number, **more)
            except Exception as e:  # every fault of a request counts, of whatever class
                load.failed(Fault(transport, begun, time.monotonic() - begun, f"{type(e).__name__}: {e}"))
                tries += calls.retry
                if calls.retry and ended.wait(0.1):
                    load.lose()
                    return
                continue
            load.answered(transport, version, tries)
            number, tries = number % 1000 + 1, 0
            ended.wait(calls.pause_s)
