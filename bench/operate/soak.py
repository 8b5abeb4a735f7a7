"""A soak: load, unload, reload, cancel, stream and kill for minutes, with a look at the server in between.

    python bench/operate/soak.py --minutes 10

The work comes in cycles. Between two of them nothing is sent, and what the server then holds is noted: memory, goroutines, descriptors,
processes, requests. None of these may grow over the run, and each request must have been answered: with its result, or, where a worker
was killed or a model was unloaded under it, with an error that says so. The exit status is 0 only then.
"""

import argparse
import http.client
import json
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "e2e"), str(ROOT / "bench")]
import procstat  # noqa: E402
from repository import X, identity_model, metric, python_model, until  # noqa: E402
from server import Server, alive, descendants, kill  # noqa: E402

INSTANCES = 2  # of each model in workers
ANSWER_SECONDS = 60  # a request without an answer by then counts as lost
STREAM = """import triton_python_backend_utils as pb_utils
import numpy as np


class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            sender = r.get_response_sender()
            for i in range(int(pb_utils.get_input_tensor_by_name(r, "N").as_numpy()[0])):
                if r.is_cancelled():
                    break
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("I", np.array([i], np.int32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def make_repository(top, pids):
    """pids is a directory in which each worker of "victim" leaves a file named after its process."""
    identity_model(top, "identity_any_fp32")
    # The time that "sleepy" takes is for clients that go away meanwhile.
    pids.mkdir()
    note = f"import os; open('{pids}/' + str(os.getpid()), 'w').close()"
    models = (
        ("steady", "pass", "pass"),
        ("victim", note, "pass"),
        ("churn", "pass", "pass"),
        ("sleepy", "pass", "time.sleep(0.05)"),
    )
    for name, init, execute in models:
        extra = f"instance_group [ {{ count: {INSTANCES} kind: KIND_CPU }} ]\n"
        python_model(top, name, init=init, execute=execute, extra=extra)
    (top / "stream" / "1").mkdir(parents=True)
    (top / "stream" / "1" / "model.py").write_text(STREAM)
    (top / "stream" / "config.pbtxt").write_text(
        'backend: "python"\n'
        'input { name: "N" data_type: TYPE_INT32 dims: [ 1 ] }\n'
        'output { name: "I" data_type: TYPE_INT32 dims: [ 1 ] }\n'
        "model_transaction_policy { decoupled: true }\n"
    )


class Tally:
    """Counts what was sent and how it was answered; anything unexpected is kept."""

    def __init__(self):
        self.lock = threading.Lock()
        self.answers = Counter()  # (what, status)
        self.faults = []

    def answer(self, what, status):
        with self.lock:
            self.answers[what, status] += 1

    def fault(self, what, text):
        with self.lock:
            self.faults.append(f"{what}: {text}")

    def total(self):
        return sum(self.answers.values())


class Workload:
    """The threads of one cycle."""

    def __init__(self, server, tally, pids):
        self.server, self.tally, self.pids = server, tally, pids
        self.end = threading.Event()

    def run(self, seconds):
        self.end.clear()
        jobs = [self.infer_identity, self.infer_steady, self.infer_steady, self.infer_victim, self.infer_churn]
        jobs += [self.vanish, self.vanish, self.stream, self.break_stream, self.reload, self.kill]
        threads = [threading.Thread(target=self.guarded, args=(job,), name=job.__name__) for job in jobs]
        for t in threads:
            t.start()
        self.end.wait(seconds)
        self.end.set()
        for t in threads:
            t.join(2 * ANSWER_SECONDS)
            if t.is_alive():
                self.tally.fault(t.name, "does not come to an end")

    def guarded(self, job):
        try:
            job()
        except Exception as e:  # whatever it is, it is a finding
            self.tally.fault(job.__name__, repr(e))

    def ask(self, connection, what, model, allowed=()):
        """One request over a connection that is kept; each must be answered."""
        connection.request("POST", f"/v2/models/{model}/infer", json.dumps(X))
        response = connection.getresponse()
        body = response.read()
        self.tally.answer(what, response.status)
        if response.status != 200 and not any(text in body.decode() for text in allowed):
            self.tally.fault(what, f"{response.status} {body[:300]!r}")

    def infer(self, what, model, allowed=(), pause=0.0):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=ANSWER_SECONDS)
        while not self.end.is_set():
            self.ask(connection, what, model, allowed)
            self.end.wait(pause)
        connection.close()

    def infer_identity(self):
        self.infer("identity", "identity_any_fp32")

    def infer_steady(self):
        self.infer("steady", "steady")

    def infer_victim(self):
        # "is not healthy": its worker was killed under it, or is being started anew.
        self.infer("victim", "victim", ("is not healthy",), pause=0.002)

    def infer_churn(self):
        self.infer("churn", "churn", ("Request for unknown model", "Server is stopping"), pause=0.005)

    def vanish(self):
        """Clients that ask and go away without the answer."""
        body = json.dumps(X).encode()
        head = b"POST /v2/models/sleepy/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
        while not self.end.is_set():
            with socket.create_connection(("127.0.0.1", self.server.http_port), timeout=ANSWER_SECONDS) as c:
                c.sendall(head + body)
                self.end.wait(random.random() * 0.1)
            self.tally.answer("vanish", "gone")

    def open_stream(self, responses):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=ANSWER_SECONDS)
        connection.request("POST", "/v2/models/stream/generate_stream", json.dumps({"N": responses}))
        return connection, connection.getresponse()

    def stream(self):
        while not self.end.is_set():
            connection, response = self.open_stream(100)
            events = response.read().count(b"data: ")
            self.tally.answer("stream", response.status)
            if events != 100:
                self.tally.fault("stream", f"{response.status}, {events} events of 100")
            connection.close()

    def break_stream(self):
        while not self.end.is_set():
            connection, response = self.open_stream(100_000)
            response.read(200)
            connection.close()
            self.tally.answer("break", response.status)
            self.end.wait(0.05)

    def reload(self):
        """Reloads what serves, which loses nothing, and unloads and loads what may be missing."""
        while not self.end.is_set():
            for path, body in (("steady/load", "{}"), ("churn/unload", "{}"), ("churn/load", "{}")):
                status = self.server.post(f"/v2/repository/models/{path}", body, timeout=ANSWER_SECONDS).status
                self.tally.answer(path, status)
                if status != 200:
                    self.tally.fault(path, str(status))
            self.end.wait(0.2)

    def kill(self):
        """kill -9 of one worker of "victim" at a time, each some time after the last has come back."""
        while not self.end.wait(1.0):
            workers = self.victims()
            if workers:
                kill(random.choice(workers))
                self.tally.answer("kill", "sent")

    def victims(self):
        """The workers of "victim" that live."""
        ours = set(descendants(self.server.process.pid))
        return [pid for pid in (int(f.name) for f in self.pids.iterdir()) if pid in ours and alive(pid)]


def processes(server):
    return len(descendants(server.process.pid))


def look(server, looks):
    """What the server holds once it is quiet: processes, connections and streams of the cycle end a little later."""
    until(lambda: metric(server, "nv_inference_pending_request_count", model="sleepy", version="1") == 0, timeout=60)
    found = figures(server)

    def quiet():
        nonlocal found
        found = figures(server)
        return all(not grew(name, min(sample[name] for sample in looks), found[name]) for name in ENDING)

    if looks:
        until(quiet, timeout=60)
    return found


def figures(server):
    numbers = {}
    for line in server.metrics().splitlines():
        name, _, value = line.rpartition(" ")
        if name in ("go_goroutines", "process_open_fds", "process_resident_memory_bytes"):
            numbers[name] = float(value)
    return {
        "memory_mib": numbers["process_resident_memory_bytes"] / 2**20,
        "tree_mib": procstat.rss_bytes(server.process.pid) / 2**20,
        "goroutines": numbers["go_goroutines"],
        "descriptors": numbers["process_open_fds"],
        "processes": processes(server),
    }


# What a figure may gain from the first to the last third of the run, as medians (see judge for short runs): an
# absolute part, and a share of the first.
ROOM = {
    "memory_mib": (12, 0.15),
    "tree_mib": (60, 0.15),
    "goroutines": (8, 0.1),
    "descriptors": (8, 0.1),
    "processes": (1, 0.0),
}


ENDING = ("goroutines", "descriptors", "processes")  # of which there are more for a while


def grew(name, first, last):
    room, share = ROOM[name]
    return last - first > room + share * first


def median(values):
    return sorted(values)[len(values) // 2]


def judge(looks):
    """The figures before and after, and those that grew."""
    settled = looks[1:] if len(looks) > 3 else looks  # pools and caches fill in the first cycle
    third = len(settled) // 3
    rows, grown = [], []
    for name in ROOM:
        values = [sample[name] for sample in settled]
        if third >= 3:
            first, last = median(values[:third]), median(values[-third:])
        else:
            # A single look swings by what happens to be under way. What leaks is above all that was seen before.
            half = len(values) // 2
            first, last = max(values[:half] or values), min(values[half:])
        most = max(sample[name] for sample in looks)
        rows.append((name, first, last, most))
        if grew(name, first, last):
            grown.append(f"{name} grew from {first:.1f} to {last:.1f}")
    return rows, grown


def run(minutes, cycle_seconds, out=sys.stdout):
    with tempfile.TemporaryDirectory(prefix="neso-soak-") as top:
        make_repository(Path(top) / "models", Path(top) / "pids")
        models = ("identity_any_fp32", "steady", "victim", "churn", "sleepy", "stream")
        options = [
            "--model-control-mode=explicit",
            *[f"--load-model={m}" for m in models],
            "--instance-hang-timeout=30",
        ]
        with Server(Path(top) / "models", *options, log=Path(top) / "log") as server:
            tally, looks = Tally(), []
            work = Workload(server, tally, Path(top) / "pids")
            end = time.monotonic() + 60 * minutes
            while time.monotonic() < end or len(looks) < 3:
                work.run(cycle_seconds)
                for model in ("victim", "churn"):
                    if not until(lambda m=model: server.infer(m, X).status == 200, timeout=60):
                        tally.fault(model, "does not serve again")
                # Both of them, or what is then seen is less than what there will be.
                if not until(lambda: len(work.victims()) == INSTANCES, timeout=60):
                    tally.fault("victim", "does not have all its workers again")
                looks.append(look(server, looks))
                print(
                    "  ".join(f"{k} {v:.0f}" for k, v in looks[-1].items()),
                    f" requests {tally.total()}",
                    file=out,
                    flush=True,
                )
                if tally.faults:
                    break
            status = server.stop()
            if status != 0:
                tally.fault("server", f"ended with {status}: {server.log()[-1000:]}")
    rows, grown = judge(looks)
    print(f"\n{'':14}{'first third':>12}{'last third':>12}{'most':>12}", file=out)
    for name, first, last, most in rows:
        print(f"{name:14}{first:12.1f}{last:12.1f}{most:12.1f}", file=out)
    print("\nanswers:", file=out)
    for (what, status), count in sorted(tally.answers.items(), key=str):
        print(f"  {what:14} {status!s:6} {count:9}", file=out)
    for text in tally.faults[:20] + grown:
        print("FAULT", text, file=out)
    return 1 if tally.faults or grown else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="how long; default 10")
    parser.add_argument("--cycle-seconds", type=float, default=10, help="of work between two looks; default 10")
    options = parser.parse_args()
    sys.exit(run(options.minutes, min(options.cycle_seconds, 60 * options.minutes / 5)))


if __name__ == "__main__":
    main()
