"""Windows: what a decoupled model may send before the client has taken it."""

from __future__ import annotations

import asyncio
import struct
import threading

import numpy as np
from harness import DONE, RESPONSES, In, Model, read_responses

from neso_runtime.window import LOOP_WINDOWS, Window

CREDIT, FINAL = 27, 1
WINDOW = 4

SOURCE = """
import asyncio, threading
import numpy as np
import triton_python_backend_utils as pb_utils

def part(n, size=1):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.full(size, n, np.int32))])

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            count, size = request.inputs()[0].as_numpy().tolist()
            threading.Thread(target=self.talk, args=(request.get_response_sender(), count, size)).start()

    def talk(self, sender, count, size):
        for n in range(count):
            sender.send(part(n, size))
        sender.send(flags=1)
"""
ASYNC = """
class TritonPythonModel:
    async def execute(self, requests):
        count, size = requests[0].inputs()[0].as_numpy().tolist()
        for n in range(count):
            yield part(n, size)
"""


def received(m, want):
    """The first value of each of so many responses, by handle."""
    seen = []
    while len(seen) < want:
        kind, _, _, body = m.peer.receive()
        if kind == DONE:
            assert body == b""
            continue
        assert kind == RESPONSES
        for r in read_responses(body, m.peer.memory)[0]:
            seen.append((r.handle, "end" if r.flags & FINAL else int(r.outputs[0].array()[0])))
    return seen


def ask(m, handle, count, size=1):
    m.peer.execute([{"handle": handle, "inputs": [In(0, np.array([count, size]))]}], handle)


def check(tmp_path, source):
    with Model(tmp_path, source, decoupled=True, window=WINDOW) as m:
        ask(m, 1, 6)
        assert received(m, WINDOW) == [(1, n) for n in range(WINDOW)]
        ask(m, 2, 2)  # another request goes on
        assert received(m, 3) == [(2, 0), (2, 1), (2, "end")]
        m.peer.send(CREDIT, struct.pack("<I", 1), number=1)
        assert received(m, 1) == [(1, 4)]
        m.peer.send(CREDIT, struct.pack("<I", 4), number=1)
        assert received(m, 2) == [(1, 5), (1, "end")]
        m.peer.send(CREDIT, struct.pack("<I", 1), number=1)  # too late, and no matter
        ask(m, 3, 3, 2000)  # 8 kB cost 1 more
        assert received(m, 2) == [(3, 0), (3, 1)]
        ask(m, 4, 0)
        assert received(m, 1) == [(4, "end")]
        m.peer.send(CREDIT, struct.pack("<I", 3), number=3)
        assert received(m, 2) == [(3, 2), (3, "end")]


def test_threads(tmp_path):
    check(tmp_path, SOURCE)


def test_asynchronous_generators(tmp_path):
    check(tmp_path, SOURCE.split("class ")[0] + ASYNC)


class Link:
    """A link whose waits end when somebody gives credit."""

    def __init__(self):
        self.changed = threading.Condition()

    def wait(self, ready):
        with self.changed:
            self.changed.wait_for(ready)

    def wake(self):
        self.changed.notify_all()


def test_close_ends_all_waiting():
    window = Window(Link(), 1)
    window.spent = 1
    waiting = [threading.Thread(target=window.wait) for _ in range(3)]

    async def rooms():
        tasks = [asyncio.create_task(window.room()) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
        for thread in waiting:
            thread.start()
        while window._waiting < 3:
            await asyncio.sleep(0)
        window.close()
        await asyncio.gather(*tasks)

    asyncio.run(asyncio.wait_for(rooms(), 20))
    for thread in waiting:
        thread.join(20)
        assert not thread.is_alive()


def test_a_loop_that_was_closed():
    """A model's own loop may end before there is room again."""
    window = Window(Link(), 1)
    window.spent = 1

    async def leave():
        waiting = asyncio.create_task(window.room())
        await asyncio.sleep(0)
        assert not waiting.done()

    asyncio.run(leave())
    window.credit(1)
    window.wait()  # does not wait


def test_ahead_on_the_loop():
    window = Window(Link(), 2)
    for _ in range(2 * LOOP_WINDOWS):
        window.wait(on_loop=True)  # does not wait
        window.spent += 1
    threading.Timer(0.01, lambda: _give(window)).start()
    window.wait(on_loop=True)
    assert window._credited == 1


def _give(window):
    with window._link.changed:
        window.credit(1)
        window._link.wake()
