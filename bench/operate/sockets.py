"""Thousands of connections from one process: raw sockets that speak as much HTTP/1.1 and HTTP/2 as one request needs."""

import collections
import json
import selectors
import socket
import struct
import time


class Client:
    """Connections to one server; reply says how many bytes at the head of what has come are one answer, 0 for not all of it."""

    request = b""

    def __init__(self, server, model):
        self.server, self.model, self.open_sockets = server, model, []

    def port(self):
        raise NotImplementedError

    def hello(self, s):
        """What opens a connection beyond TCP."""

    def next_request(self, _turn):
        return self.request

    def reply(self, data):
        raise NotImplementedError

    def open(self, count):
        for _ in range(count):
            s = socket.create_connection(("127.0.0.1", self.port()), timeout=60)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.hello(s)
            self.open_sockets.append(s)

    def close(self):
        for s in self.open_sockets:
            s.close()

    def active(self, period, seconds):
        """Each connection sends one request in period seconds, spread evenly. Returns requests a second and their latencies."""
        poll = selectors.EpollSelector()
        for s in self.open_sockets:
            s.setblocking(False)
            poll.register(s, selectors.EVENT_READ, [b"", collections.deque()])
        pause, count, latencies = period / len(self.open_sockets), len(self.open_sockets), []
        begin = time.perf_counter()
        sent, turn = 0, 0
        while True:
            now = time.perf_counter()
            if now - begin > seconds and (len(latencies) == sent or now - begin > seconds + 10):
                break
            while now - begin < seconds and sent < (now - begin) / pause:
                s = self.open_sockets[sent % count]
                turn = sent // count
                s.send(self.next_request(turn))
                poll.get_key(s).data[1].append(time.perf_counter())
                sent += 1
            for key, _ in poll.select(min(pause, 0.001)):
                state = key.data
                data = key.fileobj.recv(65536)
                if not data:
                    raise RuntimeError("the server has closed a connection")
                state[0] += data
                while length := self.reply(state[0]):
                    state[0] = state[0][length:]
                    latencies.append(time.perf_counter() - state[1].popleft())
        poll.close()
        if len(latencies) != sent:
            raise RuntimeError(f"{len(latencies)} of {sent} requests were answered")
        return sent / seconds, latencies


class Http(Client):
    def __init__(self, server, model):
        super().__init__(server, model)
        body = json.dumps(
            {"inputs": [{"name": "INPUT0", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
        ).encode()
        head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        self.request = head.encode() + body

    def port(self):
        return self.server.http_port

    def reply(self, data):
        head, found, _ = data.partition(b"\r\n\r\n")
        if not found:
            return 0
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(data[:300])
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
        )
        whole = len(head) + 4 + length
        return whole if len(data) >= whole else 0


DATA, HEADERS, SETTINGS, PING, END_STREAM, END_HEADERS = 0, 1, 4, 6, 1, 4


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A header field that nobody keeps, in plain letters."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


class Grpc(Client):
    def __init__(self, server, model):
        super().__init__(server, model)
        from tritonclient.grpc import service_pb2

        message = service_pb2.ModelInferRequest(model_name=model)
        tensor = message.inputs.add(name="INPUT0", datatype="FP32", shape=[1, 4])
        tensor.contents.fp32_contents.extend([1, 2, 3, 4])
        text = message.SerializeToString()
        self.body = struct.pack(">BI", 0, len(text)) + text
        self.head = b"".join(
            literal(name, value)
            for name, value in (
                (b":method", b"POST"),
                (b":scheme", b"http"),
                (b":path", b"/inference.GRPCInferenceService/ModelInfer"),
                (b":authority", b"x"),
                (b"te", b"trailers"),
                (b"content-type", b"application/grpc"),
            )
        )

    def port(self):
        return self.server.grpc_port

    def hello(self, s):
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, b"") + frame(SETTINGS, 1, 0, b""))

    def next_request(self, turn):
        stream = 2 * turn + 1
        return frame(HEADERS, END_HEADERS, stream, self.head) + frame(DATA, END_STREAM, stream, self.body)

    def reply(self, data):
        """Up to the frame that ends a stream; DATA must have come by then."""
        at, message = 0, False
        while len(data) >= at + 9:
            length, kind, flags = int.from_bytes(data[at : at + 3], "big"), data[at + 3], data[at + 4]
            if len(data) < at + 9 + length:
                return 0
            at += 9 + length
            message |= kind == DATA and length > 0
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                if not message:
                    raise RuntimeError("a call has failed")
                return at
        return 0
