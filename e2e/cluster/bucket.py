"""An S3 server for the cluster (moto), behind a door that a test can shut: refused, or silent as a network that drops what it gets."""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import http.client
import http.server
import select
import socket
import threading
import time

from release import ADDRESS, host
from stores import S3


class Door:
    """Carries connections to a port of this machine, as long as it is open."""

    def __init__(self, port: int):
        self.inner, self.open, self.silent = port, threading.Event(), threading.Event()
        self.ended = threading.Event()
        self.listener = self._listen(0)
        self.port = self.listener.getsockname()[1]
        self.open.set()
        self.acceptor = threading.Thread(target=self._accept)
        self.acceptor.start()

    @staticmethod
    def _listen(port: int) -> socket.socket:
        s = socket.socket(socket.AF_INET6 if ":" in ADDRESS else socket.AF_INET)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((ADDRESS, port))
        s.listen(64)
        s.settimeout(0.1)
        return s

    def _accept(self) -> None:
        carriers = []
        while not self.ended.is_set():
            if not self.open.is_set():
                self.listener.close()
                while not self.open.wait(0.1):
                    if self.ended.is_set():
                        break
                else:
                    self.listener = self._listen(self.port)
                continue
            with contextlib.suppress(TimeoutError):
                outer, _ = self.listener.accept()
                carriers.append(threading.Thread(target=self._carry, args=(outer,)))
                carriers[-1].start()
        self.listener.close()
        for c in carriers:
            c.join()

    def _carry(self, outer: socket.socket) -> None:
        with outer, socket.create_connection(("127.0.0.1", self.inner)) as inner:
            both = {outer: inner, inner: outer}
            while self.open.is_set() and not self.ended.is_set():
                if self.silent.is_set():
                    self.ended.wait(0.1)
                    continue
                for ready in select.select(list(both), [], [], 0.1)[0]:
                    try:
                        got = ready.recv(1 << 16)
                        both[ready].sendall(got)
                    except OSError:
                        return
                    if not got:
                        return

    def refuse(self) -> None:
        self.open.clear()

    def hush(self) -> None:
        self.silent.set()

    def reopen(self) -> None:
        self.silent.clear()
        self.open.set()

    def close(self) -> None:
        self.ended.set()
        self.acceptor.join()


class Bucket(S3):
    """Pods reach it by the address of node 1."""

    def __enter__(self):
        self.door = Door(self.port)
        self.endpoint = f"{host(ADDRESS)}:{self.door.port}"
        self.uri = f"s3://http://{self.endpoint}/{self.bucket}"
        return self

    def __exit__(self, *_):
        self.door.close()
        self.stop()

    def credentials(self, name: str) -> dict:
        """A Secret with what its clients need."""
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": self.env}


SKEWED = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>RequestTimeTooSkewed</Code>
<Message>The difference between the request time and the current time is too large.</Message></Error>"""


class Skewed(http.server.ThreadingHTTPServer):
    """S3 with a clock that is some seconds ahead: it refuses, as S3 does, what has been signed more than a quarter of an hour apart
    from it, and passes the rest on to a port of this machine. (One kernel has one clock: that of a node cannot be set by itself.)"""

    address_family = socket.AF_INET6 if ":" in ADDRESS else socket.AF_INET
    daemon_threads = True

    def __init__(self, inner: int, ahead_s: float):
        super().__init__((ADDRESS, 0), Signed)
        self.inner, self.ahead_s = inner, ahead_s
        self.endpoint = f"{host(ADDRESS)}:{self.server_address[1]}"

    def __enter__(self):
        self.server = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1})
        self.server.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server.join()
        self.server_close()


class Signed(http.server.BaseHTTPRequestHandler):
    server: Skewed

    def date_time_string(self, timestamp=None):
        return email.utils.formatdate(time.time() + self.server.ahead_s, usegmt=True)

    def log_message(self, *_):
        pass

    def do_GET(self) -> None:
        signed = datetime.datetime.strptime(self.headers["X-Amz-Date"] + "+0000", "%Y%m%dT%H%M%SZ%z")
        if abs(time.time() + self.server.ahead_s - signed.timestamp()) > 900:
            self.reply(403, {"Content-Type": "application/xml"}, SKEWED)
            return
        inner = http.client.HTTPConnection("127.0.0.1", self.server.inner, timeout=60)
        with contextlib.closing(inner):
            inner.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                inner.putheader(name, value)
            inner.endheaders()
            got = inner.getresponse()
            self.reply(got.status, dict(got.headers), got.read())

    do_HEAD = do_GET

    def reply(self, status: int, headers: dict, body: bytes) -> None:
        self.send_response(status)  # with our Date
        for name, value in headers.items():
            if name.lower() not in ("date", "server", "connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(headers.get("Content-Length", len(body))))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
