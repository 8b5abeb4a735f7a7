"""A bucket in this process, with as much of S3's protocol as a server of models asks for: it counts, can be cut off, and can throttle."""

from __future__ import annotations

import hashlib
import http.server
import socket
import threading
import time
import urllib.parse
from collections import Counter
from pathlib import Path
from xml.sax.saxutils import escape


class Bucket:
    """Requests are counted by kind. rate, when set, is how many a second are answered; the others get SlowDown, as S3 says it."""

    def __init__(self, rate: float = 0):
        self.objects: dict[str, bytes] = {}
        self.counts: Counter = Counter()
        self.rate, self.tokens, self.refilled = rate, rate, time.monotonic()
        self.lock = threading.Lock()
        self.port = 0
        self.kept: socket.socket | None = None
        self.start()

    def start(self) -> None:
        """Begins to answer, after stop at the port that it had."""
        self.server = Server(("127.0.0.1", self.port), Handler)
        if self.kept:
            self.kept.close()
        self.server.bucket, self.port = self, self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Refuses connections. The port stays its own: a socket that does not listen is bound to it."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        self.kept = socket.socket()
        self.kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.kept.bind(("127.0.0.1", self.port))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.server.fileno() >= 0:  # it listens
            self.stop()
        self.kept.close()

    @property
    def uri(self) -> str:
        return f"s3://http://127.0.0.1:{self.port}/bucket"

    @property
    def env(self) -> dict:
        return {
            "AWS_ACCESS_KEY_ID": "none",
            "AWS_SECRET_ACCESS_KEY": "none",
            "AWS_DEFAULT_REGION": "eu-central-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def upload(self, directory: Path) -> None:
        for path in sorted(directory.rglob("*")):
            name = path.relative_to(directory).as_posix()
            if path.is_file():
                self.objects[name] = path.read_bytes()
            elif not any(path.iterdir()):
                self.objects[name + "/"] = b""

    def admit(self, kind: str) -> bool:
        with self.lock:
            now = time.monotonic()
            if self.rate:
                self.tokens = min(self.rate, self.tokens + (now - self.refilled) * self.rate)
                self.refilled = now
                if self.tokens < 1:
                    self.counts["throttled"] += 1
                    return False
                self.tokens -= 1
            self.counts[kind] += 1
            return True


def tag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'  # noqa: S324  what S3's ETag is


class Server(http.server.ThreadingHTTPServer):
    bucket: Bucket
    request_queue_size = 512


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # header and body are written apart

    def do_GET(self):
        bucket = self.server.bucket
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        kind = "LIST" if "list-type" in query else self.command
        if not bucket.admit(kind):
            return self.reply(
                503, b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
            )
        if kind == "LIST":
            return self.reply(200, self.listing(query).encode())
        content = bucket.objects.get(urllib.parse.unquote(url.path).removeprefix("/bucket/"))
        if content is None:
            return self.reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
        if self.headers.get("If-Match", tag(content)) != tag(content):
            return self.reply(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        first, _, last = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last) + 1] if first else content
        self.reply(206 if first else 200, part, {"ETag": tag(content)})

    do_HEAD = do_GET

    def listing(self, query: dict) -> str:
        prefix, after = query.get("prefix", ""), query.get("continuation-token", "")
        limit, shallow = int(query.get("max-keys", 1000)), query.get("delimiter") == "/"
        rows: list[str] = []
        last = before = ""
        more = False
        for name in sorted(self.server.bucket.objects):
            if not name.startswith(prefix) or after and name <= after:
                continue
            head, slash, _ = name[len(prefix) :].partition("/")
            group = prefix + head + "/" if shallow and slash else ""
            if group and group == before:
                last = name
                continue
            if len(rows) == limit:
                more = True
                break
            before, last = group, name
            if group:
                rows.append(f"<CommonPrefixes><Prefix>{quote(group)}</Prefix></CommonPrefixes>")
                continue
            content = self.server.bucket.objects[name]
            rows.append(
                f"<Contents><Key>{quote(name)}</Key><ETag>{escape(tag(content))}</ETag><Size>{len(content)}</Size>"
                "<LastModified>2026-01-02T03:04:05Z</LastModified></Contents>"
            )
        token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if more else ""
        return (
            f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{''.join(rows)}</ListBucketResult>"
        )

    def reply(self, status: int, body: bytes, headers: dict | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def quote(name: str) -> str:
    return escape(urllib.parse.quote(name))
