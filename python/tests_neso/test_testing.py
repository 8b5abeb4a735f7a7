"""Tests of models as users write them: in plain pytest, without a server."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from neso.testing import Model, ModelError

ROOT = pathlib.Path(__file__).resolve().parents[2]

IO = {
    "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [-1]}],
    "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [-1]}],
}


def write(tmp_path, body, name="m"):
    folder = tmp_path / name / "1"
    folder.mkdir(parents=True)
    head = "import numpy as np\nimport triton_python_backend_utils as pb_utils\n\n\nclass TritonPythonModel:\n"
    (folder / "model.py").write_text(head + textwrap.indent(textwrap.dedent(body), "    "))
    return tmp_path / name


def test_the_module_is_importable_anywhere():
    text = "import triton_python_backend_utils as p; print(p.Tensor.__module__, p.InferenceRequest(inputs=[]).inputs())"
    out = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd="/").stdout
    assert out.split() == ["neso_worker.tensor", "[]"]


def test_a_model_of_a_repository():
    a, b = np.array([[1, 2]], np.float32), np.array([[3, 5]], np.float32)
    with Model(ROOT / "examples" / "models" / "add_sub") as model:
        assert model.config["max_batch_size"] == 64
        out = model.infer(INPUT0=a, INPUT1=b)
    assert out["OUTPUT0"].tolist() == [[4, 7]] and out["OUTPUT1"].tolist() == [[-2, -3]]


def test_arguments_errors_metrics_and_other_models(tmp_path):
    path = write(
        tmp_path,
        """
        def initialize(self, args):
            self.args = args
            self.family = pb_utils.MetricFamily("calls", "calls", pb_utils.MetricFamily.COUNTER)
            self.metric = self.family.Metric(labels={"m": args["model_name"]})

        def execute(self, requests):
            out = []
            for r in requests:
                self.metric.increment(1)
                x = pb_utils.get_input_tensor_by_name(r, "X")
                if x.as_numpy()[0] < 0:
                    error = pb_utils.TritonError("below", pb_utils.TritonError.INVALID_ARG)
                    out.append(pb_utils.InferenceResponse(error=error))
                    continue
                a = pb_utils.InferenceRequest(model_name="other", inputs=[x], requested_output_names=["Y"]).exec()
                out.append(pb_utils.InferenceResponse(error=a.error()) if a.has_error() else a)
            return out

        def finalize(self):
            self.args["model_name"] = "finalized"
        """,
    )
    x = np.array([2], np.float32)
    with Model(path, config=IO) as model:
        assert model.model.args["model_repository"] == str(path)
        with pytest.raises(ModelError, match="Model 'other' is not ready"):
            model.infer(X=x)
    with Model(path, config=IO, models={"other": lambda **x: {"Y": x["X"] * 10}}) as model:
        user = model.model
        assert model.infer(X=x)["Y"].tolist() == [20]
        with pytest.raises(ModelError, match="below") as failed:
            model.infer(X=-x)
        assert failed.value.code == 3
        assert model.metric("calls", m="m") == 2
    assert user.args["model_name"] == "finalized"


def test_senders_cancellation_and_coroutines(tmp_path):
    path = write(
        tmp_path,
        """
        async def execute(self, requests):
            for r in requests:
                sender = r.get_response_sender()
                for i in range(3):
                    if sender.is_cancelled():
                        break
                    sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.full(1, i, np.float32))]))
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        """,
    )
    with Model(path, config=IO) as model:
        assert [r["Y"].tolist() for r in model.stream(X=np.zeros(1, np.float32))] == [[0], [1], [2]]
        request = model.request({"X": np.zeros(1, np.float32)})
        request.cancelled = True
        assert model.execute(request) == [[]] and request.final


def test_metric_kinds_are_checked_as_in_a_server():
    import triton_python_backend_utils as pb_utils

    counter = pb_utils.MetricFamily("c", "c", pb_utils.MetricFamily.COUNTER)
    metric = counter.Metric()
    metric.increment(2)
    assert metric.value() == 2
    with pytest.raises(pb_utils.TritonModelException, match=r"Failed to set metric value: .*counter"):
        metric.set(1)
    gauge = pb_utils.MetricFamily("testing_level", "d", pb_utils.MetricFamily.GAUGE)
    level = gauge.Metric()
    level.set(float("-inf"))
    assert level.value() == float("-inf")
    histogram = pb_utils.MetricFamily("testing_sizes", "d", pb_utils.MetricFamily.HISTOGRAM)
    histogram.Metric(buckets=[1, float("inf")]).observe(5)
    with pytest.raises(pb_utils.TritonModelException, match="Failed to increment metric value: "):
        metric.increment(-1)
    with pytest.raises(pb_utils.TritonModelException, match=r"Error when creating MetricFamily: .*'c' is a counter"):
        pb_utils.MetricFamily("c", "c", pb_utils.MetricFamily.GAUGE)
    del counter
    pb_utils.MetricFamily("c", "c", pb_utils.MetricFamily.GAUGE)
    with pytest.raises(pb_utils.TritonModelException, match="Failed to load model: "):
        pb_utils.load_model("x")
    assert pb_utils.is_model_ready("x") is False


def test_faults_of_a_model(tmp_path):
    with pytest.raises(Exception, match="no class 'TritonPythonModel'"):
        folder = tmp_path / "none" / "1"
        folder.mkdir(parents=True)
        (folder / "model.py").write_text("")
        Model(tmp_path / "none", config=IO)
    path = write(tmp_path, "def execute(self, requests):\n    return []\n")
    with Model(path, config=IO) as model, pytest.raises(ModelError, match="0 responses to 1 requests"):
        model.infer(X=np.zeros(1, np.float32))
