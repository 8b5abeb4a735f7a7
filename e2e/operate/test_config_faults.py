"""What `neso config check` says of a model and what the server says that does not load it are the same, all of it at once."""

from __future__ import annotations

import re
import subprocess

import pytest
from server import BINARY, Server

IN = 'input { name: "A" data_type: TYPE_FP32 dims: [ 4 ] }\n'
OUT = 'output { name: "B" data_type: TYPE_FP32 dims: [ 4 ] }\n'
STEP = 'step { model_name: "good" model_version: -1 input_map { key: "A" value: "%s" } output_map { key: "B" value: "%s" } }\n'
# Configurations with faults of every kind: what of each fault must be said.
CONFIGS = {
    "types": (
        'backend: "identity"\nmax_batch_size: "8"\n'
        'input { name: "A" data_type: FP32 dims: [ 4 ] }\ninput { name: 5 data_type: TYPE_FP23 dims: [ 4, x ] }\n'
            'output { name: "B" data_type: TYPE_FP32 dims: [ 4 ] label_filename: "l.txt" }\n',
        ["field max_batch_size", 'did you mean "TYPE_FP32"?', "input[1].name", "input[1].data_type", "input[1].dims", "l.txt"],
    ),
    "fields": (
        'backend: "identity"\nmax_bacth_size: 8\nversion_polcy { latest { num_versions: 1 } }\nname: "other"\n'
        + IN + OUT + 'output { name: "B" data_type: TYPE_FP32 dim: [ 4 ] }\n',
        ['did you mean "max_batch_size"?', 'did you mean "version_policy"?', "unexpected directory name",
         'did you mean "dims"?', "more than once"],
    ),
    "shapes": (
        'backend: "identity"\nmax_batch_size: -3\n'
        'input { name: "A" data_type: TYPE_FP32 dims: [ 0, -2 ] }\ninput { name: "A" data_type: TYPE_FP32 dims: '
            '[ 4 ] reshape { shape: [ 5 ] } }\n'
        'output { name: "B" data_type: TYPE_FP32 dims: [ 4 ] is_shape_tensor: true reshape { shape: [ 3 ] } '
            'label_filename: "../out.txt" }\n',
        ["max_batch_size", "input[0].dims[0]", "input[0].dims[1]", "'A' is specified more than once", "input[1].reshape",
         "shape tensors are only", "output[0].reshape", "outside model directory"],
    ),
    "groups": (
        'backend: "identity"\n' + IN + OUT
        + ('instance_group [ { kind: KIND_CPU gpus: [ 0 ] }, { count: 5000 } ]\nversion_policy { latest { '
            'num_versions: 0 } }\n'),
        ["specifies one or more GPUs", "too many instances", "version_policy.latest.num_versions"],
    ),
    "batching": (
        'backend: "identity"\nmax_batch_size: 4\n' + IN + OUT
        + "dynamic_batching { preferred_batch_size: [ 9, 0 ] priority_levels: 2 default_priority_level: 5 "
            "preserve_ordering: true\n"
        'priority_queue_policy { key: 7 value { max_queue_size: 1 } } }\nresponse_cache { enable: true }\n'
            'batch_input { kind: BATCH_ITEM_SHAPE target_name: "T" data_type: TYPE_FP64 source_input: "NO" }\n',
        ["preferred_batch_size[0]", "preferred_batch_size[1]", "default priority level", "priority_queue_policy",
         "batch_input[0].data_type", "unknown source input name 'NO'"],
    ),
    "sequence": (
        'backend: "identity"\nmax_batch_size: 4\n' + IN + OUT
        + 'sequence_batching { control_input [ { name: "S" control [ { kind: CONTROL_SEQUENCE_START } ] }, { '
            'control [ { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0 ] } ] } ]\n'
        'state [ { input_name: "I" output_name: "O" data_type: TYPE_FP32 dims: [ 0 ] initial_state { data_type: '
            'TYPE_FP32 dims: [ 1 ] data_file: "gone" name: "i" } } ] }\n',
        ["control_input[0]", "control_input[1]", "state[0]", "gone"],
    ),
    "ensemble": (
        'platform: "ensemble"\nbackend: "python"\n' + IN + OUT
        + 'output { name: "C" data_type: TYPE_FP32 dims: [ 4 ] }\ninput { name: "IDLE" data_type: TYPE_INT32 dims: '
            '[ 4 ] }\n'
        "ensemble_scheduling {\n" + STEP % ("A", "B") + STEP.replace('"good"', '"gone"') % ("A",
            "t") + STEP.replace('key: "A"', 'key: "NO"') % ("A", "u") + "}\n",
        ["empty backend type", "'IDLE' for ensemble ensemble' is not used", "'C' for ensemble ensemble' is not used",
         "not available or ambiguous: gone", "non-existing input NO"],
    ),
    "files": (
        'backend: "python"\n' + IN + OUT.replace("[ 4 ]", '[ 4 ] label_filename: "labels.txt"') +
        ('model_warmup { name: "w" batch_size: 1 inputs { key: "A" value { data_type: TYPE_FP32 dims: 4 '
            'input_data_file: "raw" } } }\ninstance_group { kind: KIND_CPU profile: "p" }\n'),
        ["labels.txt", "raw", "model.py", "profile"],
    ),
    "versions": ('backend: "identity"\nversion_policy { specific { versions: [ 7 ] } }\n' + IN + OUT
        + ('parameters { key: "execute_delay_s" value { string_value: "1" } }\ninstance_group { kind: KIND_CPU gpus: 1 }'
        '\n'), ["at least one version", "specifies one or more GPUs"]),
    "unknown": ('backend: "pyhton"\n' + IN + OUT + 'instance_group { kind: KIND_CPU gpus: 1 }\n',
                ["unable to find backend library for backend 'pyhton'", 'did you mean "python"?', "specifies one or more GPUs"]),
    "platform": ('platform: "onnxruntime_onx"\n' + IN + "output { name: \"B\" data_type: TYPE_FP32 dims: [ -7 ] }\n",
                 ["unexpected platform type 'onnxruntime_onx'", "output[0].dims[0]"]),
}  # fmt: skip
# Names that are brought along from elsewhere, or are written nearly right, and the backend that each means.
MEANT = {
    "torchscript": "pytorch", "libtorch": "pytorch", "pytorch_libtorch": "pytorch", "torch_aoti": "pytorch",
    "Torch": "pytorch", "torchsrcipt": "pytorch", "pytroch": "pytorch",
    "onnx": "onnxruntime", "onnx_runtime": "onnxruntime", "ONNX": "onnxruntime", "onnxruntime_onnx": "onnxruntime",
    "onxruntime": "onnxruntime", "ort": "onnxruntime",
    "tf": "tensorflow", "tensorflow_savedmodel": "tensorflow", "trt": "tensorrt", "tensorrt_plan": "tensorrt",
    "scikit-learn": "sklearn", "xgboost": "fil",
}  # fmt: skip
CONFIGS |= {
    f"meant_{name}": (
        f'backend: "{name}"\n{IN}{OUT}',
        [f"unable to find backend library for backend '{name}', try specifying runtime on the model configuration.",
         f'did you mean "{meant}"?'],
    )
    for name, meant in MEANT.items()
}  # fmt: skip
CONFIGS |= {
    f"platform_{name}": (f'platform: "{name}"\n{IN}{OUT}', [f"unexpected platform type '{name}'", f"did you mean {meant}?"])
    for name, meant in {"onnxruntime_onx": '"onnxruntime_onnx"', "torchscript": 'backend: "pytorch"',
                        "onnx": 'backend: "onnxruntime"', "python": 'backend: "python"'}.items()
}  # fmt: skip
# Values of parameters that a load refuses: what is said of each, with the line of the parameter, which is the third.
PARAMETERS = {
    "execution_timeout": ("python", "EXECUTION_TIMEOUT_SECONDS", "abc",
                          "Incorrect value for EXECUTION_TIMEOUT_SECONDS: 'abc' is not a number of seconds from 0 on"),
    "load_timeout": ("python", "LOAD_TIMEOUT_SECONDS", "-4",
                     "Incorrect value for LOAD_TIMEOUT_SECONDS: '-4' is not a number of seconds from 0 on"),
    "memory": ("python", "WORKER_MEMORY_BYTES", "4Q", "Incorrect value for WORKER_MEMORY_BYTES: '4Q' is not a number from"),
    "open_files": ("python", "WORKER_OPEN_FILES", "x", "Incorrect value for WORKER_OPEN_FILES: 'x' is not a number from"),
    "hosted": ("sklearn", "WORKER_CPU_SECONDS", "0", "Incorrect value for WORKER_CPU_SECONDS: '0' is not a number from"),
    "writable": ("python", "WRITABLE_INPUTS", "maybe", "Incorrect value for WRITABLE_INPUTS: 'maybe' is neither yes nor no"),
    "force_cpu": ("python", "FORCE_CPU_ONLY_INPUT_TENSORS", "maybe", "Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: maybe'"),
    "strict_outputs": ("identity", "strict_outputs", "maybe",
                       "parameter 'strict_outputs' of model 'value_strict_outputs' is 'maybe', expected true or false"),
    "coalesce": ("identity", "coalesce_identical_requests", "maybe",
                 "parameter 'coalesce_identical_requests' is 'maybe', expected true or false"),
    "delay": ("identity", "execute_delay_ms", "soon", "has parameter 'execute_delay_ms' with value 'soon', expected a whole number"),
    "sleep": ("sleep", "sleep_ms", "soon", "has parameter 'sleep_ms' with value 'soon', expected a whole number"),
    "code": ("error", "code", "404", "has an unknown code '404'"),
    "isolation": ("onnxruntime", "isolation", "maybe",
                  "parameter 'isolation' of model 'value_isolation' is 'maybe', expected process or none"),
}  # fmt: skip
CONFIGS |= {
    f"value_{name}": ((f'backend: "{backend}"\n# a parameter\nparameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n{IN}'
        f'{OUT}'), [told, f'config.pbtxt:3, field parameters["{key}"]'])
    for name, (backend, key, value, told) in PARAMETERS.items()
}  # fmt: skip
CONFIGS["passive"] = (
    f'backend: "identity"\n{IN}{OUT}instance_group {{ count: 2 passive: true }}\n',
    ["all instances of the model are passive", "config.pbtxt:4, field instance_group"],
)
GOOD = 'backend: "identity"\n' + IN + OUT


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    repo = tmp_path_factory.mktemp("faults")
    for name, text in {"good": GOOD, **{n: c[0] for n, c in CONFIGS.items()}}.items():
        (repo / name / "1").mkdir(parents=True)
        (repo / name / "config.pbtxt").write_text(text)
    return repo


def check(*args):
    return subprocess.run([BINARY, "config", "check", *map(str, args)], capture_output=True, text=True, timeout=180)


@pytest.fixture(scope="module")
def checked(repository):
    """The faults of each model, as the check prints them."""
    r = check(repository)
    assert r.returncode == 1 and not r.stderr, r
    found: dict[str, list[str]] = {}
    for line in r.stdout.replace(f"{repository}/", "").splitlines():
        if not line.startswith("  "):
            name = line.partition(":")[0]
            found[name] = []
        elif not line.startswith(("  hint:", "  warning:")):
            found[name].append(line.strip())
    return found


@pytest.fixture(scope="module")
def served(repository):
    """The faults of each model, as a load over the API answers them."""
    with Server(repository, "--model-control-mode=explicit", "--exit-on-error=false") as s:
        replies = {name: s.post(f"/v2/repository/models/{name}/load") for name in ["good", *CONFIGS]}
        assert replies["good"].status == 200
        return {name: r.error for name, r in replies.items() if name != "good"}


@pytest.mark.parametrize("name", CONFIGS)
def test_both_tell_all(checked, served, name):
    for what in CONFIGS[name][1]:
        assert any(what in line for line in checked[name]), (what, checked[name])
        assert what in served[name], (what, served[name])


@pytest.mark.parametrize("name", CONFIGS)
def test_both_tell_the_same(checked, served, name):
    told = served[name].splitlines()
    # A file that is missing is named by who looks for it first; that a model is, is said of the step by the check alone.
    same = {f: f.partition(" (")[0] if "are not available" in f else f for f in checked[name]}
    missing = [
        f
        for f, text in same.items()
        if not any(text in line for line in told) and not (name == "files" and "file" in f)
    ]
    assert not missing, (missing, told)
    assert len(told) <= len(checked[name]) + 1 and len(told) == len(set(told)), (told, checked[name])


def test_warnings_and_strict(tmp_path):
    (tmp_path / "m" / "1").mkdir(parents=True)
    config = tmp_path / "m" / "config.pbtxt"
    config.write_text(GOOD + 'parameters { key: "execute_delay_sm" value { string_value: "1" } }\n')
    r = check(tmp_path)
    assert r.returncode == 0 and r.stdout.startswith("m: ok\n"), r
    assert (
        "  warning: " in r.stdout and 'did you mean "execute_delay_ms"?' in r.stdout and "config.pbtxt:4" in r.stdout
    ), r
    assert check("--strict", tmp_path).returncode == 1
    config.write_text(GOOD)
    assert check("--strict", tmp_path).returncode == 0


def test_steps_in_another_repository(tmp_path):
    for repo, name, text in (
        ("a", "e", 'platform: "ensemble"\n' + IN + OUT + "ensemble_scheduling {\n" + STEP % ("A", "B") + "}\n"),
        ("b", "good", GOOD),
    ):
        (tmp_path / repo / name / "1").mkdir(parents=True)
        (tmp_path / repo / name / "config.pbtxt").write_text(text)
    r = check(tmp_path / "a")
    assert r.returncode == 1 and "not available or ambiguous: good" in r.stdout and "give each as a PATH" in r.stdout, r
    assert check(tmp_path / "a", tmp_path / "b").returncode == 0


def test_a_start_that_fails(repository):
    """The log has each model's faults in a line of its own, for machines; the list at the end has them for people;
    what is between only points at them."""
    r = subprocess.run(
        [BINARY, "serve", f"--model-repository={repository}", "--http-port=0", "--grpc-port=0", "--metrics-port=0"],
        capture_output=True,
        text=True,
        timeout=180,
    )  # fmt: skip
    assert r.returncode == 1
    log, _, closing = r.stderr.partition("error: creating server: Internal - failed to load all models")
    assert closing, r.stderr
    for name in CONFIGS:
        assert len(re.findall(rf"failed to load '{name}'", log)) == 1, (name, log)
        assert closing.count(f"\n  {name}: ") == 1, (name, closing)
    assert "failed to load 'unknown' version 1: Invalid argument: unable to find backend library" in log
    assert re.search(r"^\| Model +\| Version \| Status", log, re.M) and re.search(
        r"^\| good +\| 1 +\| READY", log, re.M
    ), log
    assert re.search(
        r"^\| unknown +\| 1 +\| UNAVAILABLE: Invalid argument: unable to find backend library", log, re.M
    ), log
    fault = "specifies one or more GPUs but"
    for text in ("unexpected directory name 'fields'", "default priority level must be in range", fault):
        if text in r.stderr:
            assert log.count(text) <= 1 and closing.count(text) == 1, (text, r.stderr)
