#!/usr/bin/env python3
"""Trains the weights of examples/models/sentiment_classify on examples/sentiment_corpus.tsv.

A logistic regression over the words that examples/models/sentiment_preprocess counts, by its own code and recipe, so
that training and serving see the same. Needs numpy. The corpus was written for this example; its lines are pairs of
a kind and an unkind sentence about the same thing, and every fifth pair takes no part in the training.
"""

import argparse
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
PREPROCESS = HERE / "models" / "sentiment_preprocess"
WEIGHTS = HERE / "models" / "sentiment_classify" / "1" / "weights.npz"
STEPS, RATE, DECAY = 2000, 0.5, 2e-3

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


def train(features, labels):
    """Weights and bias by plain gradient descent: no randomness, so that every run gives the same."""
    weights, bias = np.zeros(features.shape[1]), 0.0
    for _ in range(STEPS):
        off = 1 / (1 + np.exp(-(features @ weights + bias))) - labels
        weights -= RATE * (features.T @ off / len(labels) + DECAY * weights)
        bias -= RATE * off.mean()
    return weights.astype(np.float32), np.float32(bias)


def accuracy(weights, bias, features, labels):
    return float(((features @ weights + bias > 0) == labels).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=WEIGHTS, help="file to write (the model's)")
    args = parser.parse_args()
    recipe = Recipe(PREPROCESS / "recipe.json")
    learn, held_out = read_corpus()
    weights, bias = train(*tensors(recipe, learn))
    np.savez(args.out, weights=weights, bias=bias)
    seen, unseen = (accuracy(weights, bias, *tensors(recipe, part)) for part in (learn, held_out))
    print(f"{len(learn)} sentences learnt, {seen:.1%} right; {len(held_out)} held out, {unseen:.1%} right")


if __name__ == "__main__":
    main()
