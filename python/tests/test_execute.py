"""A real worker process: load, execute, results, errors."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from harness import (
    BF16,
    BYTES,
    CANCEL,
    DONE,
    EXIT,
    INIT,
    LOAD,
    RESPONSES,
    UNLOAD,
    Ended,
    In,
    Model,
    execute_body,
    header,
    pack_bytes,
)

DOUBLE = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            out = []
            for r in requests:
                a = pb_utils.get_input_tensor_by_name(r, "IN").as_numpy()
                out.append(pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("OUT", a * 2)]))
            return out
"""

# Runs the Python text of the first BYTES input with r (the request), requests and pb_utils; its value is the result.
SCRIPT = """
    import asyncio, json, os, sys, threading, time
    import numpy as np
    import triton_python_backend_utils as pb_utils
    from triton_python_backend_utils import *

    kept = []

    def out(array, name="OUT"):
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, np.asarray(array))])

    def text(value):
        return out(np.array([json.dumps(value)], dtype=object))

    class TritonPythonModel:
        def execute(self, requests):
            self.requests = None
            r = requests[0]
            code = pb_utils.get_input_tensor_by_name(r, "CODE").as_numpy()[0].decode()
            space = {**globals(), "self": self, "r": r, "requests": requests}
            body = "def run():\\n" + "".join("    " + line + "\\n" for line in code.splitlines())
            exec(compile(body, "script", "exec"), space)
            try:
                return space["run"]()
            finally:
                # The function and its globals are a cycle; it must not keep the requests.
                del space["r"], space["requests"]
"""


def script(tmp_path, **options):
    return Model(tmp_path, SCRIPT, inputs=("CODE", "A", "B"), outputs=("OUT", "TWO"), **options)


def code(text):
    import textwrap

    return In(0, np.array([textwrap.dedent(text).strip().encode()], dtype=object))


def value(response):
    assert response.code == 0xFF, response.message
    return json.loads(response.outputs[0].array()[0])


def test_one_request(tmp_path):
    with Model(tmp_path, DOUBLE) as m:
        assert m.ready == {"async": False, "is_ready": False}
        assert m.hello["protocol"] == 1
        out = m.run(In(0, np.arange(16, dtype=np.float32))).outputs[0]
        assert out.index == 0
        np.testing.assert_array_equal(out.array(), np.arange(16, dtype=np.float32) * 2)


def test_batches_sent_ahead_keep_their_order(tmp_path):
    with Model(tmp_path, DOUBLE) as m:
        for n in range(40):
            requests = [{"handle": 10 * n + k, "inputs": [In(0, np.full(3, n, np.int32))]} for k in range(3)]
            m.peer.execute(requests, n)
        for n in range(40):
            responses, error = m.peer.results(n)
            assert error is None
            assert [r.handle for r in responses] == [10 * n, 10 * n + 1, 10 * n + 2]
            assert all((r.outputs[0].array() == 2 * n).all() for r in responses)


def test_frames_in_any_pieces(tmp_path):
    """Frames of odd lengths end anywhere in what one receive gives; arrays are aligned all the same."""
    with Model(tmp_path, DOUBLE) as m:
        data = b""
        for n in range(30):
            request = {"handle": n, "id": "x" * n, "inputs": [In(0, np.full(n * 100 + 1, n, np.uint8))]}
            data += header(5 + 1, execute_body([request]), n)
        large = {"handle": 30, "inputs": [In(0, np.arange(60000, dtype=np.float64))]}
        data += header(5 + 1, execute_body([large]), 30)
        for at in range(0, len(data), 7919):
            m.peer.control.sendall(data[at : at + 7919])
        for n in range(30):
            (response,), error = m.peer.results(n)
            assert error is None
            assert response.outputs[0].array().tolist() == [2 * n] * (n * 100 + 1)
        (response,), error = m.peer.results(30)
        np.testing.assert_array_equal(response.outputs[0].array(), np.arange(60000.0) * 2)


ALL = {
    "bool": [True, False, True], "u1": [0, 7, 255], "u2": [0, 7, 65535], "u4": [0, 7, 2**32 - 1],
    "u8": [0, 7, 2**64 - 1], "i1": [-128, 0, 127], "i2": [-32768, 0, 32767], "i4": [-(2**31), 0, 2**31 - 1],
    "i8": [-(2**63), 0, 2**63 - 1], "f2": [0.5, -1.25, 65504], "f4": [0.1, -3e38, 0], "f8": [0.1, -1e300, 0],
}  # fmt: skip


@pytest.mark.parametrize("way", ["Tensor('OUT', t.as_numpy())", "Tensor.from_dlpack('OUT', t.to_dlpack())",
                                 "Tensor('OUT', np.repeat(t.as_numpy(), 2, axis=0)[::2])",
                                 "Tensor.from_dlpack('OUT', t)", "Tensor.from_dlpack('OUT', t.as_numpy())",
                                 "Tensor('OUT', np.asfortranarray(t.as_numpy()))",
                                 "Tensor('OUT', t.as_numpy().astype(t.as_numpy().dtype.newbyteorder('>')))"])  # fmt: skip
def test_every_datatype(tmp_path, way):
    with script(tmp_path) as m:
        for name, values in ALL.items():
            array = np.array([values, values], dtype=name)
            response = m.run(
                code(f"""
                t = pb_utils.get_input_tensor_by_name(r, "A")
                assert t.as_numpy().flags.aligned and t.as_numpy().flags.writeable
                return [pb_utils.InferenceResponse([pb_utils.{way}])]
                """),
                In(1, array),
            )
            assert response.code == 0xFF, response.message
            got = response.outputs[0]
            assert got.shape == (2, 3) and got.data == array.tobytes(), (name, way)


def test_datatype_facts(tmp_path):
    with script(tmp_path) as m:
        got = value(m.run(code("""
            t = pb_utils.get_input_tensor_by_name(r, "A")
            return [text([t.name(), t.shape(), t.triton_dtype(), t.is_cpu(), list(t.__dlpack_device__()),
                          pb_utils.get_input_tensor_by_name(r, "NOPE"), len(r.inputs()), t.as_numpy() is t.as_numpy()])]
            """), In(1, np.zeros((2, 3), np.int16))))  # fmt: skip
        assert got == ["A", [2, 3], 7, True, [1, 0], None, 2, True]


@pytest.mark.parametrize("make", [
    "a", "np.array([x.decode() for x in a.ravel()], dtype=object).reshape(a.shape)",
    "np.array([x.decode() for x in a.ravel()]).reshape(a.shape)", "a.astype(np.bytes_)",
])  # fmt: skip
def test_strings(tmp_path, make):
    items = [b"abc", b"x" * 500, "z\u00fc\u4f60".encode(), b""]
    array = np.empty(4, object)
    array[:] = items
    with script(tmp_path) as m:
        response = m.run(
            code(
                f"a = r.inputs()[1].as_numpy()\nassert a.dtype == object and type(a[0, 0]) is bytes\nreturn [out({make})]"
            ),
            In(1, array.reshape(2, 2)),
        )
        out = response.outputs[0]
        assert out.number == BYTES and out.shape == (2, 2) and out.array().ravel().tolist() == items


def test_strings_of_any_number_and_length(tmp_path):
    with script(tmp_path) as m:
        for count, length in ((0, 0), (1, 9000), (64, 3), (64, 300), (65, 3), (3000, 3)):
            items = [b"%04d" % i * length for i in range(count)]
            array = np.empty(count, object)
            array[:] = items
            out = m.run(code("return [out(r.inputs()[1].as_numpy())]"), In(1, array)).outputs[0]
            assert out.number == BYTES and out.shape == (count,) and out.array().tolist() == items


def test_an_element_without_text_is_an_error_of_its_request(tmp_path):
    with script(tmp_path) as m:
        response = m.run(
            code("""
            class Bad:
                def __str__(self):
                    raise ValueError("no text")
            return [out(np.array([b"good", Bad()], dtype=object))]
            """)
        )
        assert response.code != 0xFF and "no text" in response.message


def test_other_objects_become_their_text(tmp_path):
    with script(tmp_path) as m:
        response = m.run(code("return [out(np.array([1, None, np.str_('x'), bytearray(b'y'), 2.5], dtype=object))]"))
        assert response.outputs[0].array().tolist() == [b"1", b"None", b"x", b"y", b"2.5"]


def test_invalid_bytes_data_is_an_error_of_the_model(tmp_path):
    with script(tmp_path) as m:
        bad = In(1, number=BYTES, shape=(1,), data=b"\xff\0\0\0abc")
        message, _ = m.failure(code("return [out(r.inputs()[1].as_numpy())]"), bad)
        assert message.startswith("DatatypeError: BYTES element 0 of 255 bytes ends behind the data")


def test_bfloat16(tmp_path):
    raw = np.array([0x3F80, 0x4000, 0xC0A0], np.uint16)
    with script(tmp_path) as m:
        tensor = In(1, number=BF16, shape=(3,), data=raw.tobytes())
        (out,) = m.run(code("""
            t = r.inputs()[1]
            try:
                t.as_numpy()
            except pb_utils.TritonModelException as e:
                assert str(e) == ("Tensor dtype is BF16 and cannot be converted to NumPy. Use to_dlpack() and "
                                  "from_dlpack() instead."), e
            return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", t.to_dlpack())])]
            """), tensor).outputs  # fmt: skip
        assert (out.number, out.shape, out.data) == (BF16, (3,), raw.tobytes())
        (out,) = m.run(
            code("return [pb_utils.InferenceResponse([Tensor.from_dlpack('OUT', r.inputs()[1])])]"), tensor
        ).outputs
        assert (out.number, out.data) == (BF16, raw.tobytes())


def test_bfloat16_arrays(tmp_path):
    pytest.importorskip("ml_dtypes")
    with script(tmp_path) as m:
        (out,) = m.run(code("import ml_dtypes\nreturn [out(np.array([1, 2, -5], ml_dtypes.bfloat16))]")).outputs
        assert (out.number, out.data) == (BF16, np.array([0x3F80, 0x4000, 0xC0A0], np.uint16).tobytes())


def test_odd_shapes(tmp_path):
    with script(tmp_path) as m:
        for array in (np.zeros((0,), np.int32), np.zeros((3, 0, 2), np.float64), np.array(4.0, np.float32)):
            got = m.run(code("return [out(r.inputs()[1].as_numpy())]"), In(1, array)).outputs[0]
            assert got.shape == array.shape and got.data == array.tobytes()
            got = m.run(
                code("return [InferenceResponse([Tensor.from_dlpack('OUT', r.inputs()[1])])]"), In(1, array)
            ).outputs[0]
            assert got.shape == array.shape and got.data == array.tobytes()


def test_request_accessors(tmp_path):
    show = code("""
        return [text([r.request_id(), r.correlation_id(), r.flags(), r.timeout(), r.parameters(), r.trace().get_context(),
                      sorted(r.requested_output_names()), r.is_cancelled(), type(r) is InferenceRequest, isinstance(r, InferenceRequest)])]
        """)
    with script(tmp_path) as m:
        assert value(m.run(show)) == ["", 0, 0, 0, "{}", None, ["OUT", "TWO"], False, False, True]
        full = {"id": "my request \u00fc", "text": "seq-\u03b2", "flags": 3, "timeout": 123456, "parameters": {"a": [1]},
                "trace": '{"traceparent":"x"}', "wanted": [0]}  # fmt: skip
        got = value(m.run(show, **full))
        assert got[:7] == [full["id"], full["text"], 3, 123456, '{"a": [1]}', full["trace"], ["OUT"]]
        assert value(m.run(show, correlation=77))[1] == 77


def test_named_inputs_and_outputs(tmp_path):
    with script(tmp_path) as m:
        named = {
            "handle": 1,
            "inputs": [
                In("CODE", np.array([b"return [out(x.inputs()[1].as_numpy(), 'EXTRA') for x in requests]"], object)),
                In("ODD", np.arange(3, dtype=np.uint8)),
            ],
        }
        plain = {
            "handle": 2,
            "id": "abc",
            "inputs": [In(0, np.array([b""], object)), In("XY", np.arange(4, dtype=np.uint8))],
        }
        responses, error = m.peer.run([named, plain, {**plain, "handle": 3}])
        assert error is None
        assert [r.outputs[0].index for r in responses] == ["EXTRA"] * 3
        assert [r.outputs[0].array().tolist() for r in responses] == [[0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3]]


def test_only_wanted_outputs_are_sent(tmp_path):
    both = code(
        "return [InferenceResponse([Tensor('OUT', np.zeros(1)), Tensor('TWO', np.ones(1)), Tensor('X', np.ones(1))])]"
    )
    with script(tmp_path) as m:
        assert [o.index for o in m.run(both, wanted=[1]).outputs] == [1]
        assert [o.index for o in m.run(both, wanted=[]).outputs] == []
        assert [o.index for o in m.run(both).outputs] == [0, 1, "X"]


def test_input_returned_as_output(tmp_path):
    with script(tmp_path, outputs=("CODE", "A")) if False else script(tmp_path) as m:
        (out,) = m.run(code("return [InferenceResponse([r.inputs()[1]])]"), In(1, np.arange(5.0))).outputs
        assert out.index == "A" and out.array().tolist() == [0, 1, 2, 3, 4]
        (out,) = m.run(code("return [InferenceResponse([r.inputs()[0]])]")).outputs
        assert out.data == pack_bytes([b"return [InferenceResponse([r.inputs()[0]])]"])


def test_response_parameters(tmp_path):
    with script(tmp_path) as m:
        r = m.run(
            code(
                "return [InferenceResponse([Tensor('OUT', np.zeros(1))], parameters={'s': 'text', 'i': 7, 'b': True})]"
            )
        )
        assert json.loads(r.parameters) == {"s": "text", "i": 7, "b": True} and r.outputs[0].array().tolist() == [0]


@pytest.mark.parametrize("name,number", [
    ("UNKNOWN", 0), ("INTERNAL", 1), ("NOT_FOUND", 2), ("INVALID_ARG", 3), ("UNAVAILABLE", 4), ("UNSUPPORTED", 5),
    ("ALREADY_EXISTS", 6), ("CANCELLED", 7),
])  # fmt: skip
def test_error_codes(tmp_path, name, number):
    with script(tmp_path) as m:
        r = m.run(
            code(
                f"return [InferenceResponse([Tensor('OUT', np.zeros(1))], TritonError('failed \u00fc', TritonError.{name}))]"
            )
        )
        assert (r.code, r.message, r.outputs, r.flags) == (number, "failed \u00fc", [], 1)


def test_error_of_one_request(tmp_path):
    with script(tmp_path) as m:
        text = "return [InferenceResponse(error=TritonError('boom')) if q is r else out([5]) for q in requests]"
        requests = [{"handle": n, "inputs": [code(text)]} for n in range(3)]
        responses, error = m.peer.run(requests)
        assert error is None
        assert [(r.handle, r.code, r.message) for r in responses] == [(0, 1, "boom"), (1, 255, ""), (2, 255, "")]


@pytest.mark.parametrize("text,message", [
    ("raise ValueError('value is out of range')", "ValueError: value is out of range"),
    ("raise RuntimeError()", "RuntimeError: <EMPTY MESSAGE>"),
    ("raise pb_utils.TritonModelException('pas d\u00e9sol\u00e9')", "TritonModelException: pas d\u00e9sol\u00e9"),
    ("sys.exit(3)", "SystemExit: 3"),
    ("raise KeyboardInterrupt()", "KeyboardInterrupt: <EMPTY MESSAGE>"),
    ("return 1 / 0", "ZeroDivisionError: division by zero"),
])  # fmt: skip
def test_exceptions(tmp_path, text, message):
    with script(tmp_path) as m:
        got, trace = m.failure(code(text))
        assert got.startswith(message + "\n\nAt:\n  script(2): run\n")
        assert got.endswith(f"  {m.path}(24): execute\n"), got
        assert "neso_worker" not in got and "neso_runtime" not in got
        assert "Traceback (most recent call last):" in trace and trace.rstrip().endswith(
            message.replace(": <EMPTY MESSAGE>", "")
        )
        assert m.run(code("return [out([1])]")).code == 0xFF  # the worker goes on


@pytest.mark.parametrize("text,message", [
    ("return None", "Expected a list in the execute return, found type '<class 'NoneType'>'."),
    ("return (out([1]),)", "Expected a list in the execute return, found type '<class 'tuple'>'."),
    ("return []", "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
                  "InferenceRequest(s) size is:1, and InferenceResponse(s) size is:0\n"),
    ("return ['x']", "Expected an 'InferenceResponse' object in the execute function return list, found type '<class 'str'>'."),
    ("return [None]", "Expected an 'InferenceResponse' object in the execute function return list, found type '<class 'NoneType'>'."),
    ("r.set_release_flags(2)\nreturn [3]",
     "Expected a None object in the execute function return list for reschduled request, found type '<class 'int'>'."),
    ("r.set_release_flags(2)\nreturn 3", "Expected a list in the execute return, found type '<class 'int'>'."),
])  # fmt: skip
def test_wrong_results(tmp_path, text, message):
    with script(tmp_path) as m:
        assert m.failure(code(text))[0] == message


def test_output_that_cannot_be_sent_fails_its_request_alone(tmp_path):
    with script(tmp_path) as m:
        text = "return [out(np.array(['\\ud800' if q is r else 'fine'], dtype=object)) for q in requests]"
        responses, error = m.peer.run([{"handle": n, "inputs": [code(text)]} for n in range(2)])
        assert error is None
        assert responses[0].code == 1 and responses[0].message.startswith("UnicodeEncodeError: ")
        assert responses[1].outputs[0].array().tolist() == [b"fine"]


COROUTINE = """
    import asyncio, threading
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        async def one(self, r):
            v = int(pb_utils.get_input_tensor_by_name(r, "IN").as_numpy()[0])
            if v == 666:
                raise ValueError("coroutine failed")
            await asyncio.sleep(0.01)
            return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([v + 1]))])

        async def execute(self, requests):
            return list(await asyncio.gather(*[self.one(r) for r in requests]))
"""


def test_coroutine(tmp_path):
    with Model(tmp_path, COROUTINE) as m:
        assert m.ready == {"async": True, "is_ready": False}
        requests = [{"handle": n, "inputs": [In(0, np.array([n]))]} for n in range(4)]
        responses, _ = m.peer.run(requests)
        assert [r.outputs[0].array().tolist() for r in responses] == [[1], [2], [3], [4]]
        message, _ = m.failure(In(0, np.array([666])))
        assert message.startswith("ValueError: coroutine failed\n\nAt:\n") and "model.py(10): one" in message


def test_cancel_is_seen_while_executing(tmp_path):
    with script(tmp_path) as m:
        wait = code("""
            print("running", flush=True)
            end = time.monotonic() + 20
            while not requests[1].is_cancelled() and time.monotonic() < end:
                time.sleep(0.001)
            return [text([q.is_cancelled() for q in requests]) for _ in requests]
            """)
        import os

        m.peer.execute([{"handle": 5, "inputs": [wait]}, {"handle": 6, "inputs": [wait]}])
        assert os.read(m.worker.output, 100) == b"running\n"
        m.peer.send(CANCEL, number=6)
        responses, _ = m.peer.results()
        assert value(responses[0]) == [False, True]
        assert value(m.run(code("return [text(r.is_cancelled())]"))) is False


LIFE = """
    import os, sys
    import helper
    from . import sibling
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        @staticmethod
        def auto_complete_config(config):
            config.set_max_batch_size(8)
            config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]})
            config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [-1]})
            config.set_dynamic_batching()
            return config

        def initialize(self, args):
            self.args = args
            print("initialize", args["model_name"], helper.NAME, sibling.NAME, os.path.basename(pb_utils.get_model_dir()), __name__)

        def execute(self, requests):
            return [pb_utils.InferenceResponse([]) for _ in requests]

        def finalize(self):
            print("finalize")
"""


def test_life_of_a_model(tmp_path):
    helpers = {"helper.py": "NAME = 'helps'", "sibling.py": "NAME = 'near'"}
    with Model(tmp_path, LIFE, helpers=helpers, complete=True) as m:
        config = m.loaded["config"]
        assert config["max_batch_size"] == 8 and config["dynamic_batching"] == {}
        assert config["input"] == [{"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]}]
        m.run(In(0, np.zeros(1)))
        assert m.peer.call(UNLOAD, b"") == {}
        m.peer.call(INIT, m.init)
        m.peer.send(EXIT)
        assert m.worker.ended() == 0
        line = "initialize m helps near 1 1.model\n"
        assert m.worker.text() == line + "finalize\n" + line + "finalize\n"


def test_end_of_the_channel_ends_the_worker(tmp_path):
    with Model(tmp_path, LIFE, helpers={"helper.py": "NAME = ''", "sibling.py": "NAME = ''"}) as m:
        m.peer.close()
        assert m.worker.ended() == 0
        assert m.worker.text().endswith("finalize\n")


def test_ends_though_threads_of_the_model_run(tmp_path):
    source = DOUBLE + "\n    import threading, time\n    threading.Thread(target=time.sleep, args=(1000,)).start()\n"
    with Model(tmp_path, source) as m:
        m.peer.send(EXIT)
        assert m.worker.ended() == 0


@pytest.mark.parametrize("source,message", [
    ("import nothing_like_that", "ModuleNotFoundError: No module named 'nothing_like_that'\n\nAt:\n  {path}(1): <module>\n"),
    ("x = 1\ndef (", "SyntaxError: invalid syntax (model.py, line 2)\n\nAt:\n  {path}(2): def (\n"),
    ("def f():\n  x = 1\n    y = 2",
     "IndentationError: unexpected indent (model.py, line 3)\n\nAt:\n  {path}(3): y = 2\n"),
    ("# coding: nothing_like_that", "SyntaxError: "),
    ("class Other: pass", "Python model {path} has no class 'TritonPythonModel'."),
    ("class TritonPythonModel: pass", "Python model {path} does not implement `execute` method."),
])  # fmt: skip
def test_model_that_cannot_be_loaded(tmp_path, source, message):
    with Model(tmp_path, source, start=False) as m:
        with pytest.raises(RuntimeError) as failed:
            m.peer.call(LOAD, m.load)
        assert str(failed.value).startswith(message.format(path=m.path))
        assert "Traceback" in failed.value.traceback


def test_module_of_a_model_that_has_wrong_syntax(tmp_path):
    helpers = {"near.py": "\nx = (1\n\nclass A:\n"}
    with Model(tmp_path, "import near", start=False, helpers=helpers) as m, pytest.raises(RuntimeError) as failed:
        m.peer.call(LOAD, m.load)
    near = m.path.replace("model.py", "near.py")
    assert str(failed.value).endswith(f"\n\nAt:\n  {near}(2): x = (1\n  {m.path}(1): <module>\n")


@pytest.mark.parametrize("path,message", [
    ("/nowhere/model.py", "Python model file not found in '/nowhere/model.py'"),
    ("/nowhere/model.txt", "Model name must end with '.py'. Model name is \"model.txt\"."),
])  # fmt: skip
def test_model_file_is_missing(tmp_path, path, message):
    with Model(tmp_path, DOUBLE, start=False) as m:
        with pytest.raises(RuntimeError) as failed:
            m.peer.call(LOAD, {**m.load, "model_path": path})
        assert str(failed.value) == message


def test_initialize_that_fails(tmp_path):
    source = """
        class TritonPythonModel:
            def initialize(self, args):
                raise ValueError("no weights")
            def execute(self, requests):
                return []
    """
    with Model(tmp_path, source, start=False) as m:
        m.peer.call(LOAD, m.load)
        with pytest.raises(RuntimeError) as failed:
            m.peer.call(INIT, m.init)
        assert str(failed.value) == f"ValueError: no weights\n\nAt:\n  {m.path}(4): initialize\n"


def test_auto_complete_with_a_wrong_result(tmp_path):
    source = """
        class TritonPythonModel:
            @staticmethod
            def auto_complete_config(config):
                return {}
            def execute(self, requests):
                return []
    """
    with Model(tmp_path, source, start=False) as m:
        with pytest.raises(RuntimeError) as failed:
            m.peer.call(LOAD, {**m.load, "complete": True})
        text = "auto_complete_config function in model 'm' must return a valid pb.ModelConfig object."
        assert str(failed.value) == text


def test_logger(tmp_path):
    with script(tmp_path) as m:
        m.run(code("""
            L = pb_utils.Logger
            L.log_info("a"); L.log_warn("b"); L.log_error("c"); L.log_verbose("d"); L.log("e"); L.log("f", L.ERROR)
            L.log(message="g \u00fc", level=L.WARNING)
            return [out([1])]
            """))  # fmt: skip
        assert [(level, text) for level, _, _, text in m.peer.logs] == [
            (0, "a"), (1, "b"), (2, "c"), (3, "d"), (0, "e"), (2, "f"), (1, "g \u00fc"),
        ]  # fmt: skip
        assert m.peer.logs[0][1:3] == (3, "script")


@pytest.mark.parametrize("data,part", [
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "magic 0x4547 at offset 0"),
    (header(6, b"\1\0\0\0\0\0\0\0"), "execute: request 0 at offset 8"),
    (header(6, b"\1\0\0"), "execute: request 0 at offset 0"),
    (header(6, execute_body([{"handle": 1, "inputs": [In(9, np.zeros(1))]}])), "list index out of range"),
    (header(6, execute_body([{"handle": 1, "inputs": [In(0, np.zeros(1), at=None)]}])[:-8]), "8 bytes, body of"),
    (header(6, execute_body([{"handle": 1, "inputs": [In(0, number=1, shape=(8,), data=bytes(8), at=(4, 0))]}])), "unknown segment 4"),
    (header(6, b"", instance=7), "unknown instance 7"),
    (header(16, b"\1\0\0\0"), "release: 1 blocks in 4 bytes"),
    (header(99, b""), "unknown kind 99 at offset 3"),
])  # fmt: skip
def test_frames_that_are_wrong_end_the_worker(tmp_path, data, part):
    with Model(tmp_path, DOUBLE) as m:
        m.peer.control.sendall(data)
        with pytest.raises(Ended):
            m.peer.receive()
        assert m.worker.ended() == 1
        text = m.worker.text()
        assert text.startswith("worker protocol: ") and part in text, text


def test_prints_do_not_fail_on_any_character(tmp_path):
    with script(tmp_path, env={"LC_ALL": "C"}) as m:
        m.run(code("print('\\ud800 \u4f60')\nreturn [out([1])]"))
        m.peer.send(EXIT)
        m.worker.ended()
        assert m.worker.text() == "\\ud800 \u4f60\n"


assert DONE and RESPONSES


def test_held_responses_leave_before_the_end(tmp_path):
    """Responses of quick batches wait for further ones that are here; whatever comes then, they leave."""
    with Model(tmp_path, DOUBLE) as m:
        os.close(m.peer.bell())
        batch = [header(6, execute_body([{"handle": n, "inputs": [In(0, np.full(1, n))]}]), n) for n in range(30)]
        m.peer.control.sendall(b"".join(batch) + header(EXIT))
        for n in range(30):
            (response,), error = m.peer.results(n)
            assert error is None and response.outputs[0].array().tolist() == [2 * n]
        assert m.worker.ended() == 0


def test_held_responses_leave_when_the_bell_rings(tmp_path):
    """The batch after the quick ones stays: what they have answered leaves as soon as the server asks for it."""
    gate, here = tmp_path / "gate", tmp_path / "here"
    os.mkfifo(gate)
    os.mkfifo(here)
    model = f"""
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            if requests[0].request_id() == "slow":
                open({str(here)!r}, "w").close()
                open({str(gate)!r}).read()
            return [pb_utils.InferenceResponse() for _ in requests]
    """
    with Model(tmp_path, model) as m:
        bell = m.peer.bell()
        for turn in range(20):
            numbers = range(10 * turn, 10 * turn + 10)
            ids = ["slow" if n == numbers[-1] else "" for n in numbers]
            batch = [header(6, execute_body([{"handle": n, "inputs": [], "id": i}]), n) for n, i in zip(numbers, ids)]
            m.peer.control.sendall(b"".join(batch))
            with open(here) as begun:
                begun.read()
            os.write(bell, b"\0")
            for n in numbers[:-1]:
                assert m.peer.results(n)[0][0].handle == n
            with open(gate, "w"):
                pass
            assert m.peer.results(numbers[-1])[0][0].handle == numbers[-1]
        os.close(bell)


def test_answers_to_several_requests_do_not_wait(tmp_path):
    """The next batch is here already, and gets on only when the answers to the first have come."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    model = f"""
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            if len(requests) == 1:
                open({str(gate)!r}).read()
            return [pb_utils.InferenceResponse() for _ in requests]
    """
    with Model(tmp_path, model) as m:
        for n in range(20):
            pair = [{"handle": 3 * n + k, "inputs": []} for k in range(2)]
            first = header(6, execute_body(pair), 2 * n)
            second = header(6, execute_body([{"handle": 3 * n + 2, "inputs": []}]), 2 * n + 1)
            m.peer.control.sendall(first + second)
            responses, error = m.peer.results(2 * n)
            assert error is None and [r.handle for r in responses] == [3 * n, 3 * n + 1]
            with open(gate, "w"):
                pass
            assert m.peer.results(2 * n + 1)[0][0].handle == 3 * n + 2
