"""Faults under load: what is lost (only what had no answer), and that everything comes back.

Redis that goes, hangs and comes back: e2e/scheduling/test_response_cache.py.
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
import tritonclient.grpc as tgrpc
from repository import Gate, Sent, X, answer, identity_model, metric, python_model, until
from server import ROOT, Server, alive, descendants, kill
from tritonclient.utils import InferenceServerException


class Load:
    """Clients that ask one model over kept connections until the end; every answer and every lost request is kept."""

    def __init__(self, server, model, clients=4):
        self.server, self.model = server, model
        self.answers: Counter = Counter()  # by status and text of the error
        self.lost: list[str] = []
        self.lock = threading.Lock()
        self.end = threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(clients)]

    def run(self):
        connection = None
        while not self.end.is_set():
            try:
                connection = connection or http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=120)
                connection.request("POST", f"/v2/models/{self.model}/infer", json.dumps(X))
                response = connection.getresponse()
                body = response.read()
                text = "" if response.status == 200 else json.loads(body)["error"]
                with self.lock:
                    self.answers[response.status, text] += 1
            except (OSError, http.client.HTTPException) as e:
                with self.lock:
                    self.lost.append(repr(e))
                if connection:
                    connection.close()
                connection = None
                self.end.wait(0.02)

    def good(self) -> int:
        with self.lock:
            return self.answers[200, ""]

    def bad(self) -> dict:
        with self.lock:
            return {k: n for k, n in self.answers.items() if k[0] != 200}

    def grows(self, by=20) -> bool:
        before = self.good()
        return until(lambda: self.good() >= before + by)

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        for t in self.threads:
            t.join()


NOTE_PID = "import os; open({pids!r} + '/' + str(os.getpid()), 'w').close()"


def noting_model(repository, name, pids, **more):
    """A Python model whose workers leave files named after their processes in pids."""
    pids.mkdir(exist_ok=True)
    python_model(repository, name, init=NOTE_PID.format(pids=str(pids)), **more)


def workers(pids):
    return [int(f.name) for f in pids.iterdir() if alive(int(f.name))]


def test_killed_workers(tmp_path):
    """Lost: what the killed worker was executing, answered with an error that names the cause. The other instance goes on."""
    pids = tmp_path / "pids"
    # A request for less than nothing hangs in the worker that it names.
    doomed = f"""import os
        if pb_utils.get_input_tensor_by_name(requests[0], "INPUT0").as_numpy()[0, 0] < 0:
            open({str(tmp_path / "doomed.new")!r}, "w").write(str(os.getpid()))
            os.rename({str(tmp_path / "doomed.new")!r}, {str(tmp_path / "doomed")!r})
            time.sleep(3600)"""
    extra = "instance_group [ { count: 2 kind: KIND_CPU } ]\n"
    noting_model(tmp_path / "m", "py", pids, execute=doomed, extra=extra)
    identity_model(tmp_path / "m", "other")
    with Server(tmp_path / "m") as s, Load(s, "py") as load, Load(s, "other", clients=1) as other:
        used = 0
        for _ in range(3):
            assert load.grows()
            before, used = used, metric(s, "neso_worker_cpu_seconds_total", model="py", version="1")
            assert used >= before, "what the killed worker had used is not counted any more"
            lost = Sent(s, "py", {"inputs": [{**X["inputs"][0], "data": [-1]}]})
            assert until((tmp_path / "doomed").exists)
            assert load.grows()
            pid = int((tmp_path / "doomed").read_text())
            (tmp_path / "doomed").unlink()
            kill(pid)
            assert lost.status() == 500
            assert until(lambda pid=pid: not alive(pid) and len(workers(pids)) == 2), s.log()[-2000:]
        assert load.grows() and other.grows()
        assert not load.lost and not other.lost and not other.bad()
        assert until(lambda: metric(s, "neso_worker_restarts_total", model="py", version="1") == 3)
        assert metric(s, "neso_worker_restarts_total", model="other", version="1") == 0
        assert until(lambda: metric(s, "neso_worker_cpu_seconds_total", model="py", version="1") > used)
        assert metric(s, "neso_worker_cpu_seconds_total", model="other", version="1") is None, "it has no worker"
        # Those behind the one that hung went to the other instance.
        assert not load.bad(), load.bad()
        assert s.get("/v2/health/ready").status == 200


def test_killed_zygote(tmp_path):
    """The process that workers are forked from is of the same kind: a new one is started, and nothing that serves is lost."""
    pids = tmp_path / "pids"
    noting_model(tmp_path / "m", "py", pids)
    with Server(tmp_path / "m") as s, Load(s, "py", clients=2) as load:
        assert load.grows()
        for p in set(descendants(s.process.pid)) - set(workers(pids)):
            kill(p)
        assert load.grows(), s.log()[-2000:]
        kill(workers(pids)[0])
        assert until(lambda: s.infer("py", X).status == 200), s.log()[-3000:]
        assert not load.lost


def test_killed_server(tmp_path):
    """Lost: what had no answer, which clients see as a broken connection. Another start takes the same ports and files."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    python_model(tmp_path / "m", "py")
    identity_model(tmp_path / "m", "go")
    env = {"TMPDIR": str(temporary)}
    explicit = ("--model-control-mode=explicit", "--load-model=*")
    s = Server(tmp_path / "m", *explicit, env=env, log=tmp_path / "log1")
    config = json.dumps({"backend": "identity", "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
                         "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}]})  # fmt: skip
    r = s.post("/v2/repository/models/made/load", {"parameters": {"config": config, "file:1/data": "AAAA"}})
    assert r.status == 200, r
    assert {p.name.rsplit("-", 1)[0] for p in temporary.iterdir()} >= {"neso-model", "neso-python"}
    left = set(temporary.iterdir())
    children = descendants(s.process.pid)
    with Load(s, "py") as load:
        assert load.grows()
        s.process.send_signal(signal.SIGKILL)
        s.process.wait()
        before = load.good()
        assert until(lambda: not any(alive(p) for p in children))
        again = Server(
            tmp_path / "m", *explicit, env=env, log=tmp_path / "log2", ports=(s.http_port, s.grpc_port, s.metrics_port)
        )
        try:
            assert load.grows(), again.log()[-2000:]
            # While the models load, the new server says so.
            assert load.lost and set(load.bad()) <= {(503, "Server not ready")} and load.good() > before
            r = again.post("/v2/repository/models/made/load", {"parameters": {"config": config, "file:1/data": "AAAA"}})
            assert r.status == 200, r
            assert not left & set(temporary.iterdir()), "directories of the killed server are left"
        finally:
            load.end.set()
            assert again.stop() == 0, again.log()[-2000:]
    assert not list(temporary.iterdir())
    s.stop()


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="needs /dev/full, a device on which every write says that the disk is full"
)
def test_full_disk_for_logs(tmp_path):
    """Lost: the lines of the log."""
    python_model(tmp_path, "py", execute="print('words', flush=True)")
    with Server(tmp_path, "--log-file=/dev/full", "--log-verbose=1") as s:
        for _ in range(50):
            assert answer(s, "py") == 1
        # A worker that dies says its last words into the full log, too.
        for p in descendants(s.process.pid):
            kill(p)
        assert until(lambda: s.infer("py", X).status == 200)
        assert s.get("/v2/health/ready").status == 200
        assert s.stop() == 0


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB, of which 16 are taken by a file that can go."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True).returncode != 0:
        pytest.skip("this system does not let root mount a file system")
    try:
        (disk / "ballast").write_bytes(bytes(16 << 10))
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=False)


def test_disk_that_fills_up(tmp_path, small_disk):
    """Lost: the lines that the log had no room for. It ends where the disk ends, the server goes on, and so does the
    log once there is room."""
    identity_model(tmp_path / "m", "go")
    with Server(tmp_path / "m", f"--log-file={small_disk}/log", "--log-verbose=1") as s:
        for _ in range(600):
            assert answer(s, "go") == 1
        size = (small_disk / "log").stat().st_size
        assert size < 64 << 10
        (small_disk / "ballast").unlink()
        assert answer(s, "go") == 1
        assert until(lambda: answer(s, "go") == 1 and (small_disk / "log").stat().st_size > size)
        assert s.stop() == 0


def test_disk_that_fills_up_with_traces(tmp_path, small_disk):
    """Lost: the traces that the disk had no room for, which are counted. Those before and after are a whole file."""
    identity_model(tmp_path / "m", "go")
    file = small_disk / "trace.json"
    options = ("triton,file=" + str(file), "rate=1", "level=TIMESTAMPS")
    with Server(tmp_path / "m", *[f"--trace-config={o}" for o in options]) as s:

        def ask(name):
            assert s.infer("go", {**X, "id": name}).status == 200

        asked = 0
        while metric_value(s, "neso_traces_dropped_total") < 3:
            asked += 1
            ask(f"before{asked}")
            assert asked < 2000, "the disk does not become full"
        assert until(lambda: "failed to write traces" in s.log()) and s.get("/v2/health/ready").status == 200
        assert s.log().count("failed to write traces") == 1
        (small_disk / "ballast").unlink()
        kept = file.stat().st_size

        def comes_again():
            ask("after")
            return file.stat().st_size > kept

        assert until(comes_again)
        assert s.stop() == 0
    names = {t["request_id"] for t in json.loads(file.read_bytes()) if "request_id" in t}
    assert {"before1", "after"} <= names, sorted(names)
    # Which of them are lost is not said: a trace may end after the answer, and find room again.
    assert len([n for n in names if n.startswith("before")]) <= asked - 3, sorted(names)


def connections(port, n):
    made = []
    for _ in range(n):
        c = socket.create_connection(("127.0.0.1", port), timeout=120)
        made.append(c)
    return made


def test_thousands_of_half_open_connections(tmp_path):
    """Connections that say nothing, or half a request, cost descriptors for a time, not service. Lost: nothing of others."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    n = min(3000, most // 4)
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 2 * n + 500), most))
    identity_model(tmp_path, "go")
    held = []

    def hold(s):
        held.extend(connections(s.http_port, n // 2))
        for c in held[: n // 4]:
            c.sendall(b"POST /v2/models/go/infer HTTP/1.1\r\nHost: x\r\nContent-Le")
        held.extend(connections(s.grpc_port, n // 2))
        for c in held[-n // 4 :]:
            c.sendall(b"PRI * HTTP/2.0\r\n")

    def let_go():
        while held:
            held.pop().close()

    try:
        # All of them at once, as long as it takes to look: over HTTP they may stay, over gRPC for 10 s.
        with Server(tmp_path, "--http-read-timeout-secs=600", "--http-header-timeout-secs=600") as s:
            with Load(s, "go", clients=2) as load:
                hold(s)
                assert load.grows(200)
                with tgrpc.InferenceServerClient(s.grpc) as client:
                    assert client.is_server_ready()
                assert metric_value(s, "process_open_fds") > n // 2
            assert not load.lost and not load.bad()
            let_go()
        # They are closed by the server when their time is up.
        with Server(tmp_path, "--http-read-timeout-secs=2", "--http-header-timeout-secs=2") as s:
            goroutines = metric_value(s, "go_goroutines")
            hold(s)
            assert until(lambda: metric_value(s, "process_open_fds") < 100), metric_value(s, "process_open_fds")
            assert until(lambda: metric_value(s, "go_goroutines") < goroutines + 50)
            assert s.infer("go", X).status == 200
    finally:
        let_go()
        resource.setrlimit(resource.RLIMIT_NOFILE, soft)


def metric_value(server, name):
    for line in server.metrics().splitlines():
        if line.startswith(name + " "):
            return float(line.rpartition(" ")[2])
    raise KeyError(name)


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))


@pytest.mark.parametrize("kind", ["go", "py"])
def test_descriptors_exhausted(tmp_path, kind):
    """Connections beyond the limit wait in the kernel; those that are there go on, and the listeners come back. Lost: nothing."""
    (python_model if kind == "py" else identity_model)(tmp_path, "m")
    with Server(tmp_path, prepare=few_descriptors) as s, Load(s, "m", clients=2) as load:
        assert load.grows()
        held = connections(s.http_port, 150)
        assert until(lambda: len(os.listdir(f"/proc/{s.process.pid}/fd")) >= 94), os.listdir(
            f"/proc/{s.process.pid}/fd"
        )
        assert load.grows(200), "requests on connections that exist wait"
        for c in held:
            c.close()
        assert until(lambda: s.get("/v2/health/ready").status == 200)
        with tgrpc.InferenceServerClient(s.grpc) as client:
            assert client.is_server_ready()
        assert until(lambda: metric_value(s, "process_open_fds") < 60)
        assert load.grows() and not load.lost and not load.bad(), (load.lost, load.bad())


def test_reload_storm(tmp_path):
    """Reloads from many sides at once: one after the other takes place. Lost: nothing."""
    python_model(tmp_path, "py")
    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=py") as s, Load(s, "py") as load:
        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda _: s.post("/v2/repository/models/py/load", "{}"), range(60)))
        assert all(r.status == 200 for r in replies), replies
        assert load.grows()
        assert not load.lost and not load.bad(), (load.lost, load.bad())
        assert until(lambda: len(descendants(s.process.pid)) <= 3), descendants(s.process.pid)


def test_unload_storm(tmp_path):
    """Loads and unloads from many sides. Lost: requests that find the model gone, which are told so."""
    python_model(tmp_path, "py")
    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=py") as s, Load(s, "py") as load:
        assert load.grows()

        def change(i):
            return s.post(f"/v2/repository/models/py/{'load' if i % 2 else 'unload'}", "{}")

        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(change, range(80)))
        assert all(r.status == 200 or "currently loading or unloading" in r.error for r in replies), replies
        assert until(lambda: s.post("/v2/repository/models/py/load", "{}").status == 200)
        assert load.grows()
        assert not load.lost
        known = ("Request for unknown model", "Server is stopping, scheduler for model has stopped")
        assert all(any(k in text for k in known) for _, text in load.bad()), load.bad()
        assert until(lambda: len(descendants(s.process.pid)) <= 3), descendants(s.process.pid)


def test_cancel_storm(tmp_path):
    """Hundreds of clients that give up: their requests leave the server, and those of others are answered. Lost: nothing of others."""
    python_model(tmp_path, "py", execute="time.sleep(0.005)")
    body = json.dumps(X).encode()
    request = b"POST /v2/models/py/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with Server(tmp_path) as s, Load(s, "py", clients=1) as load:
        x = tgrpc.InferInput("INPUT0", [1, 1], "FP32")
        x.set_data_from_numpy(__import__("numpy").ones((1, 1), "float32"))

        def give_up_http(_):
            with socket.create_connection(("127.0.0.1", s.http_port)) as c:
                c.sendall(request)

        def give_up_grpc(_):
            with tgrpc.InferenceServerClient(s.grpc) as client:
                try:
                    client.infer("py", [x], client_timeout=0.01)
                except InferenceServerException as e:
                    assert e.status() == "StatusCode.DEADLINE_EXCEEDED", e

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(give_up_http, range(400)))
            list(pool.map(give_up_grpc, range(100)))
        assert until(lambda: (metric(s, "nv_inference_pending_request_count", model="py", version="1") or 0) <= 1)
        assert load.grows() and not load.lost and not load.bad(), (load.lost, load.bad())


def test_hung_python_worker_is_replaced(tmp_path):
    """Lost: the requests of the worker that hangs, with an error that says so."""
    pids = tmp_path / "pids"
    flag = tmp_path / "hang"
    noting_model(tmp_path / "m", "py", pids, execute=f"import os; os.path.exists({str(flag)!r}) and time.sleep(600)")
    identity_model(tmp_path / "m", "go")
    with Server(tmp_path / "m", "--instance-hang-timeout=8") as s, ThreadPoolExecutor(1) as pool:
        assert answer(s, "py") == 1
        first = workers(pids)
        flag.touch()
        hung = pool.submit(s.infer, "py", X)

        def model():
            r = s.get("/v2/health/ready?verbose")
            return r.status, next(m for m in r.json["models"] if m["name"] == "py")

        assert until(lambda: "no progress" in model()[1].get("reason", "")), model()
        assert metric(s, "neso_instances_stuck", model="py", version="1") == 1
        assert answer(s, "go") == 1
        r = hung.result()
        assert r.status == 500 and "has made no progress for 8s (--instance-hang-timeout)" in r.error, r
        flag.unlink()
        assert until(lambda: s.infer("py", X).status == 200)
        assert until(lambda: not any(alive(p) for p in first))
        assert until(lambda: model() == (200, {"name": "py", "version": "1", "state": "READY", "ready": True})), model()
        assert metric(s, "neso_instance_hangs_total", model="py", version="1") == 1
        assert "an instance hangs and is interrupted" in s.log()


def test_stop_with_a_grace(tmp_path):
    """With --drain-grace-secs all is served after SIGTERM, not ready. Lost: nothing."""
    python_model(tmp_path, "py")
    s = Server(tmp_path, "--drain-grace-secs=600")
    try:
        kept = http.client.HTTPConnection("127.0.0.1", s.http_port, timeout=120)

        def ask(path, body=None):
            kept.request("POST" if body else "GET", path, json.dumps(body) if body else None)
            r = kept.getresponse()
            return r.status, r.read(), r.getheader("connection")

        infer = ("/v2/models/py/infer", X)
        assert ask(*infer)[0] == 200
        s.process.send_signal(signal.SIGTERM)
        assert until(lambda: s.get("/v2/health/ready").status == 400)
        status, body, _ = ask("/v2/health/ready?verbose")
        assert status == 400 and json.loads(body)["reason"] == "the server is about to stop"
        assert json.loads(body)["models"][0]["ready"] is True
        assert ask("/v2/health/live")[0] == 200
        with tgrpc.InferenceServerClient(s.grpc) as client:
            assert not client.is_server_ready() and client.is_server_live()
        status, _, connection = ask(*infer)
        assert (status, connection) == (200, None)
        assert s.infer("py", X).status == 200  # on a connection that is new
    finally:
        s.process.kill()
        s.stop()


def test_connections_move_before_the_grace_is_over(tmp_path):
    """Those that are busy when it ends would lose what is on its way then."""
    identity_model(tmp_path, "go")
    s = Server(tmp_path, "--drain-grace-secs=8")
    kept = http.client.HTTPConnection("127.0.0.1", s.http_port, timeout=120)

    def ask():
        kept.request("GET", "/v2/health/live")
        r = kept.getresponse()
        r.read()
        return r.status, r.getheader("connection")

    gone = threading.Event()
    with grpc.insecure_channel(s.grpc) as channel:
        grpc.channel_ready_future(channel).result(60)
        channel.subscribe(lambda state: state is not grpc.ChannelConnectivity.READY and gone.set())
        assert ask() == (200, None)
        s.process.send_signal(signal.SIGTERM)
        assert until(lambda: ask() == (200, "close"))  # it answers, and only its last connections are asked to end
        assert gone.wait(60)
        assert s.get("/v2/health/live").status == 200
    with tgrpc.InferenceServerClient(s.grpc) as client:
        assert client.is_server_live()
    assert s.process.wait(60) == 0, s.log()
    s.stop()


def test_what_is_in_flight_when_the_grace_is_over(tmp_path):
    """Lost: nothing."""
    gate = Gate(tmp_path)
    python_model(tmp_path / "models", "py", execute=gate.execute)
    s = Server(tmp_path / "models", "--drain-grace-secs=1")
    late = Sent(s, "py")
    gate.come()
    s.process.send_signal(signal.SIGTERM)
    assert until(lambda: s.get("/v2/health/live").status == 503)  # which it is not before that
    gate.open()
    assert late.status() == 200
    assert s.process.wait(60) == 0, s.log()
    s.stop()


def test_second_signal_ends_the_grace(tmp_path):
    identity_model(tmp_path, "go")
    s = Server(tmp_path, "--drain-grace-secs=600")
    s.process.send_signal(signal.SIGTERM)
    assert until(lambda: s.get("/v2/health/ready").status == 400)

    def again():  # one that comes together with the first is the same stop
        s.process.send_signal(signal.SIGTERM)
        return s.process.poll() is not None

    assert until(again), s.log()
    assert s.process.wait(60) == 1
    s.stop()


def test_a_stop_that_comes_twice_drains(tmp_path):
    """As timeout(1) sends it: to the process and to its group."""
    identity_model(tmp_path, "go")
    s = Server(tmp_path, "--drain-grace-secs=1")
    for n in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):  # both are there when it goes on
        s.process.send_signal(n)
    assert s.process.wait(60) == 0, s.log()
    assert "second signal" not in s.log()
    s.stop()


def test_connections_are_told_to_close_while_requests_drain(tmp_path):
    gate = Gate(tmp_path)
    python_model(tmp_path / "models", "py", execute=gate.execute)
    s = Server(tmp_path / "models")
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(s.infer, "py", X)
        gate.come()
        s.process.send_signal(signal.SIGTERM)
        assert until(lambda: s.get("/v2/health/live").status == 503)
        r = s.infer("py", X)
        assert r.status == 503 and r.headers["connection"] == "close", r
        gate.open()
        r = slow.result()
        assert r.status == 200 and r.headers["connection"] == "close", r
    assert s.process.wait(60) == 0
    s.stop()


def test_connection_age(tmp_path):
    """Connections end with a reply after their age, and no request is lost to that."""
    identity_model(tmp_path, "go")
    with Server(tmp_path, "--http-max-connection-age-secs=1") as s:
        kept = http.client.HTTPConnection("127.0.0.1", s.http_port, timeout=120)
        ages, begin = [], time.monotonic()

        def ask():
            kept.request("POST", "/v2/models/go/infer", json.dumps(X))
            r = kept.getresponse()
            r.read()
            assert r.status == 200
            return r.getheader("connection")

        def closed():
            nonlocal begin
            if ask() == "close":  # the next request is the first of another connection
                ages.append(time.monotonic() - begin)
                begin = time.monotonic()
            return len(ages) == 2

        assert until(closed), ages
        assert min(ages) > 0.8, ages


def test_soak(tmp_path):
    """A quarter of a minute of bench/operate/soak.py, which `make soak` runs for ten."""
    soak = [sys.executable, str(ROOT / "bench" / "operate" / "soak.py"), "--minutes", "0.25"]
    r = subprocess.run(soak, capture_output=True, text=True, timeout=900)
    assert r.returncode == 0, r.stdout + r.stderr


def test_overload():
    """Seconds of bench/operate/overload.py: no request is lost, refusals say when to come again. Its figures are
    `make overload`'s to judge."""
    overload = [sys.executable, str(ROOT / "bench" / "operate" / "overload.py"), "--seconds", "2"]
    r = subprocess.run(overload, capture_output=True, text=True, timeout=900)
    assert "gRPC: p99 ratio" in r.stdout, r.stdout + r.stderr
    assert "lost" not in r.stdout and "do not say" not in r.stdout, r.stdout
