"""An S3 server for the cluster (moto), behind a door that a test can shut: refused, or silent as a network that drops what it gets."""

from __future__ import annotations

import contextlib
import select
import socket
import threading

from release import ADDRESS
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
        s = socket.socket()
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
        self.uri = f"s3://http://{ADDRESS}:{self.door.port}/{self.bucket}"
        return self

    def __exit__(self, *_):
        self.door.close()
        self.stop()

    def credentials(self, name: str) -> dict:
        """A Secret with what its clients need."""
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": self.env}
