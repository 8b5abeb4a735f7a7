"""Backends of Python frameworks where the framework is missing: the load says so, and other models go on.

What they answer with the frameworks is tested in e2e/frameworks.
"""

from __future__ import annotations

import importlib.util
import pickle
import sys
import zipfile

import pytest
from repository import identity_model, settled, until
from server import Server


def script(path):
    """As much of a TorchScript archive as is looked at before torch is imported."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/code/__torch__.py", "")
        archive.writestr("m/constants.pkl", b"")


def content(data):
    return lambda path: path.write_bytes(data)


MODELS = {
    "script": ("model.pt", script, None, "torch", ["backend 'pytorch' needs the package 'torch'", "-m pip install torch"]),
    "graph": ("model.graphdef", content(b"\x0a\x01"), None, "tensorflow", ["needs the package 'tensorflow'", "-m pip install tensorflow"]),
    "plan": ("model.plan", content(b"ftrt1234"), None, "tensorrt", ["needs the package 'tensorrt'", "-m pip install tensorrt"]),
    "pickle": ("model.joblib", content(b"\x80\x04N."), None, "", ["is a pickle", "--allow-pickle"]),
    "lfs": ("model.pt", content(b"version https://git-lfs.github.com/spec/v1\n"), None, "", ["a Git LFS pointer", "git lfs pull"]),
    "page": ("model.pt2", content(b"<!DOCTYPE html>"), None, "", ["a web page: the download went wrong"]),
    "empty": ("model.pt", content(b""), None, "", ["it is empty"]),
    "missing": (None, None, 'backend: "sklearn"\n', "", ["unable to find 'missing/1/model.skops'", "model.joblib"]),
    "dali": (None, None, ('backend: "dali"\nmax_batch_size: 1\ninput [ { name: "I" data_type: TYPE_UINT8 dims: [ -1 ] } ]\noutput [ { '
        'name: "O" data_type: TYPE_UINT8 dims: [ -1 ] } ]\n'),
             "", ["backend 'dali' is not there", 'backend: "python"']),
}  # fmt: skip


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    repo = tmp_path_factory.mktemp("hosted")
    for name, (file, write, config, _, _) in MODELS.items():
        (repo / name / "1").mkdir(parents=True)
        if file:
            write(repo / name / "1" / file)
        if config:
            (repo / name / "config.pbtxt").write_text(config)
    identity_model(repo, "good")
    with Server(repo, "--exit-on-error=false", wait=False) as s:

        def settled():
            try:
                rows = s.post("/v2/repository/index").json
            except (OSError, ValueError):
                return None
            states = [r.get("state") == "READY" or bool(r.get("reason")) for r in rows]
            return rows if len(states) == len(MODELS) + 1 and all(states) else None

        assert until(settled, timeout=400), s.log()[-3000:]
        yield {row["name"]: row for row in settled()}


@pytest.mark.parametrize("name", MODELS)
def test_the_load_says_what_is_missing(index, name):
    _, _, _, package, texts = MODELS[name]
    if package and importlib.util.find_spec(package):
        texts = []  # the framework is there, and refuses the file in its own words
    assert index[name]["state"] == "UNAVAILABLE"
    for text in texts:
        assert text in index[name]["reason"]
    if package and texts:
        assert sys.executable in index[name]["reason"]


def test_other_models_go_on(index):
    assert index["good"]["state"] == "READY"


# Frameworks that are too old: modules of their names that say an old version stand in for them.
OLD = {
    "torch": ("1.13.1+cpu", "model.pt", script, "backend 'pytorch' needs torch 2.1 or later, ", "install torch"),
    "tensorflow": ("2.9.0", "model.graphdef", content(b"\x0a\x01"), "backend 'tensorflow' needs tensorflow 2.12 or later, ",
                   "install tensorflow"),
    "sklearn": ("0.24.2", "model.joblib", content(b"\x80\x04N."), "backend 'sklearn' needs sklearn 1.0 or later, ", "install scikit-learn"),
    "tensorrt": ("8.6.1", "model.plan", content(b"ftrt1234"), "backend 'tensorrt' needs tensorrt 10.0 or later, ", "install tensorrt"),
}  # fmt: skip


def test_a_framework_that_is_too_old(tmp_path):
    repo, old = tmp_path / "repo", tmp_path / "old"
    for module, (version, file, write, _, _) in OLD.items():
        (old / module).mkdir(parents=True)
        (old / module / "__init__.py").write_text(f"__version__ = {version!r}\n")
        (old / module / "pipeline.py").write_text("")  # what workers of sklearn are forked with
        (repo / module / "1").mkdir(parents=True)
        write(repo / module / "1" / file)
    identity_model(repo, "good")
    with Server(
        repo,
        "--exit-on-error=false",
        "--strict-readiness=false",
        "--allow-pickle",
        wait=False,
        env={"PYTHONPATH": str(old)},
    ) as s:
        reasons = settled(s, len(OLD) + 1)
    for module, (version, _, _, text, install) in OLD.items():
        assert text in reasons[module] and f"{sys.executable} has {version}" in reasons[module], reasons[module]
        assert install in reasons[module]
    assert reasons["good"] == ""


def test_a_pickle_by_any_name_is_not_read(tmp_path):
    """Also under a name that says nothing, or that is skops's."""
    repo, touched = tmp_path / "repo", tmp_path / "touched"
    bomb = pickle.dumps(Bomb(str(touched)))
    names = ("model.pkl", "m.dat", "m", "m.SKOPS", "m.skops")
    for i, name in enumerate(names):
        (repo / f"m{i}" / "1").mkdir(parents=True)
        (repo / f"m{i}" / "1" / name).write_bytes(bomb)
        (repo / f"m{i}" / "config.pbtxt").write_text(f'backend: "sklearn"\ndefault_model_filename: "{name}"\n')
    with Server(repo, "--exit-on-error=false", "--strict-readiness=false", wait=False) as s:
        reasons = settled(s, len(names))
    assert all("--allow-pickle" in reasons[f"m{i}"] for i in range(3)), reasons
    assert all(reasons.values()) and not touched.exists(), reasons


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")
