"""One model file of each kind, without a configuration: served, called by the printed command line, completed by `neso config init`."""

from __future__ import annotations

import pickle
import shutil

import lightgbm
import numpy as np
import openvino
import pdmodel
import pytest
import treelite
import xgboost
from openvino import opset13 as ops
from server import ROOT
from single import one_file_is_served, serving
from sklearn.ensemble import RandomForestClassifier

X = np.random.default_rng(0).random((60, 5), dtype=np.float32)
Y = (X[:, 0] > 0.5).astype(int)


def booster():
    return xgboost.train({"objective": "binary:logistic", "max_depth": 2}, xgboost.DMatrix(X, Y), 3)


def gbm():
    return lightgbm.train({"verbose": -1, "num_threads": 1, "objective": "binary"}, lightgbm.Dataset(X, Y), 3)


def checkpoint(path):
    forest = RandomForestClassifier(3, random_state=0).fit(X, Y)
    treelite.sklearn.import_model(forest).serialize(path)


def pickled(path):
    with open(path, "wb") as file:
        pickle.dump(RandomForestClassifier(3, random_state=0).fit(X, Y), file)


def network(path):
    x = ops.parameter([-1, 4], np.float32, name="X")
    y = ops.relu(x, name="Y")
    x.output(0).set_names({"X"})
    y.output(0).set_names({"Y"})
    openvino.save_model(openvino.Model([y.output(0)], [x], "m"), path)


def copied(source):
    return lambda path: shutil.copy(source, path)


PYTHON = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [2]})
        config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [2]})
        return config

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]
"""
FOREST = ['name: "input__0"', "dims: [ 5 ]", 'name: "output__0"']
FILES = {
    "net.onnx": (copied(ROOT / "backend" / "onnxruntime" / "testdata" / "add_sub.onnx"), ['name: "INPUT0"', "max_batch_size: 4"]),
    "forest.json": (lambda p: booster().save_model(p), FOREST),
    "forest.ubj": (lambda p: booster().save_model(p), FOREST),
    "xgboost.model": (copied(ROOT / "backend" / "fil" / "testdata" / "xgboost.model"), ["dims: [ 8 ]"]),
    "gbm.txt": (lambda p: gbm().save_model(p), FOREST),
    "forest.tl": (checkpoint, FOREST),
    "forest.pkl": (pickled, FOREST),
    "net.pdmodel": (pdmodel.write, ['backend: "openvino"', 'name: "x"', 'name: "y"', "dims: [ 4 ]"]),
    "net.xml": (network, ['name: "X"', 'name: "Y"', "dims: [ 4 ]"]),
    "model.py": (lambda p: p.write_text(PYTHON), ['name: "IN"', "dims: [ 2 ]"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file(tmp_path, name):
    write, expect = FILES[name]
    write(tmp_path / name)
    one_file_is_served(tmp_path / name, expect, ("--allow-pickle=true",) if name.endswith(".pkl") else ())


@pytest.mark.parametrize("name", ["xgboost.ubj", "checkpoint.tl"])
def test_a_directory_with_a_file(tmp_path, name):
    """A directory is called like a file in it when that has the name that models of its kind have."""
    (tmp_path / "forest").mkdir()
    if name == "checkpoint.tl":
        checkpoint(tmp_path / "forest" / name)
    else:
        booster().save_model(tmp_path / "forest" / name)
    with serving(tmp_path / "forest") as ((config, _),):
        assert f'default_model_filename: "{name}"' in config
