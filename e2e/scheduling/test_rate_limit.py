"""Instances that share resources: --rate-limit=execution_count."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from repository import Gate, Sent, X, metric, python_model, until
from server import ROOT, Server

# Two at once would find the file of the other one; ORDER has the models in the order of their executions.
ALONE = """import os
        os.close(os.open(TAKEN, os.O_CREAT | os.O_EXCL))
        with open(ORDER, "a") as f:
            f.write({name!r} + " ")
        time.sleep(0.005)
        os.remove(TAKEN)"""


def limited(repo, name, needs, priority=0, execute=None, extra=""):
    resources = ", ".join(f'{{ name: "{r}" {"global: true" if g else ""} count: {n} }}' for r, n, g in needs)
    group = f"instance_group {{ rate_limiter {{ resources [ {resources} ] priority: {priority} }} }}\n"
    if execute is None:
        execute = ALONE.format(name=name)
        execute = execute.replace("TAKEN", repr(str(repo / "taken"))).replace("ORDER", repr(str(repo / "order")))
    python_model(repo, name, execute=execute, extra=group + extra)
    config = repo / name / "config.pbtxt"
    if "max_batch_size" in extra:
        config.write_text(config.read_text().replace("[ -1, -1 ]", "[ -1 ]"))


def executions(server, name):
    return server.get(f"/v2/models/{name}/stats").json["model_stats"][0]["execution_count"]


@pytest.fixture
def gate(tmp_path):
    return Gate(tmp_path)


@pytest.fixture
def repo(tmp_path):
    return tmp_path / "models"


@pytest.mark.parametrize("batching", ["", "max_batch_size: 2 dynamic_batching {}"])
def test_one_at_a_time_and_by_priority(repo, gate, batching):
    limited(repo, "holder", [("R", 1, False)], 1, gate.execute)
    limited(repo, "first", [("R", 1, False)], 1, extra=batching)
    limited(repo, "second", [("R", 1, False)], 2, extra=batching)
    limited(repo, "free", [], execute="pass", extra=batching)
    with Server(repo, "--rate-limit=execution_count") as s:
        assert metric(s, "neso_rate_limit_resource_units", resource="R", device="0") == 1
        sent = [Sent(s, "holder")]
        gate.come()
        # All of them are there before the first one executes.
        for name in ("first", "second"):
            sent += [Sent(s, name) for _ in range(60)]
        assert until(lambda: pending(s, "first") == pending(s, "second") == 60)
        assert s.infer("free", X).status == 200
        gate.open()
        assert [r.status() for r in sent] == [200] * 121
        order = (repo / "order").read_text().split()[:36]
        a, b = order.count("first"), order.count("second")
        assert 1.5 < a / b < 2.6, order
        assert until(lambda: metric(s, "neso_rate_limit_resource_used_units", resource="R", device="0") == 0)


def test_off_ignores_resources(tmp_path):
    limited(tmp_path, "m", [("R", 5, False)], execute="pass")
    with Server(tmp_path, "--rate-limit-resource=R:1") as s:
        assert s.infer("m", X).status == 200
        assert "neso_rate_limit" not in s.metrics()


def test_what_can_never_run_does_not_load(tmp_path):
    limited(tmp_path, "small", [("R", 1, False)], execute="pass")
    limited(tmp_path, "large", [("R", 2, False)], execute="pass")
    limited(tmp_path, "global", [("G", 1, True)], execute="pass")
    limited(tmp_path, "local", [("G", 1, False)], execute="pass")
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


def test_waiting_requests_may_leave(repo, gate):
    """Timeouts and vanished clients are seen while another model holds the resource."""
    limited(repo, "holder", [("R", 1, False)], execute=gate.execute)
    policy = "max_batch_size: 4 dynamic_batching { default_queue_policy { default_timeout_microseconds: 300000 } }"
    limited(repo, "impatient", [("R", 1, False)], execute="pass", extra=policy)
    limited(repo, "patient", [("R", 1, False)], execute="pass", extra="max_batch_size: 4 dynamic_batching {}")
    with Server(repo, "--rate-limit=execution_count") as s:
        first = Sent(s, "holder")
        gate.come()
        assert metric(s, "neso_rate_limit_resource_used_units", resource="R", device="0") == 1
        r = s.infer("impatient", X)
        assert r.status == 503 and r.error == "Request timeout expired", r

        left = [Sent(s, "patient") for _ in range(3)]
        assert until(lambda: pending(s, "patient") == 3)
        for r in left:
            r.close()
        assert until(lambda: pending(s, "patient") == 0)
        gate.open()
        assert first.status() == 200
        assert s.infer("patient", X).status == 200
        # Nobody is left to hold it.
        assert until(lambda: metric(s, "neso_rate_limit_resource_used_units", resource="R", device="0") == 0)
        assert until(lambda: executions(s, "patient") == 1)


SEQUENCE = """
max_batch_size: 2
sequence_batching {
  max_sequence_idle_microseconds: 600000000
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


def test_unload_under_load(repo, gate):
    """Requests that wait for the resource of another model are answered before the model goes."""
    limited(repo, "holder", [("R", 1, False)], execute=gate.execute)
    limited(repo, "waits", [("R", 1, False)], execute="pass")
    options = ("--rate-limit=execution_count", "--model-control-mode=explicit", "--load-model=*")
    with Server(repo, *options) as s:
        first = Sent(s, "holder")
        gate.come()
        second = Sent(s, "waits")
        assert until(lambda: pending(s, "waits") == 1)
        assert s.post("/v2/repository/models/waits/unload").status == 200
        assert s.post("/v2/repository/models/holder/unload").status == 200
        gate.open()
        assert first.status() == second.status() == 200
        assert until(lambda: metric(s, "neso_rate_limit_resource_units", resource="R", device="0") is None)


def test_the_page(repo, gate):
    """The configurations and the option of docs/models/rate-limiter.md do what the page says."""
    page = (ROOT / "docs" / "models" / "rate-limiter.md").read_text()
    for config in re.findall(r"^```pbtxt\n(.*?)^```", page, re.M | re.S):
        name = re.search(r'name: "(\w+)"', config)[1]
        python_model(repo, name, execute=gate.execute, extra=config)
    options = re.search(r"^\$ bin/neso serve --model-repository=models (.*)$", page, re.M)[1].split()

    def used():
        return metric(s, "neso_rate_limit_resource_used_units", resource="memory", device="0")

    with Server(repo, *options) as s:
        sent = [Sent(s, "large") for _ in range(2)]
        gate.come()
        assert used() == 4
        sent += [Sent(s, "small") for _ in range(8)]
        gate.open()
        assert [r.status() for r in sent] == [200] * 10
        assert until(lambda: executions(s, "large") == 2 and executions(s, "small") == 8 and used() == 0)
