"""Response senders: in default mode, decoupled, from other threads, dropped."""

from __future__ import annotations

import json
import textwrap

import numpy as np
import pytest
from harness import DONE, RESPONSES, Gate, In, read_responses
from test_execute import code, script, value

FINAL, EMPTY = 1, 2


def test_sender_in_default_mode(tmp_path):
    with script(tmp_path) as m:
        for result in ("None", "[None]"):
            r = m.run(code(f"r.get_response_sender().send(out([5]), flags=1)\nreturn {result}"))
            assert r.outputs[0].array().tolist() == [5] and r.flags == FINAL


def test_sender_and_return_value(tmp_path):
    with script(tmp_path) as m:
        r = m.run(code("r.get_response_sender().send(out([5]), 1)\nreturn [out([6])]"))
        assert r.outputs[0].array().tolist() == [5]
        r = m.run(code("s = r.get_response_sender()\nreturn [out([6])]"))
        assert r.outputs[0].array().tolist() == [6]


def test_sender_that_outlives_execute(tmp_path):
    """The batch ends with its last answer: before, the server would answer for the model."""
    gate = Gate(tmp_path)
    with script(tmp_path) as m:
        text = f"""
            senders = [q.get_response_sender() for q in requests]
            def later():
                {gate.wait}
                for n, s in enumerate(senders[1:]):
                    s.send(out([n]))
                    s.send(flags=1)
            threading.Thread(target=later).start()
            return [out([9])] + [None] * (len(requests) - 1)
            """
        m.peer.execute([{"handle": n, "inputs": [code(text)]} for n in range(3)], 4)
        seen = []
        for _ in range(5):
            kind, _, number, body = m.peer.receive()
            assert (kind, number) == (RESPONSES, 4)
            gate.open()  # execute has returned: its own response is here
            responses, ends = read_responses(body)
            seen += [(r.handle, r.flags, ends) for r in responses]
        assert seen == [(0, 1, False), (1, 0, False), (1, 3, False), (2, 0, False), (2, 3, True)]
        assert m.run(code("return [out([1])]")).flags == FINAL


@pytest.mark.parametrize("end", ["s.send(flags=1)", "pass"], ids=["final", "dropped"])
def test_a_sender_that_ends_just_as_execute_returns(tmp_path, end):
    """The batch does not end before the final mark has left, or the server would answer for the model."""
    gate = Gate(tmp_path)
    with script(tmp_path) as m:
        text = f"""
            s = r.get_response_sender()
            s.send(out([5]))
            answer, s._answer.batch = s._answer, Late(s._answer.batch)
            def later(s):
                {end}
            thread = threading.Thread(target=later, args=(s,))
            r._sender = None
            del s
            thread.start()
            while not answer.closed:
                time.sleep(0.001)
            return None
            """
        late = f"""
            class Late:
                def __init__(self, batch):
                    self.batch, self.tables, self.number = batch, batch.tables, batch.number
                def answered(self, *args, **kw):
                    {gate.wait}
                    self.batch.answered(*args, **kw)
            """
        m.peer.execute([{"handle": 1, "inputs": [code(textwrap.dedent(late) + textwrap.dedent(text))]}])
        m.peer.execute([{"handle": 2, "inputs": [code("return [out([6])]")]}], 2)
        seen = []
        while (1, True) not in seen or (2, True) not in seen:
            kind, _, number, body = m.peer.receive()
            assert kind == RESPONSES, (seen, body)
            responses, ends = read_responses(body)
            seen += [(r.handle, r.flags, ends) for r in responses] + [(number, ends)]
            if (2, True) in seen:  # execute of the first batch has returned, and its end has been looked at
                gate.open()
        assert [r for r in seen if len(r) == 3] == [(1, 0, False), (2, 1, True), (1, 3, True)]


ERRORS = {
    "s.send(out([1]), 4)": "Unable to send response. Unsupported flag provided.",
    "s.send()": "Inference Response object must be provided when the response flags is set to zero.",
    "s.send(out([1]), 1); s.send(flags=1)": "Unable to send response. Response sender has been closed.",
    "s.send(out([1]), 1); s.send(out([1]))":
        "Unable to send response. Non-decoupled model cannot send more than one response.",
    "s.send(out([1])); s.send(out([1]))":
        "Unable to send response. Non-decoupled model cannot send more than one response.",
    "s.send(flags=1)": "Unable to send response. Non-decoupled model cannot send complete final before sending a response.",
}  # fmt: skip


@pytest.mark.parametrize("text", ERRORS)
def test_misuse(tmp_path, text):
    with script(tmp_path) as m:
        call = code(f"s = r.get_response_sender()\n{text}")
        _, error = m.peer.run([{"handle": 1, "inputs": [call]}])
        assert error[0].startswith(f"TritonModelException: {ERRORS[text]}\n\nAt:\n")


def test_dropped_sender_answers_with_an_error(tmp_path):
    with script(tmp_path) as m:
        r = m.run(code("r.get_response_sender()\nreturn None"))
        assert r.code == 1 and "without a final response" in r.message


def test_a_sender_that_is_dropped_while_somebody_sends(tmp_path):
    """Its error does not wait for the next frame of the worker."""
    gate = Gate(tmp_path)
    with script(tmp_path) as m:
        text = f"""
            senders = [r.get_response_sender()]
            r._sender = None
            def later():
                {gate.wait}
                with senders[0]._answer.batch.tables.link.writer.lock:
                    senders.clear()
            threading.Thread(target=later).start()
            return None
            """
        m.peer.execute([{"handle": 1, "inputs": [code(text)]}])
        m.peer.execute([{"handle": 2, "inputs": [code("return [out([6])]")]}], 2)
        assert m.peer.receive()[2] == 2
        gate.open()  # the worker waits for frames, or is about to
        kind, _, number, body = m.peer.receive()
        assert (kind, number) == (RESPONSES, 1)
        (response,), ends = read_responses(body)
        assert ends and "without a final response" in response.message


def stream(m, number=1):
    """(handle, flags, output values or error text) of everything until all handles are final, and DONE's error."""
    seen, done = [], "missing"
    while True:
        kind, _, back, body = m.peer.receive()
        assert back == number
        if kind == DONE:
            assert done == "missing"
            done = body
        else:
            assert kind == RESPONSES
            responses, ends = read_responses(body, m.peer.memory)
            assert not ends
            for r in responses:
                seen.append((r.handle, r.flags, r.message or [o.array().tolist() for o in r.outputs]))
        if done != "missing" and sum(bool(f & FINAL) for _, f, _ in seen) == m.expected:
            return seen, done


def decoupled(tmp_path, expected=1):
    m = script(tmp_path, decoupled=True)
    m.expected = expected
    return m


def test_decoupled(tmp_path):
    with decoupled(tmp_path, 2) as m:
        text = """
            for k, q in enumerate(requests):
                s = q.get_response_sender()
                for n in range(k + 1):
                    s.send(out([n]))
                s.send(flags=1)
            """
        m.peer.execute([{"handle": n, "inputs": [code(text)]} for n in range(2)])
        seen, done = stream(m)
        assert seen == [(0, 0, [[0]]), (0, 3, []), (1, 0, [[0]]), (1, 0, [[1]]), (1, 3, [])] and done == b""


def test_decoupled_from_threads_after_execute(tmp_path):
    gate = Gate(tmp_path)
    with decoupled(tmp_path, 3) as m:
        text = f"""
            def later(s):
                {gate.wait}
                s.send(out([1]))
                s.send(InferenceResponse(error=TritonError("step failed")))
                s.send(out(np.zeros(5000)), 1)
            for q in requests:
                threading.Thread(target=later, args=(q.get_response_sender(),)).start()
            """
        m.peer.execute([{"handle": n, "inputs": [code(text)]} for n in range(3)])
        kind, _, _, body = m.peer.receive()
        assert (kind, body) == (DONE, b"")  # the instance can take the next batch
        gate.open()
        m.peer.execute([{"handle": 7, "inputs": [code("r.get_response_sender().send(out([2]), 1)")]}], 1)
        m.expected = 4
        seen, _ = stream(m)
        assert (7, 1, [[2]]) in seen
        for n in range(3):
            assert [(f, v) for h, f, v in seen if h == n] == [(0, [[1]]), (0, "step failed"), (1, [[0.0] * 5000])]


def test_decoupled_exception(tmp_path):
    with decoupled(tmp_path) as m:
        m.peer.execute(
            [
                {
                    "handle": 1,
                    "inputs": [
                        code("kept.append(r.get_response_sender())\nkept[0].send(out([1]))\nraise ValueError('no')")
                    ],
                }
            ]
        )
        m.expected = 0
        seen, done = stream(m)
        assert seen == [(1, 0, [[1]])] and b"ValueError: no" in done
        # The server has answered; the sender is closed.
        m.expected = 1
        again = "try:\n    kept[0].send(out([2]))\nexcept TritonModelException as e:\n    r.get_response_sender().send(text(str(e)), 1)"
        m.peer.execute([{"handle": 2, "inputs": [code(again)]}])
        seen, _ = stream(m)
        assert json.loads(seen[0][2][0][0]) == "Unable to send response. Response sender has been closed."


def test_decoupled_result_must_be_none(tmp_path):
    with decoupled(tmp_path, 0) as m:
        m.peer.execute([{"handle": 1, "inputs": [code("return [out([1])]")]}])
        _, done = stream(m)
        text = b"Python model 'm_0_0' is using the decoupled mode and the execute function must return None."
        assert done[8:] == text


def test_decoupled_request_that_is_dropped(tmp_path):
    with decoupled(tmp_path, 2) as m:
        m.peer.execute(
            [
                {"handle": n, "inputs": [code("if len(kept) == 0: requests[1].get_response_sender().send(out([1]))")]}
                for n in range(2)
            ]
        )
        seen, _ = stream(m)
        assert seen[0] == (1, 0, [[1]]) and (1, 3, []) in seen
        assert any(h == 0 and f == 1 and "without a final response" in v for h, f, v in seen)


def test_decoupled_coroutines_run_on_in_the_background(tmp_path):
    source = """
        import asyncio
        import numpy as np
        import triton_python_backend_utils as pb_utils
        gate = None
        class TritonPythonModel:
            async def execute(self, requests):
                global gate
                s = requests[0].get_response_sender()
                if int(requests[0].inputs()[0].as_numpy()[0]) == 0:
                    gate = asyncio.Event()
                    await gate.wait()
                elif gate is not None:
                    gate.set()
                s.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", requests[0].inputs()[0].as_numpy())]), 1)
    """
    from harness import Model

    with Model(tmp_path, source, decoupled=True) as m:
        m.peer.execute([{"handle": 1, "inputs": [In(0, np.array([0]))]}], 1)
        m.peer.execute([{"handle": 2, "inputs": [In(0, np.array([1]))]}], 2)
        handles = []
        while len(handles) < 2:
            kind, _, _, body = m.peer.receive()
            if kind == RESPONSES:
                handles += [r.handle for r in read_responses(body)[0]]
        assert handles == [2, 1]


def test_cancelled_sender(tmp_path):
    with decoupled(tmp_path) as m:
        text = """
            s = r.get_response_sender()
            def later():
                s.send(out([0]))
                while not s.is_cancelled():
                    time.sleep(0.001)
                s.send(text("cancelled"), 1)
            threading.Thread(target=later).start()
            """
        m.peer.execute([{"handle": 3, "inputs": [code(text)]}])
        kinds = {m.peer.receive()[0] for _ in range(2)}
        assert kinds == {DONE, RESPONSES}
        m.peer.send(11, number=3)
        _, _, _, body = m.peer.receive()
        (r,), _ = read_responses(body)
        assert value(r) == "cancelled"
