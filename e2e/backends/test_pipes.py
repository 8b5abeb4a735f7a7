"""A pipe in place of a file of a model: its load says so, where reading it would wait for ever."""

from __future__ import annotations

import os

import pytest
from repository import X, python_model
from server import Server

IO = 'input { name: "X" data_type: TYPE_FP32 dims: [ 1 ] }\noutput { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] LABELS }\n'


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_pipes_are_no_models(tmp_path):
    def model(name, pipe, config="", files=None, labels=""):
        (tmp_path / name / "1").mkdir(parents=True)
        for file, text in (files or {}).items():
            (tmp_path / name / file).write_text(text)
        (tmp_path / name / "config.pbtxt").write_text(IO.replace("LABELS", labels) + config)
        os.mkfifo(tmp_path / name / pipe)

    model("onnx", "1/model.onnx", 'backend: "onnxruntime"')
    model("onnx_inside", "1/model.onnx.d", 'backend: "onnxruntime" default_model_filename: "model.onnx.d"')
    model("openvino", "1/model.xml", 'backend: "openvino"')
    model("weights", "1/model.bin", 'backend: "openvino"', {"1/model.xml": "<net/>"})
    model("forest", "1/xgboost.json", 'backend: "fil"')
    model("python", "1/model.py", 'backend: "python"')
    model("torch", "1/model.pt", 'backend: "pytorch"')
    environment = (
        'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }'
    )
    model("environment", "env.tar.gz", f'backend: "python" {environment}', {"1/model.py": ""})
    model("labels", "labels.txt", 'backend: "identity"', labels='label_filename: "labels.txt"')
    python_model(tmp_path, "good")
    with Server(tmp_path, "--model-control-mode=explicit") as s:
        for name in sorted(p.name for p in tmp_path.iterdir() if p.is_dir() and p.name != "good"):
            r = s.post(f"/v2/repository/models/{name}/load")
            want = "not a file" if name != "environment" else "not an archive"
            assert r.status == 400 and (want in r.error or name == "labels" and "label file 'labels.txt'" in r.error), (
                name,
                r,
            )
        assert s.post("/v2/repository/models/good/load").status == 200 and s.infer("good", X).status == 200
