"""Repositories of Python models that call each other, for the tests of BLS and its faults."""

from __future__ import annotations

CALLER = """import json
import os
import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(0)
        config.add_input({{"name": "X", "data_type": "TYPE_INT32", "dims": [-1]}})
        config.add_output({{"name": "Y", "data_type": "TYPE_INT32", "dims": [-1]}})
        return config

    def initialize(self, args):
        self.args = args
        {init}

    def call(self, model, value, **kw):
        x = pb_utils.Tensor("X", np.atleast_1d(np.asarray(value, np.int32)))
        q = pb_utils.InferenceRequest(model_name=model, inputs=[x], requested_output_names=["Y"], **kw)
        return q.exec()

    def value(self, response):
        if response.has_error():
            raise pb_utils.TritonModelException(response.error().message())
        return pb_utils.get_output_tensor_by_name(response, "Y").as_numpy()

    def execute(self, requests):
        return [self.one(r, pb_utils.get_input_tensor_by_name(r, "X").as_numpy()) for r in requests]

    def reply(self, value):
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.atleast_1d(np.asarray(value, np.int32)))])

    def one(self, request, x):
        {body}

    def finalize(self):
        {finalize}
"""


def write(repo, name, body, init="pass", finalize="pass", config=""):
    """A model with an input X and an output Y, INT32 [-1], whose method one is body."""
    directory = repo / name / "1"
    directory.mkdir(parents=True, exist_ok=True)
    indent = "\n        "
    text = CALLER.format(
        body=indent.join(body.splitlines()),
        init=indent.join(init.splitlines()),
        finalize=indent.join(finalize.splitlines()),
    )
    (directory / "model.py").write_text(text)
    (repo / name / "config.pbtxt").write_text('backend: "python"\n' + config)


def ask(*values):
    return {"inputs": [{"name": "X", "datatype": "INT32", "shape": [len(values)], "data": list(values)}]}


def value(server, model, *values, **kw):
    """The output, or AssertionError with the whole answer."""
    r = server.infer(model, ask(*(values or (1,))), **kw)
    assert r.status == 200, r
    return r.json["outputs"][0]["data"]
