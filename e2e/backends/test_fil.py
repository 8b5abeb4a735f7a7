"""Forests of trees in the built binary under the official clients: the same answers as the frameworks that made them."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess

import joblib
import lightgbm
import numpy as np
import pytest
import threadpoolctl
import xgboost
from clients import CLIENTS, connected, tensors
from repository import settled, until
from server import BINARY, ROOT, Server
from sklearn import ensemble
from tritonclient import grpc, http
from tritonclient.utils import InferenceServerException

DATA = ROOT / "backend" / "fil" / "testdata"
RANDOM = np.random.default_rng(0)
X = RANDOM.random((400, 8), dtype=np.float32)
X[RANDOM.random(X.shape) < 0.05] = np.nan
FULL = np.nan_to_num(X)
LINE = FULL[:, 0] + FULL[:, 1] * 2
TARGETS = {"reg": LINE, "bin": (LINE > 1.4).astype(int), "multi": np.clip(LINE, 0, 2.99).astype(int)}
CATEGORIES = FULL.copy()
CATEGORIES[:, 3] = RANDOM.integers(0, 12, len(X))
CATEGORY_TARGET = (CATEGORIES[:, 3] % 3 == 1) * 2.0 + FULL[:, 0]


def parameters(**values):
    return "".join(f'parameters {{ key: "{k}" value {{ string_value: "{v}" }} }}\n' for k, v in values.items())


def place(repo, name, file, config="", **values):
    d = repo / name / "1"
    d.mkdir(parents=True, exist_ok=True)
    (repo / name / "config.pbtxt").write_text('backend: "fil"\n' + config + parameters(**values))
    return d / file


def train_xgboost(kind):
    objective = {"reg": "reg:squarederror", "bin": "binary:logistic", "multi": "multi:softprob"}[kind]
    p = {"objective": objective, "max_depth": 4} | ({"num_class": 3} if kind == "multi" else {})
    return xgboost.train(p, xgboost.DMatrix(X, TARGETS[kind]), 20)


def train_lightgbm(kind, **more):
    objective = {"reg": "regression", "bin": "binary", "multi": "multiclass"}[kind]
    p = {"objective": objective, "verbose": -1, "num_threads": 1} | ({"num_class": 3} if kind == "multi" else {})
    return lightgbm.train(p | more, lightgbm.Dataset(X, TARGETS[kind]), 20)


SKLEARN = {
    "forest_reg": (ensemble.RandomForestRegressor, "reg"),
    "forest_multi": (ensemble.RandomForestClassifier, "multi"),
    "extra_bin": (ensemble.ExtraTreesClassifier, "bin"),
    "boost_reg": (ensemble.GradientBoostingRegressor, "reg"),
    "boost_bin": (ensemble.GradientBoostingClassifier, "bin"),
    "boost_multi": (ensemble.GradientBoostingClassifier, "multi"),
    "hist_multi": (ensemble.HistGradientBoostingClassifier, "multi"),
    "isolation": (ensemble.IsolationForest, "reg"),
}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """The frameworks' threads wait for each other in loops: on a busy machine a small model takes many times what it takes one thread."""
    with threadpoolctl.threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A repository, and what each model should answer to rows."""
    repo, want = tmp_path_factory.mktemp("fil"), {}
    for kind in TARGETS:
        booster = train_xgboost(kind)
        answer = lambda rows, b=booster: b.predict(xgboost.DMatrix(rows))  # noqa: E731
        for ending in ("json", "ubj"):
            name = f"xgb_{kind}_{ending}"
            booster.save_model(place(repo, name, f"xgboost.{ending}"))
            want[name] = answer
        gbm = train_lightgbm(kind)
        gbm.save_model(place(repo, f"lgb_{kind}", "model.txt"))
        want[f"lgb_{kind}"] = gbm.predict
    booster = train_xgboost("bin")
    probability = lambda rows: booster.predict(xgboost.DMatrix(rows))  # noqa: E731
    booster.save_model(place(repo, "proba", "xgboost.json", is_classifier="true", predict_proba="true"))
    want["proba"] = lambda rows: np.stack([1 - probability(rows), probability(rows)], axis=1)
    booster.save_model(place(repo, "class", "xgboost.json", output_class="true", threshold="0.8", storage_type="AUTO"))
    want["class"] = lambda rows: probability(rows) > 0.8
    many = train_xgboost("multi")
    many.save_model(place(repo, "classes", "xgboost.json", is_classifier="1"))
    want["classes"] = lambda rows: many.predict(xgboost.DMatrix(rows)).argmax(axis=1)
    shutil.copy(DATA / "xgboost.model", place(repo, "legacy", "xgboost.model", model_type="xgboost"))
    old = json.loads((DATA / "xgboost.expected.json").read_text())
    want["legacy"] = lambda _: np.array(old["answer"])

    data = xgboost.DMatrix(
        CATEGORIES, CATEGORY_TARGET, feature_types=["q"] * 3 + ["c"] + ["q"] * 4, enable_categorical=True
    )
    b = xgboost.train({"max_cat_to_onehot": 1}, data, 20)
    b.save_model(place(repo, "xgb_categories", "xgboost.json"))
    want["xgb_categories"] = lambda rows: b.predict(
        xgboost.DMatrix(rows, feature_types=["q"] * 3 + ["c"] + ["q"] * 4, enable_categorical=True)
    )
    g = lightgbm.train(
        {"verbose": -1, "num_threads": 1, "min_data_per_group": 1},
        lightgbm.Dataset(CATEGORIES, CATEGORY_TARGET, categorical_feature=[3]),
        20,
    )
    g.save_model(place(repo, "lgb_categories", "model.txt"))
    want["lgb_categories"] = g.predict
    targets = np.stack([LINE, -LINE, LINE * 2], axis=1)
    m = xgboost.train({}, xgboost.DMatrix(X, targets), 10)
    m.save_model(place(repo, "targets", "xgboost.ubj"))
    want["targets"] = lambda rows: m.predict(xgboost.DMatrix(rows))

    for name, (cls, kind) in SKLEARN.items():
        model = cls(random_state=0, **({"max_iter": 10} if "Hist" in cls.__name__ else {"n_estimators": 10}))
        model.fit(FULL, TARGETS[kind])
        proba = {"is_classifier": "true", "predict_proba": "true"} if kind != "reg" else {}
        path = place(repo, name, "model.pkl", **proba)
        path.write_bytes(pickle.dumps(model))
        want[name] = (
            model.predict_proba
            if proba
            else (lambda r, m=model: -m.score_samples(r))
            if name == "isolation"
            else model.predict
        )
    for name, model in {
        "xgb_estimator": xgboost.XGBRegressor(n_estimators=5),
        "lgb_estimator": lightgbm.LGBMRegressor(n_estimators=5, verbose=-1),
    }.items():
        model.fit(FULL, LINE)
        joblib.dump(model, place(repo, name, "model.joblib"), compress=3)
        want[name] = model.predict
    booster.save_model(place(repo, "isolated", "xgboost.json", isolation="process"))
    want["isolated"] = probability
    booster.save_model(
        place(
            repo, "batched", "xgboost.json",
            "max_batch_size: 64\ndynamic_batching { max_queue_delay_microseconds: 200000 preferred_batch_size: [ 9 ] }\n",
        )
    )  # fmt: skip
    booster.save_model(
        place(
            repo, "gathers", "xgboost.json",
            "max_batch_size: 64\ndynamic_batching { max_queue_delay_microseconds: 3600000000 preferred_batch_size: [ 9 ] }\n",
        )
    )  # fmt: skip
    booster.save_model(
        place(
            repo, "wide", "xgboost.json",
            ('max_batch_size: 0\ninput { name: "input__0" data_type: TYPE_FP64 dims: [ -1, 8 ] }\noutput { name: '
                '"output__0" data_type: TYPE_FP64 dims: [ -1, 1 ] }\n'),
        )
    )  # fmt: skip
    want["batched"] = want["wide"] = probability
    return repo, want


@pytest.fixture(scope="module")
def fil_server(trained):
    with Server(trained[0], "--allow-pickle=true", wait=False) as s:
        s.wait_ready()  # converters import scikit-learn, one after the other
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


@pytest.fixture(params=CLIENTS)
def client(request, fil_server):
    with connected(fil_server, request.param) as c:
        yield c


def infer(client, model, rows, output="output__0"):
    return client.infer(model, tensors(client, {"input__0": rows})).as_numpy(output)


def rows_for(model):
    if model == "legacy":
        return np.array(json.loads((DATA / "xgboost.expected.json").read_text())["rows"], np.float32)
    if model.endswith("categories"):
        rows = CATEGORIES[:60].copy()
        rows[0, 3], rows[1, 3], rows[2, 3], rows[3, 0] = 7.0, np.nan, 11, np.nan
        return rows
    if model in SKLEARN or model.endswith("estimator"):
        return FULL[:60]
    return X[:60].astype(np.float64) if model == "wide" else X[:60]


def test_answers_are_the_frameworks_own(client, trained):
    wrong = {}
    for model, own in trained[1].items():
        rows = rows_for(model)
        got, want = infer(client, model, rows), np.asarray(own(rows), np.float64)
        want = want.reshape(got.shape)
        if not np.allclose(got, want, rtol=0, atol=1e-5):
            wrong[model] = np.abs(got - want).max()
    assert not wrong


def test_one_row_and_many(client, trained):
    want = trained[1]["batched"]
    assert infer(client, "batched", X[:1]).shape == (1, 1)
    big = np.tile(X, (80, 1))
    np.testing.assert_allclose(infer(client, "xgb_bin_json", big)[:, 0], want(big), atol=1e-5)


def test_requests_are_gathered(fil_server, trained):
    with connected(fil_server, concurrency=3) as c:
        waiting = []
        for i in range(3):
            t = http.InferInput("input__0", [3, 8], "FP32")
            t.set_data_from_numpy(X[3 * i : 3 * i + 3])
            waiting.append(c.async_infer("gathers", [t]))
        answers = np.concatenate([w.get_result().as_numpy("output__0") for w in waiting])
        np.testing.assert_allclose(answers[:, 0], trained[1]["batched"](X[:9]), atol=1e-5)

        def sizes():
            return [b["batch_size"] for b in c.get_inference_statistics("gathers")["model_stats"][0]["batch_stats"]]

        assert until(lambda: sizes() == [9]), sizes()  # counted when the requests have been answered


def test_what_means_nothing_is_reported_once(fil_server):
    lines = [line for line in fil_server.log().splitlines() if "storage_type" in line]
    assert len(lines) == 1 and "class" in lines[0], lines


def test_completion(client):
    config = client.get_model_config("xgb_multi_json")
    if client.module is grpc:
        assert config.config.input[0].dims == [8] and config.config.output[0].dims == [3]
    else:
        assert config["max_batch_size"] == 32768 and "dynamic_batching" in config
        assert [i["dims"] for i in config["input"]] == [[8]] and [o["dims"] for o in config["output"]] == [[3]]


def test_wrong_requests(client):
    with pytest.raises(InferenceServerException, match=r"\[-1,8\]"):
        infer(client, "xgb_bin_json", X[:3, :7].copy())


class Trap:
    """Leaves a trace where it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def bad_models(repo, whole):
    """What cannot be loaded, and what the error must say."""
    files = {
        "empty": ("xgboost.json", b"", "empty"),
        "truncated_json": (
            "xgboost.json",
            whole["json"][:-200],
            "unable to load the xgboost_json model 'xgboost.json'",
        ),
        "truncated_ubj": ("xgboost.ubj", whole["ubj"][: len(whole["ubj"]) // 2], "unable to load"),
        "truncated_txt": ("model.txt", whole["txt"][: len(whole["txt"]) // 3], "unable to load"),
        "truncated_tl": ("checkpoint.tl", whole["tl"][: len(whole["tl"]) // 2], "unable to load"),
        "other_json": ("xgboost.json", b'{"a": [1, 2, 3]}', "unable to load"),
        "noise": ("xgboost.json", bytes(range(1, 200)), "begins like none of"),
        "pickle": ("model.pkl", pickle.dumps(Trap(repo / "trace")), "--allow-pickle"),
        "far_child": (
            "xgboost.json",
            whole["json"].replace(b'"left_children":[1,', b'"left_children":[9999999,', 1),
            "unable to load",
        ),
    }
    for name, (file, content, _) in files.items():
        place(repo, name, file).write_bytes(content)
    place(repo, "missing", "xgboost.json")
    files["missing"] = (None, None, "has none of xgboost.model, xgboost.json")
    place(
        repo, "mismatch", "xgboost.json", model_type="lightgbm", config='default_model_filename: "xgboost.json"\n'
    ).write_bytes(whole["json"])
    files["mismatch"] = (None, None, 'write model_type: "xgboost_json"')
    place(repo, "unknown_type", "xgboost.json", model_type="catboost").write_bytes(whole["json"])
    files["unknown_type"] = (None, None, "catboost not recognized as a valid serialization format")
    place(
        repo, "contradiction", "xgboost.json",
        ('max_batch_size: 8\ninput { name: "input__0" data_type: TYPE_FP32 dims: [ 9 ] }\noutput { name: "OUT" '
            'data_type: TYPE_INT8 dims: [ 1 ] }\n'),
    ).write_bytes(whole["json"])  # fmt: skip
    files["contradiction"] = (
        None,
        None,
        (
            "has 8 features, the configuration specifies dims [9] (write dims: [ 8 ]); unable to load model "
            "'contradiction', configuration expects datatype TYPE_INT8 for output 'OUT'"
        ),
    )
    shap = (
        'input { name: "input__0" data_type: TYPE_FP32 dims: [ 8 ] }\noutput [ { name: "output__0" data_type: '
        'TYPE_FP32 dims: [ 1 ] }, { name: "treeshap_output" data_type: TYPE_FP32 dims: [ 9 ] } ]\n'
    )
    place(repo, "treeshap", "xgboost.json", "max_batch_size: 8\n" + shap).write_bytes(whole["json"])
    files["treeshap"] = (
        None,
        None,
        (
            "output 'treeshap_output' of model 'treeshap': Shapley values are not computed here (leave the output "
            "out; a Python model with the package shap can compute them)"
        ),
    )
    place(repo, "threshold", "xgboost.json", threshold="high", is_classifier="maybe").write_bytes(whole["json"])
    files["threshold"] = (
        None,
        None,
        (
            "failed to convert 'maybe' to boolean (write \"true\" or \"false\"); parameter 'threshold' of model "
            "'threshold': failed to convert 'high'"
        ),
    )
    return {name: text for name, (_, _, text) in files.items()}


@pytest.fixture(scope="module")
def whole(trained, tmp_path_factory):
    """The bytes of good models."""
    import treelite

    repo = trained[0]
    tl = tmp_path_factory.mktemp("tl") / "m.tl"
    treelite.frontend.load_xgboost_model(repo / "xgb_bin_json" / "1" / "xgboost.json").serialize(tl)
    return {
        "json": (repo / "xgb_bin_json" / "1" / "xgboost.json").read_bytes(),
        "ubj": (repo / "xgb_bin_ubj" / "1" / "xgboost.ubj").read_bytes(),
        "txt": (repo / "lgb_bin" / "1" / "model.txt").read_bytes(),
        "tl": tl.read_bytes(),
    }


def test_bad_models_say_what_is_wrong(tmp_path, whole):
    want = bad_models(tmp_path, whole)
    place(tmp_path, "good", "checkpoint.tl").write_bytes(whole["tl"])
    with Server(tmp_path, "--exit-on-error=false", "--strict-readiness=false", wait=False) as s:
        got = settled(s, len(want) + 1)
        wrong = {name: got[name] for name, text in want.items() if text not in got[name]}
        assert not wrong
        assert s.get("/v2/models/good/ready").status == 200
    assert not (tmp_path / "trace").exists(), "the pickle was read"


@pytest.mark.parametrize("kind", ["json", "ubj", "txt", "tl"])
def test_damaged_files_end_no_server(tmp_path, whole, kind):
    """Files with flipped bytes load or do not; each in a process of its own, as the manual advises for files of strangers."""
    rng = np.random.default_rng(1)
    for i in range(6):
        damaged = bytearray(whole[kind])
        for at in rng.integers(0, len(damaged), 8):
            damaged[at] ^= int(rng.integers(1, 256))
        place(tmp_path, f"damaged_{i}", f"model.{kind}", isolation="process").write_bytes(damaged)
    place(tmp_path, "good", "checkpoint.tl").write_bytes(whole["tl"])
    with Server(tmp_path, "--exit-on-error=false", "--strict-readiness=false") as s:
        assert s.get("/v2/models/good/ready").status == 200


def test_a_missing_library_is_named(tmp_path, trained):
    place(tmp_path, "m", "xgboost.json", treelite_library="/nowhere/libtreelite.so").write_bytes(
        (trained[0] / "xgb_bin_json" / "1" / "xgboost.json").read_bytes()
    )
    with Server(tmp_path, "--exit-on-error=false", "--strict-readiness=false", wait=False) as s:
        reason = settled(s, 1)["m"]
    assert "treelite is not found at '/nowhere/libtreelite.so'" in reason


def test_one_file_is_served(trained):
    """`neso config init` needs no configuration."""
    path = trained[0] / "lgb_multi" / "1" / "model.txt"
    done = subprocess.run([BINARY, "config", "init", path, "--output=-"], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert "dims: [ 8 ]" in done.stdout and "dims: [ 3 ]" in done.stdout


def test_a_repository_needs_no_configuration(tmp_path, whole):
    """A file under one of its default names tells the backend."""
    names = {"xgboost.json": "json", "xgboost.ubj": "ubj", "model.txt": "txt", "checkpoint.tl": "tl"}
    for i, (file, kind) in enumerate(names.items()):
        (tmp_path / f"m{i}" / "1").mkdir(parents=True)
        (tmp_path / f"m{i}" / "1" / file).write_bytes(whole[kind])
    with Server(tmp_path) as s:
        backends = [s.get(f"/v2/models/m{i}/config").json["backend"] for i in range(len(names))]
        inputs = [s.get(f"/v2/models/m{i}").json["inputs"][0]["shape"] for i in range(len(names))]
    assert backends == ["fil"] * len(names)
    assert inputs == [[-1, 8]] * len(names)
