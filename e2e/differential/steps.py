"""Runs one step of a program against one side."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable
from typing import Any

from . import observe, repository
from .clients import grpc as grpc_client
from .clients import http as http_client
from .program import Answer, Program, Step
from .sides import Side

HOLD_S = 0.4  # how long a gate stays closed after the last request has been queued
PATIENCE_S = 15.0


def _fails(answer: Answer) -> bool:
    return '"error"' in json.dumps(answer)


class Runner:
    """The steps of one thread. `prefix` begins the names of this run's models."""

    def __init__(self, side: Side, program: Program, prefix: str):
        self.side, self.program, self.prefix = side, program, prefix
        self._grpc: grpc_client.Client | None = None
        self._clients: list[grpc_client.Client] = []

    @property
    def grpc(self) -> grpc_client.Client:
        if self._grpc is None:
            self._grpc = self.another()
        return self._grpc

    def another(self) -> grpc_client.Client:
        self._clients.append(grpc_client.Client(self.side.grpc_port))
        return self._clients[-1]

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def run(self, step: Step) -> Answer:
        return getattr(self, f"do_{step['do']}")(step)

    # -- requests

    def infer(self, step: Step, client: grpc_client.Client | None = None) -> Answer:
        if step["form"] == "grpc":
            return (client or self.grpc).infer(step)
        body, headers = http_client.infer_body(step)
        return http_client.call(self.side.http_port, "POST", http_client.infer_path(step), body, headers)

    def do_infer(self, step: Step) -> Answer:
        return self.infer(step)

    def do_stream(self, step: Step) -> Answer:
        return self.grpc.stream(step["requests"])

    def do_http(self, step: Step) -> Answer:
        answer = http_client.call(
            self.side.http_port, step.get("method", "POST"), step["path"], step.get("body"), step.get("headers", {})
        )
        told = answer.get("json")
        if isinstance(told, dict) and "model_stats" in told:  # the numbers are for when all is at rest
            answer["json"] = {"model_stats": sorted([s["name"], s["version"]] for s in told["model_stats"])}
        return answer

    def do_ask(self, step: Step) -> Answer:
        return self.grpc.ask(step["method"], step["fields"])

    # -- scheduling

    def do_burst(self, step: Step) -> Answer:
        """One request holds the model, others queue up one by one, then the gate opens."""
        gate = step["gate"]
        answers: list[Answer] = [None] * (1 + len(step["queued"]))
        threads = []

        def send(number: int, request: Step) -> None:
            threads.append(threading.Thread(target=answering, args=(number, request, self.another())))
            threads[-1].start()

        def answering(number: int, request: Step, client: grpc_client.Client) -> None:
            answers[number] = self.infer(request, client)

        model = step["plug"]["model"]
        self.close_gate(model, gate)
        send(0, step["plug"])
        begun = self.wait_for(lambda: f'"gate": "{gate}"' in self.seen(model))
        reached = []
        for number, request in enumerate(step["queued"]):
            send(number + 1, request)
            wanted = number + 1 if step.get("counts", True) else 0
            limit = PATIENCE_S if not reached or reached[-1] else 0.2
            reached.append(self.wait_for(lambda n=wanted: observe.pending(self.side.metrics_port, model) >= n, limit))
        time.sleep(HOLD_S)  # what is measured: the time that these requests wait
        self.open_gate(model, gate)
        for thread in threads:
            thread.join()
        return {"begun": begun, "pending": reached, "answers": answers}

    def do_cancel(self, step: Step) -> Answer:
        """A client that goes away while the model runs, which learns of it."""
        request, model = step["request"], step["request"]["model"]
        mark = step["mark"]
        if request["form"] == "grpc":
            call = self.grpc.begin(request)
            begun = self.wait_for(lambda: mark in self.seen(model))
            call.cancel()
        else:
            body, headers = http_client.infer_body(request)
            connection = http.client.HTTPConnection("127.0.0.1", self.side.http_port, timeout=30)
            connection.request("POST", http_client.infer_path(request), body, headers)
            begun = self.wait_for(lambda: mark in self.seen(model))
            connection.close()
        ended = self.wait_for(lambda: '"opened"' in self.seen(model).split(mark)[-1], 30)
        return {"begun": begun, "ended": ended}

    def do_meanwhile(self, step: Step) -> Answer:
        """Steps while a client asks the same again and again; told is what it must not see, whenever it looks."""
        answers: list[Answer] = []
        begun, over = threading.Event(), threading.Event()
        client = Runner(self.side, self.program, self.prefix)

        def ask() -> None:
            while not over.is_set():
                answers.append(client.run(step["ask"]))
                begun.set()

        thread = threading.Thread(target=ask)
        first = self.run(step["ask"])
        thread.start()
        begun.wait(PATIENCE_S)
        changed = [self.run(each) for each in step["steps"]]
        over.set()
        thread.join()
        client.close()
        last = self.run(step["ask"])
        failed = [a for a in answers if _fails(a)]
        told = {"wrong": [a for a in answers if not _fails(a) and a not in (first, last)][:1]}
        if step["quiet"] and not _fails(first):
            told["failed"] = failed[:1]
        return {"first": first, "last": last, "steps": changed, **told}

    # -- the repository

    def do_write(self, step: Step) -> Answer:
        model = next(m for m in self.program["models"] if m["name"] == step["model"])
        repository.write(self.side.repository, {**model, **step["changes"]}, self.program.get("sealed", False))
        return None

    def do_load(self, step: Step) -> Answer:
        return self.manage("load", step, {"config": json.dumps(step["config"])} if "config" in step else {})

    def do_unload(self, step: Step) -> Answer:
        answer = self.manage("unload", step, {"unload_dependents": True} if step.get("dependents") else {})
        self.wait_for(lambda: "UNLOADING" not in self.index_text(), 5)
        return answer

    def manage(self, what: str, step: Step, parameters: dict[str, Any]) -> Answer:
        if step.get("form") == "grpc":
            fields = {k: {"bool_param" if isinstance(v, bool) else "string_param": v} for k, v in parameters.items()}
            method = "RepositoryModelLoad" if what == "load" else "RepositoryModelUnload"
            return self.grpc.ask(method, {"model_name": step["model"], "parameters": fields})
        path = f"/v2/repository/models/{step['model']}/{what}"
        body = json.dumps({"parameters": parameters}) if parameters else ""
        return http_client.call(self.side.http_port, "POST", path, body, {})

    def index(self, step: Step) -> Answer:
        """The index, of this run's models."""
        body = json.dumps({"ready": True}) if step.get("ready") else ""
        answer = http_client.call(self.side.http_port, "POST", "/v2/repository/index", body, {})
        mine = [m for m in answer.get("json") or [] if m["name"].startswith(self.prefix)]
        return sorted(mine, key=lambda m: (m["name"], m.get("version", "")))

    def do_index(self, step: Step) -> Answer:
        self.wait_for(lambda: "UNLOADING" not in self.index_text(), 5)
        return self.index(step)

    def index_text(self) -> str:
        return json.dumps(self.index({}))

    # -- numbers

    def do_stats(self, step: Step) -> Answer:
        path = f"/v2/models/{step['model']}/stats"

        def read() -> Answer:
            answer = http_client.call(self.side.http_port, "GET", path, None, {})
            if not isinstance(answer.get("json"), dict):
                return answer
            return observe.statistics(answer["json"], step.get("times", False))

        return observe.settled(read, self.side.rest)

    def do_metrics(self, step: Step) -> Answer:
        return observe.settled(lambda: observe.metrics(self.side.metrics_port, self.prefix), self.side.rest)

    # -- what models write down

    def seen(self, model: str) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self.side.record / f"{model}.jsonl").read_text()
        return ""

    def close_gate(self, model: str, gate: str) -> None:
        """Callables under decorators do not see parameters: a file holds all that run."""
        (self.side.record / f"{model}.closed").write_text(gate)

    def open_gate(self, model: str, gate: str) -> None:
        (self.side.record / gate).touch()
        (self.side.record / f"{model}.closed").unlink()

    def wait_for(self, condition: Callable[[], bool], patience: float = PATIENCE_S) -> bool:
        end = time.monotonic() + patience
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.003)  # polling another process: there is nothing to wait on
        return True
