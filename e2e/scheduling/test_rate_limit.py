"""Instances that share resources: --rate-limit=execution_count."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from repository import X, metric, python_model, until
from server import ROOT, Server

# Two at once would find the file of the other one.
ALONE = """import os
        os.close(os.open({path!r}, os.O_CREAT | os.O_EXCL))
        time.sleep({seconds})
        os.remove({path!r})"""


def limited(repo, name, needs, priority=0, seconds=0.005, alone=True, extra=""):
    resources = ", ".join(f'{{ name: "{r}" {"global: true" if g else ""} count: {n} }}' for r, n, g in needs)
    execute = ALONE.format(path=str(repo / "taken"), seconds=seconds) if alone else f"time.sleep({seconds})"
    group = f"instance_group {{ rate_limiter {{ resources [ {resources} ] priority: {priority} }} }}\n"
    python_model(repo, name, execute=execute, extra=group + extra)
    config = repo / name / "config.pbtxt"
    if "max_batch_size" in extra:
        config.write_text(config.read_text().replace("[ -1, -1 ]", "[ -1 ]"))


def executions(server, name):
    return server.get(f"/v2/models/{name}/stats").json["model_stats"][0]["execution_count"]


@pytest.mark.parametrize("batching", ["", "max_batch_size: 2 dynamic_batching {}"])
def test_one_at_a_time_and_by_priority(tmp_path, batching):
    limited(tmp_path, "first", [("R", 1, False)], 1, extra=batching)
    limited(tmp_path, "second", [("R", 1, False)], 2, extra=batching)
    limited(tmp_path, "free", [], alone=False, extra=batching)
    with Server(tmp_path, "--rate-limit=execution_count") as s:
        assert metric(s, "neso_rate_limit_resource_units", resource="R", device="0") == 1
        stop, wrong = threading.Event(), []

        def client(name):
            while not stop.is_set():
                r = s.infer(name, X)
                if r.status != 200:
                    wrong.append(r)

        # Four clients each: there is always a request that waits.
        with ThreadPoolExecutor(12) as pool:
            for name in ("first", "second", "free"):
                for _ in range(4):
                    pool.submit(client, name)
            assert until(lambda: executions(s, "first") > 5 and executions(s, "second") > 5)
            a, b = executions(s, "first"), executions(s, "second")
            assert until(lambda: executions(s, "first") > a + 60)
            a, b = executions(s, "first") - a, executions(s, "second") - b
            stop.set()
        assert not wrong, wrong[:3]
        assert 1.5 < a / b < 2.6, (a, b)
        assert until(lambda: metric(s, "neso_rate_limit_resource_used_units", resource="R", device="0") == 0)


def test_off_ignores_resources(tmp_path):
    limited(tmp_path, "m", [("R", 5, False)], alone=False)
    with Server(tmp_path, "--rate-limit-resource=R:1") as s:
        assert s.infer("m", X).status == 200
        assert "neso_rate_limit" not in s.metrics()


def test_what_can_never_run_does_not_load(tmp_path):
    limited(tmp_path, "small", [("R", 1, False)], alone=False)
    limited(tmp_path, "large", [("R", 2, False)], alone=False)
    limited(tmp_path, "global", [("G", 1, True)], alone=False)
    limited(tmp_path, "local", [("G", 1, False)], alone=False)
    options = ("--rate-limit=execution_count", "--model-control-mode=explicit")
    with Server(tmp_path, *options, "--rate-limit-resource=R:1", "--rate-limit-resource=G:1:0") as s:
        assert s.post("/v2/repository/models/small/load").status == 200
        r = s.post("/v2/repository/models/large/load")
        assert r.status == 400, r
        assert (
            'Resource count for "R" is limited to 1 which will prevent scheduling of one or more model instances, '
            "the minimum required count is 2" in r.error
        ), r
        assert s.infer("small", X).status == 200
        assert s.post("/v2/repository/models/global/load").status == 200
        r = s.post("/v2/repository/models/local/load")
        assert (
            r.status == 400
            and 'Resource "G" is present as both global and device-specific resource in the model configuration.'
            in r.error
        ), r
        # What is unloaded gives back, also the kind of its resource.
        assert s.post("/v2/repository/models/global/unload").status == 200
        assert until(lambda: metric(s, "neso_rate_limit_resource_units", resource="G", device="all") is None)
        assert s.post("/v2/repository/models/local/load").status == 200
        assert s.infer("local", X).status == 200


def pending(server, name):
    return metric(server, "nv_inference_pending_request_count", model=name, version="1")


def test_waiting_requests_may_leave(tmp_path):
    """Timeouts and vanished clients are seen while another model holds the resource."""
    limited(tmp_path, "holder", [("R", 1, False)], seconds=3, alone=False)
    policy = "max_batch_size: 4 dynamic_batching { default_queue_policy { default_timeout_microseconds: 300000 } }"
    limited(tmp_path, "impatient", [("R", 1, False)], alone=False, extra=policy)
    limited(tmp_path, "patient", [("R", 1, False)], alone=False, extra="max_batch_size: 4 dynamic_batching {}")
    with Server(tmp_path, "--rate-limit=execution_count") as s, ThreadPoolExecutor(2) as pool:
        first = pool.submit(s.infer, "holder", X)
        assert until(lambda: metric(s, "neso_rate_limit_resource_used_units", resource="R", device="0") == 1)
        started = time.monotonic()
        r = s.infer("impatient", X)
        assert r.status == 503 and r.error == "Request timeout expired", r
        assert time.monotonic() - started < 2.5

        body = json.dumps(X).encode()
        request = b"POST /v2/models/patient/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        sockets = [socket.create_connection(("127.0.0.1", s.http_port)) for _ in range(3)]
        for c in sockets:
            c.sendall(request)
        assert until(lambda: pending(s, "patient") == 3)
        for c in sockets:
            c.close()
        assert until(lambda: pending(s, "patient") == 0)
        assert not first.done(), "the queue emptied only because the resource was free"
        assert first.result().status == 200
        assert s.infer("patient", X).status == 200
        # Nobody is left to hold it.
        assert until(lambda: metric(s, "neso_rate_limit_resource_used_units", resource="R", device="0") == 0)
        assert executions(s, "patient") == 1


SEQUENCE = """
max_batch_size: 2
sequence_batching {
  max_sequence_idle_microseconds: 10000000
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } }
}
"""


def test_sequences(tmp_path):
    limited(tmp_path, "s1", [("R", 2, True)], extra=SEQUENCE)
    limited(tmp_path, "s2", [("R", 2, True)], extra=SEQUENCE)
    limited(tmp_path, "plain", [("R", 1, True)])
    with Server(tmp_path, "--rate-limit=execution_count", "--rate-limit-resource=R:2") as s:
        assert metric(s, "neso_rate_limit_resource_units", resource="R", device="all") == 2

        def sequence(name, number):
            replies = []
            for i in range(10):
                parameters = {"sequence_id": number, "sequence_start": i == 0, "sequence_end": i == 9}
                replies.append(s.infer(name, {**X, "parameters": parameters}).status)
            return replies

        with ThreadPoolExecutor(6) as pool:
            jobs = [pool.submit(sequence, f"s{1 + n % 2}", n) for n in range(1, 5)]
            jobs += [pool.submit(lambda: [s.infer("plain", X).status for _ in range(20)])]
            assert all(status == 200 for j in jobs for status in j.result())


def test_unload_under_load(tmp_path):
    """Requests that wait for the resource of another model are answered before the model goes."""
    limited(tmp_path, "holder", [("R", 1, False)], seconds=1.5, alone=False)
    limited(tmp_path, "waits", [("R", 1, False)], alone=False)
    options = ("--rate-limit=execution_count", "--model-control-mode=explicit", "--load-model=*")
    with Server(tmp_path, *options) as s, ThreadPoolExecutor(2) as pool:
        first = pool.submit(s.infer, "holder", X)
        assert until(lambda: metric(s, "neso_rate_limit_resource_used_units", resource="R", device="0") == 1)
        second = pool.submit(s.infer, "waits", X)
        assert until(lambda: pending(s, "waits") == 1)
        assert s.post("/v2/repository/models/waits/unload").status == 200
        assert s.post("/v2/repository/models/holder/unload").status == 200
        assert first.result().status == 200 and second.result().status == 200
        assert until(lambda: metric(s, "neso_rate_limit_resource_units", resource="R", device="0") is None)


def test_the_page(tmp_path):
    """The configurations and the option of docs/rate-limiter.md do what the page says."""
    page = (ROOT / "docs" / "rate-limiter.md").read_text()
    for config in re.findall(r"^```pbtxt\n(.*?)^```", page, re.M | re.S):
        name = re.search(r'name: "(\w+)"', config)[1]
        python_model(tmp_path, name, execute="time.sleep(0.3)", extra=config)
    options = re.search(r"^\$ bin/neso serve --model-repository=models (.*)$", page, re.M)[1].split()

    def used():
        return metric(s, "neso_rate_limit_resource_used_units", resource="memory", device="0")

    with Server(tmp_path, *options) as s, ThreadPoolExecutor(16) as pool:
        jobs = [pool.submit(s.infer, "large", X) for _ in range(2)]
        assert until(lambda: used() == 4)
        jobs += [pool.submit(s.infer, "small", X) for _ in range(8)]
        assert all(j.result().status == 200 for j in jobs)
        assert executions(s, "large") == 2 and executions(s, "small") == 8 and until(lambda: used() == 0)
