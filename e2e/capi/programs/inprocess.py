"""Checks of neso.inprocess, in a process of their own: python inprocess.py REPOSITORY.

Prints a JSON object with a line for each function ``check_...``: null, or what went wrong. The server of the last check runs on
when the program ends, which must end it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import pathlib
import queue
import sys
import threading
import traceback

import numpy as np
from neso import inprocess as tritonserver
from neso.inprocess import _flight

REPOSITORY = sys.argv[1]
VALUES = np.array([1, 2.5, -3], np.float32)


def explicit(*models: str, **fields) -> tritonserver.Server:
    options = tritonserver.Options(
        model_repository=REPOSITORY,
        model_control_mode=tritonserver.ModelControlMode.EXPLICIT,
        startup_models=list(models),
        exit_timeout=10,
        **fields,
    )
    return tritonserver.Server(options)


def raises(kind, function, *arguments, **named) -> Exception:
    try:
        function(*arguments, **named)
    except Exception as e:
        assert type(e) is kind, f"{type(e).__name__}: {e}"
        return e
    raise AssertionError(f"{kind.__name__} was not raised")


def one(model, **fields) -> tritonserver.InferenceResponse:
    responses = [r for r in model.infer(**fields) if r.outputs]
    assert len(responses) == 1, responses
    return responses[0]


def check_labels():
    """Where a version is a number, the name takes the label; the file is read when the model is loaded."""
    with explicit("labelled") as server:

        def answers(name):
            response = one(server.model(name), inputs={"X": VALUES})
            return response.model.name, response.model.version

        assert answers("labelled") == ("labelled", 2) and answers("labelled@stable") == ("labelled", 1)
        assert server.model("labelled@stable").ready()
        assert server.model("labelled@stable").metadata()["versions"] == ["1"]
        error = raises(tritonserver.NotFoundError, one, server.model("labelled@none"), inputs={"X": VALUES})
        assert "'labelled' has no version with the label 'none'" in str(error), error
        rules = pathlib.Path(REPOSITORY) / "labelled" / "rollout.yaml"
        rules.write_text("labels: {stable: 2}\nweights: {1: 1}\n")
        server.load("labelled")
        assert answers("labelled") == ("labelled", 1) and answers("labelled@stable") == ("labelled", 2)


def check_rollout():
    """The rules of a model are shown and changed by a call, without a file."""
    with explicit("labelled", "identity") as server:

        def version(name):
            return one(server.model(name), inputs={"X": VALUES}).model.version

        said = server.rollout("labelled", {"labels": {"canary": 2, "stable": 1}, "weights": {"stable": 1}})
        assert said["rules"]["labels"] == {"canary": 2, "stable": 1} and said["primary"] == "1", said
        assert [version(n) for n in ("labelled", "labelled@canary")] == [1, 2]
        said = server.rollout("labelled", "weights: {canary: 1}\n")
        assert version("labelled") == 2 and [v["share"] for v in said["versions"]] == [0, 1], said
        assert server.rollout("labelled")["versions"][1]["requests"]["weight"] == 1
        assert server.rollout("labelled", {"weights": None})["rules"].get("weights") is None
        assert server.rollout("identity") == {"model": "identity", "rules": {}, "versions": [
            {"version": "1", "labels": [], "share": 0, "requests": {}}
        ]}  # fmt: skip
        error = raises(tritonserver.InvalidArgumentError, server.rollout, "labelled", {"labels": {"stable": 7}})
        assert "version 7 is not loaded: the version policy loads 1, 2" in str(error), error
        raises(tritonserver.InvalidArgumentError, server.rollout, "labelled", "{")
        raises(tritonserver.InvalidArgumentError, server.rollout, "labelled", "labels: {}\0")
        raises(tritonserver.NotFoundError, server.rollout, "nobody")
        raises(TypeError, server.rollout, 7)
    with tritonserver.Server(model_repository=REPOSITORY, startup_models=[]) as polled:
        error = raises(tritonserver.UnavailableError, polled.rollout, "identity", {"labels": {"a": 1}})
        assert "can be changed with" in str(error), error


def check_sync():
    with explicit("identity") as server:
        model = server.model("identity")
        assert server.live() and server.ready() and model.ready()
        iterator = model.infer(inputs={"X": VALUES}, request_id="seven")
        (response,) = iterator
        assert list(iterator) == []
        assert response.final and response.error is None and response.request_id == "seven"
        assert (response.model.name, response.model.version) == ("identity", 1)
        tensor = response.outputs["Y"]
        assert tensor.data_type == tritonserver.DataType.FP32 and tuple(tensor.shape) == (3,) and tensor.size == 12
        for given in ([1.0, 2.0], np.zeros(0, np.float32), np.arange(8, dtype=np.float32)[::2], np.ones(2, ">f4")):
            given = np.array(given, np.float32) if isinstance(given, list) else given
            assert np.array_equal(np.from_dlpack(one(model, inputs={"X": given}).outputs["Y"]), given)
        request = model.create_request(inputs={"X": VALUES})
        for _ in range(3):  # sent again
            assert np.array_equal(np.from_dlpack(one(model, inference_request=request).outputs["Y"]), VALUES)
    # Outputs outlive the server.
    assert np.array_equal(np.from_dlpack(tensor), VALUES)
    assert not any(_flight.held().values()), _flight.held()


def check_asyncio():
    async def ask(model, at):
        values = VALUES + at
        return [np.from_dlpack(r.outputs["Y"]) - values async for r in model.async_infer(inputs={"X": values})]

    async def all_of(model):
        return await asyncio.gather(*(ask(model, at) for at in range(50)))

    with explicit("identity") as server:
        model = server.model("identity")
        for _ in range(2):  # each run has another event loop
            for (difference,) in asyncio.run(all_of(model)):
                assert not difference.any()

        async def later(iterator):
            return [r async for r in iterator]

        # Sent without an event loop, waited for in one.
        assert len(asyncio.run(later(model.async_infer(inputs={"X": VALUES})))) == 1
    assert not any(_flight.held().values()), _flight.held()


def repeated(n: int) -> dict:
    return {"IN": np.arange(n, dtype=np.int32), "DELAY": np.zeros(n, np.uint32), "WAIT": np.zeros(1, np.uint32)}


def check_decoupled():
    with explicit("repeat") as server:
        model = server.model("repeat")
        assert model.transaction_properties() == tritonserver.ModelTxnPropertyFlag.DECOUPLED
        got = list(model.infer(inputs=repeated(5)))
        assert [int(np.from_dlpack(r.outputs["OUT"])[0]) for r in got if r.outputs] == [0, 1, 2, 3, 4]
        assert [r.final for r in got] == [False] * (len(got) - 1) + [True]

        async def stream():
            return [r async for r in model.async_infer(inputs=repeated(5))]

        assert sum(bool(r.outputs) for r in asyncio.run(stream())) == 5
        # Nobody waits for these: they are freed as they come.
        for _ in range(20):
            model.infer(inputs=repeated(5))
    assert not any(_flight.held().values()), _flight.held()


def check_response_queues():
    with explicit("repeat") as server:
        model = server.model("repeat")
        also = queue.SimpleQueue()
        iterator = model.infer(inputs=repeated(3), response_queue=also)
        model.infer(inputs=repeated(3), response_queue=also)  # its iterator is gone at once
        finals, first = 0, list(iterator)
        got = []
        while finals < 2:
            got.append(also.get())
            finals += got[-1].final
        assert sum(bool(r.outputs) for r in got) == 6 and sum(bool(r.outputs) for r in first) == 3

        async def both():
            also = asyncio.Queue()
            iterator = model.async_infer(inputs=repeated(3), response_queue=also)
            got = [await also.get()]
            while not got[-1].final:
                got.append(await also.get())
            return got, [r async for r in iterator]

        got, first = asyncio.run(both())
        assert [r.final for r in got] == [r.final for r in first] and sum(bool(r.outputs) for r in got) == 3
        raises(tritonserver.InvalidArgumentError, model.infer, inputs=repeated(1), response_queue=asyncio.Queue())
        raises(tritonserver.InvalidArgumentError, model.async_infer, inputs=repeated(1), response_queue=also)


def check_strings_and_parameters():
    with explicit("echo") as server:
        model = server.model("echo")
        given = {"int": -5, "float": 0.5, "bool": False, "string": "text"}
        texts = [["hello", "grüße"], ["", "x" * 1000]]
        for value in (texts, np.array(texts), np.array(texts, object), tritonserver.Tensor.from_string_array(texts)):
            response = one(model, inputs={"TEXT": value}, parameters=given)
            assert response.outputs["SAME"].to_string_array().tolist() == texts
            assert response.outputs["SAME"].to_bytes_array()[0][1] == "grüße".encode()
            told = json.loads(response.outputs["PARAMETERS"].to_string_array()[0])
            assert told == given and [type(v) for v in told.values()] == [type(given[k]) for k in told]
        for wrong in ({"a": 1}, None, b"bytes"):
            raises(tritonserver.InvalidArgumentError, model.infer, inputs={"TEXT": texts}, parameters={"wrong": wrong})
        raises(tritonserver.InvalidArgumentError, tritonserver.Tensor.from_bytes_array, [1, 2])
        raises(tritonserver.InvalidArgumentError, response.outputs["SAME"].__dlpack__)


def check_errors():
    idle = tritonserver.Server()
    for function in (idle.ready, idle.live, idle.stop, idle.models, idle.metrics, lambda: idle.model("m")):
        raises(tritonserver.InvalidArgumentError, function)
    raises(TypeError, tritonserver.Server(server_id=1).start)
    raises(TypeError, tritonserver.Server(model_repository=1).start)
    raises(tritonserver.InvalidArgumentError, tritonserver.Server(model_repository=None).start)
    raises(tritonserver.InvalidArgumentError, tritonserver.Server(model_repository="r", exit_timeout=-1).start)
    raises(tritonserver.InternalError, tritonserver.Server(model_repository="/nowhere/at/all").start)
    with explicit("identity", "failing") as server:
        raises(tritonserver.InvalidArgumentError, server.start)
        raises(tritonserver.NotFoundError, server.model("nobody").infer, inputs={"X": VALUES})
        raises(tritonserver.NotFoundError, server.model("nobody").config)
        model = server.model("identity")
        raises(tritonserver.InvalidArgumentError, lambda: list(model.infer(inputs={"Z": VALUES})))
        raises(tritonserver.InvalidArgumentError, model.infer, inputs={"X": VALUES.astype(complex)})
        raises(tritonserver.InvalidArgumentError, model.infer, inputs={"X": {"a": 1}})
        raises(tritonserver.InvalidArgumentError, model.infer, inputs={"X": VALUES}, output_memory_type="nothing")
        raises(tritonserver.InvalidArgumentError, model.infer, inputs={"X": VALUES}, priority=-1)
        raises(TypeError, model.infer, inputs={"X": VALUES}, request_id=5)
        raises(tritonserver.UnavailableError, server.poll_model_repository)
        failing = server.model("failing")
        error = raises(tritonserver.InternalError, lambda: list(failing.infer(inputs={"TEXT": ["why"]})))
        assert "because of why" in str(error) and error.args[1].error is error
        (response,) = failing.infer(inputs={"TEXT": ["why"]}, raise_on_error=False)
        assert response.final and "because of why" in str(response.error)
    raises(tritonserver.InvalidArgumentError, model.ready)
    assert not any(_flight.held().values()), _flight.held()


def check_load_and_unload():
    with explicit() as server:
        models = server.models()
        assert models["identity", -1].state is None and not server.models(exclude_not_ready=True)
        raises(KeyError, lambda: models["nobody"])
        model = server.load("identity")
        assert server.models()["identity", 1].state == "READY" and model.ready()
        assert server.models()["identity"].version == -1
        server.unload(model, wait_until_unloaded=True)
        assert server.models()["identity", 1].state == "UNAVAILABLE" and not model.ready()
        config = {"backend": "identity", "max_batch_size": 4}
        for way, name in (("input", "A"), ("output", "B")):
            config[way] = [{"name": name, "data_type": "TYPE_STRING", "dims": [-1]}]
        made = server.load("made", {"config": json.dumps(config), "file:1/nothing": b"\0bytes"})
        assert made.batch_properties() == tritonserver.ModelBatchFlag.FIRST_DIM
        assert made.config()["max_batch_size"] == 4 and made.metadata()["inputs"][0]["name"] == "A"
        assert one(made, inputs={"A": [["x"]]}).outputs["B"].to_bytes_array().tolist() == [[b"x"]]
        raises(tritonserver.InternalError, server.load, "nobody")
        server.unregister_model_repository(REPOSITORY)
        assert ("identity", -1) not in server.models()
        server.register_model_repository(REPOSITORY, {"identity": "renamed"})
        raises(tritonserver.AlreadyExistsError, server.register_model_repository, REPOSITORY)
        assert server.load("renamed").ready()


def check_metrics_and_statistics():
    with explicit("identity", metrics=True) as server:
        model = server.model("identity")
        for _ in range(3):
            one(model, inputs={"X": VALUES})
        (stats,) = model.statistics()["model_stats"]
        assert stats["name"] == "identity" and stats["inference_count"] == 3
        assert 'nv_inference_request_success{model="identity",version="1"} 3' in server.metrics()
        assert server.metadata()["name"] == "triton"
        family = tritonserver.MetricFamily(tritonserver.MetricKind.GAUGE, "lake_depth", "How deep it is")
        metric = tritonserver.Metric(family, {"lake": "Neso"})
        metric.set_value(4)
        metric.increment(0.5)
        assert metric.value == 4.5 and metric.kind == tritonserver.MetricKind.GAUGE
        assert 'lake_depth{lake="Neso"} 4.5' in server.metrics()
        counters = tritonserver.MetricFamily(tritonserver.MetricKind.COUNTER, "boats", "How many came")
        counter = tritonserver.Metric(counters)
        counter.increment(2)
        raises(tritonserver.InvalidArgumentError, counter.increment, -1)
        spread = tritonserver.MetricFamily(tritonserver.MetricKind.HISTOGRAM, "waves", "How high they are")
        raises(tritonserver.InvalidArgumentError, tritonserver.Metric, spread)
        waves = tritonserver.Metric(spread, buckets=[1, 2])
        waves.observe(1.5)
        raises(tritonserver.UnsupportedError, type(waves).value.__get__, waves)
        assert 'waves_bucket{le="2"} 1' in server.metrics() and "boats 2" in server.metrics()
        del metric, family, counter, counters, waves, spread
        gc.collect()
        assert not any(name in server.metrics() for name in ("lake_depth", "boats", "waves"))


class Lent:
    """Exports an array over DLPack, and counts how often; the array itself cannot be had by it."""

    def __init__(self, array):
        self.array, self.asked = array, 0

    def __dlpack__(self, **options):
        self.asked += 1
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def check_dlpack():
    array = np.arange(6, dtype=np.float32)
    before = sys.getrefcount(array)
    tensor = tritonserver.Tensor.from_dlpack(array)
    assert tensor.data_ptr == array.ctypes.data and sys.getrefcount(array) == before + 1
    held = sys.getrefcount(tensor)
    view = np.from_dlpack(tensor)
    assert view.ctypes.data == array.ctypes.data and sys.getrefcount(tensor) == held + 1
    tensor.shape = [2, 3]
    assert np.from_dlpack(tensor).shape == (2, 3) and view.shape == (6,)
    tensor.shape = [7]
    raises(tritonserver.InvalidArgumentError, tensor.__dlpack__)
    del view, tensor
    assert sys.getrefcount(array) == before
    raises(tritonserver.InvalidArgumentError, tritonserver.Tensor.from_dlpack, array[::2])
    raises(tritonserver.InvalidArgumentError, tritonserver.MemoryBuffer.from_dlpack, object())
    fixed = np.arange(3, dtype=np.float32)
    fixed.flags.writeable = False
    with explicit("identity") as server:
        model, lent = server.model("identity"), Lent(array)
        out = np.from_dlpack(one(model, inputs={"X": lent}, output_memory_type="cpu").outputs["Y"])
        assert lent.asked == 1 and np.array_equal(out, array) and out.ctypes.data != array.ctypes.data
        assert np.array_equal(np.from_dlpack(one(model, inputs={"X": fixed}).outputs["Y"]), fixed)
        given = one(model, inputs={"X": array}).outputs["Y"]
        assert np.array_equal(np.from_dlpack(one(model, inputs={"X": given}).outputs["Y"]), array)
    for number in range(1, 13):
        dtype = {
            1: "?",
            2: "u1",
            3: "u2",
            4: "u4",
            5: "u8",
            6: "i1",
            7: "i2",
            8: "i4",
            9: "i8",
            10: "f2",
            11: "f4",
            12: "f8",
        }
        values = np.ones((2, 1), dtype[number])
        tensor = tritonserver.Tensor._from_object(values)
        assert tensor.data_type == number and np.from_dlpack(tensor).dtype == values.dtype


def check_cancel():
    with explicit("repeat") as server:
        model = server.model("repeat")
        forever = {**repeated(2), "DELAY": np.array([0, 2**31], np.uint32)}
        iterator = model.infer(inputs=forever, raise_on_error=False)
        assert next(iterator).outputs
        iterator.cancel()
        last = list(iterator)[-1]
        assert last.final
        iterator.cancel()  # too late, and no error

        async def stop():
            iterator = model.async_infer(inputs=forever, raise_on_error=False)
            assert (await iterator.__anext__()).outputs
            waiting = asyncio.ensure_future(iterator.__anext__())
            iterator.cancel()
            return await waiting, [r async for r in iterator]

        got, rest = asyncio.run(stop())
        assert [got, *rest][-1].final
    assert not any(_flight.held().values()), _flight.held()


def check_threads_and_servers():
    servers = [explicit("identity", server_id=name).start(wait_until_ready=True) for name in ("one", "two", "three")]
    wrong = []

    def ask(model, at):
        try:
            for step in range(50):
                out = np.from_dlpack(one(model, inputs={"X": VALUES + at + step}).outputs["Y"])
                assert np.array_equal(out, VALUES + at + step)
        except BaseException as e:
            wrong.append(e)

    threads = [threading.Thread(target=ask, args=(s.model("identity"), 100 * i)) for i, s in enumerate(servers * 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    assert [s.metadata()["name"] for s in servers] == ["one", "two", "three"]
    servers[0].stop()
    assert servers[1].ready() and len(list(servers[2].model("identity").infer(inputs={"X": VALUES}))) == 1
    servers[0].start()  # another server of the same options
    assert servers[0].ready()
    for server in servers:
        server.stop()
    assert not any(_flight.held().values()), _flight.held()


def check_collected():
    server = explicit("identity", "repeat").start()
    ended = server._started._handle._finalize
    model = server.model("repeat")
    del server
    gc.collect()
    assert ended.alive and model.ready()  # a model keeps its server
    iterator = model.infer(inputs={**repeated(2), "DELAY": np.array([0, 2**31], np.uint32)})
    next(iterator)
    iterator.cancel()
    del model
    assert list(iterator)[-1].final
    del iterator
    gc.collect()
    assert not ended.alive
    for thread in threading.enumerate():  # which ends it, where the last reference went away in a callback
        if thread is not threading.current_thread():
            thread.join()
    assert not any(_flight.held().values()), _flight.held()


def check_last_server_runs_on():
    global left
    left = explicit("identity", "repeat").start()
    assert len(list(left.model("identity").infer(inputs={"X": VALUES}))) == 1
    forever = {**repeated(2), "DELAY": np.array([0, 100], np.uint32)}
    next(left.model("repeat").infer(inputs=forever))


results = {}
for name, check in list(globals().items()):
    if name.startswith("check_"):
        try:
            check()
            results[name] = None
        except BaseException:
            results[name] = traceback.format_exc()
print(json.dumps(results))
