"""Tensors in shared memory: views of inputs, blocks for outputs, who may reuse what and when."""

from __future__ import annotations

import random
import resource
import struct

import numpy as np
import pytest
from harness import (
    DROP,
    EXIT,
    FAILED,
    GROW,
    INPUTS_HELD,
    RESPONSES,
    Gate,
    In,
    Model,
    needs_private_views,
    read_responses,
)
from test_execute import SCRIPT, code, script, value

from neso_runtime.frames import ProtocolError
from neso_runtime.memory import Outputs, size_class

pytestmark = pytest.mark.usefixtures("inputs")


def placed(model, segment, offset, array, index=1, own=False):
    """An input in shared memory; own says that nothing else reads it."""
    data = array.tobytes()
    model.peer.memory[segment][offset : offset + len(data)] = data
    return In(index, array, at=(segment, offset), own=own)


def test_large_tensors_both_ways(tmp_path):
    with script(tmp_path) as m:
        segment = m.peer.segment(0, 1 << 22)
        array = np.arange(200000, dtype=np.float64)
        response = m.run(code("""
            a = r.inputs()[1].as_numpy()
            assert a.flags.writeable
            return [InferenceResponse([Tensor("OUT", a + 1), Tensor("TWO", a[:3])])]
            """), placed(m, segment, 4096, array))  # fmt: skip
        assert response.flags == 1
        large, small = response.outputs
        assert large.at is not None and large.at[0] >= 0x80000000 and small.at is None
        np.testing.assert_array_equal(large.array(), array + 1)
        assert small.array().tolist() == [0, 1, 2]


WRITE = """
a = r.inputs()[1].as_numpy()
a += 1
assert r.inputs()[1].as_numpy()[0] == 1
return [out(a[:1])]
"""


@pytest.mark.parametrize("copied", [False, True])
def test_models_may_write_to_inputs(tmp_path, copied):
    """As in Triton. In place where nothing else reads them; else only the model sees it."""
    with script(tmp_path, copied=copied) as m:
        m.peer.segment(0, 1 << 20)
        m.peer.segment(2, 1 << 20)
        for segment, own in ((0, True), (0, False), (0x40000000, False)):
            tensor = placed(m, segment, 4096, np.zeros(3000), own=own)
            got = m.run(code(WRITE), tensor)
            assert got.flags == 1 and got.outputs[0].array().tolist() == [1]
            assert np.frombuffer(m.peer.memory[segment], np.float64, 1, 4096)[0] == own
        assert m.run(code(WRITE), In(1, np.zeros(3))).outputs[0].array().tolist() == [1]


NEXT = """
t = r.inputs()[1]
a = t.as_numpy()
assert (a == %d).all(), a
private = any("rw-p" in n and "memfd" in n for n in open("/proc/self/maps")
              if int(n.split("-")[0], 16) <= a.ctypes.data < int(n.split("-")[1].split()[0], 16))
%s
return [InferenceResponse([t, Tensor("TWO", np.array([private]))])]
"""


@needs_private_views
def test_what_a_model_wrote_is_not_there_in_the_next_request(tmp_path):
    """A block that is used again has what was put there since. Tensors that were written to are copied from then on."""
    with Model(tmp_path, SCRIPT, inputs=("CODE", "A", "B"), outputs=("A", "TWO", "B")) as m:
        n = 0
        for segment, offset in ((m.peer.segment(0, 1 << 20), 4096), (m.peer.segment(2, 1 << 20), 4160)):
            # An input that is read, one that is written to, ...
            for index, body, private in (
                (2, "", 1),
                (1, "a[:] = 7", segment == 0),
                (2, "", 1),
                (1, "a[-1] = 5", 0),
                (2, "", 1),
            ):
                n += 1
                tensor = placed(m, segment, offset, np.full(20000, n, np.int64), index)
                passed_on, found = m.run(code(NEXT % (n, body)), tensor).outputs
                want = np.full(20000, n)
                exec(body, {"a": want})
                assert passed_on.array().tolist() == want.tolist() and found.array()[0] == private
                assert (np.frombuffer(m.peer.memory[segment], np.int64, 20000, offset) == n).all()


def test_private_mappings_only_where_they_are_wanted(tmp_path, inputs):
    """Either way a model may write, and the next request has what was put there for it."""
    with Model(tmp_path, SCRIPT, inputs=("CODE", "A", "B"), outputs=("A", "TWO", "B")) as m:
        for segment in (m.peer.segment(0, 1 << 20), m.peer.segment(2, 1 << 20)):
            for n, (name, body) in enumerate([(2, ""), (1, "a[:] = 7"), (2, ""), (1, "a[:] = 8")], start=1):
                tensor = placed(m, segment, 4096, np.full(20000, n, np.int64), name)
                passed_on, found = m.run(code(NEXT % (n, body)), tensor).outputs
                want = np.full(20000, n)
                exec(body, {"a": want})
                assert passed_on.array().tolist() == want.tolist()
                assert (np.frombuffer(m.peer.memory[segment], np.int64, 20000, 4096) == n).all()
                if inputs == "copied":
                    assert found.array()[0] == 0


def test_memory_that_is_limited_is_not_mapped_twice(tmp_path):
    """A limit counts private mappings whole: tensors are copied."""
    with script(tmp_path) as m:
        resource.prlimit(m.worker.process.pid, resource.RLIMIT_DATA, (1 << 40, 1 << 40))
        m.run(code("return [out([1])]"))
        tensor = placed(m, m.peer.segment(2, 1 << 20), 4096, np.full(20000, 1, np.int64))
        got = m.run(code(NEXT.replace("[t,", '[Tensor("OUT", a),') % (1, "a[:] = 2")), tensor)
        assert got.outputs[0].array().tolist() == [2] * 20000 and got.outputs[1].array()[0] == 0


LOCK = """
import ctypes
return [out([ctypes.CDLL(None).mlockall(3)])]  # MCL_CURRENT | MCL_FUTURE
"""


def test_a_model_that_locks_its_memory(tmp_path):
    """Locking copies the pages of private mappings, which follow their segments no more."""
    with script(tmp_path) as m:
        before = m.peer.segment(0, 1 << 20)
        if m.run(code(LOCK)).outputs[0].array()[0]:
            pytest.skip("the process may not lock its memory")
        for segment in (before, m.peer.segment(2, 1 << 20)):
            for n in range(1, 4):
                tensor = placed(m, segment, 4096, np.full(20000, n, np.int64))
                got = m.run(code("a = r.inputs()[1].as_numpy()\na += 1\nreturn [out(a)]"), tensor)
                assert set(got.outputs[0].array()) == {n + 1}
                assert (np.frombuffer(m.peer.memory[segment], np.int64, 20000, 4096) == n).all()


def test_input_returned_as_output_is_copied(tmp_path):
    with script(tmp_path) as m:
        segment = m.peer.segment(0, 1 << 20)
        array = np.arange(30000, dtype=np.float32)
        for text in ("Tensor('OUT', r.inputs()[1].as_numpy())", "Tensor('OUT', r.inputs()[1].as_numpy()[::-1][::-1])",
                     "r.inputs()[1]", "Tensor.from_dlpack('OUT', r.inputs()[1])"):  # fmt: skip
            response = m.run(code(f"return [InferenceResponse([{text}])]"), placed(m, segment, 0, array))
            (out,) = response.outputs
            assert response.flags == 1 and out.at[0] != segment
            np.testing.assert_array_equal(out.array(), array)


@pytest.mark.parametrize("keep", ["r.inputs()[1].as_numpy()", "r.inputs()[1]", "r", "r.inputs()[1].as_numpy()[5:7]",
                                  "memoryview(r.inputs()[1].as_numpy())"])  # fmt: skip
@needs_private_views
def test_inputs_that_the_model_keeps(tmp_path, keep):
    with script(tmp_path) as m:
        segment = m.peer.segment(0, 1 << 20)
        first = placed(m, segment, 64, np.arange(3000, dtype=np.float64), own=True)
        second = placed(m, segment, 65536, np.arange(3000, dtype=np.float64), 2)
        response = m.run(code(f"kept.append({keep})\nreturn [out([1])]"), first, second)
        assert response.flags == 1 | INPUTS_HELD
        # RELEASE comes for each input: for the one nobody kept at once, for the other when it is dropped.
        m.run(code("return [out([1])]"))
        if keep != "r":
            assert m.peer.released == [(segment, 65536)]
        m.run(code("kept.clear()\nreturn [out([1])]"))
        m.run(code("return [out([1])]"))
        assert sorted(m.peer.released) == [(segment, 64), (segment, 65536)]
        assert m.run(code("return [out([1])]"), first).flags == 1


DROP_LATER = """
def later():
    {}
    kept.clear()
kept.append(r.inputs()[1])
threading.Thread(target=later).start()
return [out([1])]
"""


@needs_private_views
def test_kept_inputs_are_released_by_an_idle_worker(tmp_path):
    gate = Gate(tmp_path)
    with script(tmp_path) as m:
        segment = m.peer.segment(0, 1 << 20)
        tensor = placed(m, segment, 0, np.zeros(3000))
        assert m.run(code(DROP_LATER.format(gate.wait)), tensor).flags == 1 | INPUTS_HELD
        gate.open()
        kind, _, _, body = m.peer.frame()  # no request asks for it
        assert kind == 16 and body == b"\1\0\0\0" + segment.to_bytes(4, "little") + bytes(8)


@needs_private_views
def test_inputs_kept_by_an_execute_that_fails(tmp_path):
    with script(tmp_path) as m:
        segment = m.peer.segment(0, 1 << 20)
        tensor = placed(m, segment, 128, np.zeros(3000))
        fail = code("kept.append(r)\nraise ValueError('no')")
        responses, error = m.peer.run([{"handle": 3, "inputs": [fail, tensor]}])
        assert error[0].startswith("ValueError: no")
        (response,) = responses
        assert (response.handle, response.flags, response.code) == (3, 1 | INPUTS_HELD, 1)
        assert response.message.startswith(
            "Failed to process the request(s) for model 'm_0_0', message: ValueError: no"
        )
        responses, error = m.peer.run([{"handle": 4, "inputs": [code("raise ValueError('no')"), tensor]}])
        assert responses == [] and error


def test_dlpack_of_shared_memory_is_what_the_model_may_write_to(tmp_path):
    """A consumer of DLPack may write, which the model sees and the server does not."""
    with script(tmp_path) as m:
        segment = m.peer.segment(0, 1 << 20)
        got = m.run(code("""
            t = r.inputs()[1]
            b = Tensor.from_dlpack("OUT", t.to_dlpack()).as_numpy()
            b += 1
            assert t.as_numpy()[0] == 1 and np.from_dlpack(t)[1] == 2
            return [out(b)]
            """), placed(m, segment, 0, np.arange(3000.0), own=True))  # fmt: skip
        assert got.outputs[0].array()[0] == 1


MAPPED = """
at = r.inputs()[1].as_numpy().ctypes.data
lines = [line.split() for line in open("/proc/self/maps")]
(line,) = [n for n in lines if int(n[0].split("-")[0], 16) <= at < int(n[0].split("-")[1], 16)]
assert line[1] == "rw-p" and r.inputs()[1].as_numpy().flags.writeable
kept.append(r.inputs()[1].as_numpy())
return [out(r.inputs()[1].as_numpy()[:2])]
"""
COUNT = """
return [out([sum("memfd:test" in line for line in open("/proc/self/maps")), len(os.listdir("/proc/self/fd"))])]
"""


@needs_private_views
def test_lent_segments_are_read_and_dropped(tmp_path):
    """A segment of another model is mapped for this one alone, and goes with its last array behind DROP."""
    with script(tmp_path) as m:
        assert m.hello["lent"] is True
        m.peer.segment(0, 1 << 20)
        mappings, descriptors = m.run(code(COUNT)).outputs[0].array()
        for n in range(3):
            segment = m.peer.segment(2, 1 << 20)
            assert segment == 0x40000000 + n
            got = m.run(code(MAPPED), placed(m, segment, 4096, np.arange(3000.0) + n))
            assert got.flags == 1 | INPUTS_HELD and got.outputs[0].array().tolist() == [n, n + 1]
            m.peer.send(DROP, struct.pack("<I", segment))
            assert m.run(code("return [out(kept[0][-2:])]")).outputs[0].array().tolist() == [2998 + n, 2999 + n]
            assert m.run(code(COUNT)).outputs[0].array()[0] == mappings + 1
            m.run(code("kept.clear()\nreturn [out([1])]"))
            assert m.run(code(COUNT)).outputs[0].array().tolist() == [mappings, descriptors]


@pytest.mark.parametrize("body", [b"", b"\0\0\0\x40\0", struct.pack("<I", 0x40000001), struct.pack("<I", 0)])
def test_drop_of_what_was_not_lent(tmp_path, body):
    with script(tmp_path) as m:
        m.peer.segment(0, 1 << 20)
        m.peer.segment(2, 1 << 20)
        m.peer.send(DROP, body)
        assert m.worker.ended() == 1
        m.peer.close()
        assert "worker protocol: drop:" in m.worker.text()


def test_output_blocks_are_reused(tmp_path):
    with script(tmp_path) as m:
        grown = []
        m.peer.grow = lambda number, size: grown.append((size, m.peer.segment(1, size)))
        for n in range(50):
            (out,) = m.run(code(f"return [out(np.full(100000, {n}.0))]")).outputs
            assert out.array()[-1] == n
            m.peer.release([out.at])
        assert len(grown) == 1
        held = [m.run(code("return [out(np.zeros(100000))]")).outputs[0].at for _ in range(4)]
        assert len(set(held)) == 4 and len(grown) == 3


def test_no_memory_for_an_output(tmp_path):
    with script(tmp_path) as m:
        m.peer.grow = lambda number, size: m.peer.send(FAILED, {"message": "too much", "traceback": ""}, number)
        r = m.run(code("return [out(np.zeros(100000))]"))
        assert r.code == 1 and "No memory for a tensor of 800000 bytes: too much" in r.message
        assert m.run(code("return [out([1])]")).code == 0xFF


def test_outputs_of_a_response_that_fails_are_taken_back(tmp_path):
    """The first lies in its block when the second turns out to be none."""
    with script(tmp_path) as m:
        grown = []
        m.peer.grow = lambda number, size: grown.append((size, m.peer.segment(1, size)))
        fail = """
            return [InferenceResponse([Tensor("OUT", np.zeros(100000)), Tensor("\\ud800", np.zeros(1))])]
            """
        for _ in range(20):
            assert m.run(code(fail)).code == 1
        (out,) = m.run(code("return [out(np.zeros(100000))]")).outputs
        assert out.at[1] == 0 and len(grown) == 1


def test_release_of_what_is_not_in_use_ends_the_worker(tmp_path):
    with script(tmp_path) as m:
        m.peer.release([(5, 64)])
        assert m.worker.ended() == 1
        assert "block at offset 64 of segment 5 is not in use" in m.worker.text()


def test_segment_shorter_than_announced(tmp_path):
    import os
    import socket
    import struct

    with script(tmp_path) as m:
        fd = os.memfd_create("short")
        os.ftruncate(fd, 100)
        m.peer.send(14, struct.pack("<IIQ", 1, 0, 4096))
        socket.send_fds(m.peer.descriptors, [b"\0"], [fd])
        os.close(fd)
        assert m.worker.ended() == 1
        assert "segment 1: 4096 bytes announced, 100 there" in m.worker.text()


def test_size_classes():
    assert [size_class(n) for n in (0, 1, 64, 65, 8193, 10240, 1 << 20)] == [64, 64, 64, 128, 10240, 10240, 1 << 20]
    for n in [*range(1, 5000), *(random.randrange(1 << 40) for _ in range(1000))]:
        got = size_class(n)
        assert got >= n and got % 64 == 0 and (got <= n * 5 // 4 + 64) and size_class(got) == got


def test_blocks_never_overlap():
    """Against the plain truth: which bytes are taken."""
    chance = random.Random(4)
    outputs = Outputs()
    outputs.add(7, memoryview(bytearray(1 << 16)))
    outputs.add(9, memoryview(bytearray(1 << 15)))
    taken = {}
    for _ in range(4000):
        if taken and chance.random() < 0.5:
            block = chance.choice(list(taken))
            del taken[block]
            outputs.release([block])
            continue
        size = chance.choice((chance.randrange(1, 300), chance.randrange(1, 20000)))
        block = outputs.take(size)
        if block is None:
            continue
        assert block not in taken and block[1] % 64 == 0 and block[1] + size <= {7: 1 << 16, 9: 1 << 15}[block[0]]
        for other, length in taken.items():
            assert other[0] != block[0] or other[1] + length <= block[1] or block[1] + size <= other[1]
        taken[block] = size
    outputs.release(list(taken))
    assert outputs.take(1 << 16) == (7, 0)
    with pytest.raises(ProtocolError):
        outputs.release([(7, 64)])


assert EXIT and GROW and RESPONSES and Model and read_responses and value
