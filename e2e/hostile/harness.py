"""What every attack on a server is measured by: what it makes the server hold, and what it does to a client beside it.

    def test_something(hostile):
        hostile.withstand(slow_bodies, memory=64 * MiB)

An attack is a function of the server and an Event: it opens what it needs, does its harm until the event is set, and lets go. It is
bounded in bytes and connections by itself. Hostile.withstand runs it, in rounds, and checks all bounds.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from repository import until
from server import Server, descendants, open_files

MiB = 1 << 20
ROUNDS = 8  # a machine that does something else just then gets another chance
SECONDS = 1.0  # that the polite client is watched for, with and without the attack
TIMES = 3  # as slow as without the attack may the polite client's 99th percentile be
FLOOR_MS = 10.0  # below which it is a matter of who has the processor: it may always have TIMES of this
LEAST_LEFT = 1 / 16  # of the processors, as far as what others have of them is forgiven
TICKS = os.sysconf("SC_CLK_TCK")
CEILING = 2048 * MiB  # a server that takes more is killed, before the machine stands still


class Polite:
    """A client beside the attack, in a process of its own."""

    def __init__(self, kind: str, address: str):
        script = Path(__file__).with_name("polite.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), kind, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.measure(0.1)

    def measure(self, seconds: float = SECONDS) -> tuple[float, list[str]]:
        """The 99th percentile in milliseconds of the requests that were answered, and what went wrong."""
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        got = json.loads(self.process.stdout.readline())
        times = sorted(got["times"])
        return times[len(times) * 99 // 100] if times else math.inf, got["faults"]

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


class Peak(threading.Thread):
    """The most memory that a process has had in RAM, in bytes, until it is closed."""

    def __init__(self, pid: int):
        super().__init__(daemon=True)
        self.pid, self.statm = pid, Path(f"/proc/{pid}/statm")
        self.over, self.most = threading.Event(), 0
        self.look()
        self.start()

    def look(self) -> int:
        now = int(self.statm.read_text().split()[1]) * 4096
        self.most = max(self.most, now)
        return now

    def run(self):
        while not self.over.wait(0.005):
            with contextlib.suppress(OSError, IndexError):  # the server has ended, which is told elsewhere
                if self.look() > CEILING:
                    os.kill(self.pid, signal.SIGKILL)
                    return

    def close(self) -> int:
        self.over.set()
        self.join()
        return self.most


class Others:
    """What the processes of others have of the processors, from when it is made on."""

    def __init__(self, *ours: int):
        self.ours = ours
        self.begun = self.look()

    def look(self) -> tuple[float, float, float]:
        """Seconds of the processors so far: all of them, those that anybody had, and those of the test and of what it has started."""
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        user, nice, system, idle, waiting, interrupts, softly, stolen = (int(f) / TICKS for f in fields)
        busy = user + (nice if os.nice(0) else 0) + system + interrupts + softly + stolen
        own = time.process_time()
        for pid in {p for root in self.ours for p in (root, *descendants(root))}:
            with contextlib.suppress(OSError):  # it has ended
                stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                own += (int(stat[11]) + int(stat[12])) / TICKS
        return busy + idle + waiting, busy, own

    def left(self) -> float:
        """The part of the processors that others have not had."""
        whole, busy, own = (now - then for now, then in zip(self.look(), self.begun))
        return max(LEAST_LEFT, 1 - max(0.0, busy - own) / max(whole, 1 / TICKS))


class Hostile:
    """A server under attack, and the polite client beside it."""

    def __init__(self, server: Server, polite: str = "http"):
        self.server = server
        self.polite = Polite(polite, server.http if polite == "http" else server.grpc)

    def close(self):
        self.polite.close()

    def rss(self) -> int:
        return int(Path(f"/proc/{self.server.process.pid}/statm").read_text().split()[1]) * 4096

    def descriptors(self) -> int:
        return len(open_files(self.server.process.pid))

    def number(self, metric: str) -> float:
        for line in self.server.metrics().splitlines():
            if line.startswith(metric + " "):
                return float(line.split()[1])
        raise KeyError(metric)

    def goroutines(self) -> int:
        return int(self.number("go_goroutines"))

    def withstand(
        self,
        attack,
        *,
        memory: int,
        goroutines: int = 2000,
        descriptors: int = 2000,
        left: int = 8,
        seconds: float = SECONDS,
    ):
        """Runs the attack and asserts that it stays within memory (bytes above what the server has without it), goroutines
        and descriptors; that no request of the polite client fails in a round, and that it is not three times slower, nor
        than TIMES * FLOOR_MS, or slower by what others than the test have of the processors meanwhile; and that nothing is
        left when the attack ends, but so many descriptors."""
        quiet, fds = self.goroutines(), self.descriptors()
        seen = []
        for _ in range(ROUNDS):
            calm, wrong = self.polite.measure(seconds)
            assert not wrong, wrong
            before, stop, failed = self.rss(), threading.Event(), []

            def run(stop=stop, failed=failed):
                try:
                    attack(self.server, stop)
                except Exception as e:
                    failed.append(e)

            peak, attacker = Peak(self.server.process.pid), threading.Thread(target=run)
            others = Others(self.server.process.pid, self.polite.process.pid)
            attacker.start()
            try:
                slow, wrong = self.polite.measure(seconds)
                spare = others.left()
                many, open_ = self.goroutines(), self.descriptors()
            finally:
                stop.set()
                attacker.join(120)
                held = peak.close() - before
            assert not attacker.is_alive() and not failed, failed
            assert held < CEILING, f"the attack makes the server hold {held / MiB:.0f} MiB, where it was killed"
            assert self.server.process.poll() is None, self.server.log()[-3000:]
            assert held <= memory, (
                f"the attack makes the server hold {held / MiB:.0f} MiB, of at most {memory / MiB:.0f}"
            )
            assert many - quiet <= goroutines and open_ - fds <= descriptors, (many, quiet, open_, fds)
            assert until(lambda: self.goroutines() - quiet <= 20 and self.descriptors() - fds <= left), (
                f"{self.goroutines()} goroutines of {quiet}, {self.descriptors()} descriptors of {fds} are left"
            )
            if slow * spare > TIMES * max(calm, FLOOR_MS):
                # Perhaps the machine has got busy with something else since: what is measured now, without the attack, tells.
                later, wrong_later = self.polite.measure(seconds)
                assert not wrong_later, wrong_later
                calm = max(calm, later)
            # That others fill the server is no accident of the machine's.
            assert not (refused := [w for w in wrong if "--max-queued-bytes" in w]), (len(refused), refused[:3])
            seen.append((slow / max(calm, FLOOR_MS), slow, calm, round(spare, 2), held, len(wrong), wrong[:3]))
            if not wrong and slow * spare <= TIMES * max(calm, FLOOR_MS):
                return seen[-1]
        raise AssertionError(
            f"the client beside the attack suffers (times, ms, ms without it, processors left, bytes held, faults): {seen}"
        )


# What attacks are made of.


def connect(server: Server, port: int | None = None, **options) -> socket.socket:
    """A raw connection; receive_buffer=N bounds what the kernel takes for a client that does not read."""
    s = socket.socket()
    if size := options.get("receive_buffer"):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
    s.settimeout(30)
    s.connect(("127.0.0.1", port or server.http_port))
    return s


@contextlib.contextmanager
def connections(server: Server, n: int, **options):
    """n connections, closed in the end."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(connect(server, **options))) for _ in range(n)]


def head(path: str, *fields: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", *fields, "", ""]).encode()


def offer(s: socket.socket, data: bytes) -> bool:
    """Sends; False when the server has ended the connection or takes no more for now."""
    try:
        s.sendall(data)
    except OSError:
        return False
    return True


def answer(s: socket.socket) -> bytes:
    """What the server says, until it ends the connection or says nothing for the connection's timeout."""
    got = b""
    with contextlib.suppress(OSError):
        while part := s.recv(65536):
            got += part
    return got
