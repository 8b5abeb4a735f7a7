#!/usr/bin/env python3
"""A loop over a library's own API, in a process of its own: what a server can be as fast as, and no faster.

    python library_loop.py onnx|fil|torch MODEL_FILE INPUTS.npz

Reads lines "BATCH SECONDS", repeats the inputs' one row to that batch, runs the model for that time on all cores that
the process has, and answers each line with one of JSON: rows, seconds, CPU seconds.
"""

import ctypes
import json
import os
import resource
import sys
import time

import numpy as np


def onnx(path, inputs):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def prepare(batch):
        feed = {name: np.repeat(values, batch, axis=0) for name, values in inputs.items()}
        return lambda: session.run(None, feed)

    return prepare


def fil(path, inputs):
    """treelite's C function, without the Python around it, on one thread, as small batches are computed."""
    import treelite
    from treelite.core import _LIB
    from treelite.gtil.gtil import GTILConfig

    model = treelite.frontend.load_xgboost_model(path)
    config = GTILConfig(nthread=1, predict_type="default")
    (row,) = inputs.values()

    def prepare(batch):
        rows = np.repeat(row, batch, axis=0)
        out = np.empty((batch, 1), np.float32)
        arguments = (
            model.handle,
            ctypes.c_void_p(rows.ctypes.data),
            ctypes.c_char_p(b"float32"),
            ctypes.c_uint64(batch),
            ctypes.c_void_p(out.ctypes.data),
            config.handle,
        )

        def run():
            if _LIB.TreeliteGTILPredict(*arguments):
                raise RuntimeError("treelite cannot predict")

        run.keep = rows, out
        return run

    return prepare


def torch(path, inputs):
    import torch

    torch.set_num_threads(1)
    module = torch.jit.load(path).eval()
    (row,) = inputs.values()

    def prepare(batch):
        x = torch.from_numpy(np.repeat(row, batch, axis=0))

        def run():
            with torch.inference_mode():
                module(x)

        return run

    return prepare


def main():
    kind, path, inputs = sys.argv[1:]
    with np.load(inputs) as file:
        inputs = dict(file)
    prepare = {"onnx": onnx, "fil": fil, "torch": torch}[kind](path, inputs)
    print("{}", flush=True)
    for line in sys.stdin:
        batch, seconds = line.split()
        run = prepare(int(batch))
        run()
        before = resource.getrusage(resource.RUSAGE_SELF)
        begin, runs = time.perf_counter(), 0
        while True:
            run()
            runs += 1
            took = time.perf_counter() - begin
            if took >= float(seconds):
                break
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(json.dumps({"rows": runs * int(batch), "seconds": took, "cpu": cpu}), flush=True)


if __name__ == "__main__":
    main()
