#!/usr/bin/env python3
"""Trains the forests of examples/frameworks again: handwritten digits with XGBoost and LightGBM, and rents, which have categories.

Needs `pip install scikit-learn xgboost-cpu lightgbm`.
"""

import json
import pathlib

import lightgbm
import numpy as np
import xgboost
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = pathlib.Path(__file__).resolve().parent / "frameworks"
HELD_OUT = 200

# What the columns of the rents mean. The forest knows numbers only: a category is its place in the list.
CATEGORIES = {
    "district": ["Altstadt", "Bahnhof", "Dorf", "Hafen", "Heide", "Industrie", "Markt", "Neustadt", "Park", "See", "Süd", "Wald"],
    "kind": ["flat", "house", "loft", "studio"],
}  # fmt: skip
COLUMNS = ["district", "kind", "area", "floor", "year"]


def digits():
    images, labels = load_digits(return_X_y=True)
    # The held-out images are those of train_digits.py.
    train_x, test_x, train_y, test_y = train_test_split(
        images.astype(np.float32), labels, test_size=HELD_OUT, stratify=labels, random_state=1
    )
    many = {
        "objective": "multi:softprob",
        "num_class": 10,
        "max_depth": 3,
        "learning_rate": 0.3,
        "seed": 0,
        "nthread": 1,
    }
    booster = xgboost.train(many, xgboost.DMatrix(train_x, train_y), 40)
    booster.save_model(version("digits_xgboost") / "xgboost.ubj")
    report("digits_xgboost", booster.predict(xgboost.DMatrix(test_x)), test_y)
    many = {
        "objective": "multiclass",
        "num_class": 10,
        "num_leaves": 8,
        "seed": 0,
        "verbose": -1,
        "num_threads": 1,
        "deterministic": True,
    }
    gbm = lightgbm.train(many, lightgbm.Dataset(train_x, train_y), 40)
    gbm.save_model(version("digits_lightgbm") / "model.txt")
    report("digits_lightgbm", gbm.predict(test_x), test_y)


def report(name, answers, labels):
    right = int((answers.argmax(axis=1) == labels).sum())
    print(f"{name}: {right} of {len(labels)} held-out images right")


def version(name):
    path = HERE / name / "1"
    path.mkdir(parents=True, exist_ok=True)
    return path


def rents():
    """Made-up flats, whose rent follows from a rule and some noise."""
    random = np.random.default_rng(0)
    n = 4000
    district, kind = random.integers(0, 12, n), random.integers(0, 4, n)
    area, floor, year = random.uniform(18, 160, n), random.integers(0, 9, n), random.integers(1890, 2025, n)
    square = np.array([19, 12, 9, 15, 8, 7, 18, 14, 16, 21, 13, 10])[district] + np.array([0, 1.5, 4, 2.5])[kind]
    rent = area * (square + (year > 2000) * 2) + floor * 12 + random.normal(0, 15, n)
    rows = np.stack([district, kind, area, floor, year], axis=1).astype(np.float64)
    rows[random.random(n) < 0.05, 4] = np.nan  # the year is not always known
    p = {"objective": "regression", "num_leaves": 16, "seed": 0, "verbose": -1, "num_threads": 1, "deterministic": True}
    train = lightgbm.Dataset(rows[:3600], rent[:3600], categorical_feature=[0, 1], feature_name=COLUMNS)
    gbm = lightgbm.train(p, train, 150)
    gbm.save_model(version("rents") / "model.txt")
    (HERE / "rents" / "categories.json").write_text(json.dumps(CATEGORIES, indent=1, ensure_ascii=False) + "\n")
    off = np.abs(gbm.predict(rows[3600:]) - rent[3600:]).mean()
    print(f"rents: {off:.0f} off on average, of {rent.mean():.0f}")


if __name__ == "__main__":
    digits()
    rents()
