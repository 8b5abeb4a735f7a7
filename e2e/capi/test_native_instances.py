"""Which instances a model of a backend library has, and in which order they begin and end."""

from __future__ import annotations

import re

import pytest
from libraries import backend, have_host, model
from repository import until
from server import Server

PREFERS = {
    "three": "ADD(CPU, 3, NULL, 0)",
    "second": "ADD(GPU, 2, nowhere, 1); ADD(MODEL, 2, NULL, 0); ADD(CPU, 5, NULL, 0)",
    "void": 'ADD(CPU, 5, NULL, 0); return ERR("no attribute after all")',
}
# What the configuration says, and what comes of it: kind and names.
MODELS = {
    "open": ("three", "", "CPU", ["open_0", "open_1", "open_2"]),
    "second": ("second", "", "MODEL", ["second_0", "second_1"]),
    "void": ("void", "", "CPU", ["void_0"]),
    "count": ("three", "instance_group { kind: KIND_CPU }\n", "CPU", ["count_0_0", "count_0_1", "count_0_2"]),
    "other": ("three", "instance_group { kind: KIND_MODEL }\n", "MODEL", ["other_0_0"]),
    "says": ("three", "instance_group { kind: KIND_CPU count: 1 }\n", "CPU", ["says_0_0"]),
    "many": (
        "three",
        'instance_group [ { name: "z" kind: KIND_CPU count: 11 }, { name: "a" kind: KIND_CPU count: 2 } ]\n',
        "CPU",
        [*(f"z_{n}" for n in range(11)), "a_0", "a_1"],
    ),
    "shared": (
        "three",
        'parameters { key: "isolation" value { string_value: "shared" } }\n',
        "CPU",
        ["shared_0", "shared_1", "shared_2"],
    ),
}


@pytest.fixture(scope="module", params=["complete", "as it is"])
def told(request, tmp_path_factory):
    """The configurations and the log of a server that has ended."""
    have_host()
    top = tmp_path_factory.mktemp("instances")
    for name, what in PREFERS.items():
        backend(top / "backends", name, "prefers.c", f"-DPREFERS={what}")
    for name, (of, extra, _, _) in MODELS.items():
        model(top / "models", name, of, extra)
    options = [] if request.param == "complete" else ["--disable-auto-complete-config"]
    with Server(top / "models", f"--backend-directory={top / 'backends'}", *options) as s:
        configs = {name: s.get(f"/v2/models/{name}/config").json for name in MODELS}
    return configs, s.log()


@pytest.mark.parametrize("name", MODELS)
def test_instances(told, name):
    configs, log = told
    _, _, kind, names = MODELS[name]
    groups = configs[name]["instance_group"]
    assert sum(g["count"] for g in groups) == len(names) and {g["kind"] for g in groups} == {f"KIND_{kind}"}, groups
    lines = re.findall(r"order: (begin|end) (\S+) (\w+)", log)
    for what in ("begin", "end"):
        assert [(n, k) for w, n, k in lines if w == what and n in names] == [(n, kind) for n in names], lines


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A server without models, and what it may load."""
    have_host()
    top = tmp_path_factory.mktemp("begun")
    backend(top / "backends", "together", "together.c", "-DPARALLEL", "-DINSTANCES=4")
    backend(top / "backends", "alone", "together.c", "-DINSTANCES=4")
    backend(top / "backends", "nests", "together.c")
    shared = 'parameters { key: "isolation" value { string_value: "shared" } }\n'
    four = "instance_group { kind: KIND_CPU count: 4 }\n"
    for name, of, extra in (
        ("together", "together", four),
        ("shares", "together", four + shared),
        ("alone", "alone", four),
        ("outer", "nests", shared),
        ("inner", "nests", shared),
        ("ender", "nests", shared),
    ):
        model(top / "models", name, of, extra)
    options = ["--model-control-mode=explicit", f"--backend-directory={top / 'backends'}"]
    with Server(top / "models", *options) as s:
        yield s


@pytest.mark.parametrize("name,how", [("together", "together"), ("shares", "together"), ("alone", "alone")])
def test_instances_begin_together_if_the_library_says_so(begun, name, how):
    r = begun.post(f"/v2/repository/models/{name}/load", {})
    assert r.status == 200, r
    assert until(lambda: len(re.findall(rf"initialized: {name}_0_", begun.log())) == 4), begun.log()
    lines = re.findall(rf"initialized: {name}_0_(\d) (\w+)", begun.log())
    assert len(lines) == 4 and (how == "alone" or all(k == how for _, k in lines)), lines
    if how == "alone":
        assert [n for n, _ in lines] == list("0123") and [k for _, k in lines[:3]] == ["alone"] * 3, lines
    r = begun.post(f"/v2/repository/models/{name}/unload", {})
    assert r.status == 200, r


def test_an_instance_loads_another_model_of_its_process(begun):
    r = begun.post("/v2/repository/models/outer/load", {})
    assert r.status == 200, r
    assert begun.get("/v2/models/inner/ready").status == 200
    assert until(lambda: "initialized: outer_0 " in begun.log()), begun.log()
    lines = re.findall(r"initialized: (\w+)_0 ", begun.log())
    assert lines[-2:] == ["inner", "outer"], lines


def test_a_process_that_ends_meanwhile(begun):
    """The models that it has besides are served by the next one, and the one that ended it is not loaded."""
    r = begun.post("/v2/repository/models/ender/load", {})
    assert r.status == 400 and "exited with code 3" in r.error, r
    r = begun.infer("inner", {"inputs": [{"name": "IN0", "datatype": "INT32", "shape": [1, 1], "data": [1]}]})
    assert "it only begins" in r.error, r
