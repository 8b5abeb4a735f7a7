"""The clients: URLs, laziness, waiting, timeouts, threads, connections that are kept, and what they raise."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import threading
import urllib.request

import numpy as np
import pytest
from conftest import config
from program import reserved, wait_until

from neso import (
    AsyncioDecoupledModelClient,
    AsyncioModelClient,
    DecoupledModelClient,
    FuturesModelClient,
    ModelClient,
    ModelConfig,
    Tensor,
    Triton,
    _inprocess,
)
from neso.client import (
    PyTritonClientClosedError,
    PyTritonClientError,
    PyTritonClientInferenceServerError,
    PyTritonClientInvalidUrlError,
    PyTritonClientModelDoesntSupportBatchingError,
    PyTritonClientQueueFullError,
    PyTritonClientTimeoutError,
    PyTritonClientValueError,
)
from neso.client.utils import TritonUrl, create_client_from_url, get_model_config
from neso.client.warnings import NotSupportedTimeoutWarning

X = [Tensor((-1,), np.float32, "x")]
Y = [Tensor((-1,), np.float32, "y")]
ONE = np.ones(1, np.float32)


def double(requests):
    return [{"y": 2 * r["x"]} for r in requests]


def steps(requests):
    for i in range(3):
        yield [{"y": r["x"] + i} for r in requests]


HOLD = threading.Event()


def slow(requests):
    HOLD.wait(60)
    return double(requests)


@pytest.fixture(scope="module")
def served():
    with Triton(config=config()) as triton:
        triton.bind("m", double, X, Y, config=ModelConfig(max_batch_size=16))
        triton.bind("single", double, X, Y, config=ModelConfig(batching=False))
        triton.bind("steps", steps, X, Y, config=ModelConfig(decoupled=True))
        triton.bind("slow", slow, X, Y)
        yield triton
        HOLD.set()


@pytest.fixture(params=["http", "grpc"])
def url(request, served):
    return served.url if request.param == "http" else served.grpc_url


ALL = [ModelClient, FuturesModelClient, AsyncioModelClient, DecoupledModelClient, AsyncioDecoupledModelClient]


@pytest.mark.parametrize("kind", ALL)
def test_arguments_of_constructors(kind):
    """Those of PyTriton 0.7, in their order, and the token for every kind."""
    names = list(inspect.signature(kind).parameters)
    assert names[:3] == ["url", "model_name", "model_version"]
    assert {"init_timeout_s", "inference_timeout_s", "access_token"} <= set(names)
    if kind is FuturesModelClient:
        assert {"max_workers", "max_queue_size", "non_blocking"} <= set(names)
    else:
        assert {"lazy_init", "model_config", "ensure_model_is_ready"} <= set(names)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("localhost", "http://localhost:8000"),
        ("localhost:80", "http://localhost:80"),
        ("http://localhost", "http://localhost:8000"),
        ("grpc://localhost", "grpc://localhost:8001"),
        ("grpc://localhost:9", "grpc://localhost:9"),
        ("http://127.0.0.1:5/", "http://127.0.0.1:5"),
        ("http://[::1]:7", "http://[::1]:7"),
    ],
)
def test_urls(given, wanted):
    assert TritonUrl.from_url(given).with_scheme == wanted


@pytest.mark.parametrize(
    "wrong", ["ftp://localhost", "http://", "http://host:port", "localhost:99999", "http://h/p", 7]
)
def test_wrong_urls(wrong):
    for kind in ALL:
        with pytest.raises(PyTritonClientInvalidUrlError, match="Invalid url"):
            kind(wrong, "m")


def test_errors_are_of_one_family():
    for error in (
        PyTritonClientValueError,
        PyTritonClientInvalidUrlError,
        PyTritonClientTimeoutError,
        PyTritonClientClosedError,
        PyTritonClientInferenceServerError,
        PyTritonClientQueueFullError,
        PyTritonClientModelDoesntSupportBatchingError,
    ):
        assert issubclass(error, PyTritonClientError)
        assert error("text").message == str(error("text")) == "text"
    assert issubclass(PyTritonClientInvalidUrlError, PyTritonClientValueError)


def test_a_lazy_client_may_be_made_before_the_server():
    with reserved() as port:
        client = ModelClient(f"127.0.0.1:{port}", "m", init_timeout_s=60)
        answers = []
        asking = threading.Thread(target=lambda: answers.append(client.infer_sample(ONE)))
        asking.start()
        with Triton(config=config(http_port=port)) as triton:
            triton.bind("m", double, X, Y)
            asking.join(60)
    client.close()
    assert answers[0]["y"].tolist() == [2.0]


@pytest.fixture
def unhurried(monkeypatch):
    """Clients whose last question, or only one, may take a minute: a machine may stand still for a while."""
    monkeypatch.setattr("neso.client.utils.WHY_S", 60.0)
    monkeypatch.setattr("neso.client.aio.WHY_S", 60.0)


def test_waiting_for_a_model(url, served, unhurried):
    with ModelClient(url, "m", "1", lazy_init=False) as client:
        client.wait_for_server(60)
        client.wait_for_model(60)
        assert client.is_batching_supported
        assert client.model_config.max_batch_size == 16
    for version in (None, "9"):
        name = "m" if version else "never"
        with ModelClient(url, name, version) as client:
            said = f"model {name}/{version or '<latest>'} to be ready.*unknown model: '{name}'"
            with pytest.raises(PyTritonClientTimeoutError, match=said):
                client.wait_for_model(0.2)
    with pytest.raises(PyTritonClientTimeoutError, match="to be ready timed out"):
        ModelClient(url, "never", lazy_init=False, init_timeout_s=0.1)
    with FuturesModelClient(url, "never", init_timeout_s=0.1) as client:
        with pytest.raises(PyTritonClientTimeoutError):
            client.infer_sample(ONE).result()
        with pytest.raises(PyTritonClientTimeoutError):
            client.wait_for_model(0.1).result()

    async def ask():
        async with AsyncioModelClient(url, "never") as client:
            with pytest.raises(PyTritonClientTimeoutError, match=r"waiting for model never.*unknown model: 'never'"):
                await client.wait_for_model(0.2)
        async with AsyncioModelClient(url, "m") as client:
            await client.wait_for_model(60)
            assert (await client.model_config).model_name == "m"

    asyncio.run(ask())


def test_a_known_configuration_is_not_asked_for(url):
    with create_client_from_url(url) as plain:
        known = get_model_config(plain, "m")
    with ModelClient(url, "m", model_config=known, ensure_model_is_ready=False) as client:
        assert client.model_config is known
        assert client.infer_sample(ONE)["y"].tolist() == [2.0]
    with ModelClient(url, "never", model_config=known, ensure_model_is_ready=False) as client:
        with pytest.raises(PyTritonClientInferenceServerError, match="unknown model"):
            client.infer_sample(ONE)


@pytest.mark.parametrize("kind", [ModelClient, AsyncioModelClient])
def test_clients_of_clients(url, kind):
    async def ask():
        first = kind(url, "m", inference_timeout_s=7, access_token="t")
        answer = first.infer_sample(ONE)
        if kind is AsyncioModelClient:
            await answer
        second = kind.from_existing_client(first)
        assert second._url == first._url
        assert second._inference_timeout_s == 7
        answer = second.infer_sample(ONE)
        answer = await answer if kind is AsyncioModelClient else answer
        assert answer["y"].tolist() == [2.0]
        for client in (first, second):
            closed = client.close()
            if kind is AsyncioModelClient:
                await closed

    asyncio.run(ask())


def test_decoupled_clients_of_clients(served):
    with DecoupledModelClient(served.grpc_url, "steps") as first:
        assert len(list(first.infer_sample(ONE))) == 3
        with DecoupledModelClient.from_existing_client(first) as second:
            assert len(list(second.infer_sample(ONE))) == 3

    async def ask():
        async with AsyncioDecoupledModelClient(served.grpc_url, "steps") as first:
            async with AsyncioDecoupledModelClient.from_existing_client(first) as second:
                return [a["y"].tolist() async for a in second.infer_batch(np.ones((2, 1), np.float32))]

    assert asyncio.run(ask()) == [[[1.0 + i]] * 2 for i in range(3)]


def test_an_answer_that_does_not_come_in_time(url):
    HOLD.clear()
    try:
        with ModelClient(url, "slow", inference_timeout_s=0.2) as client:
            with pytest.raises(
                PyTritonClientTimeoutError, match=r"Timeout occurred during inference request\. Timeout: 0\.2 s"
            ):
                client.infer_sample(ONE)
        with FuturesModelClient(url, "slow", inference_timeout_s=0.2) as client:
            with pytest.raises(PyTritonClientTimeoutError):
                client.infer_sample(ONE).result()

        async def ask():
            async with AsyncioModelClient(url, "slow", inference_timeout_s=0.2) as client:
                with pytest.raises(PyTritonClientTimeoutError):
                    await client.infer_sample(ONE)

        asyncio.run(ask())
    finally:
        HOLD.set()


def test_the_wrong_client_for_a_model(url, served):
    with ModelClient(url, "steps") as client, pytest.raises(PyTritonClientInferenceServerError, match="is decoupled"):
        client.infer_sample(ONE)
    with DecoupledModelClient(served.grpc_url, "m") as client:
        with pytest.raises(PyTritonClientInferenceServerError, match=r"is coupled\. Use ModelClient"):
            client.infer_sample(ONE)
        with pytest.raises(PyTritonClientValueError, match="does not support headers"):
            client.infer_sample(ONE, headers={"a": "b"})

    async def ask():
        async with AsyncioModelClient(url, "steps") as client:
            with pytest.raises(PyTritonClientInferenceServerError, match="Use AsyncioDecoupledModelClient"):
                await client.infer_sample(ONE)
        async with AsyncioDecoupledModelClient(served.grpc_url, "m") as client:
            with pytest.raises(PyTritonClientInferenceServerError, match="is coupled"):
                async for _ in client.infer_sample(ONE):
                    pass
        async with AsyncioDecoupledModelClient(served.url, "steps") as client:
            with pytest.raises(
                PyTritonClientValueError, match="only supported for grpc protocol: write the URL as grpc://host:port"
            ):
                async for _ in client.infer_sample(ONE):
                    pass

    asyncio.run(ask())


@pytest.mark.parametrize("kind", [ModelClient, FuturesModelClient, AsyncioModelClient])
def test_batches_of_a_model_without(url, kind):
    async def ask():
        client = kind(url, "single")
        with pytest.raises(PyTritonClientModelDoesntSupportBatchingError, match="use infer_sample method instead"):
            answer = client.infer_batch(np.ones((2, 1), np.float32))
            if kind is FuturesModelClient:
                answer.result()
            else:
                await answer
        closed = client.close()
        if inspect.isawaitable(closed):
            await closed

    asyncio.run(ask())


def test_closed_clients(url, served):
    clients = [ModelClient(url, "m"), FuturesModelClient(url, "m"), DecoupledModelClient(served.grpc_url, "steps")]
    for client in clients:
        client.close()
        client.close()
        with pytest.raises(PyTritonClientClosedError, match="closed"):
            client.infer_sample(ONE)

    async def ask():
        client = AsyncioModelClient(url, "m")
        await client.close()
        await client.close()
        with pytest.raises(PyTritonClientClosedError):
            await client.infer_sample(ONE)

    asyncio.run(ask())


def test_warnings_of_timeouts_that_have_no_effect(served):
    with pytest.warns(NotSupportedTimeoutWarning, match="doesn't support timeout for other commands than infer"):
        ModelClient(served.grpc_url, "m").close()


def connections(triton):
    """How many TCP connections clients have with the HTTP or gRPC end, by port."""
    out = {triton.http_port: 0, triton.grpc_port: 0}
    with open("/proc/net/tcp") as table:
        for line in table.readlines()[1:]:
            fields = line.split()
            port = int(fields[1].split(":")[1], 16)
            if fields[3] == "01" and port in out:  # established, the server's side
                out[port] += 1
    return out


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_threads_keep_their_connections(scheme):
    """Over HTTP one for each thread, over gRPC one for all; none for each request."""
    with Triton(config=config()) as triton:
        triton.bind("m", double, X, Y)
        port = triton.http_port if scheme == "http" else triton.grpc_port
        client = ModelClient(triton.url if scheme == "http" else triton.grpc_url, "m")
        meet, wrong = threading.Barrier(5), []

        def ask(value):
            for _ in range(20):
                if client.infer_sample(ONE * value)["y"].tolist() != [2.0 * value]:
                    wrong.append(value)
            meet.wait(60)
            meet.wait(60)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        meet.wait(60)
        found = connections(triton)[port]
        meet.wait(60)
        for thread in threads:
            thread.join()
        client.close()
        assert not wrong
        assert found == (4 if scheme == "http" else 1)
        wait_until(lambda: connections(triton)[port] == 0)


def test_all_kinds_at_once_from_many_threads(served):
    """One object of each kind that threads may share."""
    shared = [ModelClient(served.url, "m"), ModelClient(served.grpc_url, "m"), served.client("m")]
    wrong = []

    def ask(number):
        rng = np.random.default_rng(number)
        for i in range(30):
            x = rng.random((rng.integers(1, 4), 3)).astype(np.float32)
            got = shared[(number + i) % len(shared)].infer_batch(x)["y"]
            if got.tolist() != (2 * x).tolist():
                wrong.append((number, i))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in shared[:2]:
        client.close()
    assert not wrong


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts the descriptors in /proc")
@pytest.mark.parametrize("kind", ["threads", "futures", "unclosed"])
def test_threads_that_end_leave_nothing(served, kind):
    """Each thread of an HTTP client has a connection and an event loop of gevent."""

    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    def use():
        if kind == "futures":
            with FuturesModelClient(served.url, "m", max_workers=2) as futures:
                for future in [futures.infer_sample(ONE) for _ in range(4)]:
                    future.result()
            return
        client = ModelClient(served.url, "m") if kind == "unclosed" else shared
        thread = threading.Thread(target=client.infer_sample, args=(ONE,))
        thread.start()
        thread.join()

    with ModelClient(served.url, "m") as shared:
        use()
        before = descriptors()
        for _ in range(10):
            use()
        wait_until(lambda: descriptors() <= before)


def test_a_client_in_the_process(served):
    client = served.client("m")
    assert client.model_config.model_name == "m"
    assert client.is_batching_supported
    assert client.infer_sample(ONE, parameters={"a": 1}, priority=0, timeout=10_000_000)["y"].tolist() == [2.0]
    assert served.client("single").infer_sample(x=ONE)["y"].tolist() == [2.0]
    assert [a["y"].tolist() for a in served.client("steps").infer_sample(ONE)] == [[1.0], [2.0], [3.0]]
    with pytest.raises(PyTritonClientModelDoesntSupportBatchingError):
        served.client("single").infer_batch(ONE)
    with pytest.raises(PyTritonClientValueError, match="Provide input data"):
        client.infer_sample()
    with pytest.raises(PyTritonClientInferenceServerError, match=r"shape|dims"):
        client.infer_sample(np.ones((2, 2), np.float32))
    before = connections(served)
    client.infer_sample(ONE)
    after = connections(served)  # those of other tests may end meanwhile
    assert all(after[port] <= before[port] for port in after)  # no port


def test_a_call_in_the_process_that_cannot_be_sent(served):
    """What of it lies in shared memory already is given back, and the error is that of what was wrong."""
    client = served.client("m")
    used = client._calls._connection.segments.outputs._used
    before = dict(used)
    with pytest.raises(UnicodeEncodeError):
        client.infer_sample(x=np.ones(100_000, np.float32), **{"\udc80": np.ones(1, np.float32)})
    assert used.items() <= before.items()
    assert client.infer_sample(ONE)["y"].tolist() == [2.0]


def test_a_client_in_the_process_has_room_for_so_many_requests(monkeypatch):
    monkeypatch.setattr(_inprocess, "IN_FLIGHT", 2)
    monkeypatch.setattr(_inprocess, "WAIT_S", 0.05)
    go_on = threading.Event()

    def held(requests):
        yield [{"y": r["x"]} for r in requests]
        go_on.wait(60)

    def fail(requests):
        raise ValueError("no")

    with Triton(config=config()) as triton:
        triton.bind("held", [held] * 2, X, Y, config=ModelConfig(decoupled=True, max_batch_size=1))
        triton.bind("m", double, X, Y)
        triton.bind("fail", fail, X, Y)
        stream, plain, wrong = (triton.client(name) for name in ("held", "m", "fail"))
        for _ in range(3):  # an error gives its place back
            with pytest.raises(PyTritonClientInferenceServerError, match="ValueError: no"):
                wrong.infer_sample(ONE)
        first, second = stream.infer_sample(ONE), stream.infer_sample(ONE)
        assert next(first)["y"].tolist() == next(second)["y"].tolist() == [1.0]
        with pytest.raises(PyTritonClientQueueFullError, match="Queue is full: 2 requests"):
            plain.infer_sample(ONE)
        with pytest.raises(PyTritonClientQueueFullError):
            stream.infer_sample(ONE)
        first.close()  # a stream that nobody reads on
        assert plain.infer_sample(ONE)["y"].tolist() == [2.0]
        go_on.set()
        assert list(second) == []
        assert list(second) == []
        third, fourth = stream.infer_sample(ONE), stream.infer_sample(ONE)
        assert len(list(third)) == len(list(fourth)) == 1


def test_answers_in_the_process_may_be_collected_anywhere(served):
    """The garbage collector drops an iterator inside of any call, also of one that takes or gives back a place."""
    client = served.client("steps")
    left = [client.infer_sample(ONE) for _ in range(30)]

    def ask():
        sys.setprofile(lambda *_: left and left.pop())
        try:
            client._calls.enter()
            client._calls.leave()
        finally:
            sys.setprofile(None)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert client.infer_sample(ONE) is not None


def test_a_futures_client_starts_threads_as_they_are_needed(served):
    with FuturesModelClient(served.url, "m", max_workers=8) as client:
        assert not client._workers
        for _ in range(5):
            client.infer_sample(ONE).result()
            wait_until(lambda: client._idle)  # one that has answered is not at once ready for the next call
        assert len(client._workers) == 1
        workers = list(client._workers)
    assert not any(worker.is_alive() for worker in workers)


def test_a_futures_client_waits_for_room_or_not(served):
    HOLD.clear()
    try:
        with FuturesModelClient(served.url, "slow", max_workers=1, max_queue_size=1, non_blocking=True) as client:
            client.infer_sample(ONE)
            wait_until(lambda: client._queue.empty())
            client.infer_sample(ONE)
            with pytest.raises(PyTritonClientQueueFullError, match="Queue is full"):
                client.infer_sample(ONE)
            HOLD.set()
    finally:
        HOLD.set()


def test_loading_and_unloading_over_the_api(served):
    with ModelClient(served.url, "m", access_token=served.get_access_token()) as client:
        client.unload_model()
        with create_client_from_url(served.url) as plain:
            assert not plain.is_model_ready("m")
        client.load_model()
        assert client.infer_sample(ONE)["y"].tolist() == [2.0]


def test_metrics_count_what_was_asked(served):
    """Of a model that nobody else asks: an answer may be counted after its client has it."""
    served.bind("counted", double, X, Y)

    def count():
        with urllib.request.urlopen(f"http://127.0.0.1:{served.metrics_port}/metrics") as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith("nv_inference_request_success") and 'model="counted"' in line:
                    return float(line.split()[-1])
        return 0.0

    with ModelClient(served.grpc_url, "counted") as client:
        client.infer_sample(ONE)
    wait_until(lambda: count() == 1)
    served.unbind("counted")


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_no_time_for_an_inference(seconds):
    with pytest.raises(PyTritonClientValueError, match="inference_timeout_s must be greater than 0"):
        ModelClient("http://localhost", "m", inference_timeout_s=seconds)


def test_a_futures_client_that_is_closed_without_waiting_ends_what_it_took(served):
    HOLD.clear()
    client = FuturesModelClient(served.url, "slow", max_workers=1, max_queue_size=None)
    try:
        taken = [client.infer_sample(ONE) for _ in range(3)]
        client.close(wait=False)
        with pytest.raises(PyTritonClientClosedError):
            client.infer_sample(ONE)
    finally:
        HOLD.set()
    assert [future.result(60)["y"].tolist() for future in taken] == [[2.0]] * 3


def test_a_futures_client_without_bounds(served):
    HOLD.clear()
    try:
        with FuturesModelClient(served.url, "slow", max_workers=None, max_queue_size=None, non_blocking=True) as client:
            taken = [client.infer_sample(ONE) for _ in range(200)]
            HOLD.set()
            assert all(future.result(60)["y"].tolist() == [2.0] for future in taken)
    finally:
        HOLD.set()


def test_the_timeout_of_an_asyncio_stream_is_that_of_each_answer(served):
    """A stream may take longer than its client waits for an answer."""
    never = threading.Event()

    def silent(requests):
        never.wait(600)
        yield double(requests)

    def many(requests):
        for _ in range(7):
            yield double(requests)

    for name, function in (("silent", silent), ("many", many)):
        served.bind(name, function, X, Y, config=ModelConfig(decoupled=True, max_batch_size=1))

    async def ask(name, timeout, pause=0.0):
        got = []
        async with AsyncioDecoupledModelClient(served.grpc_url, name, inference_timeout_s=timeout) as client:
            async for answer in client.infer_sample(ONE):
                got.append(answer["y"].tolist())
                await asyncio.sleep(pause)  # what the user does with it is not waiting
        return got

    try:
        with pytest.raises(PyTritonClientTimeoutError, match=r"Timeout: 0\.1 s\. Message: no answer on the stream"):
            asyncio.run(ask("silent", 0.1))
        # Where the machine stands still for longer than the timeout, with a longer one.
        for timeout in (2.0, 8.0, 32.0):
            try:
                got = asyncio.run(ask("many", timeout, timeout / 5))
                break
            except PyTritonClientTimeoutError:
                assert timeout < 32
        assert got == [[2.0]] * 7
    finally:
        never.set()
        served.unbind("silent")
        served.unbind("many")


def test_inputs_that_are_none_or_of_several_kinds(served):
    with ModelClient(served.url, "m") as client:
        with pytest.raises(PyTritonClientValueError, match="'x' is None: leave out"):
            client.infer_sample(x=None)
        with pytest.raises(RuntimeError, match=r"encoded strings.*Element type: <class 'str'>"):
            client.infer_sample(np.array(["a"], dtype=object))


def test_no_time_to_wait_for_a_server_that_is_there(url, unhurried):
    with ModelClient(url, "m", init_timeout_s=0) as client:
        assert client.infer_sample(ONE)["y"].tolist() == [2.0]


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_client_that_waits_says_so(monkeypatch, scheme):
    """And for what: the default is 300 seconds, which a mistyped name would pass in silence."""

    def warn(message, *args):
        raise InterruptedError(message % args)

    monkeypatch.setattr("neso.client.utils.SLOW_AFTER_S", 0.0)
    monkeypatch.setattr("neso.client.utils.LOGGER.warning", warn)
    with ModelClient(f"{scheme}://127.0.0.1:1", "m") as client:
        said = r"Waiting for model m: \d+ s so far, \d+ s left \(.*(refused|failed to connect)"
        with pytest.raises(InterruptedError, match=said):
            client.wait_for_model(60)
        with pytest.raises(InterruptedError, match="Waiting for the server: "):
            client.wait_for_server(60)

    async def ask():
        async with AsyncioModelClient(f"{scheme}://127.0.0.1:1", "m") as client:
            with pytest.raises(InterruptedError, match="Waiting for model m: "):
                await client.wait_for_model(60)

    asyncio.run(ask())
