#!/usr/bin/env python3
"""Trains the weights of examples/models/digits and exports held-out images for examples/client.py.

Needs scikit-learn (1.9 was used), which nothing else here does: the results are in the repository.
The images are scikit-learn's copy of the UCI "Optical Recognition of Handwritten Digits" test set,
1,797 real 8x8 images (CC BY 4.0, E. Alpaydin and C. Kaynak, 1998).
"""

import pathlib

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

HERE = pathlib.Path(__file__).resolve().parent
HELD_OUT = 200


def main():
    images, labels = load_digits(return_X_y=True)
    # The held-out images take no part in the training, nor in the choice of the settings below.
    train_x, test_x, train_y, test_y = train_test_split(
        images.astype(np.float32),
        labels,
        test_size=HELD_OUT,
        stratify=labels,
        random_state=1,
    )
    net = MLPClassifier(hidden_layer_sizes=(48,), alpha=1e-2, max_iter=400, random_state=1)
    net.fit(train_x / 16, train_y)

    model = HERE / "models" / "digits"
    np.savez(
        model / "1" / "weights.npz",
        w1=net.coefs_[0].astype(np.float32),
        b1=net.intercepts_[0].astype(np.float32),
        w2=net.coefs_[1].astype(np.float32),
        b2=net.intercepts_[1].astype(np.float32),
    )
    names = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
    ]
    (model / "labels.txt").write_text("\n".join(names) + "\n")
    np.savez_compressed(
        HERE / "digits_test.npz",
        images=test_x.reshape(-1, 8, 8).astype(np.uint8),
        labels=test_y.astype(np.uint8),
    )
    right = int((net.predict(test_x / 16) == test_y).sum())
    print(
        f"trained on {len(train_y)} images; {right} of {len(test_y)} held-out images right ({right / len(test_y):.1%})"
    )


if __name__ == "__main__":
    main()
