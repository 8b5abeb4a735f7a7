"""The control channel shared by threads."""

from __future__ import annotations

import signal
import socket
import threading
import time

import pytest
from harness import header, until

from neso._bound.connection import BoundConnection, ServerGone
from neso_runtime.channel import Closed
from neso_runtime.frames import READY, json_frame
from neso_runtime.link import Link, TimedOut


class Ends:
    """A link that notes the numbers of what it reads, and the other end."""

    def __init__(self):
        ours, self.other = socket.socketpair()
        self.sock = ours
        self.link = Link(ours, ours, interruptible=True)
        self.got = set()
        self.link.others = lambda frame: self.got.add(frame[2])

    def say(self, number):
        self.other.sendall(json_frame(READY, 0, number, {}))

    def wait(self, number, timeout=None):
        deadline = None if timeout is None else time.monotonic() + timeout
        return self.link.wait(lambda: number in self.got, deadline)


@pytest.fixture
def ends():
    made = Ends()
    yield made
    made.other.close()
    made.link.end(Closed())
    made.sock.close()


def in_thread(done, f, *args):
    def run():
        try:
            f(*args)
            done.append(args[0])
        except Closed:
            done.append("closed")

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_whoever_waits_reads_for_all(ends):
    done = []
    threads = [in_thread(done, ends.wait, n) for n in range(20)]
    for n in reversed(range(20)):
        ends.say(n)
    for thread in threads:
        thread.join(60)
    assert sorted(done) == list(range(20))


def test_a_reader_that_gives_up_hands_over(ends):
    done = []
    gave_up = []

    def impatient():
        try:
            ends.wait(1, 0.3)
        except TimedOut:
            gave_up.append(1)

    first = threading.Thread(target=impatient)
    first.start()
    second = in_thread(done, ends.wait, 2)
    first.join(60)
    assert gave_up == [1]
    ends.say(2)
    second.join(60)
    assert done == [2]


@pytest.fixture
def interrupt():
    """A function that has the main thread see Ctrl-C once, also where the tests run in the background, which ignores it.

    Python does not see a signal that comes just before the main thread blocks until that has ended: it is sent again.
    """
    seen = threading.Event()

    def handler(number, frame):
        if not seen.is_set():
            seen.set()
            raise KeyboardInterrupt

    def send():
        while not seen.is_set():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            seen.wait(0.01)

    old = signal.signal(signal.SIGINT, handler)
    yield send
    signal.signal(signal.SIGINT, old)


class Interrupted:
    """A lock; Ctrl-C comes just behind one of its releases."""

    def __init__(self, after):
        self.lock, self.left = threading.Lock(), after

    def acquire(self):
        return self.lock.acquire()

    def release(self):
        self.lock.release()
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *exc):
        self.release()


@pytest.mark.parametrize("reading", [False, True], ids=["reader", "follower"])
def test_ctrl_c_just_before_the_wait_leaves_all_as_it_was(ends, reading):
    done = []
    if reading:
        reader = in_thread(done, ends.wait, 1)
        until(lambda: ends.link._reading)
    ends.link.changed, plain = Interrupted(1), ends.link.changed
    with pytest.raises(KeyboardInterrupt):
        ends.wait(2)
    ends.link.changed = plain
    assert ends.link._reading == reading and not ends.link._waiters and not ends.link.closed
    ends.say(1)
    if reading:
        reader.join(60)
        assert done == [1]
    ends.wait(1)


def test_a_follower_that_is_interrupted_leaves_no_gap(ends, interrupt):
    """Ctrl-C ends a wait in the main thread while others read: the turn to read does not go to who has left."""
    done = []

    def until_waiting(count):
        end = time.monotonic() + 60
        while len(ends.link._waiters) < count or not ends.link._reading:
            assert time.monotonic() < end
            time.sleep(0.001)

    reader = in_thread(done, ends.wait, 1)
    until_waiting(0)

    def leave():
        until_waiting(1)
        interrupt()

    thread = threading.Thread(target=leave)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        ends.wait(2)
    thread.join()
    other = in_thread(done, ends.wait, 3)
    until_waiting(1)
    ends.say(1)
    reader.join(60)
    ends.say(3)
    other.join(60)
    assert done == [1, 3]


def test_a_reader_that_is_interrupted_loses_nothing(ends, interrupt):
    """Ctrl-C ends the wait of the main thread, which reads for all; the channel goes on."""

    def leave():
        until(lambda: ends.link._reading)
        interrupt()

    thread = threading.Thread(target=leave)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        ends.wait(1)
    thread.join()
    assert not ends.link.closed
    done = []
    other = in_thread(done, ends.wait, 2)
    ends.say(2)
    other.join(60)
    ends.say(1)
    ends.wait(1)
    assert done == [2]


@pytest.mark.parametrize("reading", [False, True], ids=["reader", "follower"])
def test_a_signal_that_the_main_thread_misses_ends_its_wait(ends, interrupt, monkeypatch, reading):
    """As one that comes just before it blocks: Python looks after it when the main thread comes back."""
    monkeypatch.setattr("neso_runtime.link.LOOK_S", 0.01)
    done = []
    if reading:
        reader = in_thread(done, ends.wait, 1)
        until(lambda: ends.link._reading)

    def elsewhere():
        until(lambda: ends.link._waiters if reading else ends.link._reading)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        ends.wait(2)
    thread.join()
    ends.say(1)
    if reading:
        reader.join(60)
    ends.wait(1)


def test_what_is_not_the_protocol_ends_the_connection_and_is_told():
    """To whoever waits, to whoever asks later, and to the other side, which sees the end."""
    ours, theirs = zip(socket.socketpair(), socket.socketpair())
    connection = BoundConnection(*ours)
    connection.last_words = lambda: pytest.fail("nobody knows how a server ended that lives")
    raised = []

    def ask():
        with pytest.raises(ServerGone) as gone:
            connection.control("server")
        raised.append(str(gone.value))

    waiting = threading.Thread(target=ask)
    waiting.start()
    until(lambda: connection.link._reading)
    theirs[0].sendall(header(99))
    waiting.join(60)
    ask()
    assert raised == ["The connection with the server is broken: frame: unknown kind 99 at offset 3"] * 2
    for end in theirs:
        end.settimeout(60)
        while end.recv(65536):
            pass
        end.close()
    connection.close()


def test_followers_time_out(ends):
    done = []
    thread = in_thread(done, ends.wait, 1)
    with pytest.raises(TimedOut):
        ends.wait(2, 0.05)
    ends.say(1)
    thread.join(60)
    assert done == [1]


def test_the_end_wakes_everybody(ends):
    done = []
    threads = [in_thread(done, ends.wait, n) for n in range(5)]
    ends.other.close()
    for thread in threads:
        thread.join(60)
    assert done == ["closed"] * 5 and ends.link.closed
    with pytest.raises(Closed):
        ends.wait(1)


def test_an_unread_channel_is_read(ends):
    ends.link.start("attendant")
    ends.say(7)
    deadline = time.monotonic() + 60
    while 7 not in ends.got and time.monotonic() < deadline:
        time.sleep(0.01)
    assert 7 in ends.got
