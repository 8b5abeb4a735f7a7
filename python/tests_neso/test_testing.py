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
    text = """import triton_python_backend_utils as p
print(p.Tensor.__module__, p.InferenceRequest("", 0, [], [], "m").inputs())"""
    out = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd="/").stdout
    assert out.split() == ["neso_runtime.tensor", "[]"]


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


WRONG = [
    ("T('Y', x.astype('f8')), z", "output 'Y' of model 'm' has datatype FP64, expected FP32"),
    ("T('Y', x[0]), z", "output 'Y' of model 'm' has shape [2], expected [1,-1]"),
    ("T('Y', np.concatenate([x, x])), z", "output 'Y' of model 'm' has shape [2,2], expected [1,-1]"),
    (
        "T('Y', x[0].astype('i4')), z",
        "output 'Y' of model 'm' has datatype INT32 and shape [2], expected FP32 and [1,-1]",
    ),
    (
        "T('Z', np.array([[b'x']], object))",
        "model 'm' returned no output 'Y', expected one of datatype FP32 and shape [1,-1]; "
        "output 'Z' of model 'm' has datatype BYTES, expected INT64",
    ),
]
ANSWER = """
    def execute(self, requests):
        T, x = pb_utils.Tensor, pb_utils.get_input_tensor_by_name(requests[0], "X").as_numpy()
        z = T("Z", np.ones((len(x), 1), np.int64))
        return [pb_utils.InferenceResponse([{}])]
    """


@pytest.mark.parametrize(("tensors", "text"), WRONG)
def test_answers_are_checked_against_the_configuration(tmp_path, tensors, text):
    """In the words of a server with --strict-outputs, all that is wrong at once; what that lets pass is passed."""
    path, x = write(tmp_path, ANSWER.format(tensors)), np.ones((1, 2), np.float32)
    outputs = [*IO["output"], {"name": "Z", "data_type": "TYPE_INT64", "dims": ["1"]}]
    config = {**IO, "max_batch_size": 4, "output": outputs}
    with Model(path, config=config) as model, pytest.raises(ModelError) as failed:
        model.infer(X=x)
    assert str(failed.value) == text
    with Model(path, config=config, strict=False) as model:
        assert model.infer(X=x)
    with Model(path, config={**config, "parameters": {"strict_outputs": {"string_value": "false"}}}) as model:
        assert model.infer(X=x)


def test_answers_that_are_as_configured(tmp_path):
    """Outputs that nobody asked for may be missing, parts of a batch may come one by one from a decoupled model."""
    x = np.ones((3, 2), np.float32)
    config = {
        **IO,
        "max_batch_size": 4,
        "output": [*IO["output"], {"name": "Z", "data_type": "TYPE_INT64", "dims": [1]}],
    }
    with Model(write(tmp_path, ANSWER.format("T('Y', x)")), config=config) as model:
        ((response,),) = model.execute(model.request({"X": x}, outputs=["Y"]))
        assert [t.name() for t in response.output_tensors()] == ["Y"]
    config["model_transaction_policy"] = {"decoupled": True}
    with Model(write(tmp_path, ANSWER.format("T('Y', x[:1])"), "d"), config=config) as model:
        assert model.stream(X=x)[0]["Y"].shape == (1, 2)
    reshaped = {**IO["output"][0], "dims": [1, 2], "reshape": {"shape": [2]}}
    with Model(
        write(tmp_path, ANSWER.format("T('Y', x)"), "r"), config={**IO, "max_batch_size": 4, "output": [reshaped]}
    ) as model:
        assert model.infer(X=x)["Y"].shape == (3, 2)


def test_faults_of_a_model(tmp_path):
    with pytest.raises(Exception, match="no class 'TritonPythonModel'"):
        folder = tmp_path / "none" / "1"
        folder.mkdir(parents=True)
        (folder / "model.py").write_text("")
        Model(tmp_path / "none", config=IO)
    path = write(tmp_path, "def execute(self, requests):\n    return []\n")
    with Model(path, config=IO) as model, pytest.raises(ModelError, match="0 responses to 1 requests"):
        model.infer(X=np.zeros(1, np.float32))
