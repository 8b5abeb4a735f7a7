"""A request with all its callbacks, each of which is written down."""

from __future__ import annotations

import ctypes as c
import struct
import threading

from library import ALLOC, ATTRIBUTES, FREE, I64, QUERY, RELEASE, RESPOND, START, U32, U64, Library, P

TYPES = {"BOOL": 1, "UINT8": 2, "UINT32": 4, "INT32": 8, "INT64": 9, "FP32": 11, "BYTES": 13}
FORMATS = {"INT32": "i", "FP32": "f", "INT64": "q", "UINT8": "B", "UINT32": "I"}


class Call:
    """One inference request. What its callbacks saw stands in `events` (of the allocator), `responses`, `released`."""

    def __init__(self, lib: Library, server, model: str, version: int = -1, query=True, attributes=True, start=True):
        self.lib, self.server, self.changed = lib, server, threading.Condition()
        self.events, self.responses, self.released, self.finals = [], [], [], 0
        self.order, self.keep, self.refuse, self.actual = [], [], "", (0, 0)
        self.give, self.prefer, self.eager, self.texts = None, None, False, []
        self.memory = {}
        self.request = P(lib.value_first("InferenceRequestNew", server, model, version))
        self.functions = [
            ALLOC(self.on_alloc),
            FREE(self.on_free),
            START(self.on_start),
            QUERY(self.on_query),
            ATTRIBUTES(self.on_attributes),
            RELEASE(self.on_release),
            RESPOND(self.on_response),
        ]
        f = self.functions
        self.allocator = P(lib.value_first("ResponseAllocatorNew", f[0], f[1], f[2] if start else None))
        if query:
            lib.must("ResponseAllocatorSetQueryFunction", self.allocator, f[3])
        if attributes:
            lib.must("ResponseAllocatorSetBufferAttributesFunction", self.allocator, f[4])
        lib.must("InferenceRequestSetReleaseCallback", self.request, f[5], P(5))
        lib.must("InferenceRequestSetResponseCallback", self.request, self.allocator, P(77), f[6], P(6))

    def on_start(self, _allocator, user):
        self.events.append(f"start user={user}")
        return self.fail("start")

    def fail(self, where):
        return self.lib("ErrorNew", 4, f"{where} refused") if self.refuse == where else None

    def on_query(self, _allocator, user, name, size, kind, identity):
        told = size[0] if size else None
        self.events.append(f"query {name and name.decode()} size={told} type={kind[0]} id={identity[0]} user={user}")
        if self.prefer:
            kind[0], identity[0] = self.prefer
        return self.fail("query")

    def on_alloc(self, _allocator, name, size, kind, identity, user, buffer, buffer_user, actual, actual_id):
        self.events.append(f"alloc {name.decode()} size={size} type={kind} id={identity} user={user}")
        if self.refuse == "alloc":
            return self.fail("alloc")
        memory = c.create_string_buffer(max(size, 1))
        at = c.addressof(memory)
        self.memory[at] = memory
        buffer[0], buffer_user[0] = at if size else None, 1000 + len(self.memory)
        actual[0], actual_id[0] = self.actual
        return None

    def on_attributes(self, _allocator, name, attributes, user, buffer_user):
        lib = self.lib
        kind = lib.value("BufferAttributesMemoryType", P(attributes), kind=c.c_int)
        identity = lib.value("BufferAttributesMemoryTypeId", P(attributes), kind=I64)
        ipc = lib.value("BufferAttributesCudaIpcHandle", P(attributes))
        if self.give:
            lib.must("BufferAttributesSetMemoryType", P(attributes), self.give[0])
            lib.must("BufferAttributesSetMemoryTypeId", P(attributes), self.give[1])
            lib.must("BufferAttributesSetByteSize", P(attributes), 8)
        self.events.append(
            f"attributes {name.decode()} type={kind} id={identity} ipc={ipc} user={user} own={buffer_user}"
        )
        return self.fail("attributes")

    def on_free(self, _allocator, buffer, buffer_user, size, kind, identity):
        mine = "mine" if buffer in self.memory else buffer
        self.events.append(f"free {mine} own={buffer_user} size={size} type={kind} id={identity}")
        return self.fail("free")

    def on_release(self, request, flags, user):
        with self.changed:
            same = request == self.request.value
            self.released.append(f"flags={flags} user={user}{'' if same else ' another request'}")
            self.order.append("release")
            if self.eager:
                self.lib.must("InferenceRequestDelete", self.request)
            self.changed.notify_all()

    def on_response(self, response, flags, user):
        with self.changed:
            if self.eager:
                self.texts.append(f"flags={flags} user={user} {self.shown(response) if response else 'nothing'}")
                if response:
                    self.lib.must("InferenceResponseDelete", P(response))
            else:
                self.responses.append((response, flags, user))
            self.order.append("response" if response else "flags")
            self.finals += flags & 1
            self.changed.notify_all()

    def input(self, name: str, kind: str, shape, data=None, raw: bytes | None = None):
        dims = (I64 * len(shape))(*shape)
        self.lib.must("InferenceRequestAddInput", self.request, name, TYPES[kind], dims, len(shape))
        if raw is None and data is not None:
            raw = struct.pack(f"<{len(data)}{FORMATS[kind]}", *data)
        if raw is not None:
            self.append(name, raw)
        return self

    def append(self, name: str, raw: bytes):
        memory = c.create_string_buffer(raw, max(1, len(raw)))
        self.keep.append(memory)
        self.lib.must("InferenceRequestAppendInputData", self.request, name, memory, len(raw), 0, 0)

    def put(self, setter: str, *args):
        self.lib.must("InferenceRequest" + setter, self.request, *args)
        return self

    def send(self, trace=None) -> str:
        return self.lib.error(self.lib("ServerInferAsync", self.server, self.request, trace))

    def wait(self, finals: int = 1, released: int = 1) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.finals >= finals and len(self.released) >= released, 60)

    def wait_responses(self, n: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: len(self.responses) >= n, 60)

    def run(self) -> str:
        answer = self.send()
        if answer == "ok" and not self.wait():
            return "it does not end"
        return answer

    def shown(self, response) -> str:
        """A response as text."""
        lib, r = self.lib, P(response)
        parts = []
        e = lib("InferenceResponseError", r)
        if e:
            parts.append("error " + lib.shown(e))  # the peer has outputs beside it, of which some were never made
        model, version = c.c_char_p(), I64()
        lib.must("InferenceResponseModel", r, c.byref(model), c.byref(version))
        identity = lib.value("InferenceResponseId", r, kind=c.c_char_p)
        parts.append(f"{model.value.decode()}:{version.value} id={identity!r}")
        for i in range(lib.value("InferenceResponseParameterCount", r, kind=U32)):
            parts.append(self.parameter(r, i))
        for i in range(0 if e else lib.value("InferenceResponseOutputCount", r, kind=U32)):
            parts.append(self.output(r, i))
        return "; ".join(parts)

    def parameter(self, r, i) -> str:
        name, kind, value = c.c_char_p(), c.c_int(), P()
        self.lib.must("InferenceResponseParameter", r, i, c.byref(name), c.byref(kind), c.byref(value))
        types = [c.c_char_p, I64, c.c_bool, c.c_double]
        v = (
            c.string_at(value.value).decode()
            if kind.value == 0
            else c.cast(value, c.POINTER(types[kind.value])).contents.value
        )
        return f"parameter {name.value.decode()}={v!r}"

    def output(self, r, i) -> str:
        name, kind, shape, dims = c.c_char_p(), c.c_int(), c.POINTER(I64)(), U64()
        base, size, memory, identity, user = P(), c.c_size_t(), c.c_int(), I64(), P()
        out = (name, kind, shape, dims, base, size, memory, identity, user)
        self.lib.must("InferenceResponseOutput", r, i, *[c.byref(o) for o in out])
        data = c.string_at(base.value, size.value) if base.value and size.value else b""
        word = next((t for t, n in TYPES.items() if n == kind.value), str(kind.value))
        if word in FORMATS:
            data = list(struct.unpack(f"<{len(data) // struct.calcsize(FORMATS[word])}{FORMATS[word]}", data))
        if len(data) > 8:
            data = f"{len(data)} values"
        where = "null" if not base.value else "mine" if base.value in self.memory else "elsewhere"
        return (
            f"{name.value.decode()} {word}{[shape[k] for k in range(dims.value)]} {data} in {where} size={size.value}"
            f" type={memory.value} id={identity.value} own={user.value}"
        )

    def content(self, i: int) -> bytes | str:
        """The memory of an output of the first response, or what came in its place."""
        response = next((r for r, _, _ in self.responses if r), None)
        if response is None:
            return "no response"
        if self.lib("InferenceResponseError", P(response)):
            return self.shown(response)
        out = (c.c_char_p(), c.c_int(), c.POINTER(I64)(), U64(), P(), c.c_size_t(), c.c_int(), I64(), P())
        self.lib.must("InferenceResponseOutput", P(response), i, *[c.byref(o) for o in out])
        return c.string_at(out[4].value, out[5].value) if out[4].value else b""

    def bytes(self, i: int = 0) -> str:
        """The elements of a BYTES output, or what came in its place."""
        data, texts = self.content(i), []
        if isinstance(data, str):
            return data
        while data:
            n = int.from_bytes(data[:4], "little")
            texts.append(data[4 : 4 + n].decode())
            data = data[4 + n :]
        return "|".join(texts)

    def values(self) -> list | str:
        """The elements of the first output, of INT32, or what came in its place."""
        data = self.content(0)
        return data if isinstance(data, str) else list(struct.unpack(f"<{len(data) // 4}i", data))

    def tell(self, question: str, answer: str | None = None, delete=True, events=True) -> None:
        """Writes down the whole call, after it has been sent."""
        lib = self.lib
        answer = self.run() if answer is None else answer
        lib.say(question, answer)
        for response, flags, user in self.responses:
            text = self.shown(response) if response else "nothing"
            lib.say(f"{question}: response", f"flags={flags} user={user} {text}")
        for one in self.released:
            lib.say(f"{question}: released", one)
        if delete:
            self.delete(f"{question}: delete")
        if events:
            for event in self.events:
                lib.say(f"{question}: allocator", event)

    def forget(self) -> None:
        """What came back, so that the request can be sent again."""
        for response, _, _ in self.responses:
            if response:
                self.lib.must("InferenceResponseDelete", P(response))
        self.responses, self.released, self.finals, self.events, self.order = [], [], 0, [], []

    def delete(self, question: str = "") -> None:
        answers = [
            self.lib.error(self.lib("InferenceResponseDelete", P(r))) for r, _, _ in self.responses if r is not None
        ]
        self.responses = []
        answers.append(self.lib.error(self.lib("InferenceRequestDelete", self.request)))
        answers.append(self.lib.error(self.lib("ResponseAllocatorDelete", self.allocator)))
        if question and set(answers) != {"ok"}:
            self.lib.say(question, ", ".join(answers))
