"""A small server of OpenAI's protocol: completions, chat, streams of events, and faults of all kinds."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        with contextlib.suppress(ConnectionError):
            self.server.requests.append((self.path, json.loads(body), dict(self.headers)))
            getattr(self, self.server.behaviour)(json.loads(body))

    def reply(self, status, value):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def token(self, text):
        self.chunk(b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n")

    def good(self, body):
        if not body.get("stream"):
            kind = "chat.completion" if "messages" in body else "text_completion"
            return self.reply(200, {"object": kind, "choices": [{"text": "one two three"}]})
        self.events()
        for word in ("one", " two", " three"):
            self.token(word)
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def split(self, _):
        """Events that begin in one chunk and end in another, two in one, comments, other fields, CRLF."""
        self.events()
        for part in (
            b": hello\n\nda",
            b'ta: {"a":',
            b"1}\n\ndata: {}\n\ndata: {}\r\n\r\nevent: x\nid: 5\n\n",
            b"data: [DONE]\n\n",
            b"",
        ):
            self.chunk(part)

    def error(self, _):
        self.reply(429, {"error": {"message": "slow down\x1b[2J", "type": "rate_limit"}})

    def error_in_stream(self, _):
        self.events()
        self.token("one")
        self.chunk(b'data: {"error": {"message": "out of memory"}}\n\n')
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def cut(self, _):
        """The connection ends in the middle of a stream."""
        self.events()
        self.token("one")
        self.close_connection = True

    def bad_chunk(self, _):
        self.events()
        self.wfile.write(b"zz\r\n")
        self.close_connection = True

    def long_line(self, _):
        """An event without an end."""
        self.events()
        self.chunk(b"data: ")
        for _ in range(2000):
            self.chunk(b"x" * (1 << 20))

    def endless(self, _):
        """Events without an end, a hundred a second."""
        self.events()
        while not self.server.stopping.wait(0.01):
            self.token("x")
        self.close_connection = True

    def silent(self, _):
        self.server.stopping.wait()
        self.close_connection = True

    def no_length(self, _):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")
        self.close_connection = True

    def empty(self, _):
        self.reply(200, {})


@contextlib.contextmanager
def serving(behaviour="good"):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = False, True
    server.behaviour, server.requests, server.stopping = behaviour, [], threading.Event()
    server.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()
