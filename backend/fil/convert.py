"""Reads a model that a Python library has written and leaves it as a file that treelite reads.

Arguments: the model file, the directory to write to. Prints the format and the file's name, separated by a blank.
"""

import sys
from pathlib import Path


def read(path):
    """The object in the file."""
    with open(path, "rb") as f:
        head = f.read(4)
    if head == b"PK\x03\x04":
        import skops.io

        return skops.io.load(path)
    try:
        import joblib
    except ImportError:
        import pickle

        with open(path, "rb") as f:
            return pickle.load(f)
    return joblib.load(path)


def write(model, to):
    """Writes the model and returns its format and file name."""
    module, name = type(model).__module__.partition(".")[0], type(model).__name__
    if module == "xgboost":
        booster = model if name == "Booster" else model.get_booster()
        best = getattr(booster, "best_iteration", None) if name != "Booster" else None
        if best is not None:  # the estimator predicts with the best rounds only
            booster = booster[: best + 1]
        (to / "model.ubj").write_bytes(booster.save_raw("ubj"))
        return "xgboost_ubj", "model.ubj"
    if module == "lightgbm":
        booster = model if name == "Booster" else model.booster_
        booster.save_model(to / "model.txt")
        return "lightgbm", "model.txt"
    if hasattr(model, "steps"):
        sys.exit("it is a pipeline: only forests can be converted; serve it as a Python model")
    import treelite

    try:
        treelite.sklearn.import_model(model).serialize(to / "model.tl")
    except (NotImplementedError, treelite.TreeliteError) as e:
        sys.exit(f"treelite cannot convert it ({type(model).__module__}.{name}): {e}")
    return "treelite_checkpoint", "model.tl"


if __name__ == "__main__":
    try:
        loaded = read(sys.argv[1])
    except ImportError as e:
        sys.exit(f"{e}: install it with '{sys.executable} -m pip install {e.name or 'scikit-learn'}'")
    except Exception as e:
        sys.exit(f"it cannot be read: {type(e).__name__}: {e}")
    print(*write(loaded, Path(sys.argv[2])))
