"""One model file of each kind, without a configuration: served, called by the printed command line, completed by `neso config init`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
import skops.io
import torch
import torch_models as models
from single import call, init, one_file_is_served, serving
from sklearn.linear_model import LogisticRegression


def script(path):
    torch.jit.script(models.Mlp().eval()).save(str(path))


def exported(path):
    rows = torch.export.Dim("rows")
    torch.export.save(
        torch.export.export(models.Mlp().eval(), (torch.zeros(2, 16),), dynamic_shapes=({0: rows},)), str(path)
    )


def fitted():
    x = np.random.default_rng(0).random((40, 3), dtype=np.float32)
    return LogisticRegression().fit(x, x[:, 0] > 0.5)


FILES = {
    "net.pt": (script, ['name: "x"', "dims: [ 16 ]", 'name: "OUTPUT__0"']),
    "net.pt2": (exported, ['name: "x"', "dims: [ 16 ]", "dims: [ 4 ]"]),
    "line.skops": (lambda p: skops.io.dump(fitted(), p), ['name: "INPUT"', "dims: [ 3 ]"]),
    "line.joblib": (lambda p: joblib.dump(fitted(), p), ['name: "INPUT"', "dims: [ 3 ]"]),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file(tmp_path, name):
    write, expect = FILES[name]
    write(tmp_path / name)
    one_file_is_served(tmp_path / name, expect, ("--allow-pickle=true",) if name.endswith("joblib") else ())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    repo = tmp_path_factory.mktemp("tensorflow")
    subprocess.run(
        [sys.executable, Path(__file__).with_name("make_tensorflow.py"), repo],
        check=True,
        timeout=180,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    return repo


@pytest.mark.full
def test_files_of_tensorflow(made):
    """All at once: TensorFlow takes seconds to start."""
    files = {
        made / "saved" / "1" / "model.savedmodel": ['name: "x"', 'name: "y"', "dims: [ 4 ]"],
        made / "graph" / "1" / "model.graphdef": ['name: "INPUT0"', 'name: "OUTPUT0"'],
        made / "keras" / "1" / "model.keras": ['name: "features"', "dims: [ 3 ]"],
    }
    with serving(*files) as found:
        shown = {texts[0]: (config, line) for texts in files.values() for config, line in found if texts[0] in config}
        assert len(shown) == len(files), found
        for texts in files.values():
            config, line = shown[texts[0]]
            assert all(text in config for text in texts), config
            assert call(line)["outputs"]
    for path, texts in files.items():
        written = init(path)
        assert all(text in written for text in texts), written
