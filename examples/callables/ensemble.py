"""Two bound callables as steps of an ensemble: docs/use/callable-ensembles.md.

Serves until Ctrl-C; with --once it asks the ensemble itself and ends.
"""

import json

import numpy as np
import tritonclient.http
from neso import ModelConfig, Tensor, Triton, batch
from neso.client import ModelClient
from options import options


@batch
def scale(pixels):
    return {"scaled": pixels.astype(np.float32) / 255}


@batch
def brightness(scaled):
    return {"brightness": scaled.mean(axis=1, keepdims=True)}


PIPELINE = {
    "platform": "ensemble",
    "max_batch_size": 64,
    "input": [{"name": "PIXELS", "data_type": "TYPE_UINT8", "dims": [-1]}],
    "output": [{"name": "BRIGHTNESS", "data_type": "TYPE_FP32", "dims": [1]}],
    "ensemble_scheduling": {
        "step": [
            {
                "model_name": "scale",
                "model_version": -1,
                "input_map": {"pixels": "PIXELS"},
                "output_map": {"scaled": "scaled_pixels"},
            },
            {
                "model_name": "brightness",
                "model_version": -1,
                "input_map": {"scaled": "scaled_pixels"},
                "output_map": {"brightness": "BRIGHTNESS"},
            },
        ]
    },
}


def main():
    served, once = options(__doc__)
    config = ModelConfig(max_batch_size=64)
    with Triton(config=served) as triton:
        triton.bind(
            "scale",
            scale,
            inputs=[Tensor(name="pixels", dtype=np.uint8, shape=(-1,))],
            outputs=[Tensor(name="scaled", dtype=np.float32, shape=(-1,))],
            config=config,
        )
        triton.bind(
            "brightness",
            brightness,
            inputs=[Tensor(name="scaled", dtype=np.float32, shape=(-1,))],
            outputs=[Tensor(name="brightness", dtype=np.float32, shape=(1,))],
            config=config,
        )
        # The ensemble comes last: its steps must be there. It has no files, so one
        # empty file stands for its version.
        manage = tritonclient.http.InferenceServerClient(f"127.0.0.1:{triton.http_port}")
        manage.load_model(
            "pipeline",
            headers={"triton-access-token": triton.get_access_token()},
            config=json.dumps(PIPELINE),
            files={"file:1/.keep": b""},
        )
        manage.close()
        if not once:
            triton.serve()
            return
        with ModelClient(f"127.0.0.1:{triton.http_port}", "pipeline") as client:
            answer = client.infer_sample(np.array([0, 255, 255, 0], np.uint8))
            print("brightness", answer["BRIGHTNESS"])


if __name__ == "__main__":
    main()
