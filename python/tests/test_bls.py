"""Calls that a model makes into the server: inference, model control, metrics."""

from __future__ import annotations

import base64
import json
import socket
import struct
import threading

import numpy as np
import pytest
from harness import (
    BYTES,
    CANCEL,
    CONTROL,
    DTYPES,
    FAILED,
    INFER,
    INFER_RESPONSES,
    METRIC,
    NUMBERS,
    READY,
    RELEASE,
    Ended,
    In,
    Model,
    header,
    pack_bytes,
    pad,
    unpack_bytes,
)
from test_execute import code, script, value


def read_infer(body, memory):
    """An INFER body: decoupled, alone, model, version, wanted, and the request's fields and inputs."""
    decoupled, hints, n_model, n_wanted, version = struct.unpack_from("<BBHIq", body)
    assert hints < 4
    pos = 16
    model, pos = body[pos : pos + n_model].decode(), pos + n_model
    wanted = []
    for _ in range(n_wanted):
        (n,) = struct.unpack_from("<H", body, pos)
        wanted.append(body[pos + 2 : pos + 2 + n].decode())
        pos += 2 + n
    pos += -pos % 8
    head = struct.unpack_from("<QQQQIIHHHHII", body, pos)
    pos += 56
    texts = []
    for n in (head[8], head[9], head[10], head[11]):
        texts.append(body[pos : pos + n].decode())
        pos += n
    pos += -pos % 8
    inputs, blocks = {}, []
    for _ in range(head[6]):
        pos += -pos % 8
        index, number, ndim, segment, offset, length = struct.unpack_from("<HBBIQQ", body, pos)
        shape = struct.unpack_from(f"<{ndim}q", body, pos + 24)
        pos += 24 + 8 * ndim
        assert index == 0xFFFF
        (n,) = struct.unpack_from("<H", body, pos)
        name, pos = body[pos + 2 : pos + 2 + n].decode(), pos + 2 + n
        if segment == 0xFFFFFFFF:
            data = body[offset : offset + length]
        else:
            data = bytes(memory[segment][offset : offset + length])
            blocks.append((segment, offset))
        if number == BYTES:
            inputs[name] = unpack_bytes(data)
        else:
            inputs[name] = np.frombuffer(data, DTYPES[number]).reshape(shape)
    return {
        "decoupled": bool(decoupled), "alone": bool(hints & 1), "device": bool(hints & 2), "model": model,
        "version": version, "wanted": wanted, "correlation": head[1],
        "timeout": head[2], "flags": head[4], "id": texts[0], "text": texts[1], "parameters": texts[2],
        "trace": texts[3], "inputs": inputs, "blocks": blocks,
    }  # fmt: skip


def responses_body(*responses):
    """(flags, outputs) or (flags, code, message); an output is (name, array) or (name, array, (segment, offset))."""
    body, patches = bytearray(struct.pack("<II", len(responses), 0)), []
    for flags, *rest in responses:
        outputs, error, message = (rest[0], 0xFF, b"") if len(rest) == 1 else ([], rest[0], rest[1].encode())
        body += struct.pack("<QIBBHII", 0, flags, error, 0, len(outputs), len(message), 0) + message
        body += b"\0" * (-len(body) % 8)
        for name, array, *at in outputs:
            body += b"\0" * (-len(body) % 8)
            data = pack_bytes(list(array)) if array.dtype == object else array.tobytes()
            number = BYTES if array.dtype == object else NUMBERS[array.dtype]
            segment, offset = at[0] if at else (0xFFFFFFFF, 0)
            if not at:
                patches.append((len(body) + 8, data))
            body += struct.pack("<HBBIQQ", 0xFFFF, number, array.ndim, segment, offset, len(data))
            body += struct.pack(f"<{array.ndim}q", *array.shape) + struct.pack("<H", len(name)) + name.encode()
    for at, data in patches:
        body += b"\0" * (-len(body) % 8)
        struct.pack_into("<Q", body, at, len(body))
        body += data
    return pad(bytes(body))


def serve(m, text, answer, number=1):
    """Runs a script; answer(kind, number, body) plays the server for its calls. Returns the only response's value."""
    m.peer.execute([{"handle": 1, "inputs": [code(text)]}], number)
    keep = m.peer.receive

    def receive():
        while True:
            kind, instance, call, body = keep()
            if kind in (INFER, METRIC, CONTROL, CANCEL):
                answer(kind, call, body)
            else:
                return kind, instance, call, body

    m.peer.receive = receive
    try:
        (response,), error = m.peer.results(number)
    finally:
        m.peer.receive = keep
    assert error is None, error
    return value(response)


CALL = """
    q = pb_utils.InferenceRequest(model_name="other", requested_output_names=["X"],
        inputs=[pb_utils.Tensor("A", np.arange(%s, dtype=np.int32))]%s)
    """


def triple(m, seen):
    def answer(kind, call, body):
        assert kind == INFER
        got = read_infer(body, m.peer.memory)
        seen.append(got)
        m.peer.send(INFER_RESPONSES, responses_body((1, [("X", got["inputs"]["A"] * 3)])), call)
        if got["blocks"]:
            m.peer.release(got["blocks"])

    return answer


def test_exec(tmp_path):
    with script(tmp_path) as m:
        seen = []
        extra = ", request_id='i', correlation_id='seq', flags=3, timeout=9, model_version=2, parameters={'p': 1}, trace=r.trace()"
        got = serve(
            m,
            CALL % (4, extra) + "\n    return [text([t.as_numpy().tolist() for t in q.exec().output_tensors()])]",
            triple(m, seen),
        )
        assert got == [[0, 3, 6, 9]]
        (call,) = seen
        assert call["inputs"].pop("A").tolist() == [0, 1, 2, 3]
        assert call == {
            "decoupled": False, "alone": True, "device": False, "model": "other", "version": 2, "wanted": ["X"],
            "correlation": 0, "timeout": 9,
            "flags": 3, "id": "i", "text": "seq", "parameters": '{"p": 1}', "trace": "", "inputs": {}, "blocks": [],
        }  # fmt: skip


def test_a_call_beside_other_threads_is_not_alone(tmp_path):
    with script(tmp_path) as m:
        seen = []
        text = (
            CALL % (1, "")
            + """
    gate = threading.Event()
    beside = threading.Thread(target=gate.wait)
    q.exec()
    beside.start()
    q.exec()
    gate.set()
    beside.join()
    q.exec()
    return [text(list(q.exec(decoupled=True)).__len__())]"""
        )
        assert serve(m, text, triple(m, seen)) == 1
        assert [call["alone"] for call in seen] == [True, False, True, False]


def test_large_tensors(tmp_path):
    with script(tmp_path) as m:
        segment = m.peer.segment(0, 1 << 20)
        released = []

        def answer(kind, call, body):
            got = read_infer(body, m.peer.memory)
            array = got["inputs"]["A"] * 3
            m.peer.memory[segment][4096 : 4096 + array.nbytes] = array.tobytes()
            released.extend(got["blocks"])
            m.peer.send(INFER_RESPONSES, responses_body((1, [("X", array, (segment, 4096))])), call)
            m.peer.release(got["blocks"])

        text = (
            CALL % (50000, "")
            + "\n    a = q.exec().output_tensors()[0].as_numpy()\n    return [text([a.size, int(a[-1])])]"
        )
        assert serve(m, text, answer) == [50000, 149997]
        assert len(released) == 1
        assert value(m.run(code("return [text(1)]"))) == 1
        assert m.peer.released == [(segment, 4096)]


def test_passed_on(tmp_path):
    """A large tensor that is passed on as it came lies where it was; one whose data was asked for is copied."""
    x = np.arange(50000, dtype=np.int32)
    text = """
    i = pb_utils.get_input_tensor_by_name(requests[0], "A")
    %s
    q = pb_utils.InferenceRequest(model_name="other", requested_output_names=["OUT"], inputs=[i])
    a = q.exec().output_tensors()[0]
    %s
    return [pb_utils.InferenceResponse([a, pb_utils.Tensor("TWO", np.array([int(i.as_numpy().sum()), i.as_numpy().flags.writeable]))])]
    """
    for number, (before, after, same) in enumerate(
        (("", "", (True, True)), ("i.as_numpy()", "", (False, True)), ("", "a.as_numpy()", (True, False)))
    ):
        with script(tmp_path / str(number)) as m:
            given, answers = m.peer.segment(0, 1 << 20), m.peer.segment(2, 1 << 20)
            seen = []

            def answer(kind, call, body, m=m, answers=answers, seen=seen):
                got = read_infer(body, m.peer.memory)
                seen.append((got["blocks"], got["inputs"]["A"].tolist()))
                m.peer.memory[answers][4096 : 4096 + x.nbytes] = (x * 3).tobytes()
                m.peer.send(INFER_RESPONSES, responses_body((1, [("OUT", x * 3, (answers, 4096))])), call)

            m.peer.memory[given][64 : 64 + x.nbytes] = x.tobytes()
            m.peer.execute(
                [{"handle": 1, "inputs": [code(text % (before, after)), In(1, x, at=(given, 64), own=True)]}]
            )
            keep = m.peer.receive

            def receive(keep=keep, answer=answer):
                while True:
                    kind, instance, call, body = keep()
                    if kind != INFER:
                        return kind, instance, call, body
                    answer(kind, call, body)

            m.peer.receive = receive
            (response,), error = m.peer.results()
            m.peer.receive = keep
            assert error is None, error
            assert seen[0][1] == x.tolist()
            assert (seen[0][0] == [(given, 64)]) is same[0]
            out, also = response.outputs
            assert out.array().tolist() == (x * 3).tolist()
            assert (out.at == (answers, 4096)) is same[1]
            # Whoever asks for the data afterwards writes to a copy.
            assert also.array().tolist() == [int(x.sum()), 1]
            assert not same[1] or (answers, 4096) not in m.peer.released
            assert value(m.run(code("return [text(1)]"))) == 1
            assert m.peer.released.count((answers, 4096)) == 1


def test_blocks_are_released_once(tmp_path):
    """Wherever in a segment they lie: what makes a response one to remember is not looked for in shared memory."""
    with script(tmp_path) as m:
        segment = m.peer.segment(0, 1 << 16)
        m.peer.memory[segment][:128] = np.arange(32, dtype=np.int32).tobytes()
        x, y = np.arange(16, dtype=np.int32), np.arange(16, 32, dtype=np.int32)
        for outputs, blocks in (
            ([("X", x, (segment, 0))], [(segment, 0)]),
            ([("X", x, (segment, 0)), ("Y", y)], [(segment, 0)]),
            ([("X", x), ("Y", y, (segment, 64))], [(segment, 64)]),
        ):

            def answer(kind, call, body, outputs=outputs):
                m.peer.send(INFER_RESPONSES, responses_body((1, outputs)), call)

            m.peer.released.clear()
            text = CALL % (1, "") + "\n    return [text([int(t.as_numpy().sum()) for t in q.exec().output_tensors()])]"
            assert serve(m, text, answer) == [120, 376][: len(outputs)]
            assert value(m.run(code("return [text(1)]"))) == 1
            assert m.peer.released == blocks


def test_errors_are_responses(tmp_path):
    with script(tmp_path) as m:

        def answer(kind, call, body):
            m.peer.send(INFER_RESPONSES, responses_body((1, 2, "no such model")), call)

        got = serve(
            m,
            CALL % (1, "")
            + "\n    e = q.exec()\n    return [text([e.has_error(), e.error().message(), e.error().code(), e.output_tensors()])]",
            answer,
        )
        assert got == [True, "no such model", 2, []]


def test_decoupled(tmp_path):
    with script(tmp_path) as m:
        cancelled = []

        def answer(kind, call, body):
            if kind == CANCEL:
                cancelled.append(call)
                return
            assert read_infer(body, m.peer.memory)["decoupled"]
            for n in range(2):
                m.peer.send(INFER_RESPONSES, responses_body((0, [("X", np.array([n]))])), call)
            m.peer.send(INFER_RESPONSES, responses_body((0, 1, "step failed"), (3, [])), call)

        text = (
            CALL % (1, "")
            + """
    return [text([x.error().message() if x.has_error() else [t.as_numpy().tolist() for t in x.output_tensors()]
        for x in q.exec(decoupled=True)])]"""
        )
        assert serve(m, text, answer) == [[[0]], [[1]], "step failed", []]
        assert cancelled == []


def test_decoupled_left_early_is_cancelled(tmp_path):
    with script(tmp_path) as m:

        def answer(kind, call, body):
            if kind == INFER:
                m.peer.send(INFER_RESPONSES, responses_body((0, [("X", np.array([7]))])), call)
            else:
                seen.append((kind, call))
                m.peer.send(INFER_RESPONSES, responses_body((0, [("X", np.array([8]))]), (3, [])), call)

        seen = []
        text = (
            CALL % (1, "")
            + "\n    for x in q.exec(decoupled=True):\n        break\n    return [text(x.output_tensors()[0].as_numpy().tolist())]"
        )
        assert serve(m, text, answer) == [7]
        assert seen == [(CANCEL, seen[0][1])]
        assert value(m.run(code("return [text(1)]"))) == 1


ASYNC = """
    import asyncio, json
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        async def execute(self, requests):
            calls = [pb_utils.InferenceRequest(model_name="other", requested_output_names=["X"],
                                               inputs=[pb_utils.Tensor("A", np.array([n], np.int32))]) for n in range(5)]
            sent = [c.async_exec() for c in calls]  # futures: the calls are on their way
            done, _ = await asyncio.wait(sent)
            assert done == set(sent)
            found = [f.result() for f in sent]
            values = [int(f.output_tensors()[0].as_numpy()[0]) for f in found]
            stream = await calls[0].async_exec(decoupled=True)
            values.append([len(x.output_tensors()) for x in stream])
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([json.dumps(values)], object))]) for _ in requests]
"""


def test_coroutines(tmp_path):
    """Their calls are in flight together: the server answers none before it has them all."""
    with Model(tmp_path, ASYNC, inputs=("CODE",)) as m:
        for number in range(3):
            waiting = []

            def answer(kind, call, body, waiting=waiting):
                got = read_infer(body, m.peer.memory)
                if got["decoupled"]:
                    m.peer.send(INFER_RESPONSES, responses_body((0, [("X", np.zeros(1))])), call)
                    m.peer.send(INFER_RESPONSES, responses_body((3, [])), call)
                    return
                waiting.append((call, got["inputs"]["A"] + 10))
                if len(waiting) == 5:
                    for call, array in reversed(waiting):
                        m.peer.send(INFER_RESPONSES, responses_body((1, [("X", array)])), call)

            assert serve(m, "", answer, number) == [10, 11, 12, 13, 14, [1, 0]]


AFTER = """
    import asyncio, json
    import numpy as np
    import triton_python_backend_utils as pb_utils

    def call(number):
        tensor = pb_utils.Tensor("A", np.array([number], np.int32))
        return pb_utils.InferenceRequest(model_name="other", requested_output_names=["X"], inputs=[tensor])

    class TritonPythonModel:
        async def execute(self, requests):
            waiting = [call(n).async_exec() for n in range(3)] + [call(9).async_exec(decoupled=True)]
            found = [await f for f in waiting]
            found = found[:3] + list(found[3])
            found.append(await call(4).async_exec())
            found.append(await asyncio.gather(call(5).async_exec(), call(6).async_exec()))
            found[-1:] = found[-1]
            found += list(await call(7).async_exec(decoupled=True))
            found.append(await asyncio.get_running_loop().run_in_executor(None, call(8).exec))
            texts = [x.error().message() if x.has_error() else "" for x in found]
            try:
                pb_utils.load_model("other")
            except pb_utils.TritonModelException as error:
                texts.append(str(error))
            print(json.dumps(texts), flush=True)
            return [pb_utils.InferenceResponse([]) for _ in requests]
"""


@pytest.mark.parametrize("wrong,said", [
    (header(99), "frame: unknown kind 99 at offset 3"),
    (header(INFER_RESPONSES, b"\1\0\0\0", 1), "infer responses: response 0: "),
    (header(RELEASE, b"\1", 0), "release: body of 1 bytes"),
    (header(READY, b"no", 3), "frame: body is not JSON: "),
    (b"", "The server is gone."),
])  # fmt: skip
def test_calls_end_when_the_connection_is_broken(tmp_path, wrong, said):
    """Those that wait and those that come later, and each says why, also while the server lives."""
    with Model(tmp_path, AFTER, inputs=("CODE",)) as m:
        m.peer.execute([{"handle": 1, "inputs": [code("")]}])
        assert [m.peer.receive()[0] for _ in range(4)] == [INFER] * 4
        if wrong:
            m.peer.control.sendall(wrong)
        else:
            m.peer.control.shutdown(socket.SHUT_WR)
        assert m.worker.ended() == bool(wrong)
        first, _, rest = m.worker.text().partition("\n")
        texts = json.loads(first)
        assert len(texts) == 10 and all(said in text for text in texts), texts
        assert f"worker protocol: {said}" in rest or not wrong


def test_cancelled_futures_cancel_their_calls(tmp_path):
    with script(tmp_path) as m:
        sent, cancelled = [], []

        def answer(kind, call, body):
            if kind == CANCEL:
                cancelled.append(call)
                return
            sent.append(call)
            if len(sent) == 3:
                for call in sent:  # what nobody waits for is dropped
                    m.peer.send(INFER_RESPONSES, responses_body((1, [("X", np.array([call]))])), call)

        text = (
            CALL % (1, "")
            + """
    import asyncio
    async def calls():
        for decoupled in (False, True):
            call = q.async_exec(decoupled)
            call.cancel()
            await asyncio.sleep(0)
        return (await q.async_exec()).output_tensors()[0].as_numpy().tolist()
    return [text(asyncio.run(calls()))]"""
        )
        assert serve(m, text, answer) == [sent[2]]
        assert cancelled == sent[:2]


def test_a_call_is_given_up_while_its_answer_is_read(tmp_path):
    """The garbage collector may drop an iterator inside of anything, also between two steps of who reads for all."""
    with script(tmp_path) as m:
        sent = []

        def answer(kind, call, body):
            if kind == INFER:
                sent.append(call)
            if len(sent) == 2:
                for call in sent:
                    m.peer.send(INFER_RESPONSES, responses_body((1, [("X", np.array([call]))])), call)

        text = (
            CALL % (1, "")
            + """
    from neso_runtime import bls
    read, left = bls.decode, [q.exec(decoupled=True)]
    def decode(*args):
        left.clear()
        return read(*args)
    bls.decode = decode
    return [text(q.exec().output_tensors()[0].as_numpy().tolist())]"""
        )
        assert serve(m, text, answer) == [sent[1]]


def test_calls_from_threads(tmp_path):
    with script(tmp_path) as m:
        text = """
            found = []
            def one(n):
                q = InferenceRequest(model_name="o", requested_output_names=["X"], inputs=[Tensor("A", np.array([n], np.int32))])
                for _ in range(20):
                    found.append(int(q.exec().output_tensors()[0].as_numpy()[0]) == 3 * n)
            threads = [threading.Thread(target=one, args=(n,)) for n in range(6)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            return [text([len(found), all(found)])]
            """
        assert serve(m, text, triple(m, [])) == [120, True]


def test_call_while_further_batches_arrive(tmp_path):
    with script(tmp_path) as m:
        m.peer.execute(
            [
                {
                    "handle": 1,
                    "inputs": [
                        code(CALL % (2, "") + "\n    return [text(q.exec().output_tensors()[0].as_numpy().tolist())]")
                    ],
                }
            ],
            1,
        )
        kind, _, call, body = m.peer.receive()
        assert kind == INFER
        m.peer.execute([{"handle": 2, "inputs": [code("return [text('second')]")]}], 2)
        m.peer.send(INFER_RESPONSES, responses_body((1, [("X", read_infer(body, {})["inputs"]["A"])])), call)
        assert value(m.peer.results(1)[0][0]) == [0, 1]
        assert value(m.peer.results(2)[0][0]) == "second"


def test_call_outside_of_execute(tmp_path):
    source = """
        import triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            def initialize(self, args):
                pb_utils.InferenceRequest(model_name="o", requested_output_names=[], inputs=[]).exec()
            def execute(self, requests):
                return []
    """
    with Model(tmp_path, source, start=False) as m:
        m.peer.call(2, m.load)
        with pytest.raises(
            RuntimeError, match="TritonModelException: BLS is only supported during the 'execute' function"
        ):
            m.peer.call(3, m.init)


def test_call_when_the_server_ends(tmp_path):
    with script(tmp_path) as m:
        m.peer.execute(
            [
                {
                    "handle": 1,
                    "inputs": [
                        code(
                            CALL % (1, "")
                            + "\n    e = q.exec()\n    print(e.error().message(), flush=True)\n    return [out([1])]"
                        )
                    ],
                }
            ]
        )
        assert m.peer.receive()[0] == INFER
        m.peer.close()
        assert m.worker.ended() == 0
        assert m.worker.text() == "The server is gone.\n"


def test_model_control(tmp_path):
    with script(tmp_path) as m:
        seen = []

        def answer(kind, call, body):
            assert kind == CONTROL
            order = json.loads(body)
            seen.append(order)
            if order["model"] == "bad":
                m.peer.send(FAILED, {"message": "it is bad", "traceback": ""}, call)
            else:
                m.peer.send(READY, {"ready": True} if order["op"] == "is_ready" else {}, call)

        text = """
            pb_utils.load_model("a", config="{}", files={"file:1/x": b"\\x00\\xff"})
            pb_utils.load_model(model_name="b")
            pb_utils.unload_model("a", True)
            found = [pb_utils.is_model_ready("a"), pb_utils.is_model_ready("a", "3")]
            for f, args in [(pb_utils.load_model, ("bad",)), (pb_utils.unload_model, ("bad",)), (pb_utils.is_model_ready, ("a", "x")),
                            (pb_utils.load_model, ("a", "", {"file:1/x": 5})), (pb_utils.load_model, ("a", "", [1]))]:
                try:
                    f(*args)
                except (TypeError, pb_utils.TritonModelException) as e:
                    found.append(str(e))
            return [text(found)]
            """
        wrong = "failed to load model 'a', files should be a dictionary of file paths and file contents"
        assert serve(m, text, answer) == [
            True, True, "Failed to load model: it is bad", "Failed to unload model: it is bad",
            ("Failed to check model readiness: failed to get model version from specified version string 'x' "
                "(details: stol), version should be an integral value > 0"),
            "files must have str as keys and bytes as values, found <class 'str'>: <class 'int'>", wrong,
        ]  # fmt: skip
        assert seen[:5] == [
            {"op": "load", "model": "a", "config": "{}", "files": {"file:1/x": base64.b64encode(b"\0\xff").decode()}},
            {"op": "load", "model": "b"},
            {"op": "unload", "model": "a", "dependents": True},
            {"op": "is_ready", "model": "a", "version": -1},
            {"op": "is_ready", "model": "a", "version": 3},
        ]


def test_metrics(tmp_path):
    with script(tmp_path) as m:
        seen = []

        def answer(kind, call, body):
            order = json.loads(body)
            seen.append(order)
            if order["op"] == "family" and order["name"] == "taken":
                text = "Family name already exists with different type: 'taken' is a gauge"
                m.peer.send(FAILED, {"message": text, "traceback": ""}, call)
            elif order["op"] in ("family", "create"):
                m.peer.send(READY, {"metric" if order["op"] == "create" else "family": len(seen)}, call)
            elif order["op"] == "set" and order["metric"] == 2:
                m.peer.send(FAILED, {"message": "a counter cannot be set", "traceback": ""}, call)
            else:
                m.peer.send(READY, {"value": 4.5} if order["op"] == "value" else {}, call)

        text = """
            F = pb_utils.MetricFamily
            family = F(name="requests_total", description="d", kind=F.COUNTER)
            metric = family.Metric(labels={"a": "b"})
            metric.increment(2)
            found = [metric.value()]
            def refused(f, *a, **k):
                try:
                    f(*a, **k)
                except pb_utils.TritonModelException as e:
                    found.append(str(e))
            refused(metric.set, 1)
            refused(family.Metric, labels=["a"])
            refused(family.Metric, labels={}, buckets=3)
            refused(family.Metric, labels={}, buckets=[1.0])
            histogram = F("h", "d", F.HISTOGRAM)
            refused(histogram.Metric, labels={})
            histogram.Metric(labels={}, buckets=[1, 2]).observe(1.5)
            F("g", "d", F.GAUGE).Metric()
            refused(F, "taken", "d", F.COUNTER)
            refused(family.Metric, {"a": 1})
            del family
            refused(metric.increment, 1)
            return [text(found)]
            """
        assert serve(m, text, answer) == [
            4.5, "Failed to set metric value: a counter cannot be set",
            "Failed to create metric. Labels must be a dictionary.", "Failed to create metric. Buckets must be a list.",
            "Failed to create metric. Unexpected buckets found.", "Failed to create metric. Missing required buckets.",
            "Error when creating MetricFamily: Family name already exists with different type: 'taken' is a gauge",
            "Error when creating Metric: Labels must be texts, found 'a': 1.",
            "Failed to increment metric value: Invalid metric operation as the corresponding 'MetricFamily' has "
                "been deleted. The 'MetricFamily' object should be "
            "deleted AFTER its corresponding 'Metric' objects have been deleted.",
        ]  # fmt: skip
        assert seen[:3] == [
            {"op": "family", "name": "requests_total", "description": "d", "kind": "counter"},
            {"op": "create", "family": 1, "labels": {"a": "b"}},
            {"op": "increment", "metric": 2, "value": 2.0},
        ]
        # A metric lives as long as its family.
        assert [(o["op"], o.get("family")) for o in seen[3:]] == [
            ("value", None),
            ("set", None),
            ("family", None),
            ("create", 6),
            ("observe", None),
            ("family", None),
            ("create", 9),
            ("release", 9),
            ("family", None),
            ("release", 1),
            ("release", 6),
        ]
        assert seen[6]["buckets"] == [1.0, 2.0]


assert threading and Ended and RELEASE


class Sink:
    """A socket that swallows."""

    def sendall(self, data):
        self.sent = data


def floats(*values):
    return np.array(values, np.float32)


def strings(*values):
    return np.array(values, dtype=object)


# What requests have beside inputs, and the inputs.
ASKED = [
    ({}, {"A": floats(1, 2)}),
    ({}, {"A": floats(3, 4)}),
    ({}, {"A": floats(5)}),
    ({}, {"B": floats(5)}),
    ({}, {"A": floats(1, 2), "B": np.array([[1], [2], [3]], np.uint8)}),
    ({}, {"A": floats(7, 8), "B": np.array([[4], [5], [6]], np.uint8)}),
    ({}, {"A": strings(b"a", b"bcd")}),
    ({}, {"A": strings(b"bcd", b"a")}),
    ({}, {"A": strings(b"long" * 90, b"")}),
    ({}, {"A": floats(1, 2).reshape(2, 1)}),
    ({}, {"A": floats()}),
    ({}, {}),
    ({"requested_output_names": ["X"]}, {"A": floats(1, 2)}),
    ({"requested_output_names": ["X", "YZ"]}, {"A": floats(1, 2)}),
    ({"model_version": 3}, {"A": floats(1, 2)}),
    ({"request_id": "7"}, {"A": floats(1, 2)}),
    ({"correlation_id": 7, "flags": 1}, {"A": floats(1, 2)}),
    ({"correlation_id": "seven"}, {"A": floats(1, 2)}),
    ({"timeout": 5}, {"A": floats(1, 2)}),
    ({"priority": 2}, {"A": floats(1, 2)}),
    ({"parameters": {"p": 1}}, {"A": floats(1, 2)}),
]


def test_remembered_requests_are_the_same():
    """A frame whose beginning is remembered is that which is made from nothing."""
    from neso_runtime import bls, inferbody
    from neso_runtime.frames import frame
    from neso_runtime.request import InferenceRequest
    from neso_runtime.tensor import Tensor
    from neso_worker.aside import Aside
    from neso_worker.worker import Worker

    worker = Worker(None, Sink(), Aside())
    short = 0
    for _ in range(3):
        for number, (fields, inputs) in enumerate(ASKED):
            for alone in (False, True):
                tensors = [Tensor(name, array) for name, array in inputs.items()]
                request = InferenceRequest(
                    model_name="other", inputs=tensors, **{"requested_output_names": [], **fields}
                )
                made = worker.bls._short(request, number, alone)
                if made is not None:
                    short += 1
                    assert made == frame(
                        INFER, 0, number, inferbody.encode(worker.connection, request, False, alone)
                    ), (
                        fields,
                        inputs,
                    )
    assert short == 3 * 2 * (len(ASKED) - 6)
    large = InferenceRequest("", 0, [Tensor("A", np.zeros(9000, np.uint8))], [], "other")
    assert worker.bls._short(large, 1, True) is None
    for size in range(2 * bls.MAX_HEADS):
        worker.bls._short(InferenceRequest("", 0, [Tensor("A", np.zeros(size, np.uint8))], [], "m"), 1, True)
    assert len(worker.bls._heads) <= bls.MAX_HEADS
    remembered = len(worker.bls._heads)
    long = InferenceRequest("", 0, [Tensor("A" * bls.MAX_BLOCKS, np.zeros(4, np.uint8))], [], "m")
    assert worker.bls._short(long, 1, True) is not None and len(worker.bls._heads) == remembered


ANSWERS = [
    responses_body((1, [("X", floats(1, 2))])),
    responses_body((1, [("X", floats(3, 4))])),
    responses_body((1, [("X", floats(3, 4)), ("Y", strings(b"a", b"bc"))])),
    responses_body((1, [("X", floats(5, 6)), ("Y", strings(b"bc", b"a"))])),
    responses_body((1, [("X", strings(b"a"))])),
    responses_body((1, [("X", np.array([[1], [2]], np.uint8))])),
    responses_body((0, [("X", floats(1, 2))])),
    responses_body((1, [("X", floats(1, 2))]), (1, [("X", floats(3, 4))])),
    responses_body(*[(0, [("X", floats(1, 2))])] * 257),
    responses_body((1, 3, "no")),
    responses_body((1, 3, "a text that is long enough to look like the entry of a tensor, or of two")),
]


def test_remembered_responses_are_the_same():
    """A response whose blocks are remembered is that which is decoded."""
    from neso_runtime import inferbody
    from neso_worker.aside import Aside
    from neso_worker.worker import Worker

    worker = Worker(None, Sink(), Aside())
    known = 0
    for _ in range(3):
        for body in ANSWERS:
            for before in (b"", b"\0" * 24):
                data = before + body
                found = worker.bls._known(data, len(before), len(data))
                if found is None:
                    worker.bls.on_responses((INFER_RESPONSES, 0, 7, data, len(before), len(data)))
                    continue
                known += 1
                ((flags, want),) = inferbody.decode(worker.connection, data, len(before), len(data))
                assert flags == 1 and not found.has_error()
                for a, b in zip(found.output_tensors(), want.output_tensors()):
                    assert (a.name(), a.shape(), a.triton_dtype()) == (b.name(), b.shape(), b.triton_dtype())
                    assert a.as_numpy().tolist() == b.as_numpy().tolist()
                assert len(found.output_tensors()) == len(want.output_tensors())
                # One that has lost its data is not known.
                assert worker.bls._known(data, len(before), len(data) - 16) is None
    assert known == 3 * 2 * 6 - 4  # of each form the first one is decoded
