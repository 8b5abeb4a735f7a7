"""Plays the server: starts real worker processes and speaks the protocol with them.

The codec here is written plainly and apart from the worker's, so that the two check each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import socket
import struct
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from neso_runtime.private import PAGE, PrivateViews

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGE = os.path.join(ROOT, "neso_worker")

HELLO, LOAD, INIT, READY, FAILED, EXECUTE, EXECUTE_BATCH, RESPONSES, RESULT_BATCH, DONE, CANCEL, INFER = range(1, 13)
INFER_RESPONSES, SEGMENT, GROW, RELEASE, LOG, METRIC, CONTROL, BIND, UNBIND, UNLOAD, EXIT = range(13, 24)
FORK, FORKED, EXITED = 24, 25, 26
DROP, DROPPED, DEVICES = 28, 29, 30

INPUTS_HELD = 4

# Seconds until something that should have come long ago counts as missing: a machine may stand still for a while.
LONG = 120

NUMBERS = {
    np.dtype(t): n
    for n, t in enumerate(("bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"), start=1)
}
DTYPES = {n: t for t, n in NUMBERS.items()}
BYTES, BF16 = 13, 14


def _private_views() -> bool:
    fd = os.memfd_create("try")
    try:
        os.ftruncate(fd, PAGE)
        views = PrivateViews()
        views.add(1, fd, PAGE)
        return views.view(1, 0, PAGE, "") is not None
    finally:
        os.close(fd)


needs_private_views = pytest.mark.skipif(
    not _private_views(), reason="/proc/self/pagemap tells nothing: large inputs are copied here, not lent"
)


def until(condition):
    """Asks again until it is so."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, "it has not come to pass"
        time.sleep(0.001)


class Gate:
    """Holds a thread of a model, or a whole program, until the test lets it go on."""

    def __init__(self, tmp_path):
        self._path = tmp_path / "gate"

    @property
    def wait(self):
        """The text of a statement that waits; needs os and time."""
        return f"while not os.path.exists({str(self._path)!r}): time.sleep(0.001)"

    def open(self):
        self._path.touch()


def pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 8)


def header(kind, body=b"", number=0, instance=0):
    return struct.pack("<HBBIIIQ", 0x574E, 1, kind, len(body), instance, 0, number) + body


def pack_bytes(items):
    return b"".join(struct.pack("<I", len(i)) + i for i in items)


def unpack_bytes(data):
    items = []
    while data:
        (n,) = struct.unpack_from("<I", data)
        items.append(data[4 : 4 + n])
        data = data[4 + n :]
    return items


class In:
    """An input: an array, or raw data with a number and a shape; placed inline or at (segment, offset).

    With own nothing else reads that block.
    """

    def __init__(self, index, array=None, *, number=None, shape=None, data=None, at=None, own=False):
        if array is not None:
            array = np.asarray(array)
            if array.dtype == object:
                number, data = BYTES, pack_bytes(list(array.ravel()))
            else:
                number, data = NUMBERS[array.dtype], array.tobytes()
            shape = array.shape
        self.index, self.number, self.shape, self.data, self.at = index, number | own << 7, shape, data, at


def request_block(body: bytearray, patches, r):
    ident, text = r.get("id", "").encode(), r.get("text", "").encode()
    params = json.dumps(r["parameters"]).encode() if "parameters" in r else b""
    trace, wanted = r.get("trace", "").encode(), r.get("wanted")
    flags = r.get("flags", 0) | (4 if wanted is not None else 0)
    body += struct.pack(
        "<QQQQIIHHHHII", r["handle"], r.get("correlation", 0), r.get("timeout", 0), r.get("priority", 0), flags,
        r.get("batch_size", 0), len(r["inputs"]), len(wanted or ()), len(ident), len(text), len(params), len(trace),
    )  # fmt: skip
    body += ident + text + params + trace + struct.pack(f"<{len(wanted or ())}H", *(wanted or ()))
    body += b"\0" * (-len(body) % 8)
    for t in r["inputs"]:
        body += b"\0" * (-len(body) % 8)
        named = isinstance(t.index, str)
        segment, offset = t.at or (0xFFFFFFFF, 0)
        if t.at is None:
            patches.append((len(body) + 8, t.data))
        body += struct.pack(
            "<HBBIQQ", 0xFFFF if named else t.index, t.number, len(t.shape), segment, offset, len(t.data)
        )
        body += struct.pack(f"<{len(t.shape)}q", *t.shape)
        if named:
            body += struct.pack("<H", len(t.index.encode())) + t.index.encode()


def execute_body(requests) -> bytes:
    body, patches = bytearray(struct.pack("<II", len(requests), 0)), []
    for r in requests:
        request_block(body, patches, r)
    for at, data in patches:
        body += b"\0" * (-len(body) % 8)
        struct.pack_into("<Q", body, at, len(body))
        body += data
    return bytes(body)


class Out:
    def __init__(self, index, number, shape, data, at):
        self.index, self.number, self.shape, self.data, self.at = index, number, shape, data, at

    def array(self):
        if self.number == BYTES:
            items = unpack_bytes(self.data)
            a = np.empty(len(items), object)
            a[:] = items
            return a.reshape(self.shape)
        return np.frombuffer(self.data, DTYPES[self.number]).reshape(self.shape)


class Response:
    def __init__(self, handle, flags, code, message, parameters, outputs):
        self.handle, self.flags, self.code, self.message = handle, flags, code, message
        self.parameters, self.outputs = parameters, outputs


def read_responses(body, memory=None):
    """The responses of a body and whether it ends the batch."""
    count, flags = struct.unpack_from("<II", body)
    assert flags in (0, 1)
    pos, responses = 8, []
    for _ in range(count):
        handle, rflags, code, reserved, outputs, message, params = struct.unpack_from("<QIBBHII", body, pos)
        assert reserved == 0
        pos += 24
        text, pos = body[pos : pos + message].decode(), pos + message
        parameters, pos = body[pos : pos + params].decode(), pos + params
        pos += -pos % 8
        found = []
        for _ in range(outputs):
            pos += -pos % 8
            index, number, ndim, segment, offset, length = struct.unpack_from("<HBBIQQ", body, pos)
            shape = struct.unpack_from(f"<{ndim}q", body, pos + 24)
            pos += 24 + 8 * ndim
            if index == 0xFFFF:
                (n,) = struct.unpack_from("<H", body, pos)
                index = body[pos + 2 : pos + 2 + n].decode()
                pos += 2 + n
            if segment == 0xFFFFFFFF:
                assert offset % 8 == 0 and offset >= pos and offset + length <= len(body)
                data, at = body[offset : offset + length], None
            else:
                assert offset % 64 == 0
                data, at = bytes(memory[segment][offset : offset + length]), (segment, offset)
            found.append(Out(index, number, shape, data, at))
        responses.append(Response(handle, rflags, code, text, parameters, found))
    return responses, bool(flags)


class Ended(Exception):  # noqa: N818
    pass


class Peer:
    """The server's end of a worker's or zygote's channels."""

    def __init__(self, control, descriptors, zygote=False):
        self.control, self.descriptors = control, descriptors
        # A zygote answers over the channel that it is asked over.
        self.answers = control if zygote else descriptors
        for sock in (control, descriptors):
            sock.settimeout(LONG)
        self._data = b""
        self.memory = {}
        self.released = []
        self.logs = []
        # Segments that the worker has closed, the devices that it has named, and what was asked for on a device.
        self.dropped = []
        self.devices = []
        self.grown = []
        # Makes segments on devices, as fakecuda.Machine does; None refuses.
        self.machine = None
        self._next_segment = {0: 0, 1: 0x80000000, 2: 0x40000000}  # 3 and 4 are numbered with 1 and 2

    def send(self, kind, body=b"", number=0, instance=0):
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        self.control.sendall(header(kind, body, number, instance))

    def frame(self):
        """The next frame as (kind, instance, number, body)."""
        while True:
            if len(self._data) >= 24:
                magic, version, kind, length, instance, reserved, number = struct.unpack_from("<HBBIIIQ", self._data)
                assert (magic, version, reserved) == (0x574E, 1, 0)
                if len(self._data) >= 24 + length:
                    body, self._data = self._data[24 : 24 + length], self._data[24 + length :]
                    return kind, instance, number, body
            chunk = self.answers.recv(1 << 20)
            if not chunk:
                raise Ended
            self._data += chunk

    def receive(self):
        """The next frame, but logs and releases are put aside and GROW is served."""
        while True:
            kind, instance, number, body = self.frame()
            if kind == LOG:
                level, line, file, message = struct.unpack_from("<BIHI", body)
                self.logs.append((level, line, body[11 : 11 + file].decode(), body[11 + file :].decode()))
                assert len(body) == 11 + file + message
            elif kind == RELEASE:
                assert (len(body) - 4) == 12 * struct.unpack_from("<I", body)[0]
                self.released += list(struct.iter_unpack("<IQ", body[4:]))
            elif kind == DROPPED:
                self.dropped.append(struct.unpack("<I", body)[0])
            elif kind == DEVICES:
                (n,) = struct.unpack_from("<I", body)
                assert len(body) == 4 + 16 * n
                self.devices.append([body[4 + 16 * i : 20 + 16 * i] for i in range(n)])
            elif kind == GROW and len(body) == 24:
                self.grow_device(number, *struct.unpack("<Q16s", body))
            elif kind == GROW:
                self.grow(number, *struct.unpack("<Q", body))
            else:
                return kind, instance, number, body

    def grow(self, number, size):
        self.segment(1, size)

    def grow_device(self, number, size, uuid):
        self.grown.append((size, uuid))
        if self.machine is None:
            self.send(FAILED, {"message": "no pool", "traceback": ""}, number)
        else:
            self.device_segment(3, size, uuid)

    def device_segment(self, kind, size, uuid, handle=None):
        """Makes a segment on a device, or names one by a handle of the test's, and gives it to the worker."""
        number = self._next_segment[kind - 2]
        self._next_segment[kind - 2] += 1
        if handle is None:
            memory = self.memory[number] = self.machine.allocate(size, uuid)
            handle = memory.handle
        self.send(SEGMENT, struct.pack("<IIQ16s64s", number, kind, size, uuid, handle))
        return number

    def segment(self, kind, size):
        """Makes a segment and gives it to the worker."""
        number = self._next_segment[kind]
        self._next_segment[kind] += 1
        fd = os.memfd_create("test")
        os.ftruncate(fd, size)
        self.memory[number] = mmap.mmap(fd, size)
        if kind == 2:  # to read
            writable, fd = fd, os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
            os.close(writable)
        self.send(SEGMENT, struct.pack("<IIQ", number, kind, size))
        socket.send_fds(self.descriptors, [b"\0"], [fd])
        os.close(fd)
        return number

    def bell(self):
        """Gives the worker the bell; returns the end to ring it, which the caller closes."""
        heard, rings = os.pipe()
        self.send(SEGMENT, struct.pack("<IIQ", 0x7FFFFFFE, 6, 0))
        socket.send_fds(self.descriptors, [b"\0"], [heard])
        os.close(heard)
        return rings

    def call(self, kind, body, number=1, instance=0):
        """Sends an order; returns READY's value or raises RuntimeError with FAILED's."""
        self.send(kind, body, number, instance)
        got, _, back, answer = self.receive()
        assert back == number and got in (READY, FAILED), (got, back)
        value = json.loads(answer)
        if got == FAILED:
            error = RuntimeError(value["message"])
            error.traceback = value["traceback"]
            raise error
        return value

    def execute(self, requests, number=1):
        self.send(EXECUTE, execute_body(requests), number)

    def results(self, number=1):
        """All responses of a batch until its end, and DONE's error (message, traceback) or None."""
        found = []
        while True:
            kind, _, back, body = self.receive()
            assert back == number, (kind, back)
            if kind == DONE:
                if not body:
                    return found, None
                message, trace = struct.unpack_from("<II", body)
                assert len(body) == 8 + message + trace
                return found, (body[8 : 8 + message].decode(), body[8 + message :].decode())
            assert kind == RESPONSES
            responses, ends = read_responses(body, self.memory)
            found += responses
            if ends:
                return found, None

    def run(self, requests, number=1):
        self.execute(requests, number)
        return self.results(number)

    def release(self, blocks):
        self.send(RELEASE, struct.pack("<I", len(blocks)) + b"".join(struct.pack("<IQ", *b) for b in blocks))

    def close(self):
        self.control.close()
        self.descriptors.close()


class Process:
    """A started interpreter with the two channels and its output."""

    def __init__(self, mode, env=None, cwd=None):
        ours, theirs = socket.socketpair()
        dours, dtheirs = socket.socketpair()
        self.output, write = os.pipe()
        full = {**os.environ, **(env or {})}

        def place():
            # Descriptors 3 and 4 may be taken by those that are to be put there, and any other one by something else.
            free = [fcntl.fcntl(end.fileno(), fcntl.F_DUPFD, 5) for end in (theirs, dtheirs)]
            for fd, at in zip(free, (3, 4)):
                os.dup2(fd, at, True)
                os.close(fd)

        self.process = subprocess.Popen(
            [sys.executable, PACKAGE, mode], stdin=subprocess.DEVNULL, stdout=write, stderr=write, env=full, cwd=cwd,
            preexec_fn=place, close_fds=False,
        )  # fmt: skip
        os.close(write)
        theirs.close()
        dtheirs.close()
        self.peer = Peer(ours, dours, mode == "--zygote")

    def text(self):
        """All output, once the process has ended."""
        with os.fdopen(os.dup(self.output), "rb") as f:
            return f.read().decode()

    def ended(self):
        """The exit status, once there is one."""
        return self.process.wait(LONG)

    def end(self):
        self.peer.close()
        self.ended()

    def __del__(self):
        with contextlib.suppress(AttributeError, OSError):
            os.close(self.output)


class Model:
    """A model.py loaded in a worker of its own."""

    def __init__(self, tmp_path, source, *, inputs=("IN",), outputs=("OUT",), args=None, version="1", decoupled=False,
                 config=None, inline_limit=8192, helpers=None, complete=False, env=None, start=True,
                 window=0, copied=False):  # fmt: skip
        directory = tmp_path / "m" / version
        directory.mkdir(parents=True)
        self.path = str(directory / "model.py")
        (directory / "model.py").write_text(textwrap.dedent(source))
        for name, text in (helpers or {}).items():
            (directory / name).write_text(textwrap.dedent(text))
        self.worker = Process("--worker", env=env)
        self.peer = self.worker.peer
        kind, _, _, body = self.peer.receive()
        assert kind == HELLO
        self.hello = json.loads(body)
        self.load = {
            "model_path": self.path, "model_directory": str(tmp_path / "m"), "version_directory": str(directory),
            "name": "m", "version": int(version), "config": config or {"name": "m"}, "complete": complete,
            "inputs": list(inputs), "outputs": list(outputs), "inline_limit": inline_limit,
        }  # fmt: skip
        self.init = {
            "args": {"model_name": "m", "model_instance_name": "m_0_0", **(args or {})}, "config": config or {},
            "inputs": list(inputs), "outputs": list(outputs), "decoupled": decoupled, "window": window, "copied": copied,
        }  # fmt: skip
        if start:
            self.loaded = self.peer.call(LOAD, self.load)
            self.ready = self.peer.call(INIT, self.init)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.worker.end()

    def run(self, *inputs, number=1, **fields):
        """One request; its only response, or AssertionError with the batch's error."""
        responses, error = self.peer.run([{"handle": 100, "inputs": list(inputs), **fields}], number)
        assert error is None, error[0]
        assert len(responses) == 1 and responses[0].handle == 100 and responses[0].flags & 1
        return responses[0]

    def failure(self, *inputs, **fields):
        responses, error = self.peer.run([{"handle": 100, "inputs": list(inputs), **fields}])
        assert responses == [] and error is not None
        return error
