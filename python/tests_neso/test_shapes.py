"""Both ways of the data give the same: batches that the server joins, and lists of requests that Python joins."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from conftest import config

from neso import FuturesModelClient, ModelConfig, Tensor, Triton, batch

DTYPES = [np.bool_, np.int8, np.uint16, np.int32, np.uint64, np.float16, np.float32, np.float64, bytes]
WAYS = ("joined by the server", "joined by @batch", "a list of requests")


def values(rng, dtype, shape):
    """Random elements; texts of any length, none included."""
    if dtype is bytes:
        texts = [rng.bytes(int(rng.integers(0, 30))) for _ in range(int(np.prod(shape)))]
        return np.array([*texts, None], dtype=object)[:-1].reshape(shape)
    return rng.integers(0, 2 if dtype is np.bool_ else 100, shape).astype(dtype)


class RandomModel:
    """Inputs and outputs of random number, dtype and shape, and a function that works row by row."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        self.inputs, self.dims = [], []
        for number in range(int(rng.integers(1, 5))):
            dims = [int(d) for d in rng.integers(1, 5, int(rng.integers(1, 4)))]
            open_dims = tuple(-1 if rng.random() < 0.5 else d for d in dims)
            dtype = DTYPES[int(rng.integers(len(DTYPES)))]
            self.inputs.append(Tensor(open_dims, dtype, f"in_{number}"))
            self.dims.append(dims)
        # Each output is an input turned round, twice in one row, or as it is.
        self.plan = [
            (f"out_{number}", int(rng.integers(len(self.inputs))), int(rng.integers(3)))
            for number in range(int(rng.integers(1, 4)))
        ]
        self.outputs = []
        for name, source, kind in self.plan:
            shape = self.inputs[source].shape
            first = -1 if kind == 1 else shape[0]
            self.outputs.append(Tensor((first, *shape[1:]), self.inputs[source].dtype, name))

    def run(self, arrays):
        out = {}
        for name, source, kind in self.plan:
            value = arrays[f"in_{source}"]
            out[name] = (value[:, ::-1], np.concatenate([value, value], axis=1), value)[kind]
        return out

    def request(self):
        """A batch of one to four rows."""
        rows = int(self.rng.integers(1, 5))
        return {t.name: values(self.rng, t.dtype, (rows, *dims)) for t, dims in zip(self.inputs, self.dims)}

    def callables(self):
        """One for each of WAYS."""

        @batch
        def joined(**arrays):
            return self.run(arrays)

        def requests(requests):
            return [self.run(dict(r.items())) for r in requests]

        return dict(zip(WAYS, (joined, functools.partial(joined), requests)))


@pytest.fixture(scope="module")
def server():
    with Triton(config=config()) as triton:
        yield triton


@pytest.mark.parametrize("seed", range(12))
def test_both_shapes_give_equal_answers(server, seed):
    model = RandomModel(seed)
    asked = [model.request() for _ in range(12)]
    clients, answers = {}, {}
    try:
        for number, (way, function) in enumerate(model.callables().items()):
            name = f"random_{number}"
            settings = ModelConfig(max_batch_size=16)
            server.bind(name, function, model.inputs, model.outputs, config=settings, strict=True, replace=True)
            shape = server._models[name, 1].binding(lambda error: None, None).shape
            assert shape == ("batch" if way == WAYS[0] else "requests")
            clients[way] = FuturesModelClient(server.grpc_url, name, max_workers=6)
        for way, client in clients.items():  # many at once, so that batches form
            answers[way] = [client.infer_batch(**request) for request in asked]
        for way, futures in answers.items():
            for request, future in zip(asked, futures):
                got, wanted = future.result(60), model.run(request)
                assert list(got) == list(wanted)
                for name, array in wanted.items():
                    assert got[name].shape == array.shape, (way, name)
                    assert got[name].tolist() == array.tolist(), (way, name)
    finally:
        for client in clients.values():
            client.close()
