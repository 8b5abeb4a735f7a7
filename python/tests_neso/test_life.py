"""How servers and the programs that started them begin and end, alone and many at a time."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import urllib.error

import numpy as np
import pytest
from conftest import config
from program import Program, alive, infer, wait_until

from neso import DynamicBatcher, FuturesModelClient, ModelClient, ModelConfig, Tensor, Triton, batch
from neso.client import PyTritonClientInferenceServerError, PyTritonClientTimeoutError
from neso.exceptions import PyTritonInvalidOperationError, PyTritonRuntimeError

X = [Tensor((-1,), np.float32, "x")]
Y = [Tensor((-1,), np.float32, "y")]


@batch
def double(x):
    return {"y": 2 * x}


def serve(triton):
    """Serves on a thread; returns the thread and what ``serve`` raised."""
    raised = []

    def run():
        try:
            triton.serve()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, raised


def test_a_killed_server_raises_its_last_words():
    with Triton(config=config()) as triton:
        triton.bind("m", double, X, Y)
        thread, raised = serve(triton)
        assert infer(triton.url) == 6.0
        os.kill(triton._server.pid, signal.SIGKILL)
        thread.join(60)
        assert not thread.is_alive()
        assert isinstance(raised[0], PyTritonRuntimeError)
        assert "SIGKILL" in str(raised[0])
        assert "model=m" in str(raised[0])  # the end of the server's log
        assert not triton.is_alive()


def test_serve_waits_for_the_last_words(monkeypatch):
    """The connection ends a moment before anybody knows how the server did."""
    go = threading.Event()
    monkeypatch.setattr("neso._server.sweep", lambda parent: go.wait(60))
    triton = Triton(config=config())
    triton.bind("m", double, X, Y)
    triton.run()
    server = triton._server
    last_words = server.last_words
    monkeypatch.setattr(server, "last_words", lambda: (go.set(), last_words())[1])
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: server.connection.closed)
    with pytest.raises(PyTritonRuntimeError, match="SIGKILL"):
        triton.serve()


def test_a_killed_server_is_an_error_of_every_call():
    triton = Triton(config=config())
    triton.bind("m", double, X, Y)
    triton.run()
    client = triton.client("m")
    os.kill(triton._server.pid, signal.SIGKILL)
    wait_until(lambda: not triton.is_alive())
    with pytest.raises(PyTritonRuntimeError, match="SIGKILL"):
        triton.bind("other", double, X, Y)
    with pytest.raises(PyTritonRuntimeError, match="SIGKILL"):
        triton.unbind("m")
    with pytest.raises(PyTritonClientInferenceServerError, match="gone"):
        client.infer_sample(np.ones(1, np.float32))
    assert triton.stop()
    with pytest.raises(PyTritonClientInferenceServerError, match="gone"):
        client.infer_sample(np.ones(1, np.float32))
    triton.run()  # and it starts again
    assert infer(triton.url) == 6.0
    assert triton.stop()


@pytest.fixture
def folder():
    """A place for temporary files whose path leaves room for that of a socket, which tmp_path may not."""
    with tempfile.TemporaryDirectory(prefix="neso-test-", dir="/tmp") as path:
        yield pathlib.Path(path)


def test_a_killed_server_leaves_nothing_in_the_program(folder):
    """No thread, descriptor or mapping, and no file of the server's, which had no time to remove it."""
    text = """
        import contextlib, gc, pathlib
        def descriptors():
            found = []
            for fd in os.listdir("/proc/self/fd"):
                with contextlib.suppress(OSError):  # that of the listing itself
                    found.append(os.readlink(f"/proc/self/fd/{fd}"))
            # One that a process needs for all its connections stays open.
            return sorted(name.partition(":")[0] for name in found if not name.endswith("/pagemap"))
        def state():
            with open("/proc/self/maps") as maps:
                shared = [line for line in maps if "memfd" in line or "neso" in line and "deleted" in line]
            return {
                "threads": sorted(t.name for t in threading.enumerate() if t.name.startswith("neso")),
                "descriptors": descriptors(),
                "shared": len(shared),
                "files": sorted(str(p) for p in pathlib.Path(os.environ["TMPDIR"]).iterdir()),
            }
        before = state()
        triton = Triton(config=config())
        triton.bind("m", [double, double], X, Y)
        stream = lambda requests: ([{"y": r["x"]}] for r in requests)
        triton.bind("stream", stream, X, Y, config=ModelConfig(decoupled=True))
        triton.run()
        big = np.ones(1 << 18, np.float32)
        assert triton.client("m").infer_sample(big)["y"][0] == 2.0  # by shared memory
        assert len(list(triton.client("stream").infer_sample(big))) == 1
        during = state()
        pid = triton._server.pid
        def kill():
            while triton._serving is None:
                time.sleep(0.01)
            os.kill(pid, signal.SIGKILL)
        threading.Thread(target=kill, daemon=True).start()
        raised = ""
        try:
            triton.serve()
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
        end = time.monotonic() + 30
        while gc.collect() >= 0 and (after := state()) != before and time.monotonic() < end:
            time.sleep(0.05)
        told = {"before": before, "during": during, "after": after, "raised": raised}
        print(json.dumps({"urls": [], "pids": [pid], **told}), flush=True)
        """
    with Program(text, env={**os.environ, "TMPDIR": str(folder)}) as program:
        told = program.told
        assert told["raised"].startswith("PyTritonRuntimeError") and "SIGKILL" in told["raised"]
        assert told["during"]["shared"] and told["during"]["files"] and told["during"]["threads"]
        assert told["after"] == told["before"]
        assert not alive(program.pids[0])


def test_serve_among_many_descriptors():
    text = """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        held = [os.dup(0) for _ in range(1100)]
        triton = Triton(config=config())
        triton.bind("m", double, X, Y)
        serve(triton)
        """
    with Program(text) as program:
        assert infer(program.urls[0]) == 6.0
        status, log = program.end(signal.SIGTERM)
        assert status == 0, log


# How a program with a server is set up, and which models it then serves where.
PROGRAMS = {
    "one model": """
        triton = Triton(config=config())
        triton.bind("m", double, X, Y)
        triton.run()
        say(triton)
        """,
    "several instances": """
        triton = Triton(config=config())
        triton.bind("m", [double, double, lambda requests: [{"y": 2 * r["x"]} for r in requests]], X, Y)
        triton.run()
        say(triton)
        """,
    "two servers": """
        tritons = [Triton(config=config()) for _ in range(2)]
        for triton in tritons:
            triton.bind("m", double, X, Y)
            triton.run()
        say(*tritons)
        """,
    "a forked child": """
        triton = Triton(config=config())
        triton.bind("m", double, X, Y)
        triton.run()
        child = os.fork()
        if child == 0:
            time.sleep(600)
            os._exit(0)
        say(triton, children=[child])
        """,
    "children of multiprocessing": """
        import multiprocessing
        triton = Triton(config=config())
        triton.bind("m", double, X, Y)
        triton.run()
        workers = [multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,)) for _ in range(2)]
        for worker in workers:
            worker.start()
        say(triton, children=[worker.pid for worker in workers])
        """,
}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "term"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_killed_program_leaves_nothing(name, number, folder):
    """No process, no socket, no file; memory never has a name that could stay."""
    environment = {**os.environ, "TMPDIR": str(folder)}

    def named():
        return {name for name in os.listdir("/dev/shm") if "neso" in name}

    before = named()
    with Program(PROGRAMS[name] + "\n        time.sleep(600)\n", env=environment) as program:
        assert any(folder.iterdir())  # the socket through which others join
        for url in program.urls:
            assert infer(url) == 6.0
        program.process.send_signal(number)
        program.process.wait(60)
        try:
            for pid in program.pids:
                wait_until(lambda pid=pid: not alive(pid))
            for url in program.urls:
                with pytest.raises(urllib.error.URLError):
                    infer(url)
            assert not any(folder.iterdir())
            wait_until(lambda: named() <= before)  # others may come and go
        finally:
            for pid in program.told.get("children", ()):
                os.kill(pid, signal.SIGKILL)


def test_a_child_neither_serves_nor_stops_its_parents_server():
    text = """
        triton = Triton(config=config())
        triton.bind("m", double, X, Y)
        triton.run()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            alive = triton.is_alive()
            stopped = triton.stop()
            os.write(writer, json.dumps([alive, stopped]).encode())
            sys.exit(0)  # runs what is registered for the end of the interpreter
        os.waitpid(child, 0)
        say(triton, child=json.loads(os.read(reader, 100)), parent=triton.is_alive())
        sys.stdin.read()
        """
    with Program(text, stdin=subprocess.PIPE) as program:
        assert program.told["child"] == [False, False]
        assert program.told["parent"]
        assert infer(program.urls[0]) == 6.0
        program.process.stdin.close()
        assert program.end()[0] == 0
        assert not alive(program.pids[0])


def test_a_child_may_have_a_server_of_its_own():
    text = """
        import multiprocessing
        def other(pipe):
            with Triton(config=config()) as mine:
                mine.bind("m", lambda requests: [{"y": 3 * r["x"]} for r in requests], X, Y)
                pipe.send((mine.url, mine._server.pid))
                pipe.recv()
        triton = Triton(config=config())
        triton.bind("m", double, X, Y)
        triton.run()
        ours, theirs = multiprocessing.get_context("fork").Pipe()
        child = multiprocessing.get_context("fork").Process(target=other, args=(theirs,))
        child.start()
        url, pid = ours.recv()
        print(json.dumps({"urls": [triton.url, url], "pids": [triton._server.pid, pid]}), flush=True)
        sys.stdin.readline()
        ours.send(None)
        child.join()
        triton.stop()
        """
    with Program(text, stdin=subprocess.PIPE) as program:
        assert [infer(url) for url in program.urls] == [6.0, 9.0]
        program.process.stdin.close()
        assert program.end()[0] == 0
        assert not any(alive(pid) for pid in program.pids)


def test_ctrl_c_answers_what_is_in_flight():
    text = """
        begun = threading.Event()
        def slow(requests):
            begun.set()
            time.sleep(1)
            return [{"y": 2 * r["x"]} for r in requests]
        triton = Triton(config=config())
        triton.bind("m", slow, X, Y)
        threading.Thread(target=lambda: (begun.wait(), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()
        serve(triton)
        """
    with Program(text) as program:
        assert infer(program.urls[0]) == 6.0
        status, log = program.end()
        assert status == 0, log
        assert not alive(program.pids[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("what", ["a server", "a model"])
def test_a_signal_ends_the_start(what, number):
    """While serve waits for a server that does not come, or for a model that does not load."""
    text = {
        "a server": """
            triton = RemoteTriton("http://127.0.0.1:1")
            triton.bind("m", double, X, Y)
            """,
        "a model": """
            from neso.model_config.common import ModelWarmup, WarmupInput
            warm = ModelWarmup("w", 1, {"x": WarmupInput(np.float32, (1,), zero_data=True)}, 1)
            triton = Triton(config=config(exit_timeout_secs=1))
            def never(requests):
                while True:
                    time.sleep(0.01)  # Python does not see a signal that comes just before it blocks until that is over
            triton.bind("m", never, X, Y, config=ModelConfig(model_warmup=[warm]))
            """,
    }[what]
    more = """
        import neso.utils.announce
        def slow(what):
            if "Waiting for the server" in what or "Loading" in what:
                print(json.dumps({"urls": [], "pids": []}), flush=True)
            return begin(what)
        begin = neso._base.slow
        neso._base.slow = neso.triton.slow = slow
        triton.serve()
        """
    with Program(textwrap.dedent(text) + textwrap.dedent(more)) as program:
        status, log = program.end(number)
        assert status == 0, log
        assert f"{number.name} received" in log or "Traceback" not in log


def test_a_look_at_all_threads_while_garbage_is_due():
    """Python 3.11.7 stood still for good when the collector met a thread's local value just then."""
    text = """
        import gc, threading
        from neso._bound import where
        class Cycle:
            pass
        def deep(n):
            return deep(n - 1) if n else where.frames()
        gc.disable()
        cycle = Cycle()
        cycle.itself, cycle.local = cycle, threading.local()
        cycle.local.value = 1
        del cycle
        gc.set_threshold(1)
        gc.enable()
        assert threading.get_ident() in deep(20) and gc.isenabled()
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(text)], check=True, timeout=60)


def test_stop_and_start_in_one_process():
    triton = Triton(config=config())
    triton.bind("m", double, X, Y)
    before = threading.active_count()
    for _ in range(3):
        triton.run()
        assert triton.is_alive()
        assert infer(triton.url) == 6.0
        assert triton.stop()
    wait_until(lambda: threading.active_count() <= before)


def test_several_servers_with_one_callable():
    tritons = [Triton(config=config()) for _ in range(3)]
    try:
        for i, triton in enumerate(tritons):
            triton.bind(f"m{i}", double, X, Y)
            triton.run()
        assert len({triton.http_port for triton in tritons}) == 3
        assert [infer(t.url, f"m{i}") for i, t in enumerate(tritons)] == [6.0] * 3
        tritons[0].stop()
        assert [infer(t.url, f"m{i}") for i, t in enumerate(tritons) if i] == [6.0] * 2
    finally:
        for triton in tritons:
            triton.stop()


def test_models_are_bound_before_and_after_run():
    triton = Triton(config=config())
    triton.bind("before", double, X, Y)
    triton.run()
    try:
        triton.bind("after", double, X, Y)
        assert [infer(triton.url, name) for name in ("before", "after")] == [6.0, 6.0]
        with pytest.raises(PyTritonInvalidOperationError, match="same name twice"):
            triton.bind("AFTER", double, X, Y)
        with pytest.raises(PyTritonInvalidOperationError, match="is not bound"):
            triton.unbind("never")
    finally:
        triton.stop()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"max_batch_size": 2**40}, "max_batch_size: expected an integer"),
        ({"batcher": DynamicBatcher(preferred_batch_size=[0])}, "preferred size must be positive"),
        ({"max_batch_size": 4, "batcher": DynamicBatcher(preferred_batch_size=[9])}, "must be <= max batch size"),
    ],
)
def test_a_model_that_cannot_be_loaded_leaves_the_others(triton, settings, text):
    """What only the server refuses."""
    triton.bind("good", double, X, Y, replace=True)
    with pytest.raises(PyTritonRuntimeError, match=rf"(?s)Model `bad` could not be loaded.*{text}"):
        triton.bind("bad", double, X, Y, config=ModelConfig(**settings))
    assert infer(triton.url, "good") == 6.0
    triton.bind("bad", double, X, Y)  # the name is free
    assert infer(triton.url, "bad") == 6.0
    triton.unbind("bad")


def test_binding_again_under_load_loses_nothing(triton):
    """Many requests at once while the callable is changed: each is answered, by one callable or the next."""
    triton.bind("turn", lambda rs: [{"y": r["x"] * 0} for r in rs], X, Y)
    over = threading.Event()
    seen, wrong = set(), []

    def ask():
        with ModelClient(triton.url, "turn") as client:
            while not over.is_set():
                try:
                    seen.add(float(client.infer_sample(np.ones(1, np.float32))["y"][0]))
                except Exception as error:
                    wrong.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for i in range(1, 11):
            triton.bind("turn", lambda rs, i=i: [{"y": r["x"] * i} for r in rs], X, Y, replace=True)
            wait_until(lambda i=i: i in seen)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert seen >= {float(i) for i in range(1, 11)}


def test_unbinding_answers_what_is_in_flight(triton):
    inside, go = threading.Event(), threading.Event()

    def slow(requests):
        inside.set()
        go.wait(60)
        return [{"y": 2 * r["x"]} for r in requests]

    triton.bind("leaving", slow, X, Y)
    with FuturesModelClient(triton.url, "leaving") as client:
        answer = client.infer_sample(np.ones(1, np.float32))
        assert inside.wait(60)
        end = threading.Thread(target=triton.unbind, args=("leaving",))
        end.start()
        go.set()
        assert answer.result()["y"].tolist() == [2.0]
        end.join(60)
    triton.bind("leaving", double, X, Y)
    assert infer(triton.url, "leaving") == 6.0


def test_the_end_of_a_server_is_seen_by_clients():
    triton = Triton(config=config())
    triton.bind("m", double, X, Y)
    triton.run()
    with ModelClient(triton.url, "m") as client:
        client.infer_sample(np.ones(1, np.float32))
        triton.stop()
        with pytest.raises((PyTritonClientTimeoutError, PyTritonClientInferenceServerError)):
            client.infer_sample(np.ones(1, np.float32))


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_callables_may_use_processes_of_their_own(start):
    text = f"""
        import concurrent.futures, math, multiprocessing
        pool = concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context({start!r}))
        def roots(requests):
            return [{{"y": np.array([[v for v in pool.map(math.sqrt, r["x"][0])]], np.float32)}} for r in requests]
        triton = Triton(config=config())
        triton.bind("m", [roots, roots], X, Y)
        serve(triton)
        pool.shutdown()
        """
    with Program(text) as program:
        assert [infer(program.urls[0], value=v) for v in (4.0, 9.0, 16.0)] == [2.0, 3.0, 4.0]
        assert program.end(signal.SIGTERM)[0] == 0
        assert not alive(program.pids[0])


def test_several_programs_at_once():
    programs = [Program(PROGRAMS["several instances"] + "\n        time.sleep(600)\n") for _ in range(3)]
    try:
        assert len({program.urls[0] for program in programs}) == 3
        programs[0].process.kill()
        wait_until(lambda: not alive(programs[0].pids[0]))
        assert [infer(program.urls[0]) for program in programs[1:]] == [6.0, 6.0]
    finally:
        for program in programs:
            program.__exit__()


def test_threads_are_children_of_threads_that_live(monkeypatch):
    """ipykernel 6 remembers by number which thread made which, and follows that for ever when it leads in a circle."""
    makers = {}
    init = threading.Thread.__init__

    def remember(thread, *args, **kwargs):
        init(thread, *args, **kwargs)
        makers[thread] = threading.current_thread()

    monkeypatch.setattr(threading.Thread, "__init__", remember)
    with Triton(config=config()) as triton:
        triton.run()
        for _ in range(5):
            triton.bind("m", double, X, Y, replace=True)
            assert infer(triton.url) == 6.0
        made = {t: maker for t, maker in makers.items() if t.name.startswith("neso-m")}
        assert len(made) == 5
        assert all(maker.is_alive() for maker in made.values()), {t.name: m.name for t, m in made.items()}


def test_binding_again_after_a_stop():
    """A ``with`` block that binds may be run again: what was bound before the stop gives way."""
    triton = Triton(config=config())
    for factor in (2, 3):
        with triton:
            triton.bind("m", lambda rs, factor=factor: [{"y": factor * r["x"]} for r in rs], X, Y)
            assert infer(triton.url) == 3.0 * factor
            with pytest.raises(PyTritonInvalidOperationError, match="same name twice"):
                triton.bind("m", double, X, Y)
    triton.bind("m", double, X, Y)
    with pytest.raises(PyTritonInvalidOperationError, match="same name twice"):
        triton.bind("m", double, X, Y)
