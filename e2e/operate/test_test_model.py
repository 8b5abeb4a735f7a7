"""neso test-model and neso config show --load: a model by itself, without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from bls import write
from repository import python_model
from server import BINARY, ROOT


def run(*arguments, **kw):
    environment = {**os.environ, "NESO_PYTHON": sys.executable}
    return subprocess.run(
        [BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=180, env=environment, **kw
    )


def sample(model, name, data, **more):
    folder = model / "samples"
    folder.mkdir(exist_ok=True)
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, len(data)], "data": data}], **more}
    (folder / name).write_text(json.dumps(body))


def test_samples(tmp_path):
    python_model(tmp_path, "m", add=1, execute="time.sleep(0.001)")
    model = tmp_path / "m"
    r = run("test-model", model)
    assert r.returncode == 0 and "has no samples" in r.stdout
    sample(model, "a.json", [1, 2.5], expect={"outputs": [{"name": "OUTPUT0", "datatype": "FP32", "data": [2, 3.5]}]})
    sample(model, "b.json", [0])
    r = run("test-model", model, "--repeat", 5)
    assert r.returncode == 0, r
    assert (
        "OUTPUT0 FP32 [1,2]: [2, 3.5]" in r.stdout and "median of 5" in r.stdout and "2 samples, 0 failed" in r.stdout
    )
    sample(model, "c.json", [1], expect={"outputs": [{"name": "OUTPUT0", "data": [7]}]})
    sample(model, "d.json", [1], expect={"outputs": [{"name": "OTHER"}]})
    sample(model, "e.json", [1], expect={"error": "boom"})
    r = run("test-model", model)
    assert r.returncode == 1
    for text in (
        "sample c.json: FAILED: output 'OUTPUT0', element 0: expected 7, found 2",
        "sample d.json: FAILED: expected output 'OTHER', found none",
        'sample e.json: FAILED: expected the error "boom", found none',
        "5 samples, 3 failed",
    ):
        assert text in r.stdout, r.stdout
    r = run("test-model", model, "--samples", model / "samples" / "a.json")
    assert r.returncode == 0 and "1 sample, 0 failed" in r.stdout


def test_broken_models_and_samples(tmp_path):
    python_model(tmp_path, "raises", execute="raise ValueError('boom')")
    sample(tmp_path / "raises", "a.json", [1])
    r = run("test-model", tmp_path / "raises")
    assert r.returncode == 1 and "sample a.json: FAILED" in r.stdout and "ValueError: boom" in r.stdout
    sample(tmp_path / "raises", "a.json", [1], expect={"error": "ValueError: boom"})
    assert run("test-model", tmp_path / "raises").returncode == 0
    python_model(tmp_path, "broken", init="raise RuntimeError('no weights')")
    r = run("test-model", tmp_path / "broken")
    assert r.returncode == 1 and "RuntimeError: no weights" in r.stderr
    r = run("test-model", tmp_path / "nothing")
    assert r.returncode == 1 and "expected the directory of a model" in r.stderr
    python_model(tmp_path, "m")
    for text, fault in (
        ("{", "EOF"),
        ('{"inputs":[{"name":"INPUT0","datatype":"FP3","shape":[1],"data":[1]}]}', "input 'INPUT0'"),
        (
            '{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[2],"data":[1]}]}',
            "data has 1 elements, shape [2] has 2",
        ),
        ('{"inputs":[{"name":"INPUT0","datatype":"INT8","shape":[1],"data":[200]}]}', "expected INT8, got 200"),
        ('{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":["x"]}]}', "expected FP32, got x"),
    ):
        bad = tmp_path / "bad.json"
        bad.write_text(text)
        r = run("test-model", tmp_path / "m", "--samples", bad)
        assert r.returncode == 1 and fault in r.stderr and "bad.json" in r.stderr, r


def test_answers_are_checked_against_the_configuration(tmp_path):
    python_model(tmp_path, "m")
    path = tmp_path / "m" / "1" / "model.py"
    path.write_text(path.read_text().replace("as_numpy() + 0", "as_numpy().reshape(-1).astype('f8')"))
    sample(tmp_path / "m", "a.json", [1])
    r = run("test-model", tmp_path / "m")
    text = "output 'OUTPUT0' of model 'm' has datatype FP64 and shape [1], expected FP32 and [-1,-1]"
    assert r.returncode == 1 and "sample a.json: FAILED" in r.stdout and text in r.stdout, r
    r = run("test-model", tmp_path / "m", "--strict-outputs=false")
    assert r.returncode == 0 and "OUTPUT0 FP64 [1]: [1]" in r.stdout and "1 sample, 0 failed" in r.stdout, r


def test_a_hanging_model_is_given_up(tmp_path):
    python_model(
        tmp_path,
        "m",
        execute="time.sleep(600)",
        extra='parameters { key: "EXECUTION_TIMEOUT_SECONDS" value { string_value: "0.5" } }',
    )
    sample(tmp_path / "m", "a.json", [1])
    r = run("test-model", tmp_path / "m")
    assert r.returncode == 1 and "execute did not return within 500ms" in r.stdout, r


def test_warmup_samples_and_decoupled(tmp_path):
    python_model(
        tmp_path,
        "warm",
        add=1,
        extra=(
            'model_warmup { name: "zeros" batch_size: 1 inputs { key: "INPUT0" value { data_type: TYPE_FP32 dims: [ '
            "1, 2 ] zero_data: true } } }"
        ),
    )
    r = run("test-model", tmp_path / "warm")
    assert r.returncode == 0 and "sample zeros" in r.stdout and "OUTPUT0 FP32 [1,2]: [1, 1]" in r.stdout, r
    write(
        tmp_path,
        "stream",
        "sender = request.get_response_sender()\nfor i in range(int(x[0])):\n    sender.send(self.reply(i))\nsender.send(flags=1)",
        config="model_transaction_policy { decoupled: true }\n",
    )
    path = tmp_path / "stream" / "1" / "model.py"
    path.write_text(path.read_text().replace("return [self.one(r,", "[self.one(r,"))
    (tmp_path / "stream" / "samples").mkdir()
    (tmp_path / "stream" / "samples" / "a.json").write_text(
        '{"inputs":[{"name":"X","datatype":"INT32","shape":[1],"data":[3]}],"expect":{"outputs":[{"name":"Y","data":[2]}]}}'
    )
    r = run("test-model", tmp_path / "stream")
    assert r.returncode == 0 and "response 3: Y INT32 [1]: [2]" in r.stdout, r


def test_models_that_call_others(tmp_path):
    write(tmp_path, "callee", "return self.reply(x + 1)")
    write(tmp_path, "caller", "return self.reply(self.value(self.call('callee', x)))")
    (tmp_path / "caller" / "samples").mkdir()
    (tmp_path / "caller" / "samples" / "a.json").write_text(
        '{"inputs":[{"name":"X","datatype":"INT32","shape":[1],"data":[3]}],"expect":{"outputs":[{"name":"Y","data":[4]}]}}'
    )
    r = run("test-model", tmp_path / "caller")
    assert r.returncode == 1 and "Model 'callee' is not ready" in r.stdout
    assert run("test-model", tmp_path / "caller", "--with", "callee").returncode == 0


@pytest.mark.parametrize("form", ["pbtxt", "json", "yaml"])
def test_config_show(tmp_path, form):
    write(tmp_path, "m", "return self.reply(x)")
    r = run("config", "show", tmp_path / "m", f"--format={form}")
    assert r.returncode == 0 and "--load shows all of it" in r.stderr and "TYPE_INT32" not in r.stdout
    r = run("config", "show", tmp_path / "m", f"--format={form}", "--load")
    assert r.returncode == 0 and "--load" not in r.stderr and r.stdout.count("TYPE_INT32") == 2, r


def test_the_example():
    r = run("test-model", ROOT / "examples" / "models" / "add_sub")
    assert r.returncode == 0 and "1 sample, 0 failed" in r.stdout, r


WRONG = {
    "repository": ("repo", "is a model repository: give the directory of one of its models, such as repo/m (it has m)"),
    "nothing": ("nope", "does not exist: expected "),
    "file": ("repo/m/config.pbtxt", "is a file: expected the directory of a model"),
    "other": ("empty", "it has neither a config.pbtxt nor a version"),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize(
    "command", [("test-model",), ("config", "show"), ("config", "show", "--load"), ("config", "init")]
)
def test_something_else_in_place_of_a_model(tmp_path, command, what):
    python_model(tmp_path / "repo", "m")
    (tmp_path / "empty").mkdir()
    path, text = WRONG[what]
    r = run(*command, path, cwd=tmp_path)
    if what == "file" and "init" in command:
        text = "what runs this file is not clear"
    if what == "file" and command == ("config", "show"):
        assert r.returncode == 0, r
        return
    assert r.returncode == 1 and r.stderr.startswith("neso: ") and text in r.stderr and not r.stdout, r
    assert r.stderr.count("\n") == 1, r.stderr
