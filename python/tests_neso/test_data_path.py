"""The way of the data between server and callable: what is copied, what is held back, what others can see."""

from __future__ import annotations

import concurrent.futures
import itertools
import mmap
import os
import pathlib
import threading

import numpy as np
import pytest
from conftest import config

from neso import DecoupledModelClient, DynamicBatcher, ModelClient, ModelConfig, Tensor, Triton, batch
from neso._bound.memory import SharedOutputs
from neso.triton import TritonSecurityConfig

TOKEN = "a-token-that-nobody-sees"


def test_the_token_is_in_no_list_of_processes():
    with Triton(config=config(), security_config=TritonSecurityConfig(access_token=TOKEN)) as triton:
        place = pathlib.Path(f"/proc/{triton._server.pid}")
        if not place.is_dir():
            return  # not Linux: nothing to look at
        for seen in ("cmdline", "environ"):
            text = (place / seen).read_bytes()
            assert TOKEN.encode() not in text
        assert b"--options-fd=" in (place / "cmdline").read_bytes()


SIZE = 1 << 18  # floats: far above what travels in a frame


@pytest.fixture(scope="module")
def place(triton):
    """Binds a callable under a new name and gives a client of it."""
    names = itertools.count()

    def bind(function, batching=True, outputs=("y",), **settings):
        name = f"path{next(names)}"
        dims = {"dtype": np.float32, "shape": (-1,)}
        triton.bind(
            name, function, [Tensor(name="x", **dims)], [Tensor(name=n, **dims) for n in outputs],
            config=ModelConfig(batching=batching, max_batch_size=8 if batching else 4, **settings),
        )  # fmt: skip
        return ModelClient(triton.url, name, inference_timeout_s=120)

    return bind


def written(triton):
    """Bytes of output memory asked for so far: what callables return without a copy takes none."""
    return triton._server.connection.segments.outputs.capacity()


def big(value, rows=1):
    return np.full((rows, SIZE), value, np.float32)


def test_returned_inputs_are_not_copied(triton, place):
    writable = []

    @batch
    def through(x):
        writable.append(x.flags.writeable)
        return {"y": x}

    @batch
    def part(x):
        return {"y": x[:, SIZE // 2 :]}

    @batch
    def doubled(x):
        x *= 2
        return {"y": x, "z": x}

    def requests(requests):
        return [{"y": request["x"]} for request in requests]

    before = written(triton)
    with place(through) as client:
        for value in range(3):
            np.testing.assert_array_equal(client.infer_batch(big(value, 2))["y"], big(value, 2))
    with place(part) as client:
        x = np.arange(SIZE, dtype=np.float32)[None]
        np.testing.assert_array_equal(client.infer_batch(x)["y"], x[:, SIZE // 2 :])
    with place(doubled, outputs=("y", "z")) as client:
        found = client.infer_batch(big(3))
        np.testing.assert_array_equal(found["y"], big(6))
        np.testing.assert_array_equal(found["z"], big(6))
    with place(requests, batching=False) as client:
        np.testing.assert_array_equal(client.infer_sample(big(5)[0])["y"], big(5)[0])
    assert all(writable)
    assert written(triton) == before


def test_an_input_that_is_kept_does_not_change_an_answer(triton, place):
    total = []

    @batch
    def running(x):
        if total:
            total[0] += x
        else:
            total.append(x)
        return {"y": total[0]}

    def kept(requests):
        total.extend(request["x"] for request in requests)
        return [{"y": total[0]} for _ in requests]

    with place(running) as client, concurrent.futures.ThreadPoolExecutor(1) as pool:
        for expected in range(1, 6):
            answer = pool.submit(client.infer_batch, big(1)).result()["y"]
            np.testing.assert_array_equal(answer, big(expected))
    total.clear()
    with place(kept, batching=False) as client:
        for value in (7, 8):
            np.testing.assert_array_equal(client.infer_sample(big(value)[0])["y"], big(7)[0])


def test_many_clients_get_their_own_rows(place):
    @batch
    def through(x):
        return {"y": x}

    with place(through, batcher=DynamicBatcher(max_queue_delay_microseconds=2000)) as first:
        url, name = first._url, first._model_name

        def ask(value):
            with ModelClient(url, name) as client:
                for _ in range(5):
                    found = client.infer_batch(big(value))["y"]
                    assert found.shape == (1, SIZE)
                    assert (found == value).all()

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, range(8)))


@pytest.mark.parametrize("kind", ["generator", "async"])
def test_responses_that_are_held_leave_when_the_generator_waits(triton, kind):
    seen = [threading.Event() for _ in range(5)]
    quick = 40

    def count(requests):
        for block, event in enumerate(seen):
            for number in range(quick):
                yield [{"y": np.array([block * quick + number], np.float32)} for _ in requests]
            assert event.wait(60)  # the client has everything so far

    async def count_later(requests):
        for answer in count(requests):
            yield answer

    triton.bind(
        f"bursts_{kind}", count if kind == "generator" else count_later,
        [Tensor(name="x", dtype=np.float32, shape=(1,))], [Tensor(name="y", dtype=np.float32, shape=(1,))],
        config=ModelConfig(batching=False, decoupled=True),
    )  # fmt: skip
    with DecoupledModelClient(triton.grpc_url, f"bursts_{kind}") as client:
        numbers = []
        for answer in client.infer_sample(np.zeros(1, np.float32)):
            numbers.append(int(answer["y"][0]))
            if len(numbers) % quick == 0:
                seen[len(numbers) // quick - 1].set()
    assert numbers == list(range(quick * len(seen)))


@pytest.mark.skipif(not hasattr(os, "memfd_create") or not hasattr(mmap, "MADV_REMOVE"), reason="not Linux")
def test_idle_output_memory_is_given_back():
    size, page = 1 << 20, 4096
    fd = os.memfd_create("outputs")
    try:
        os.ftruncate(fd, 4 * size)
        outputs = SharedOutputs()
        outputs.add(1 << 31, memoryview(mmap.mmap(fd, 4 * size)))

        def resident():
            return os.fstat(fd).st_blocks * 512

        blocks = [outputs.take(size) for _ in range(3)]
        for block in blocks:
            outputs.write(block, np.ones(size, np.uint8))
        assert resident() == 3 * size
        outputs.release(blocks[:1])
        outputs.trim()  # blocks were taken a moment ago
        assert resident() == 3 * size
        outputs.trim()
        assert resident() == 2 * size  # what the server may still read stays
        block = outputs.take(size)
        outputs.write(block, np.ones(size, np.uint8))
        outputs.release([block, *blocks[1:]])
        outputs.trim()
        outputs.trim()
        assert resident() <= page
    finally:
        os.close(fd)
