"""scikit-learn models in the built binary: the same answers as scikit-learn itself."""

from __future__ import annotations

import operator

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from repository import settled, spoilt
from server import Server
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from tritonclient import http

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.random((60, 4)).astype(np.float32)
TABLE = pd.DataFrame(
    {"age": RANDOM.integers(18, 80, 60).astype(float), "city": RANDOM.choice(["Bern", "Lyon", "Oslo"], 60)}
)


def place(repo, name, file):
    (repo / name / "1").mkdir(parents=True)
    return repo / name / "1" / file


@pytest.fixture(scope="module")
def fitted():
    labels = np.where(ROWS[:, 0] > 0.5, "high", "low")
    return {
        "classes": make_pipeline(StandardScaler(), LogisticRegression()).fit(ROWS, (ROWS[:, 0] > 0.5).astype(int)),
        "words": LogisticRegression().fit(ROWS, labels),
        "numbers": Ridge().fit(ROWS, ROWS @ np.arange(4)),
        "table": make_pipeline(
            make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(handle_unknown="ignore"), ["city"])),
            LogisticRegression(),
        ).fit(TABLE, TABLE["age"] > 40),
        "own": make_pipeline(FunctionTransformer(operator.neg), Ridge()).fit(ROWS, ROWS[:, 0]),
    }


BAD = {
    "pickled": ["'pickled/1/model.joblib' is a pickle, which can run any code when it is read: it is refused", "--allow-pickle"],
    "own": ["holds types that are not known to be safe: _operator.neg", "trusted_types"],
    "damaged": ["'damaged/1/model.skops' is not a .skops file: it is cut off"],
    "wrong": ["unexpected inference output 'transform', allowed outputs are: predict, predict_proba, decision_function",
              "tensor 'x': the model has 4 features, the configuration specifies dims [5] (write dims: [4])"],
}  # fmt: skip


@pytest.fixture(scope="module")
def repo(tmp_path_factory, fitted):
    repo = tmp_path_factory.mktemp("sklearn")
    for name in ("classes", "words", "numbers", "table", "own"):
        skops.io.dump(fitted[name], place(repo, name, "model.skops"))
    joblib.dump(fitted["numbers"], place(repo, "pickled", "model.joblib"))
    place(repo, "damaged", "model.skops").write_bytes(b"PK\x03\x04 and no more")
    skops.io.dump(fitted["classes"], place(repo, "wrong", "model.skops"))
    (repo / "wrong" / "config.pbtxt").write_text(
        'max_batch_size: 4\ninput [ { name: "x" data_type: TYPE_FP32 dims: [ 5 ] } ]\noutput [ { name: '
        '"transform" data_type: TYPE_FP64 dims: [ 4 ] } ]\n'
    )
    skops.io.dump(fitted["classes"], place(repo, "renamed", "model.skops"))
    (repo / "renamed" / "config.pbtxt").write_text(
        'max_batch_size: 8\ninput [ { name: "IMAGE" data_type: TYPE_FP32 dims: [ 2, 2 ] } ]\noutput [ { name: '
        '"PROBABILITIES" data_type: TYPE_FP64 dims: [ 2 ] } ]\n'
    )
    one = 'output [ { name: "predict" data_type: TYPE_FP32 dims: [ 1 ] %s } ]\n'
    x = 'input [ { name: "x" data_type: TYPE_FP32 dims: [ %s ] } ]\n'
    for name, config in {
        "column": "max_batch_size: 8\n" + x % "4" + one % "",
        "plain": "max_batch_size: 8\n" + x % "4" + one % "reshape { shape: [ ] }",
        "whole": x % "-1, 4" + one.replace("[ 1 ]", "[ -1, 1 ]") % "",
    }.items():
        skops.io.dump(fitted["numbers"], place(repo, name, "model.skops"))
        (repo / name / "config.pbtxt").write_text('backend: "sklearn"\n' + config)
    skops.io.dump(fitted["own"], place(repo, "trusted", "model.skops"))
    (repo / "trusted" / "config.pbtxt").write_text(
        'backend: "sklearn"\nparameters { key: "trusted_types" value { string_value: "_operator.neg" } }\n'
    )
    return repo


@pytest.fixture(scope="module")
def sk_server(repo):
    with Server(repo, "--exit-on-error=false", wait=False) as s:
        settled(s, 13)
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


def infer(server, model, inputs):
    tensors = []
    for name, (array, kind) in inputs.items():
        tensor = http.InferInput(name, list(array.shape), kind)
        tensor.set_data_from_numpy(array)
        tensors.append(tensor)
    with http.InferenceServerClient(server.http) as client:
        answer = client.infer(model, tensors)
    return {o["name"]: answer.as_numpy(o["name"]) for o in answer.get_response()["outputs"]}


def test_a_classifier(sk_server, fitted):
    got = infer(sk_server, "classes", {"INPUT": (ROWS[:3], "FP32")})
    np.testing.assert_allclose(got["predict_proba"], fitted["classes"].predict_proba(ROWS[:3]), atol=1e-5)
    assert got["predict"].reshape(-1).tolist() == fitted["classes"].predict(ROWS[:3]).tolist()
    config = sk_server.get("/v2/models/classes/config").json
    assert config["max_batch_size"] == 4 and "dynamic_batching" in config and config["backend"] == "sklearn"


def test_labels_that_are_texts_and_numbers(sk_server, fitted):
    got = infer(sk_server, "words", {"INPUT": (ROWS[:3], "FP32")})["predict"]
    assert [item.decode() for item in got.reshape(-1)] == fitted["words"].predict(ROWS[:3]).tolist()
    got = infer(sk_server, "numbers", {"INPUT": (ROWS[:3], "FP32")})["predict"]
    np.testing.assert_allclose(got.reshape(-1), fitted["numbers"].predict(ROWS[:3]), atol=1e-5)
    got = infer(sk_server, "trusted", {"INPUT": (ROWS[:3], "FP32")})["predict"]
    np.testing.assert_allclose(got.reshape(-1), fitted["own"].predict(ROWS[:3]), atol=1e-5)


def test_a_table_with_categories(sk_server, fitted):
    rows = TABLE.head(3)
    cities = np.array([[c.encode()] for c in rows["city"]], np.object_)
    got = infer(sk_server, "table", {"age": (rows[["age"]].to_numpy(), "FP64"), "city": (cities, "BYTES")})
    np.testing.assert_allclose(got["predict_proba"], fitted["table"].predict_proba(rows), atol=1e-5)


def test_other_names_and_shapes_by_configuration(sk_server, fitted):
    got = infer(sk_server, "renamed", {"IMAGE": (ROWS[:2].reshape(2, 2, 2), "FP32")})
    np.testing.assert_allclose(got["PROBABILITIES"], fitted["classes"].predict_proba(ROWS[:2]), atol=1e-5)


@pytest.mark.parametrize("model", ["column", "plain", "whole"])
def test_one_number_a_row(sk_server, fitted, model):
    """With a dimension of its own, with an empty reshape, and without batching."""
    got = infer(sk_server, model, {"x": (ROWS[:2], "FP32")})["predict"]
    assert got.shape == (2, 1)
    np.testing.assert_allclose(got.ravel(), fitted["numbers"].predict(ROWS[:2]), rtol=1e-5)


@pytest.mark.parametrize("name", BAD)
def test_a_load_error_says_what_where_and_what_to_do(sk_server, name):
    (row,) = [m for m in sk_server.post("/v2/repository/index").json if m["name"] == name]
    assert row["state"] == "UNAVAILABLE"
    for text in BAD[name]:
        assert text in row["reason"]


def test_pickles_are_read_where_the_server_allows_them(tmp_path, fitted):
    joblib.dump(fitted["numbers"], place(tmp_path, "pickled", "model.joblib"))
    with Server(tmp_path, "--allow-pickle=true") as s:
        got = infer(s, "pickled", {"INPUT": (ROWS[:3], "FP32")})["predict"]
    np.testing.assert_allclose(got.reshape(-1), fitted["numbers"].predict(ROWS[:3]), atol=1e-5)


def test_a_file_that_is_swapped_under_a_running_server(tmp_path, fitted):
    """Whatever becomes of the file, the loaded model goes on; a load says what is wrong with the new one."""
    file = place(tmp_path, "m", "model.skops")
    skops.io.dump(fitted["classes"], file)
    body = {"inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [1, 4], "data": ROWS[0].tolist()}]}
    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=m") as s:
        spoilt(s, tmp_path, file, "m/1/model.skops", lambda: s.infer("m", body).json["outputs"])
        file.unlink()
        assert s.post("/v2/repository/models/m/load").status >= 400
        skops.io.dump(fitted["numbers"], file)
        assert s.post("/v2/repository/models/m/load").status == 200
        assert [o["name"] for o in s.infer("m", body).json["outputs"]] == ["predict"]
