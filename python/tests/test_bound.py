"""Callables of this process behind the real server."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import random
import threading

import numpy as np
import pytest
from bound import ADD_SUB, Http, Refused, add_sub, bind, config, make_server, pending, tensor
from harness import until

import neso._bound.memory
from neso._server import ServerError


@pytest.fixture(scope="module")
def server(request):
    """One whose inputs are private mappings, or copies (NESO_PRIVATE_INPUTS=0), where something else reads them too."""
    with pytest.MonkeyPatch.context() as patch:
        if getattr(request, "param", "") == "copied":
            patch.setenv("NESO_PRIVATE_INPUTS", "0")
        made = make_server()
        yield made
        made.stop()


both_inputs = pytest.mark.parametrize("server", ["private", "copied"], indirect=True)


@pytest.fixture
def http(server):
    return Http(server)


def ones(*shape, kind=np.float32):
    return np.ones(shape, kind)


def requests_shape(function):
    """What @batch does for a plain list of requests."""

    def call(requests):
        return [function(**request) for request in requests]

    return call


@pytest.mark.parametrize("shape", ["batch", "requests"])
@pytest.mark.parametrize("size", [1, 16, 3000, 300000])
def test_add_sub(server, http, shape, size):
    name = f"add_sub_{shape}_{size}"
    final = bind(server, name, add_sub if shape == "batch" else requests_shape(add_sub), ADD_SUB, shape=shape)
    assert final["max_batch_size"] == 8 and final["backend"] == "python"
    a, b = np.random.default_rng(1).random((2, 3, size), np.float32)
    for _ in range(3):
        got = http.infer(name, a=a, b=b)
        np.testing.assert_array_equal(got["sum"], a + b)
        np.testing.assert_array_equal(got["diff"], a - b)
    server.unbind(name)


def random_model(seed):
    """A configuration and a function that treats every row by itself."""
    dice = random.Random(seed)
    kinds = ["FP32", "INT64", "UINT8", "FP64", "BOOL", "BYTES", "FP16", "INT32"]
    inputs = [(f"in{i}", dice.choice(kinds), dice.choice([[1], [2], [-1], [2, -1]])) for i in range(dice.randint(1, 3))]
    batch = dice.choice([1, 2, 8, 64])

    def function(**arrays):
        outputs = {}
        for name, array in arrays.items():
            if array.dtype == object:
                flat = [item[::-1] + b"!" for item in array.ravel()]
                made = np.empty(len(flat), object)
                made[:] = flat
                outputs["out_" + name] = made.reshape(array.shape)
            else:
                outputs["out_" + name] = ~array if array.dtype == bool else (array * 2).astype(array.dtype)
        return outputs

    settings = config([tensor(n, k, d) for n, k, d in inputs], [tensor("out_" + n, k, d) for n, k, d in inputs], batch)
    return inputs, batch, function, settings


def sample(dice, kind, shape):
    from bound import NAMES

    if kind == "BYTES":
        made = np.empty(int(np.prod(shape)), object)
        made[:] = [bytes(dice.choices(range(256), k=dice.randint(0, 9))) for _ in range(made.size)]
        return made.reshape(shape)
    return np.random.default_rng(dice.randint(0, 1 << 30)).integers(0, 2, shape).astype(NAMES[kind])


@pytest.mark.parametrize("seed", range(12))
def test_both_shapes_give_the_same(server, seed):
    inputs, batch, function, settings = random_model(seed)
    bind(server, "same_batch", function, settings, shape="batch")
    bind(server, "same_requests", requests_shape(function), settings)
    dice = random.Random(seed)
    calls = []
    for _ in range(12):
        free = dice.choice([1, 3, 900])
        rows = dice.randint(1, min(batch, 4))
        calls.append({n: sample(dice, k, [rows, *[free if d < 0 else d for d in dims]]) for n, k, dims in inputs})

    def run(part):
        client = Http(server)
        return [(client.infer("same_batch", **c), client.infer("same_requests", **c), function(**c)) for c in part]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for results in pool.map(run, [calls[i::4] for i in range(4)]):
            for gathered, listed, expected in results:
                assert gathered.keys() == listed.keys() == expected.keys()
                for name, array in expected.items():
                    np.testing.assert_array_equal(gathered[name], array)
                    np.testing.assert_array_equal(listed[name], array)


def test_batches_are_gathered(server):
    sizes = []
    inside, go = threading.Event(), threading.Event()

    def slow(a, b):
        sizes.append(len(a))
        inside.set()
        go.wait(60)
        return add_sub(a, b)

    bind(server, "gather", slow, ADD_SUB, shape="batch")
    with concurrent.futures.ThreadPoolExecutor(9) as pool:
        jobs = [pool.submit(lambda i=i: Http(server).infer("gather", a=ones(1, 4) * i, b=ones(1, 4))) for i in range(9)]
        assert inside.wait(60)
        until(lambda: pending(server, "gather") == 9 - sizes[0])
        go.set()
        for i, job in enumerate(jobs):
            np.testing.assert_array_equal(job.result(60)["sum"], ones(1, 4) * i + 1)
    assert sum(sizes) == 9 and len(sizes) == 2
    server.unbind("gather")


@both_inputs
def test_inputs_are_views_that_may_be_written_where_nothing_else_reads(server, http):
    def write(a, b):
        a[0] = 7
        return add_sub(a, b)

    bind(server, "write", write, ADD_SUB, shape="batch")
    with pytest.raises(Refused, match="read-only"):  # of the frame, which neso's callables get a copy of
        http.infer("write", a=ones(1, 4), b=ones(1, 4))
    np.testing.assert_array_equal(http.infer("write", a=ones(1, 100000), b=ones(1, 100000))["sum"], ones(1, 100000) * 8)


@both_inputs
@pytest.mark.parametrize("shape", ["batch", "requests"])
def test_kept_inputs_stay_as_they_were(server, http, shape):
    kept = []

    def keep(a, b):
        kept.append(a)
        return add_sub(a, b)

    bind(server, "keep", keep if shape == "batch" else requests_shape(keep), ADD_SUB, shape=shape)
    for i in range(20):
        http.infer("keep", a=ones(1, 50000) * i, b=ones(1, 50000))
    for i, array in enumerate(kept):
        np.testing.assert_array_equal(array, ones(1, 50000) * i)
    del array
    kept.clear()
    http.infer("keep", a=ones(1, 50000), b=ones(1, 50000))


def test_outputs_allocated_in_place_are_not_copied(server, http, monkeypatch):
    copied = []
    put = server.connection.store.put
    monkeypatch.setattr(server.connection.store, "put", lambda data: copied.append(len(data)) or put(data))
    kept = []

    def fill(a, b):
        made = neso.empty((2, *a.shape), np.float32)
        np.add(a, b, out=made[0])
        np.subtract(a, b, out=made[1])
        kept.append(made[0, :, 0])
        return {"sum": made[0], "diff": made[1]}

    bind(server, "fill", fill, ADD_SUB, shape="batch")
    for i in range(30):
        got = http.infer("fill", a=ones(1, 65536) * i, b=ones(1, 65536))
        np.testing.assert_array_equal(got["sum"], ones(1, 65536) * i + 1)
        np.testing.assert_array_equal(got["diff"], ones(1, 65536) * i - 1)
        if i == 20:
            assert [int(k[0]) for k in kept] == list(range(1, 22))
            kept.clear()
    assert copied == []
    assert neso.empty((3, 4), np.int8).shape == (3, 4)


def test_requests_carry_parameters_and_wanted_outputs(server, http):
    seen = []

    def look(requests):
        seen.extend((r.parameters, r.requested_output_names) for r in requests)
        return [{"sum": r["a"], "diff": r["b"]} for r in requests]

    bind(server, "look", look, ADD_SUB)
    got = http.infer("look", a=ones(1, 2), b=ones(1, 2), parameters={"x": 1, "y": "z", "t": True}, outputs=["diff"])
    assert list(got) == ["diff"]
    parameters, wanted = seen[-1]
    assert {k: parameters[k] for k in "xyt"} == {"x": 1, "y": "z", "t": True} and wanted == ["diff"]


def test_coroutines_overlap(server):
    together = []

    async def later(requests):
        together.append(1)
        while len(together) < 2:
            await asyncio.sleep(0.001)
        return [add_sub(**r) for r in requests]

    bind(server, "later", later, {**ADD_SUB, "max_batch_size": 1}, concurrency=2)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(Http(server).infer, "later", a=ones(1, 2), b=ones(1, 2)) for _ in range(2)]
        for job in jobs:
            assert job.result(60)["sum"][0, 0] == 2

    async def batch(a, b):
        await asyncio.sleep(0)
        return a + b, a - b

    bind(server, "later", batch, ADD_SUB, shape="batch")
    assert Http(server).infer("later", a=ones(1, 2), b=ones(1, 2))["diff"][0, 0] == 0


def test_instances_run_at_once(server):
    both = threading.Barrier(2, timeout=60)

    def meet(requests):
        both.wait()
        return [add_sub(**r) for r in requests]

    final = bind(server, "meet", [meet, meet], {**ADD_SUB, "max_batch_size": 1})
    assert sum(group["count"] for group in final["instance_group"]) == 2
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(Http(server).infer, "meet", a=ones(1, 2), b=ones(1, 2)) for _ in range(4)]
        assert all(job.result(60) for job in jobs)


STREAM = config(
    [tensor("n", "INT32", [1])], [tensor("i", "INT32", [1])], 0, model_transaction_policy={"decoupled": True}
)


def stream(server, model, n):
    grpc = pytest.importorskip("tritonclient.grpc")
    import queue

    got = queue.Queue()
    with grpc.InferenceServerClient(server.addresses["grpc"]) as client:
        client.start_stream(lambda result, error: got.put((result, error)))
        tensor_ = grpc.InferInput("n", [1], "INT32")
        tensor_.set_data_from_numpy(np.array([n], np.int32))
        client.async_stream_infer(model, [tensor_], enable_empty_final_response=True)
        values = []
        while True:
            result, error = got.get(timeout=60)
            if error is not None:
                return values, str(error)
            if result.get_response().parameters["triton_final_response"].bool_param:
                return values, None
            values.append(int(result.as_numpy("i")[0]))


@pytest.mark.parametrize("kind", ["generator", "async", "batch"])
def test_generators_stream(server, kind):
    def plain(requests):
        for i in range(int(requests[0]["n"][0])):
            if i == 7:
                raise ValueError("seven")
            yield [{"i": np.array([i], np.int32)}]

    async def later(requests):
        for part in plain(requests):
            await asyncio.sleep(0)
            yield part

    def batch(n):
        for part in plain([{"n": n}]):
            yield part[0]

    bind(server, "stream", {"generator": plain, "async": later, "batch": batch}[kind], STREAM,
         shape="batch" if kind == "batch" else "requests")  # fmt: skip
    assert stream(server, "stream", 5) == (list(range(5)), None)
    assert stream(server, "stream", 0) == ([], None)
    values, error = stream(server, "stream", 9)
    assert values == list(range(7)) and "seven" in error


WRONG = {
    "none": (lambda a, b: None, "Unsupported output type"),
    "short": (lambda a, b: [a], "Outputs length different than config outputs length"),
    "rows": (lambda a, b: {"sum": a[:0], "diff": b}, "different batch sizes"),
    "scalar": (lambda a, b: {"sum": np.float32(1), "diff": b}, "not numpy arrays|numpy"),
    "list": (lambda a, b: {"sum": [1, 2], "diff": b}, "Not all values returned by"),
    "key": (lambda a, b: {1: a, "diff": b}, "Not all keys returned by"),
    "complex": (lambda a, b: {"sum": a.astype(complex), "diff": b}, "Only bool, numeric, string"),
    "objects": (lambda a, b: {"sum": a.astype(object), "diff": b}, "Only bytes as objects"),
    "raise": (lambda a, b: 1 // 0, "ZeroDivisionError"),
    "exit": (lambda a, b: exec("raise SystemExit(3)"), "SystemExit"),
}


@pytest.mark.parametrize("kind", sorted(WRONG))
def test_wrong_answers(server, http, kind):
    function, text = WRONG[kind]
    bind(server, "wrong", function, ADD_SUB, shape="batch")
    for size in (2, 50000):
        with pytest.raises(Refused, match=text) as refused:
            http.infer("wrong", a=ones(1, size), b=ones(1, size), outputs=["sum", "diff"])
        assert refused.value.status >= 400
    bind(server, "wrong", add_sub, ADD_SUB, shape="batch")
    assert http.infer("wrong", a=ones(1, 2), b=ones(1, 2))["sum"][0, 0] == 2


def test_another_datatype_goes_out_as_it_is(server, http):
    """As from any model: the package converts above this runtime, see tests_neso."""
    bind(server, "other", lambda a, b: {"sum": a.astype(np.int64), "diff": b}, ADD_SUB, shape="batch")
    answer = http.infer("other", a=ones(1, 2), b=ones(1, 2), outputs=["sum", "diff"])
    assert answer["sum"].dtype == np.int64 and answer["sum"].tolist() == [[1, 1]]


@pytest.mark.parametrize("answer", [None, [], [None], [{}, {}], {}, [1], "x"])
def test_wrong_lists(server, http, answer):
    bind(server, "wrong_list", lambda requests: answer, ADD_SUB)
    with pytest.raises(Refused):
        http.infer("wrong_list", a=ones(1, 2), b=ones(1, 2), outputs=["sum"])


def test_errors_are_logged_with_their_traceback(server, http):
    def unlucky(a, b):
        raise KeyError("thirteen")

    bind(server, "unlucky", unlucky, ADD_SUB, shape="batch")
    with pytest.raises(Refused, match="thirteen"):
        http.infer("unlucky", a=ones(1, 2), b=ones(1, 2))
    # The line comes through a pipe of its own.
    until(lambda: any("unlucky" in line and "test_bound.py" in line for line in list(server.log)))


def test_refused_bindings_leave_nothing(server, http):
    for settings, version in (
        ({**ADD_SUB, "max_batch_size": -1}, 1),
        ({"input": "x"}, 1),
        ({**ADD_SUB, "name": "y"}, 1),
        (ADD_SUB, 0),
    ):
        with pytest.raises(ServerError):
            bind(server, "refused", add_sub, settings, shape="batch", version=version)
    assert http.status("/v2/models/refused") != 200
    assert http.status("/v2/health/ready") == 200
    with pytest.raises(ServerError):
        server.unbind("never")


def test_versions_side_by_side(server, http):
    for version in (1, 2):
        bind(server, "versions", lambda a, b, v=version: (a * v, b), ADD_SUB, shape="batch", version=version)
    assert http.infer("versions/versions/1", a=ones(1, 1), b=ones(1, 1))["sum"][0, 0] == 1
    assert http.infer("versions", a=ones(1, 1), b=ones(1, 1))["sum"][0, 0] == 2
    server.unbind("versions", 2)
    assert http.infer("versions", a=ones(1, 1), b=ones(1, 1))["sum"][0, 0] == 1


def test_binding_again_loses_no_request(server):
    bind(server, "again", lambda a, b: (a, b), ADD_SUB, shape="batch")
    stop, wrong = threading.Event(), []

    def hammer():
        client = Http(server)
        while not stop.is_set():
            try:
                client.infer("again", a=ones(1, 3000), b=ones(1, 3000))
            except Exception as error:
                wrong.append(error)
                return

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(20):
        bind(server, "again", [lambda a, b, i=i: (a * i, b)] * (1 + i % 3), ADD_SUB, shape="batch")
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert Http(server).infer("again", a=ones(1, 1), b=ones(1, 1))["sum"][0, 0] == 19


def test_unload_and_load_over_the_api(server, http):
    bind(server, "api", add_sub, ADD_SUB, shape="batch")
    assert http.ask("POST", "/v2/repository/models/api/unload")[0] == 200
    with pytest.raises(Refused):
        http.infer("api", a=ones(1, 1), b=ones(1, 1))
    assert http.ask("POST", "/v2/repository/models/api/load")[0] == 200
    assert http.infer("api", a=ones(1, 1), b=ones(1, 1))["sum"][0, 0] == 2


ONE = config([tensor("x", "FP32", [-1])], [tensor("y", "FP32", [-1])])


@pytest.mark.parametrize("shape", ["batch", "requests"])
def test_callables_that_write_to_what_others_read(server, http, shape):
    """Two steps of an ensemble get a client's tensor, each its own; what is answered is what the callable has made of it."""
    seen, together, size = [], threading.Barrier(2, timeout=60), 200000

    def writes(x):
        together.wait()
        x += 1
        together.wait()
        return {"y": x if len(seen) % 2 else x[:, : size // 2]}

    def reads(x):
        together.wait()
        together.wait()
        seen.append(x.copy())
        return {"y": x}

    made = [f"{name}_{shape}" for name in ("writes", "reads")]
    for name, function in zip(made, (writes, reads)):
        bind(server, name, function if shape == "batch" else requests_shape(function), ONE, shape=shape)
    steps = [
        {"model_name": name, "model_version": -1, "input_map": {"x": "x"}, "output_map": {"y": f"y{n}"}}
        for n, name in enumerate(made)
    ]
    whole = config([tensor("x", "FP32", [-1])], [tensor("y0", "FP32", [-1]), tensor("y1", "FP32", [-1])])
    del whole["dynamic_batching"]
    whole |= {"platform": "ensemble", "ensemble_scheduling": {"step": steps}}
    body = {"parameters": {"config": json.dumps(whole), "file:1/x": "aGk="}}
    status, _, text = http.ask("POST", "/v2/repository/models/both/load", json.dumps(body))
    assert status == 200, text
    for value in range(6):
        before = len(seen)
        x = np.full((2, size), value, np.float32)
        got = http.infer("both", x=x)
        assert len(seen) == before + 1 and (seen[-1] == x).all()
        np.testing.assert_array_equal(got["y1"], x)
        np.testing.assert_array_equal(got["y0"], (x + 1)[:, : got["y0"].shape[1]])
    assert http.ask("POST", "/v2/repository/models/both/unload")[0] == 200
    for name in made:
        server.unbind(name)


def test_timeout_frees_the_client_and_shows_in_readiness(server, http):
    go, calls = threading.Event(), []

    def stuck(a, b):
        calls.append(a)
        if len(calls) == 1:
            go.wait(60)
        return add_sub(a, b)

    bind(server, "stuck", stuck, ADD_SUB, shape="batch", timeout=0.1)
    with pytest.raises(Refused, match="timed out"):
        http.infer("stuck", a=ones(1, 50000), b=ones(1, 50000))
    assert http.status("/v2/models/stuck/ready") == 400
    assert http.status("/v2/health/ready") == 400
    bind(server, "other", add_sub, ADD_SUB, shape="batch")
    assert http.infer("other", a=ones(1, 1), b=ones(1, 1))["sum"][0, 0] == 2
    go.set()
    until(lambda: http.status("/v2/models/stuck/ready") == 200)

    def answered():  # a machine that stands still for the timeout makes it late again
        try:
            return http.infer("stuck", a=ones(1, 50000), b=ones(1, 50000))["sum"][0, 0] == 2
        except Refused as late:
            assert "timed out" in str(late)
            return False

    until(answered)
    np.testing.assert_array_equal(calls[0], ones(1, 50000))


def test_forked_children_leave_the_connection_alone(server, http):
    bind(server, "forked", add_sub, ADD_SUB, shape="batch")
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        word = b"no"
        try:
            server.unbind("forked")
        except ServerError:
            word = b"ok" if not server.is_alive() else b"alive"
        server.stop()
        os.write(write, word)
        os._exit(0)
    os.close(write)
    assert os.read(read, 10) == b"ok"
    os.waitpid(pid, 0)
    os.close(read)
    assert http.infer("forked", a=ones(1, 1), b=ones(1, 1))["sum"][0, 0] == 2
