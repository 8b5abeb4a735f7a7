#!/usr/bin/env python3
"""Trains the weights of examples/models/sentiment_classify on examples/sentiment_corpus.tsv.

A logistic regression over the words that examples/models/sentiment_preprocess counts, by its own code and recipe, so
that training and serving see the same. Needs numpy. The corpus was written for this example; its lines are pairs of
a kind and an unkind sentence about the same thing, and every fifth pair takes no part in the training.

With --encoder it trains the head of sentiment_minilm in its place: the same regression over the embeddings of an
encoder, as ONNX. Needs onnx, onnxruntime and tokenizers.
"""

import argparse
import pathlib
import shutil
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
PREPROCESS = HERE / "models" / "sentiment_preprocess"
WEIGHTS = HERE / "models" / "sentiment_classify" / "1" / "weights.npz"
STEPS, RATE, DECAY = 2000, 0.5, 2e-3
HEAD_RATE, HEAD_DECAY = 4.0, 1e-3  # embeddings are of length 1, so their gradients are small

sys.path.insert(0, str(PREPROCESS / "1"))
from recipe import Recipe  # noqa: E402  it lies beside the model that uses it


def read_corpus(path=HERE / "sentiment_corpus.tsv"):
    """Sentences and labels (1 kind, 0 unkind), those to learn from and those held out."""
    learn, held_out = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        label, text = line.split("\t")
        (held_out if number // 2 % 5 == 4 else learn).append((text, int(label == "+")))
    return learn, held_out


def tensors(recipe, examples):
    features = np.stack([recipe.features(text) for text, _ in examples]).astype(np.float64)
    return features, np.array([label for _, label in examples], np.float64)


def train(features, labels, rate=RATE, decay=DECAY):
    """Weights and bias by plain gradient descent: no randomness, so that every run gives the same."""
    weights, bias = np.zeros(features.shape[1]), 0.0
    for _ in range(STEPS):
        off = 1 / (1 + np.exp(-(features @ weights + bias))) - labels
        weights -= rate * (features.T @ off / len(labels) + decay * weights)
        bias -= rate * off.mean()
    return weights.astype(np.float32), np.float32(bias)


def accuracy(weights, bias, features, labels):
    return float(((features @ weights + bias > 0) == labels).mean())


def save_onnx(path, features, weights, bias):
    """The classifier as an ONNX file; features names its input."""
    from onnx import TensorProto, checker, helper, numpy_helper, save

    constants = {"weights": weights[:, None], "bias": np.array([bias]), "one": np.ones(1, np.float32)}
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [features, "weights"], ["product"]),
            helper.make_node("Add", ["product", "bias"], ["logits"]),
            helper.make_node("Sigmoid", ["logits"], ["positive"]),
            helper.make_node("Sub", ["one", "positive"], ["negative"]),
            helper.make_node("Concat", ["negative", "positive"], ["PROBABILITIES"], axis=1),
        ],
        "sentiment",
        [helper.make_tensor_value_info(features, TensorProto.FLOAT, ["rows", len(weights)])],
        [helper.make_tensor_value_info("PROBABILITIES", TensorProto.FLOAT, ["rows", 2])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    checker.check_model(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(model, path)


def write_onnx(folder, weights, bias):
    """The same classifier as a model of the backend onnxruntime, to take the place of the one in Python."""
    save_onnx(folder / "1" / "model.onnx", "FEATURES", weights, bias)
    config = (WEIGHTS.parent.parent / "config.pbtxt").read_text().replace('backend: "python"', 'backend: "onnxruntime"')
    (folder / "config.pbtxt").write_text(config)
    shutil.copy(WEIGHTS.parent.parent / "labels.txt", folder)


def embeddings(repository, examples):
    """Embeddings of the sentences, by the files that the server runs, and the labels."""
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(repository / "embed_tokenize" / "1" / "tokenizer.json"))
    tokenizer.enable_padding()
    tokens = tokenizer.encode_batch([text for text, _ in examples])
    inputs = {
        "input_ids": np.array([e.ids for e in tokens], np.int64),
        "attention_mask": np.array([e.attention_mask for e in tokens], np.int64),
    }
    for model in ("embed_encode", "embed_pool"):
        session = onnxruntime.InferenceSession(repository / model / "1" / "model.onnx", providers=["CPUExecutionProvider"])  # fmt: skip
        taken = {i.name: inputs[i.name] for i in session.get_inputs()}
        inputs[session.get_outputs()[0].name] = session.run(None, taken)[0]
    return inputs["EMBEDDING"].astype(np.float64), np.array([label for _, label in examples], np.float64)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=WEIGHTS, help="file to write (the model's)")
    parser.add_argument("--onnx", type=pathlib.Path, metavar="DIR", help="also write the model as ONNX (needs onnx)")
    parser.add_argument(
        "--encoder",
        type=pathlib.Path,
        metavar="REPOSITORY",
        help="train the head of sentiment_minilm in it and no more",
    )
    args = parser.parse_args()
    parts = learn, held_out = read_corpus()
    if args.encoder:
        learnt, tested = (embeddings(args.encoder, part) for part in parts)
        weights, bias = train(*learnt, rate=HEAD_RATE, decay=HEAD_DECAY)
        save_onnx(args.encoder / "sentiment_head" / "1" / "model.onnx", "EMBEDDING", weights, bias)
    else:
        recipe = Recipe(PREPROCESS / "recipe.json")
        learnt, tested = (tensors(recipe, part) for part in parts)
        weights, bias = train(*learnt)
        np.savez(args.out, weights=weights, bias=bias)
        if args.onnx:
            write_onnx(args.onnx, weights, bias)
    seen, unseen = (accuracy(weights, bias, *part) for part in (learnt, tested))
    print(f"{len(learn)} sentences learnt, {seen:.1%} right; {len(held_out)} held out, {unseen:.1%} right")


if __name__ == "__main__":
    main()
