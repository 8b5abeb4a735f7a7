#!/usr/bin/env python3
"""Asks the model `rents` of examples/frameworks what homes cost: rows with categories, and one with a missing value.

Needs `pip install numpy tritonclient[http]` and a server that serves examples/frameworks.
"""

import argparse
import json
import pathlib

import numpy as np
import tritonclient.http as httpclient

HERE = pathlib.Path(__file__).resolve().parent
HOMES = [
    {"district": "See", "kind": "loft", "area": 90, "floor": 4, "year": 2015},
    {"district": "See", "kind": "loft", "area": 90, "floor": 4, "year": None},
    {"district": "Industrie", "kind": "flat", "area": 90, "floor": 0, "year": 1965},
    {"district": "Mars", "kind": "studio", "area": 25, "floor": 2, "year": 1990},
]


def row(home, categories):
    """The numbers of a home: a category is its place in the list, what is unknown is NaN."""
    places = {**home, **{c: names.index(home[c]) if home[c] in names else None for c, names in categories.items()}}
    return [np.nan if v is None else v for v in places.values()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="localhost:8000")
    args = parser.parse_args()
    categories = json.loads((HERE / "frameworks" / "rents" / "categories.json").read_text())
    rows = np.array([row(h, categories) for h in HOMES], np.float32)
    tensor = httpclient.InferInput("input__0", list(rows.shape), "FP32")
    tensor.set_data_from_numpy(rows)
    answers = httpclient.InferenceServerClient(args.url).infer("rents", [tensor]).as_numpy("output__0")
    for home, (rent,) in zip(HOMES, answers):
        print(f"{rent:6.0f}  " + ", ".join(f"{k} {v if v is not None else 'unknown'}" for k, v in home.items()))


if __name__ == "__main__":
    main()
