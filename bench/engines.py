"""Scenarios that are set against a loop over the framework's own API, on the same cores, in turns with the server.

The loops run in processes of their own (programs/library_loop.py). Large models are compared by throughput at the loop's best
batch size; small ones by what the server adds to the CPU time of the library at the batch size that the server makes.
"""

import importlib.util
import pathlib
import shutil
import subprocess

import networks
import numpy as np
from scenarios import Scenario
from verdicts import MISSED, UNKNOWN, Row, failure_of, judge, median_of, no_errors

ROOT = pathlib.Path(__file__).resolve().parent.parent
GENERATED = ROOT / "build" / "bench" / "generated"
ENCODER = ROOT / "build" / "minilm"  # make minilm
FRAMEWORKS_PYTHON = ROOT / ".venv-frameworks" / "bin" / "python"
TOKENS = 32
ONE_THREAD = 'parameters { key: "INTRA_OP_THREAD_COUNT" value { string_value: "1" } }\n'

# By repository: options of the server.
FLAGS = {name: [f"--python={FRAMEWORKS_PYTHON}"] for name in ("torch", "sentences")}


def _scenario(name, protocol, connections, model, repository, kind, file, **more):
    name = f"{name}, {'HTTP' if protocol == 'http' else 'gRPC'}, c{connections}"
    return Scenario(
        name, protocol, connections, model, "", 0, repository=repository, library=(kind, f"{model}/1/{file}"), **more
    )


LARGE = [
    _scenario("ResNet-50, one image", "http", 4, "resnet50", "resnet", "onnx", "model.onnx", seconds=4),
    _scenario("MiniLM encoder, 32 tokens", "http", 32, "embed_encode", "encoder", "onnx", "model.onnx", seconds=2),
]
SMALL = [
    _scenario(name, protocol, 32, model, repository, kind, file)
    for name, model, repository, kind, file in (
        ("FIL, 500 trees", "forest", "forest", "fil", "xgboost.ubj"),
        ("PyTorch MLP 3 x 512", "torch_mlp", "torch", "torch", "model.pt"),
    )
    for protocol in ("http", "grpc")
]
# What a request may cost above the library's own, in µs.
ALLOWED = {"FIL, 500 trees": 25, "PyTorch MLP 3 x 512": 30}
ENGINES = LARGE + SMALL
SHARE = 0.97


def model_folder(repository, name, config):
    """The version directory of a generated model, emptied, with its configuration beside it."""
    folder = GENERATED / repository / name / "1"
    shutil.rmtree(folder.parent, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder.parent / "config.pbtxt").write_text(config)
    return folder


def generate(chosen):
    """Writes the repositories that the scenarios need. What needs a framework that is not there is left out, and says so
    when it is asked for.
    """
    wanted = {s.repository for s in chosen}
    batching = "max_batch_size: 32\ndynamic_batching { }\n"
    if "resnet" in wanted:
        networks.resnet50(
            model_folder("resnet", "resnet50", "max_batch_size: 8\ndynamic_batching { }\n") / "model.onnx"
        )
    if "forest" in wanted:
        networks.forest(model_folder("forest", "forest", 'backend: "fil"\n' + batching) / "xgboost.ubj")
    if "torch" in wanted and FRAMEWORKS_PYTHON.exists():
        folder = model_folder(
            "torch", "torch_mlp", f'backend: "pytorch"\n{batching}{ONE_THREAD}input {{ name: "input" data_type: TYPE_FP32 '
            f'dims: [ {networks.WIDTH} ] }}\noutput {{ name: "output" data_type: TYPE_FP32 dims: [ {networks.WIDTH} ] }}\n'
        )  # fmt: skip
        subprocess.run([FRAMEWORKS_PYTHON, networks.__file__, folder], check=True)
    if "encoder" in wanted and ENCODER.exists():
        shutil.copytree(ENCODER / "embed_encode", GENERATED / "encoder" / "embed_encode", dirs_exist_ok=True)


def missing(repository):
    """Why a repository could not be made."""
    if repository == "torch" and not FRAMEWORKS_PYTHON.exists():
        return ".venv-frameworks is missing: make test-frameworks makes it"
    if repository in ("encoder", "sentences") and not ENCODER.exists():
        return "build/minilm is missing: make minilm writes it"
    return ""


def inputs_of(model):
    """One row of the inputs of a model, by name."""
    random = np.random.default_rng(7)
    if model == "resnet50":
        return {"IMAGE": random.random((1, *networks.IMAGE), np.float32)}
    if model == "embed_encode":
        ids = random.integers(1000, 30000, (1, TOKENS))
        return {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    if model == "forest":
        return {"input__0": random.standard_normal((1, networks.FEATURES)).astype(np.float32)}
    return {"input": random.random((1, networks.WIDTH), np.float32)}


MODELS = ("resnet50", "embed_encode", "forest", "torch_mlp")


def answers_of(model):
    """What the library itself says to inputs_of(model), and how far an answer may be from it."""
    inputs = inputs_of(model)
    if model == "forest":
        import xgboost

        booster = xgboost.Booster(model_file=str(GENERATED / "forest" / model / "1" / "xgboost.ubj"))
        return {"output__0": booster.predict(xgboost.DMatrix(inputs["input__0"]))[:, None]}, 1e-5
    if model == "torch_mlp":
        script = (
            "import sys, torch, numpy; m = torch.jit.load(sys.argv[1]); x = numpy.load(sys.argv[2]); "
            "numpy.save(sys.argv[3], m(torch.from_numpy(x)).detach().numpy())"
        )
        source, into = GENERATED / "torch_in.npy", GENERATED / "torch_out.npy"
        np.save(source, inputs["input"])
        file = GENERATED / "torch" / model / "1" / "model.pt"
        subprocess.run([FRAMEWORKS_PYTHON, "-c", script, file, source, into], check=True)
        return {"output": np.load(into)}, 1e-5
    import onnxruntime

    repository = "resnet" if model == "resnet50" else "encoder"
    path = GENERATED / repository / model / "1" / "model.onnx"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return {session.get_outputs()[0].name: session.run(None, inputs)[0]}, 1e-3


def onnx_library():
    """The file of the ONNX Runtime that the loops import."""
    spec = importlib.util.find_spec("onnxruntime")
    if spec is None:
        raise FileNotFoundError("onnxruntime is missing: pip install onnxruntime")
    folder = pathlib.Path(spec.origin).parent / "capi"
    return str(next(folder.glob("libonnxruntime.*")))


def library_environment(environment):
    """Neso loads the ONNX Runtime and the treelite that the loops import."""
    found = dict(environment)
    for name, package, inside in (("ONNXRUNTIME", "onnxruntime", "capi"), ("FIL", "treelite", "lib")):
        spec = importlib.util.find_spec(package)
        if spec:
            found.setdefault(f"NESO_{name}_LIBRARY", str(pathlib.Path(spec.origin).parent / inside))
    return found


def sides(results, name):
    entry = results.get("scenarios", {}).get(name, {})
    return entry.get("neso"), entry.get("library")


def goals(results):
    for s in LARGE:
        neso, own = sides(results, s.name)
        a, b = median_of(neso, "rps"), median_of(own, "rps")
        value = a / b if a is not None and b else None
        text = "{:.3f} times (" + f"{a:,.1f} against {b:,.1f} of a {own['model']})" if value else ""
        yield judge(
            f"{s.name}: at least {SHARE} times the throughput of a loop over the library at its best batch size",
            value, SHARE, text, at_most=False, failure=failure_of(neso) or failure_of(own),
        )  # fmt: skip
        yield no_errors(results, s.name)
    for s in SMALL:
        neso, own = sides(results, s.name)
        allowed = ALLOWED[s.name.rsplit(", ", 2)[0]]
        goal = f"{s.name}: at most {allowed} µs of CPU a request over the library's own at the same batch size"
        a, b = median_of(neso, "cpu_us"), median_of(own, "cpu_us")
        if a is None or b is None:
            why = failure_of(neso) or failure_of(own)
            yield Row(goal, why, MISSED if why else UNKNOWN)
        else:
            yield judge(goal, a - b, allowed, "{:.1f} µs (" + f"{a:.1f} less {b:.1f} of a {own['model']})")
        yield no_errors(results, s.name)
    yield from _many(results.get("lifecycle", {}))


def _many(entries):
    neso, bare = entries.get("neso many", {}), entries.get("library many", {})
    for field, text in (("ready_ms", "start to all ready"), ("rss_mib", "resident memory")):
        a, b = neso.get(field), bare.get(field)
        value = a / b if a is not None and b else None
        told = "{:.2f} times (" + f"{a:,.0f} against {b:,.0f} {field[-3:].strip('_')})" if value else ""
        yield judge(
            f"50 small ONNX models, {text}: at most 1.2 times a bare ONNX Runtime process",
            value, 1.2, told, failure=failure_of(neso),
        )  # fmt: skip
