"""What a backend library tells the server of its work: statistics and activities on traces."""

from __future__ import annotations

import json
import os
import signal

from libraries import backend, have_host, hosts, model
from repository import until
from server import Server
from tritonclient.grpc import InferenceServerClient


def body(*data, **more):
    return {"inputs": [{"name": "IN0", "datatype": "INT32", "shape": [1, len(data)], "data": list(data)}], **more}


def test_statistics(tmp_path):
    """What the library says of its computing is what the server says; how it fits into the request is the server's to know."""
    have_host()
    backend(tmp_path / "backends", "reports", "reports.c")
    model(tmp_path / "models", "reports", "reports")
    with Server(tmp_path / "models", f"--backend-directory={tmp_path / 'backends'}") as s:
        computed = 0
        for n in (1, 100, 200_000):
            r = s.infer("reports", body(*range(n)))
            assert r.status == 200, r
            computed += r.json["parameters"]["computed"]
        one = s.get("/v2/models/reports/stats").json["model_stats"][0]
        stats, batch = one["inference_stats"], one["batch_stats"][0]
        assert stats["compute_infer"] == {"count": 3, "ns": computed} == batch["compute_infer"]
        parts = [stats[k]["ns"] for k in ("queue", "compute_input", "compute_infer", "compute_output")]
        assert sum(parts) <= stats["success"]["ns"] and min(parts[1:]) > 0, stats
        for line in (
            "before a batch: instance 'reports_0' has not executed a batch yet",
            "not in order: the times of statistics, start and end of the execution and of the computation in it, are not in order",
            "released: the request has been deleted, or never was one",
            "batch: no error",
        ):
            assert until(lambda line=line: line in s.log()), s.log()[-2000:]


def test_activities(tmp_path):
    """They stand on the request's trace, as do the requests that the library sends for it."""
    have_host()
    for name, source in {"ident": "identity.c", "asks": "asks.c"}.items():
        backend(tmp_path / "backends", name, source)
        model(tmp_path / "models", name, name)
    file = tmp_path / "trace.json"
    trace = [f"--trace-config=triton,file={file}", "--trace-config=level=TIMESTAMPS", "--trace-config=rate=1"]
    with Server(tmp_path / "models", f"--backend-directory={tmp_path / 'backends'}", *trace) as s:
        r = s.infer("asks", body(1, 2, 3, id="mine", parameters={"do": "trace", "to": "ident"}))
        assert r.status == 200 and r.json["parameters"]["sum"] == 6, r
        assert until(lambda: "trace of asks version 1 id 'mine' context ''" in s.log()), s.log()[-2000:]
        assert until(lambda: "trace: the inference trace is a request's until it is released" in s.log()), s.log()[
            -2000:
        ]
    lines = json.loads(file.read_text())
    heads = {line["model_name"]: line for line in lines if "model_name" in line}
    assert heads["ident"]["parent_id"] == heads["asks"]["id"] and heads["ident"]["request_id"] == "called"
    of = [t["name"] for line in lines if line["id"] == heads["asks"]["id"] for t in line.get("timestamps", ())]
    assert of.index("COMPUTE_START") < of.index('a "quoted" step') < of.index("COMPUTE_END"), of


def test_memory(tmp_path):
    """What a library reports of its memory stands in the statistics of both protocols, also of a process that took another's place."""
    have_host()
    backend(tmp_path / "backends", "tallies", "tallies.c")
    model(tmp_path / "models", "tallies", "tallies", "instance_group { kind: KIND_CPU count: 3 }\n")

    def usage(s):
        one = s.get("/v2/models/tallies/stats").json["model_stats"][0]["memory_usage"]
        return [(u["type"], u["id"], u["byte_size"]) for u in one]

    def over_grpc(s):
        with InferenceServerClient(s.grpc) as client:
            (one,) = client.get_inference_statistics("tallies").model_stats
        return [(u.type, u.id, u.byte_size) for u in one.memory_usage]

    start = [f"--backend-directory={tmp_path / 'backends'}"]
    with Server(tmp_path / "models", *start, env={"PROBE_HOME": str(tmp_path)}) as s:
        assert usage(s) == [("CPU", 0, 4)]
        do = "memory model 0 0 100 2 1 7"
        assert s.infer("tallies", body(1, parameters={"do": do})).status == 200
        assert usage(s) == over_grpc(s) == [("CPU", 0, 103), ("GPU", 1, 7)]
        (pid,) = hosts(s.process.pid)
        os.kill(pid, signal.SIGKILL)
        assert until(lambda: usage(s) == [("CPU", 0, 4)]), usage(s)
