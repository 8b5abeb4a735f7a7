"""Tensors on GPUs between a worker and others: which frames it sends, what it copies, and when it lets go."""

from __future__ import annotations

import os
import select
import struct
import textwrap

import numpy as np
import pytest
from fakecuda import UUIDS, Machine, compile_driver
from harness import (
    BF16,
    BYTES,
    DROP,
    DROPPED,
    EXECUTE,
    EXIT,
    INFER,
    INFER_RESPONSES,
    INPUTS_HELD,
    RELEASE,
    RESPONSES,
    SEGMENT,
    Ended,
    Gate,
    In,
    Model,
    execute_body,
    read_responses,
    until,
)
from test_bls import CALL, read_infer, responses_body, serve
from test_execute import code, script, value
from test_memory import DROP_LATER

MIB = 1 << 20
U0, U1 = UUIDS[:2]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return compile_driver(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def machine(compiled, tmp_path, monkeypatch):
    made = Machine(compiled, tmp_path / "machine")
    for name, text in made.env.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
    yield made
    made.log()  # what would have been undefined


def config(force="no"):
    return {"name": "m", "parameters": {"FORCE_CPU_ONLY_INPUT_TENSORS": {"string_value": force}}}


def model(tmp_path, machine, *, force="no", pool=True, **options):
    """A worker whose inputs may lie on a device, before a server with a pool or without."""
    made = script(tmp_path, config=config(force), **options)
    if pool:
        made.peer.machine = machine
    return made


def lend(m, uuid=U0, size=2 * MIB, **options):
    return m.peer.device_segment(4, size, uuid, **options)


def placed(m, segment, offset, array, index=1, number=None):
    """An input on a device."""
    data = array.tobytes()
    if segment in m.peer.memory:
        m.peer.memory[segment][offset : offset + len(data)] = data
    made = In(index, array, at=(segment, offset))
    made.number = number or made.number
    return made


def copies(machine):
    """The copies since the last look, whoever made them."""
    return [what for _, what, _ in machine.log() if what in ("dtod", "dtoh", "htod")]


def look(text):
    return code("from fakecuda import look, place\n" + textwrap.dedent(text).strip())


OUT = """
return [InferenceResponse([place("OUT", np.arange({}, dtype=np.float32), {})])]
"""


# What the server is told.


@pytest.mark.parametrize(
    ("force", "env", "want"),
    [
        ("no", {}, [[U0, U1]]),
        ("No", {"CUDA_VISIBLE_DEVICES": "1,0"}, [[U1, U0]]),
        ("no", {"CUDA_VISIBLE_DEVICES": ""}, []),
        ("no", {"NESO_CUDA_DRIVER": "/nowhere/libcuda.so.1"}, []),
        ("yes", {}, []),
    ],
)
def test_devices_are_named_once_by_models_that_take_inputs_there(tmp_path, machine, force, env, want):
    with model(tmp_path, machine, force=force, env=env) as m:
        assert m.peer.devices == want
        mapped = "return [text(any('libcuda' in line for line in open('/proc/self/maps')))]"
        assert value(m.run(code(mapped))) == (force != "yes" and "NESO_CUDA_DRIVER" not in env)


def test_a_driver_that_fails_names_no_devices(tmp_path, machine):
    machine.fail("cuInit", 999)
    with model(tmp_path, machine) as m:
        assert m.peer.devices == [] and m.run(code("return [out([1])]")).code == 0xFF


# Outputs.


@pytest.mark.parametrize("count", [1, 40_000, 1_000_000])
@pytest.mark.parametrize("force", ["no", "yes"])
def test_an_output_stays_on_its_device(tmp_path, machine, count, force):
    with model(tmp_path, machine, force=force) as m:
        for n in range(3):
            (out,) = m.run(look(OUT.format(count, n % 2))).outputs
            assert out.at[0] >= 0x80000000 and out.array().tolist() == list(range(count))
            m.peer.release([out.at])
        want = -(-count * 4 // (2 * MIB)) * 2 * MIB
        assert m.peer.grown == [(want, U0), (want, U1)]
        log = [what for _, what, _ in machine.log() if what not in ("alloc", "open")]
        assert log == ["synchronise", "dtod", "synchronise"] * 3


def test_blocks_on_a_device_are_taken_and_given_back(tmp_path, machine):
    with model(tmp_path, machine) as m:
        text = look(
            "return [InferenceResponse([place('OUT', np.full(150_000, n, np.int32)), place('TWO', np.full(9, n))])]"
        )
        held = []
        for n in range(6):
            text = look(f"""
                large, small = np.full(150_000, {n}, np.int32), np.full(9, {n})
                return [InferenceResponse([place('OUT', large), place('TWO', small)])]
                """)
            held.append(m.run(text).outputs)
        assert len({out.at for outs in held for out in outs}) == 12
        for n, outs in enumerate(held):
            for out in outs:  # none was written over
                again = m.peer.memory[out.at[0]][out.at[1] : out.at[1] + len(out.data)]
                assert again == out.data and set(np.frombuffer(again, np.int32 if out.index == 0 else np.int64)) == {n}
        asked = len(m.peer.grown)
        assert asked == 2 and all(size == 2 * MIB for size, _ in m.peer.grown)
        m.peer.release([out.at for outs in held for out in outs])
        for _ in range(6):
            m.peer.release([out.at for out in m.run(text).outputs])
        assert len(m.peer.grown) == asked


def test_outputs_of_all_kinds_in_one_response(tmp_path, machine):
    with model(tmp_path, machine) as m:
        got = m.run(look("""
            words = Tensor("WORDS", np.array([b"a", b"bc"], object))
            raw = place("RAW", np.array([1, 2, 3], np.uint16), number=14)
            return [InferenceResponse([words, place("OUT", np.arange(5.0), 1), Tensor("TWO", np.arange(30_000)), raw,
                                       place("NONE", np.zeros((0, 3), np.int8)), place("ONE", np.array(7, np.uint8))])]
            """))  # fmt: skip
        words, out, two, raw, none, one = got.outputs
        assert (words.number, words.at, words.array().tolist()) == (BYTES, None, [b"a", b"bc"])
        assert out.at is not None and out.array().tolist() == [0, 1, 2, 3, 4]
        assert two.at is not None and two.array()[-1] == 29_999
        assert (raw.number, raw.at is None, raw.data) == (BF16, False, np.array([1, 2, 3], np.uint16).tobytes())
        assert (none.at, none.shape, none.data) == (None, (0, 3), b"")
        assert one.at is not None and one.shape == () and one.data == b"\7"
        assert m.peer.grown == [(2 * MIB, U1), (2 * MIB, U0)] and copies(machine) == ["dtod"] * 3


# Sets the worker's clock, which then stands still, whatever the machine does meanwhile.
CLOCK = """
import types
from neso_runtime.gpu import devices
devices.time = types.SimpleNamespace(monotonic=lambda: 1000 + {})
return [out([1])]
"""


def test_without_a_pool_outputs_go_by_the_host(tmp_path, machine):
    with model(tmp_path, machine, pool=False) as m:
        m.run(code(CLOCK.format(0)))
        for count in (3, 40_000):
            (out,) = m.run(look(OUT.format(count, 0))).outputs
            assert out.array().tolist() == list(range(count)) and (out.at is None) == (count == 3)
        assert copies(machine) == ["dtoh"] * 2
        # The server is asked again, but not soon, and for each device apart.
        assert m.peer.grown == [(2 * MIB, U0)]
        m.run(look(OUT.format(3, 1)))
        assert m.peer.grown == [(2 * MIB, U0), (2 * MIB, U1)]
        m.run(code(CLOCK.format(1.1)))
        m.peer.machine = machine
        (out,) = m.run(look(OUT.format(3, 0))).outputs
        assert m.peer.grown[2:] == [(2 * MIB, U0)] and out.at is not None and out.array().tolist() == [0, 1, 2]


def test_memory_that_cannot_be_opened_is_not_used(tmp_path, machine):
    machine.fail("cuIpcOpenMemHandle_v2", 999)
    with model(tmp_path, machine) as m:
        for _ in range(3):
            (out,) = m.run(look(OUT.format(40_000, 0))).outputs
            assert out.array()[-1] == 39_999 and len(m.peer.grown) == 1
        (out,) = m.run(look(OUT.format(40_000, 1))).outputs
        assert out.array()[-1] == 39_999 and len(m.peer.grown) == 2
        assert copies(machine) == ["dtoh"] * 4
    text = m.worker.text()
    assert text.count("go by host memory from now on. Memory on a GPU cannot be opened: cuIpcOpenMemHandle_v2") == 2
    assert "GPU-6e65736f-2d66-616b-652d-6770752d3030" in text


def test_a_copy_that_fails_goes_by_the_host(tmp_path, machine):
    with model(tmp_path, machine) as m:
        machine.fail("cuMemcpyDtoD_v2", 2)
        for _ in range(3):
            (out,) = m.run(look(OUT.format(40_000, 0))).outputs
            assert out.array()[-1] == 39_999
        machine.fail("cuMemcpyDtoD_v2", 0)
        (out,) = m.run(look(OUT.format(400_000, 0))).outputs  # all of the segment is free
        assert out.array()[-1] == 399_999 and out.at[1] == 0
        assert len(m.peer.grown) == 1
        machine.fail("cuMemcpyDtoD_v2", 2)
        machine.fail("cuMemcpyDtoH_v2", 700)
        response = m.run(look(OUT.format(4, 0)))
        assert (response.code, response.outputs) == (1, [])
        assert "cuMemcpyDtoH_v2 failed: an illegal memory access was encountered (CUDA error 700)" in response.message


def test_the_server_ends_while_it_is_asked_for_memory(tmp_path, machine):
    with model(tmp_path, machine) as m:
        m.peer.grow_device = lambda *_: m.peer.close()
        with pytest.raises((Ended, OSError)):
            m.run(look(OUT.format(4, 0)))
        assert m.worker.ended() == 0


# Inputs.


def test_an_input_on_a_device(tmp_path, machine):
    """A view of it on the device, numbered as this process numbers devices."""
    with model(tmp_path, machine, env={"CUDA_VISIBLE_DEVICES": "1,0"}) as m:
        array = np.arange(3000, dtype=np.float64).reshape(3, 1000)
        for n, (uuid, device) in enumerate([(U0, 1), (U1, 0), (U0, 1)]):
            segment = lend(m, uuid)
            machine.log()
            got = m.run(look("""
                t = r.inputs()[1]
                try:
                    t.as_numpy()
                except TritonModelException as error:
                    assert str(error) == "Tensor is stored in GPU and cannot be converted to NumPy."
                else:
                    assert False
                first, device = look(t)
                again, _ = look(Tensor.from_dlpack("B", t.to_dlpack()))
                other, _ = look(Tensor.from_dlpack("C", t))
                assert t.shape() == [3, 1000] and t.triton_dtype() == 12 and t.name() == "A" and not t.is_cpu()
                assert (first == again).all() and (first == other).all()
                return [text([device, first.ravel()[-2:].tolist(), list(t.__dlpack_device__())])]
                """), placed(m, segment, 4096, array + n, number=12 | (0x80 if n else 0)))  # fmt: skip
            assert value(got) == [device, [2998 + n, 2999 + n], [2, device]]
            # The block is given back on its own, behind a wait for the device.
            assert got.flags == 1 | INPUTS_HELD and given_back(m, 1) == [(segment, 4096)]
            assert [what for _, what, _ in machine.log()] == ["open", "synchronise"]


def test_no_release_before_the_device_has_done_its_work(tmp_path, machine):
    """Neither by RELEASE nor by the final response, which frees inputs without that flag."""
    with model(tmp_path, machine) as m:
        segment = lend(m)
        hold = machine.folder / "hold-cuCtxSynchronize"
        hold.touch()
        m.peer.execute([{"handle": 1, "inputs": [look("return [out([1])]"), placed(m, segment, 64, np.zeros(9))]}])
        until(lambda: (machine.folder / "held-cuCtxSynchronize").exists())
        ((response,), error) = m.peer.results()
        assert error is None and response.flags == 1 | INPUTS_HELD
        # A device at work holds nobody up: not the next batch, with another block, nor what a thread sends.
        more = """
            thread = threading.Thread(target=pb_utils.Logger.log_info, args=["from a thread"])
            thread.start()
            thread.join()
            return [out([1])]
            """
        assert m.run(look(more), placed(m, segment, 4096, np.zeros(9))).flags == 1 | INPUTS_HELD
        m.run(code("return [out([1])]"))
        assert m.peer.released == [] and select.select([m.peer.answers], [], [], 0)[0] == []
        hold.unlink()
        assert given_back(m, 2) == [(segment, 64), (segment, 4096)]


def test_a_driver_that_does_not_return_lets_the_worker_end(tmp_path, machine):
    with model(tmp_path, machine) as m:
        (machine.folder / "hold-cuCtxSynchronize").touch()
        m.run(look("return [out([1])]"), placed(m, lend(m), 64, np.zeros(9)))
        until(lambda: (machine.folder / "held-cuCtxSynchronize").exists())
        m.peer.send(EXIT)
        assert m.worker.process.wait(60) == 0


def given_back(m, count):
    """Blocks of which the worker has sent RELEASE since the last look, count of them, sorted: it waits for them."""
    released = m.peer.released
    while len(released) < count:
        kind, _, _, body = m.peer.frame()
        assert kind == RELEASE
        released += list(struct.iter_unpack("<IQ", body[4:]))
    found = sorted(released)
    released.clear()
    return found


def test_one_wait_for_many_blocks(tmp_path, machine):
    with model(tmp_path, machine) as m:
        segment, other = lend(m), lend(m, U1)
        inputs = [placed(m, segment, 64, np.zeros(9)), placed(m, other, 64, np.zeros(9), 2)]
        more = [placed(m, segment, 4096, np.zeros(9)), placed(m, other, 4096, np.zeros(9), 2)]
        m.run(look("return [out([1])]"), *inputs, *more)
        assert given_back(m, 4) == [(segment, 64), (segment, 4096), (other, 64), (other, 4096)]
        # Those that die behind the first may each be waited for again.
        log = [what for _, what, _ in machine.log() if what != "alloc"]
        assert log[:2] == ["open"] * 2 and set(log[2:]) == {"synchronise"} and 2 <= len(log) - 2 <= 4


@pytest.mark.parametrize("keep", ["r", "r.inputs()[1]", "r.inputs()[1].to_dlpack()", "Tensor.from_dlpack('X', r.inputs()[1])",
                                  "Tensor.from_dlpack('X', r.inputs()[1].to_dlpack())"])  # fmt: skip
def test_inputs_that_the_model_keeps(tmp_path, machine, keep):
    with model(tmp_path, machine) as m:
        segment = lend(m)
        host = m.peer.segment(0, MIB)
        m.peer.memory[host][0:72] = bytes(72)
        first = placed(m, segment, 64, np.arange(9.0))
        second = In(2, np.zeros(9), at=(host, 0))
        assert m.run(look(f"kept.append({keep})\nreturn [out([1])]"), first, second).flags == 1 | INPUTS_HELD
        m.run(code("return [out([1])]"))
        assert m.peer.released == ([] if keep == "r" else [(host, 0)])
        if keep != "r":
            check = "x = kept[0]\nx = x if isinstance(x, Tensor) else Tensor.from_dlpack('Y', kept.pop())"
            assert value(m.run(look(check + "\nreturn [text(look(x)[0].tolist())]"))) == list(range(9))
        m.run(code("kept.clear()\nreturn [out([1])]"))
        m.run(code("return [out([1])]"))
        assert given_back(m, 2) == sorted([(host, 0), (segment, 64)])


def test_kept_inputs_are_released_by_an_idle_worker(tmp_path, machine):
    gate = Gate(tmp_path)
    with model(tmp_path, machine) as m:
        segment = lend(m)
        held = m.run(code(DROP_LATER.format(gate.wait)), placed(m, segment, 0, np.zeros(9)))
        assert held.flags == 1 | INPUTS_HELD
        machine.log()
        gate.open()
        kind, _, _, body = m.peer.frame()  # no request asks for it
        assert kind == RELEASE and body == struct.pack("<IIQ", 1, segment, 0)
        assert [what for _, what, _ in machine.log()] == ["synchronise"]


def test_inputs_of_an_execute_that_fails(tmp_path, machine):
    with model(tmp_path, machine) as m:
        segment = lend(m)
        fail = code("raise ValueError('no')")
        responses, error = m.peer.run([{"handle": 3, "inputs": [fail, placed(m, segment, 128, np.zeros(9))]}])
        assert error[0].startswith("ValueError: no")
        assert [(r.handle, r.flags, r.code) for r in responses] == [(3, 1 | INPUTS_HELD, 1)]
        # The exception had the request; both are gone with the batch.
        m.run(code("return [out([1])]"))
        assert given_back(m, 1) == [(segment, 128)]


def test_while_a_device_fails_nothing_is_given_back(tmp_path, machine):
    with model(tmp_path, machine) as m:
        segment = lend(m)
        machine.fail("cuCtxSynchronize", 700)
        got = m.run(look("return [out([1])]"), placed(m, segment, 64, np.zeros(9)))
        assert got.flags == 1 | INPUTS_HELD and got.outputs[0].array().tolist() == [1]
        output = b""
        while b"is not given back: cuCtxSynchronize failed: an illegal memory access" not in output:
            output += os.read(m.worker.output, 4096)
        m.run(look("return [out([1])]"), placed(m, segment, 4096, np.zeros(9)))
        assert m.peer.released == []
        # It may have been for a while only, as while a graph is recorded.
        machine.fail("cuCtxSynchronize", 0)
        m.run(look("return [out([1])]"), placed(m, segment, 8192, np.zeros(9)))
        assert given_back(m, 3) == [(segment, 64), (segment, 4096), (segment, 8192)]
    assert "is not given back" not in m.worker.text()  # it is told once


def test_inputs_passed_on_stay_on_the_device(tmp_path, machine):
    with model(tmp_path, machine) as m:
        array = np.arange(30_000, dtype=np.float32)
        segment = lend(m, U1)
        machine.log()
        for text in ("r.inputs()[1]", "Tensor.from_dlpack('OUT', r.inputs()[1])",
                     "Tensor.from_dlpack('OUT', r.inputs()[1].to_dlpack())"):  # fmt: skip
            got = m.run(look(f"return [InferenceResponse([{text}])]"), placed(m, segment, 64, array))
            (out,) = got.outputs
            assert got.flags == 1 | INPUTS_HELD and out.at[0] >= 0x80000000
            np.testing.assert_array_equal(out.array(), array)
            assert copies(machine) == ["dtod"]
        assert given_back(m, 3) == [(segment, 64)] * 3


# What cannot be used fails its request alone.


def test_a_handle_that_cannot_be_opened(tmp_path, machine):
    with model(tmp_path, machine) as m:
        segment = lend(m)
        good, bad = placed(m, segment, 64, np.arange(3.0)), placed(m, lend(m, handle=bytes(64)), 64, np.zeros(9))
        text = look("return [text([len(requests), look(q.inputs()[1])[0].tolist()]) for q in requests]")
        batch = [{"handle": n, "inputs": [text, t]} for n, t in enumerate([good, bad, good])]
        responses, error = m.peer.run(batch)
        assert error is None
        found = {r.handle: r for r in responses}
        assert found[1].code == 1 and found[1].flags == 1 and not found[1].outputs
        assert found[1].message == (
            "Input 'A': Memory on a GPU cannot be opened: cuIpcOpenMemHandle_v2 failed: CUDA error 1"
        )
        assert value(found[0]) == value(found[2]) == [2, [0, 1, 2]]
        # A batch of nothing else runs no model.
        responses, error = m.peer.run(batch[1:2])
        assert error is None and [r.handle for r in responses] == [1] and responses[0].code == 1
        # Its other inputs are given back one by one.
        assert given_back(m, 2) == [(segment, 64)] * 2
        both = [{"handle": 5, "inputs": [text, good, placed(m, lend(m, handle=bytes(64)), 0, np.zeros(3), 2)]}]
        ((response,), error) = m.peer.run(both)
        assert error is None and response.flags == 1 | INPUTS_HELD and len(given_back(m, 2)) == 2
        assert value(m.run(text, good)) == [1, [0, 1, 2]]


@pytest.mark.parametrize(
    ("options", "tensor", "want"),
    [
        ({"uuid": UUIDS[5], "handle": bytes(64)}, {}, "does not see the GPU with UUID GPU-6e65736f-"),
        ({}, {"shape": (4,)}, "Tensor 'A' of shape [4] and datatype FP64 has 24 bytes."),
        ({}, {"shape": (-3,)}, "Tensor 'A' of shape [-3] and datatype FP64 has 24 bytes."),
        ({}, {"number": BYTES}, "A tensor of strings cannot lie on a GPU."),
    ],
)
def test_inputs_that_cannot_be(tmp_path, machine, options, tensor, want):
    with model(tmp_path, machine) as m:
        made = placed(m, lend(m, **options), 64, np.arange(3.0))
        for name, changed in tensor.items():
            setattr(made, name, changed)
        ((response,), error) = m.peer.run([{"handle": 1, "inputs": [code("return [out([1])]"), made]}])
        assert error is None and response.code == 1 and want in response.message
        assert m.run(code("return [out([1])]")).code == 0xFF


def test_a_driver_that_is_gone_fails_the_request(tmp_path, machine):
    with model(tmp_path, machine, env={"NESO_CUDA_DRIVER": "/nowhere/libcuda.so.1"}) as m:
        made = placed(m, lend(m), 64, np.arange(3.0))
        ((response,), error) = m.peer.run([{"handle": 1, "inputs": [code("return [out([1])]"), made]}])
        assert error is None and response.code == 1 and "there is no CUDA driver" in response.message


DECOUPLED = """
    import threading
    import numpy as np
    import triton_python_backend_utils as pb_utils
    from fakecuda import look, place

    class TritonPythonModel:
        def execute(self, requests):
            for r in requests:
                threading.Thread(target=self.answer, args=(r.inputs()[0], r.get_response_sender())).start()

        def answer(self, tensor, sender):
            for n in range(3):
                sender.send(pb_utils.InferenceResponse([place("OUT", look(tensor)[0] + n, n % 2)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def test_decoupled_responses_on_devices(tmp_path, machine):
    with Model(tmp_path, DECOUPLED, decoupled=True, config=config()) as m:
        m.peer.machine = machine
        segment, broken = lend(m), lend(m, handle=bytes(64))
        tensor = placed(m, segment, 64, np.arange(5.0), 0)
        m.peer.execute(
            [{"handle": 1, "inputs": [tensor]}, {"handle": 2, "inputs": [placed(m, broken, 0, np.zeros(5), 0)]}]
        )
        responses, error = [], None
        # The batch has ended long before the responses do.
        found, error = m.peer.results()
        responses += found
        while not any(r.handle == 1 and r.flags & 1 for r in responses):
            kind, _, _, body = m.peer.receive()
            assert kind == RESPONSES
            responses += read_responses(body, m.peer.memory)[0]
        assert error is None
        (failed,) = [r for r in responses if r.handle == 2]
        assert failed.flags == 1 and "cannot be opened" in failed.message
        mine = [r for r in responses if r.handle == 1]
        assert [r.outputs[0].array()[0] for r in mine[:-1]] == [0, 1, 2] and all(r.outputs[0].at for r in mine[:-1])
        assert mine[-1].flags == 1 | 2 | INPUTS_HELD
        assert given_back(m, 1) == [(segment, 64)]


# Lent segments come and go.


def test_drop_is_answered_when_the_segment_is_closed(tmp_path, machine):
    with model(tmp_path, machine) as m:
        for n in range(3):
            segment, unused = lend(m), lend(m)
            assert segment == 0x40000000 + 2 * n
            assert value(m.run(look("return [text(look(r.inputs()[1])[0].tolist())]"),
                               placed(m, segment, 0, np.arange(2) + n))) == [n, n + 1]  # fmt: skip
            assert len(machine.opened()) == 1 and given_back(m, 1) == [(segment, 0)]
            machine.log()
            m.peer.send(DROP, struct.pack("<I", segment))
            assert m.peer.frame() == (DROPPED, 0, 0, struct.pack("<I", segment))
            assert [what for _, what, _ in machine.log()] == ["close"] and machine.opened() == []
            m.peer.send(DROP, struct.pack("<I", unused))  # was never opened
            assert m.peer.frame() == (DROPPED, 0, 0, struct.pack("<I", unused))
            assert machine.log() == []
        # Host segments are dropped without an answer.
        m.peer.send(DROP, struct.pack("<I", m.peer.segment(2, MIB)))
        m.run(code("return [out([1])]"))
        assert m.peer.dropped == []


def test_a_segment_that_cannot_be_closed_is_not_reported(tmp_path, machine):
    with model(tmp_path, machine) as m:
        segment = lend(m)
        m.run(look("return [out([1])]"), placed(m, segment, 0, np.zeros(2)))
        machine.fail("cuIpcCloseMemHandle", 700)
        m.peer.send(DROP, struct.pack("<I", segment))
        assert m.run(code("return [out([1])]")).code == 0xFF and m.peer.dropped == []
    assert "Memory on a GPU cannot be closed: cuIpcCloseMemHandle failed" in m.worker.text()
    assert machine.opened() == []  # it went with the process


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (struct.pack("<IIQ16s64s", 1 << 30, 5, MIB, U0, bytes(64)), "segment 1073741824: unknown kind 5"),
        (struct.pack("<IIQ16s64s", 1 << 30, 2, MIB, U0, bytes(64)), "segment 1073741824: unknown kind 2"),
        (struct.pack("<IIQ16s64s", 1 << 30, 4, 0, U0, bytes(64)), "segment 1073741824: 0 bytes announced"),
        (struct.pack("<IIQ16s63s", 1 << 30, 4, MIB, U0, bytes(63)), "segment: body of 95 bytes"),
    ],
)
def test_segments_that_are_none(tmp_path, machine, body, want):
    with model(tmp_path, machine) as m:
        m.peer.send(SEGMENT, body)
        assert m.worker.ended() == 1
        m.peer.close()
        assert f"worker protocol: {want}" in m.worker.text()


def test_entries_beyond_a_segment_end_the_worker(tmp_path, machine):
    with model(tmp_path, machine) as m:
        segment = lend(m)
        tensor = In(1, np.zeros(9), at=(segment, 2 * MIB - 64))
        m.peer.send(EXECUTE, execute_body([{"handle": 1, "inputs": [code("return [out([1])]"), tensor]}]), 1)
        assert m.worker.ended() == 1
        m.peer.close()
        assert f"tensor entry: offset {2 * MIB - 64}, 72 bytes, segment {segment} has {2 * MIB}" in m.worker.text()


def test_a_release_on_a_device_that_is_not_in_use_ends_the_worker(tmp_path, machine):
    with model(tmp_path, machine) as m:
        (out,) = m.run(look(OUT.format(3, 0))).outputs
        m.peer.release([(out.at[0], 64)])
        assert m.worker.ended() == 1
        assert f"block at offset 64 of segment {out.at[0]} is not in use" in m.worker.text()


def test_nothing_is_open_when_a_worker_has_ended(tmp_path, machine):
    with model(tmp_path, machine) as m:
        m.run(look(OUT.format(3, 0)), placed(m, lend(m), 0, np.zeros(2)))
        assert len(machine.opened()) == 2
        m.peer.send(EXIT)
        assert m.worker.ended() == 0
        assert machine.opened() == []


# Calls.

GPU_CALL = """
from fakecuda import look, place
q = InferenceRequest(model_name="other", requested_output_names=["X"], inputs=[{}],
                     preferred_memory=PreferredMemory(TRITONSERVER_MEMORY_GPU, 0))
"""


def call(inputs, text):
    return GPU_CALL.format(inputs) + textwrap.dedent(text).strip()


def test_a_call_with_its_input_and_answer_on_devices(tmp_path, machine):
    for force in ("no", "yes"):
        with model(tmp_path / force, machine, force=force) as m:
            seen = []

            def answer(kind, number, body, m=m, seen=seen):
                assert m.peer.devices == [[U0, U1]]  # named before the first such call, once
                got = read_infer(body, m.peer.memory)
                seen.append(got)
                segment = lend(m, U1)
                array = got["inputs"]["A"] * 3
                placed(m, segment, 128, array)
                m.peer.send(INFER_RESPONSES, responses_body((1, [("X", array, (segment, 128))])), number)
                m.peer.release(got["blocks"])

            for n in range(3):
                machine.log()
                text = call(f"place('A', np.arange(4, dtype=np.int32) + {n}, 1)", """
                    t = q.exec().output_tensors()[0]
                    found, device = look(t)
                    return [text([device, found.tolist(), t.is_cpu()])]
                    """)  # fmt: skip
                assert serve(m, text, answer) == [1, [3 * n, 3 * n + 3, 3 * n + 6, 3 * n + 9], False]
                assert seen[-1]["device"] and seen[-1]["blocks"][0][0] >= 0x80000000
                assert copies(machine) == ["dtod"]
            m.run(code("return [out([1])]"))
            assert given_back(m, 3) == [(0x40000000 + n, 128) for n in range(3)]
            assert len(m.peer.grown) == 1


def test_calls_that_want_the_host_do_not_name_devices(tmp_path, machine):
    with model(tmp_path, machine, force="yes") as m:

        def answer(kind, number, body):
            got = read_infer(body, m.peer.memory)
            assert not got["device"]
            m.peer.send(INFER_RESPONSES, responses_body((1, [("X", got["inputs"]["A"])])), number)

        for preferred in ("", ", preferred_memory=PreferredMemory(TRITONSERVER_MEMORY_CPU, 0)"):
            text = CALL % (2, preferred) + "\n    return [text(q.exec().output_tensors()[0].as_numpy().tolist())]"
            assert serve(m, text, answer) == [0, 1]
        assert m.peer.devices == [] and machine.log() == []


def test_calls_that_want_a_device_where_there_is_none(tmp_path, machine):
    with model(tmp_path, machine, env={"FAKE_CUDA_COUNT": "0"}) as m:

        def answer(kind, number, body):
            got = read_infer(body, m.peer.memory)
            assert not got["device"]
            m.peer.send(INFER_RESPONSES, responses_body((1, [("X", got["inputs"]["A"])])), number)

        text = call("Tensor('A', np.arange(2))", "return [text(q.exec().output_tensors()[0].as_numpy().tolist())]")
        assert serve(m, text, answer) == [0, 1] and m.peer.devices == []


def test_an_input_passed_on_to_a_call(tmp_path, machine):
    with model(tmp_path, machine) as m:
        array = np.arange(5000, dtype=np.int64)
        segment = lend(m)
        tensor = placed(m, segment, 64, array)
        machine.log()
        m.peer.execute([{"handle": 1, "inputs": [code(call("r.inputs()[1]", """
            return [text(q.exec().output_tensors()[0].as_numpy().tolist())]
            """)), tensor]}])  # fmt: skip
        kind, _, number, body = m.peer.receive()
        got = read_infer(body, m.peer.memory)
        assert kind == INFER and got["inputs"]["A"].tolist() == array.tolist() and got["blocks"][0][0] >= 0x80000000
        m.peer.send(INFER_RESPONSES, responses_body((1, [("X", np.array([8]))])), number)
        ((response,), error) = m.peer.results()
        assert error is None and value(response) == [8]
        assert copies(machine) == ["dtod"] and given_back(m, 1) == [(segment, 64)]


def test_without_a_pool_a_call_goes_by_the_host(tmp_path, machine):
    with model(tmp_path, machine, pool=False) as m:

        def answer(kind, number, body):
            got = read_infer(body, m.peer.memory)
            m.peer.send(INFER_RESPONSES, responses_body((1, [("X", got["inputs"]["A"] + 1)])), number)

        m.run(code(CLOCK.format(0)))
        for count in (3, 30_000):
            text = call(f"place('A', np.arange({count}))", """
                return [text(q.exec().output_tensors()[0].as_numpy()[-2:].tolist())]
                """)  # fmt: skip
            assert serve(m, text, answer) == [count - 1, count]
        assert copies(machine) == ["dtoh"] * 2 and len(m.peer.grown) == 1


def test_an_answer_that_cannot_be_opened_is_an_error(tmp_path, machine):
    with model(tmp_path, machine) as m:

        def answer(kind, number, body):
            good, bad = lend(m), lend(m, handle=bytes(64))
            array = np.zeros(9)
            placed(m, good, 0, array)
            outputs = [("X", array, (good, 0)), ("Y", array, (bad, 0))]
            m.peer.send(INFER_RESPONSES, responses_body((1, outputs)), number)

        text = call("Tensor('A', np.arange(2))", """
            got = q.exec()
            return [text([got.has_error(), got.error().message(), len(got.output_tensors())])]
            """)  # fmt: skip
        want = "Output 'Y': Memory on a GPU cannot be opened: cuIpcOpenMemHandle_v2 failed: CUDA error 1"
        assert serve(m, text, answer) == [True, want, 0]
        m.run(code("return [out([1])]"))
        assert given_back(m, 2) == [(0x40000000, 0), (0x40000001, 0)]


def test_a_decoupled_call_with_answers_on_a_device(tmp_path, machine):
    with model(tmp_path, machine) as m:

        def answer(kind, number, body):
            got = read_infer(body, m.peer.memory)
            assert got["device"] and got["decoupled"]
            segment = lend(m)
            for n in range(3):
                array = np.arange(3000) + n
                placed(m, segment, n * 32768, array)
                m.peer.send(INFER_RESPONSES, responses_body((0, [("X", array, (segment, n * 32768))])), number)
            m.peer.send(INFER_RESPONSES, responses_body((3, [])), number)

        text = call("Tensor('A', np.arange(2))", """
            found = [look(x.output_tensors()[0])[0][-1].item() for x in q.exec(decoupled=True) if x.output_tensors()]
            return [text(found)]
            """)  # fmt: skip
        assert serve(m, text, answer) == [2999, 3000, 3001]
        m.run(code("return [out([1])]"))
        assert given_back(m, 3) == [(0x40000000, n * 32768) for n in range(3)]


ASYNC = """
    import asyncio, json
    import numpy as np
    import triton_python_backend_utils as pb_utils
    from fakecuda import look, place

    class TritonPythonModel:
        async def execute(self, requests):
            gpu = pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 0)
            calls = [pb_utils.InferenceRequest(model_name="other", requested_output_names=["X"], preferred_memory=gpu,
                                               inputs=[place("A", np.full(3000, n))]) for n in range(5)]
            found = await asyncio.gather(*[c.async_exec() for c in calls])
            values = [int(look(f.output_tensors()[0])[0][-1]) for f in found]
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([json.dumps(values)], object))]) for _ in requests]
"""


def test_coroutines_with_tensors_on_a_device(tmp_path, machine):
    with Model(tmp_path, ASYNC, inputs=("CODE",), config=config()) as m:
        m.peer.machine = machine
        segment = lend(m)
        for number in range(3):
            waiting = []

            def answer(kind, call, body, waiting=waiting):
                got = read_infer(body, m.peer.memory)
                waiting.append((call, got))
                if len(waiting) == 5:
                    for n, (call, got) in enumerate(reversed(waiting)):
                        array = got["inputs"]["A"] + 10
                        placed(m, segment, n * 32768, array)
                        m.peer.send(INFER_RESPONSES, responses_body((1, [("X", array, (segment, n * 32768))])), call)
                        m.peer.release(got["blocks"])

            assert serve(m, "", answer, number) == [10, 11, 12, 13, 14]
            assert given_back(m, 5) == [(segment, n * 32768) for n in range(5)]


def test_a_capsule_is_used_once(tmp_path, machine):
    with model(tmp_path, machine) as m:
        got = m.run(look("""
            capsule = r.inputs()[1].to_dlpack()
            first = Tensor.from_dlpack("OUT", capsule)
            try:
                Tensor.from_dlpack("OUT", capsule)
            except TritonModelException as error:
                assert "already used" in str(error)
                return [InferenceResponse([first])]
            """), placed(m, lend(m), 64, np.arange(4.0)))  # fmt: skip
        assert got.outputs[0].array().tolist() == [0, 1, 2, 3] and got.outputs[0].at is not None


def test_a_response_after_its_inputs_were_given_back(tmp_path, machine):
    """What was answered may still be looked at: the block stays until the model lets go."""
    with model(tmp_path, machine) as m:
        segment = lend(m)
        tensor = placed(m, segment, 64, np.arange(4.0))
        m.run(code("kept.append(r.inputs()[1])\nreturn [out([1])]"), tensor)
        got = m.run(code("return [InferenceResponse([Tensor.from_dlpack('OUT', kept.pop())])]"))
        assert got.outputs[0].array().tolist() == [0, 1, 2, 3] and copies(machine) == ["dtod"]
        m.run(code("return [out([1])]"))
        assert given_back(m, 1) == [(segment, 64)]
