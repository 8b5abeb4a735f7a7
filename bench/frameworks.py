"""The scenarios of framework backends, and the models that they need, which are made before the run.

The peer's wheel has no framework backend: these are set against figures of an earlier run of it, and goals say so.
"""

import numpy as np
from scenarios import Scenario
from verdicts import absolute, no_errors

WIDTH, LAYERS, LARGEST_BATCH = 512, 3, 32

# The real Triton 2.51 with its ONNX Runtime backend, an earlier run on two such cores: requests/s, p50 in ms, CPU µs a request.
STATED = {
    "ONNX add/sub, HTTP, c1": (8684, 0.10, 81),
    "ONNX add/sub, HTTP, c8": (20381, 0.34, 54),
    "ONNX add/sub, HTTP, c32": (20994, 1.1, 48),
    "ONNX add/sub, gRPC, c1": (6819, 0.11, 123),
    "ONNX add/sub, gRPC, c8": (20288, 0.30, 60),
    "ONNX add/sub, gRPC, c32": (23878, 0.96, 53),
    "ONNX MLP 3 x 512, HTTP, c1": (5637, 0.16, 142),
    "ONNX MLP 3 x 512, HTTP, c8": (21184, 0.34, 61),
    "ONNX MLP 3 x 512, HTTP, c32": (23552, 1.3, 51),
    "ONNX MLP 3 x 512, gRPC, c1": (4847, 0.18, 179),
    "ONNX MLP 3 x 512, gRPC, c8": (16842, 0.39, 77),
    "ONNX MLP 3 x 512, gRPC, c32": (20114, 1.2, 63),
}

MODELS = {"ONNX add/sub": ("onnx_add_sub", 16), "ONNX MLP 3 x 512": ("onnx_mlp", WIDTH)}

FRAMEWORKS = [
    Scenario(f"{name}, {protocol}, c{c}", protocol.lower(), c, model, "", elements, repository="onnx")
    for name, (model, elements) in MODELS.items()
    for protocol in ("HTTP", "gRPC")
    for c in (1, 8, 32)
]


def mlp_weights():
    random = np.random.default_rng(3)
    return [
        (
            (random.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32),
            random.standard_normal(WIDTH).astype(np.float32),
        )
        for _ in range(LAYERS)
    ]


def mlp_answer(x):
    for w, b in mlp_weights():
        x = np.maximum(x @ w + b, 0)
    return x


def generate(folder):
    """Writes the repository `onnx` below folder: model files and no more than the batching in their configuration."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def save(name, nodes, inputs, outputs, width, weights=(), more=""):
        tensors = [
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", width]) for n in names]
            for names in (inputs, outputs)
        ]
        graph = helper.make_graph(nodes, name, *tensors, initializer=list(weights))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 9
        version = folder / "onnx" / name / "1"
        version.mkdir(parents=True, exist_ok=True)
        onnx.save(model, version / "model.onnx")
        (version.parent / "config.pbtxt").write_text(f"max_batch_size: {LARGEST_BATCH}\ndynamic_batching {{ }}\n{more}")

    both = ["INPUT0", "INPUT1"]
    nodes = [helper.make_node("Add", both, ["OUTPUT0"]), helper.make_node("Sub", both, ["OUTPUT1"])]
    save("onnx_add_sub", nodes, both, ["OUTPUT0", "OUTPUT1"], 16)
    nodes, weights, at = [], [], "INPUT0"
    for i, (w, b) in enumerate(mlp_weights()):
        weights += [numpy_helper.from_array(w, f"w{i}"), numpy_helper.from_array(b, f"b{i}")]
        to = "OUTPUT0" if i == LAYERS - 1 else f"r{i}"
        nodes += [
            helper.make_node("Gemm", [at, f"w{i}", f"b{i}"], [f"g{i}"]),
            helper.make_node("Relu", [f"g{i}"], [to]),
        ]
        at = to
    # One instance gathers larger batches, which cost less a request; see docs/models/frameworks.md.
    one = 'instance_group { count: 1 }\nparameters { key: "intra_op_thread_count" value { string_value: "1" } }\n'
    save("onnx_mlp", nodes, ["INPUT0"], ["OUTPUT0"], WIDTH, weights, one)


def goals(results):
    for protocol in ("HTTP", "gRPC"):
        for c in (8, 32):
            name = f"ONNX add/sub, {protocol}, c{c}"
            rps = STATED[name][0]
            yield absolute(results, name, "cpu_us", 25, "{:.1f} µs", "at most 25 µs of CPU a request")
            yield absolute(
                results,
                name,
                "rps",
                2 * rps,
                "{:,.0f}",
                f"at least 2 times the {rps:,} requests/s of the peer's earlier run",
                at_most=False,
            )
            yield no_errors(results, name)
        name = f"ONNX MLP 3 x 512, {protocol}, c32"
        rps, _, cpu = STATED[name]
        yield absolute(
            results,
            name,
            "rps",
            1.5 * rps,
            "{:,.0f}",
            f"at least 1.5 times the {rps:,} requests/s of the peer's earlier run",
            at_most=False,
        )
        yield absolute(
            results, name, "cpu_us", 0.6 * cpu, "{:.1f} µs", f"at most 0.6 times the {cpu} µs of the peer's earlier run"
        )
        yield no_errors(results, name)
