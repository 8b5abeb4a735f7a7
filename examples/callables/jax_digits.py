"""The digits of examples/models/digits as a JAX function behind the server: docs/use/jax.md.

Serves until Ctrl-C; with --once it asks the model itself and ends.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from neso import DynamicBatcher, ModelConfig, Tensor, Triton, batch
from neso.client import ModelClient
from neso.decorators import pad_batch
from options import options

EXAMPLES = pathlib.Path(__file__).resolve().parents[1]
SIZES = [1, 8, 64]  # JAX compiles for each shape that it meets: there are only these


class Digits:
    def __init__(self, weights):
        with np.load(weights) as saved:
            parameters = {name: jnp.asarray(saved[name]) for name in saved.files}

        @jax.jit
        def probabilities(images):
            hidden = jax.nn.relu(images / 16 @ parameters["w1"] + parameters["b1"])
            return jax.nn.softmax(hidden @ parameters["w2"] + parameters["b2"])

        self.probabilities = probabilities
        for size in SIZES:  # compiled before the first request, not by it
            probabilities(jnp.zeros((size, 64), jnp.float32)).block_until_ready()

    @batch
    @pad_batch
    def infer(self, images):
        return {"probabilities": np.asarray(self.probabilities(images))}


def main():
    served, once = options(__doc__)
    digits = Digits(EXAMPLES / "models" / "digits" / "1" / "weights.npz")
    with Triton(config=served) as triton:
        triton.bind(
            "digits_jax",
            digits.infer,
            inputs=[Tensor(name="images", dtype=np.float32, shape=(64,))],
            outputs=[Tensor(name="probabilities", dtype=np.float32, shape=(10,))],
            config=ModelConfig(max_batch_size=SIZES[-1], batcher=DynamicBatcher(preferred_batch_size=SIZES)),
        )
        if not once:
            triton.serve()
            return
        with np.load(EXAMPLES / "digits_test.npz") as test:
            images, labels = test["images"].astype(np.float32).reshape(-1, 64), test["labels"]
        right = 0
        with ModelClient(f"127.0.0.1:{triton.http_port}", "digits_jax") as client:
            for i in range(0, len(images), 10):  # ten rows: padded to 64
                answer = client.infer_batch(images[i : i + 10])
                right += int((answer["probabilities"].argmax(axis=1) == labels[i : i + 10]).sum())
        print(f"{right} of {len(images)} held-out images right")


if __name__ == "__main__":
    main()
