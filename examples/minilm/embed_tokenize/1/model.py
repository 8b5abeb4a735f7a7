"""TEXT (BYTES, UTF-8) to input_ids and attention_mask, by the encoder's own tokenizer."""

import json
import os

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer


class TritonPythonModel:
    def initialize(self, args):
        path = os.path.join(args["model_repository"], args["model_version"], "tokenizer.json")
        if not os.path.exists(path):
            raise pb_utils.TritonModelException("tokenizer.json is missing: examples/export_minilm.py writes it")
        parameters = json.loads(args["model_config"])["parameters"]
        self.pad = parameters["pad"]["string_value"]
        if self.pad not in ("batch", "request") and not (self.pad.isdigit() and int(self.pad)):
            raise pb_utils.TritonModelException(f"pad is '{self.pad}', expected batch, request or a number above 0")
        self.tokenizer = Tokenizer.from_file(path)
        self.tokenizer.no_padding()  # done below, where the requests of the batch are known
        self.tokenizer.enable_truncation(int(parameters["max_length"]["string_value"]))

    def execute(self, requests):
        texts = [pb_utils.get_input_tensor_by_name(r, "TEXT").as_numpy().reshape(-1) for r in requests]
        encoded = [self.tokenizer.encode_batch([t.decode("utf-8", "replace") for t in part]) for part in texts]
        longest = [max((len(e.ids) for e in part), default=0) for part in encoded]
        if self.pad == "batch":
            longest = [max(longest)] * len(longest)
        elif self.pad != "request":
            step = int(self.pad)
            longest = [-(-n // step) * step for n in longest]
        return [self.response(part, columns) for part, columns in zip(encoded, longest)]

    @staticmethod
    def response(rows, columns):
        ids = np.zeros((len(rows), columns), np.int64)  # 0 is the number of [PAD]
        mask = np.zeros_like(ids)
        for row, e in enumerate(rows):
            ids[row, : len(e.ids)] = e.ids
            mask[row, : len(e.ids)] = 1
        return pb_utils.InferenceResponse(
            output_tensors=[pb_utils.Tensor("input_ids", ids), pb_utils.Tensor("attention_mask", mask)]
        )
