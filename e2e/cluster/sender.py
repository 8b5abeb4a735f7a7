"""The program of the pod that sends the load: each connection to it is one load, for as long as the other side keeps it open.

It gets one line, how the clients call, and answers with a line five times a second, what the requests have come to. When it is sent
another line the clients end, and the last line says `ended`. When the connection ends without one, they end too.
"""

from __future__ import annotations

import json
import socket
import socketserver
import sys
import threading
from collections.abc import Callable

from sending import Calls, Load, send

PORT = 9900


class Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        line = self.rfile.readline()
        if not line:  # a probe
            return
        asked = json.loads(line)
        calls = Calls(**asked["calls"] | {"channel": tuple(tuple(c) for c in asked["calls"]["channel"])})
        load, ended = Load(calls), threading.Event()
        told = self.tells(load, ended)
        threads = [
            threading.Thread(target=send, args=(load, t, ended))
            for t in asked["transports"]
            for _ in range(calls.clients)
        ]
        teller = threading.Thread(target=told, args=(0.2,))
        for t in (*threads, teller):
            t.start()
        self.rfile.readline()
        ended.set()
        for t in (*threads, teller):
            t.join()
        told(None)

    def tells(self, load: Load, ended: threading.Event) -> Callable[[float | None], None]:
        seen = 0

        def tell(every: float | None) -> None:
            nonlocal seen
            while every is None or not ended.wait(every):
                now = load.told(seen)
                seen += len(now["faults"])
                self.wfile.write(json.dumps(now | {"ended": every is None}).encode() + b"\n")
                if every is None:
                    return

        return tell


class Server(socketserver.ThreadingTCPServer):
    """On the pod's addresses of both families."""

    address_family = socket.AF_INET6
    allow_reuse_address = True
    daemon_threads = True

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


if __name__ == "__main__":
    with Server(("::", PORT), Handler) as server:
        print("sends", file=sys.stderr, flush=True)
        server.serve_forever()
