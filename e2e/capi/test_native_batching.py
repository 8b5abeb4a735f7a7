"""Libraries that say which requests come into a batch: batchstrategy.so and TRITON_BATCH_STRATEGY_PATH."""

from __future__ import annotations

import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from libraries import ROOT, backend, compile, have_host, model
from server import Server

DYNAMIC = "dynamic_batching { }\n"
PARAMETER = 'parameters {{ key: "TRITON_BATCH_STRATEGY_PATH" value {{ string_value: "{}" }} }}\n'
SHARED = 'parameters { key: "isolation" value { string_value: "shared" } }\n'
SOME = """#include "common.h"
TRITONSERVER_Error* TRITONBACKEND_ModelBatchFinalize(void* userp) {
  (void)userp;
  return NULL;
}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    have_host()
    top = tmp_path_factory.mktemp("batching")
    backends, models = top / "backends", top / "models"
    groups = compile("batching/groups.c", top / "groups.so")
    backend(backends, "holds", "holds.c")
    backend(backends, "both", "holds.c", str(Path(__file__).parent / "batching" / "groups.c"))
    some = compile(SOME, top / "some.so")
    for name, of, extra, place in (
        ("named", "holds", DYNAMIC + PARAMETER.format(models / "named" / "my.so"), "my.so"),
        ("relative", "holds", DYNAMIC + PARAMETER.format("my.so"), "my.so"),
        ("version", "holds", DYNAMIC, "1/batchstrategy.so"),
        ("folder", "holds", DYNAMIC, "batchstrategy.so"),
        ("shared", "holds", DYNAMIC + SHARED, "batchstrategy.so"),
        ("shared2", "holds", DYNAMIC + SHARED, ""),
        ("own", "both", DYNAMIC, ""),
        ("unlinked", "holds", DYNAMIC + PARAMETER.format("../named/my.so"), ""),
        ("absent", "holds", DYNAMIC + PARAMETER.format("none.so"), ""),
        ("sequence", "holds", "sequence_batching { }\n" + PARAMETER.format("my.so"), "my.so"),
        ("some", "holds", DYNAMIC + PARAMETER.format("my.so"), "some"),
        ("refuses", "holds", DYNAMIC, "batchstrategy.so"),
        ("direct", "holds", "", "batchstrategy.so"),
    ):
        folder = model(models, name, of, extra)
        if place:
            shutil.copy(some if place == "some" else groups, folder / ("my.so" if place == "some" else place))
    gate = top / "go"
    options = ["--model-control-mode=explicit", f"--backend-directory={backends}"]
    with Server(models, *options, env={"LET_GO": str(gate)}) as s:
        s.gate = gate
        yield s


@pytest.fixture
def load(served):
    names = []

    def load(name):
        r = served.post(f"/v2/repository/models/{name}/load", {})
        names.append(name)
        return r

    yield load
    for name in names:
        served.post(f"/v2/repository/models/{name}/unload", {})


def ask(s, name, number):
    r = s.infer(name, {"inputs": [{"name": "IN0", "datatype": "INT32", "shape": [1, 1], "data": [number]}]})
    assert r.status == 200, r
    return tuple(r.json["outputs"][0]["data"])


def pending(s, name) -> int:
    found = re.search(rf'nv_inference_pending_request_count{{model="{name}",version="1"}} (\d+)', s.metrics())
    return int(found[1]) if found else 0


def until(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.005)


def batches(s, name, numbers) -> list[int]:
    """The sizes of the batches that these numbers, one after the other, come into while the instance is busy."""
    s.gate.unlink(missing_ok=True)
    before = closed(s, name)
    with ThreadPoolExecutor(len(numbers) + 1) as pool:
        first = pool.submit(ask, s, name, -1)
        until(lambda: closed(s, name) > before)
        rest = []
        for n in numbers:
            rest.append(pool.submit(ask, s, name, n))
            until(lambda: pending(s, name) == len(rest))
        s.gate.touch()
        assert first.result()[1] == 1
        answers = [r.result() for r in rest]
    sizes = dict(answers)
    assert all(sum(1 for a in answers if a[0] == b) == n for b, n in sizes.items())
    return [sizes[b] for b in sorted(sizes)]


def closed(s, name) -> int:
    """How many batches have gone to an instance."""
    return sum(
        int(n)
        for n in re.findall(rf'neso_batch_closed_total{{model="{name}",reason="\w+",version="1"}} (\d+)', s.metrics())
    )


def restarts(s, name) -> int:
    return int(re.search(rf'neso_worker_restarts_total{{model="{name}",version="1"}} (\d+)', s.metrics())[1])


@pytest.mark.parametrize("name", ["named", "relative", "version", "folder", "shared", "own"])
def test_the_library_forms_the_batches(served, load, name):
    assert load(name).status == 200
    assert batches(served, name, [1, 1, 2, 2, 2, 1, 3]) == [2, 3, 1, 1]
    assert re.search(rf'neso_batch_closed_total{{model="{name}",reason="strategy",version="1"}} 3', served.metrics())


def test_without_one_the_server_does(served, load):
    assert load("shared").status == 200 and load("shared2").status == 200
    assert batches(served, "shared2", [1, 1, 2, 2]) == [4]
    assert load("direct").status == 200
    assert ask(served, "direct", 1)[1] == 1
    assert "the batching library has no effect: the model has no dynamic_batching" in served.log()


def test_the_order_of_calls(served, load):
    name = "folder"
    served.post(f"/v2/repository/models/{name}/unload", {})
    before = len(served.log())
    assert load(name).status == 200
    ask(served, name, 5)
    served.post(f"/v2/repository/models/{name}/unload", {})
    until(lambda: f"ModelFinalize {name}" in served.log()[before:])
    order = re.findall(rf"order: (\w+) {name}", served.log()[before:])
    assert order == [
        "ModelInitialize",
        "BatcherInitialize",
        "ModelInstanceInitialize",
        "ModelInstanceFinalize",
        "BatcherFinalize",
        "ModelFinalize",
    ]


@pytest.mark.parametrize(
    "name,said",
    [
        ("unlinked", "Batching library path escapes model repository."),
        ("absent", "Batching library path not found: none.so"),
        ("sequence", "TRITON_BATCH_STRATEGY_PATH cannot be specified with sequence batcher"),
        (
            "some",
            "does not define all required custom batching functions for model some: it lacks TRITONBACKEND_ModelBatcherInitialize",
        ),
        ("refuses", "not for this model"),
    ],
)
def test_refusals(load, name, said):
    r = load(name)
    assert r.status == 400 and said in r.error, r


def test_a_request_is_there_to_be_read(served, load):
    assert load("version").status == 200
    assert ask(served, "version", 100)[1] == 1
    until(
        lambda: served.log().count("misuse: a batching library may only read the requests that it is asked about") >= 3
    )
    assert "misuse: allowed" not in served.log()


def test_an_error(served, load):
    assert load("version").status == 200
    assert batches(served, "version", [101, 2, 3]) == [3]
    assert "it will not say" in served.log()
    assert batches(served, "version", [1, 2, 2]) == [1, 2]
    assert "the batching library has its say again" in served.log()


def test_a_hang_holds_nothing_up(served, load):
    assert load("named").status == 200
    assert batches(served, "named", [4]) == [1]
    served.gate.unlink()
    assert ask(served, "named", 103)[1] == 1
    assert "it did not return within 1s" in served.log()
    assert ask(served, "named", 5)[1] == 1  # while it hangs
    served.gate.touch()
    until(lambda: ask(served, "named", 6) and batches(served, "named", [1, 2]) == [1, 1])


def test_a_crash(served, load):
    assert load("relative").status == 200
    assert ask(served, "relative", 1)[0] == 1
    assert ask(served, "relative", 102) == (1, 1)  # by the next process
    until(lambda: restarts(served, "relative") == 1)
    assert batches(served, "relative", [1, 2]) == [1, 1]


def test_example(tmp_path):
    """That of docs/models/custom-batching.md, with the backend of docs/models/native-backends.md."""
    pages = [(ROOT / "docs" / "models" / f"{name}.md").read_text() for name in ("native-backends", "custom-batching")]
    half, tenants = (re.search(r"```c\n(.*?)```", page, re.S).group(1) for page in pages)
    backend(tmp_path / "backends", "half", half)
    folder = tmp_path / "models" / "half"
    compile(tenants, folder / "batchstrategy.so")
    (folder / "1").mkdir()
    (folder / "config.pbtxt").write_text(re.search(r"```text\n(backend: \"half\".*?)```", pages[1], re.S).group(1))
    requests = re.findall(r"curl -s localhost:8000(\S+) -d '(.*)' &", pages[1])
    with (
        Server(tmp_path / "models", f"--backend-directory={tmp_path / 'backends'}") as s,
        ThreadPoolExecutor(2) as pool,
    ):

        def both() -> bool:
            answers = list(pool.map(lambda r: s.post(*r), requests))
            assert [a.json["outputs"][0]["data"] for a in answers] == [[1.5, 2.5], [2, 3]], answers
            return 'neso_batch_closed_total{model="half",reason="strategy",version="1"}' in s.metrics()

        until(both)  # where the machine is busy one may have gone before the other came
