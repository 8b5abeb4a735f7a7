"""Private views: what is written there, who sees it, and for how long."""

from __future__ import annotations

import mmap
import os
import random
import threading

import numpy as np
import pytest
from harness import needs_private_views

from neso_runtime import private
from neso_runtime.private import PAGE, PrivateViews

pytestmark = needs_private_views

SIZE = 64 * PAGE


@pytest.fixture
def shared():
    """A segment as its writer has it, and the views of a reader, which may only open it to read."""
    fd = os.memfd_create("test")
    os.ftruncate(fd, SIZE)
    memory = np.frombuffer(mmap.mmap(fd, SIZE), np.uint8)
    lent = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    views = PrivateViews()
    views.add(1, lent, SIZE)
    os.close(lent)
    os.close(fd)
    return memory, views


def test_writes_are_seen_by_nobody_else_and_end_with_the_view(shared):
    memory, views = shared
    memory[:] = 1
    a = views.view(1, PAGE + 64, 2 * PAGE, "a")
    assert (a == 1).all() and views.untouched(1, PAGE + 64)
    part = a[PAGE:]
    part += 1
    assert not views.untouched(1, PAGE + 64)
    del a
    assert (part == 2).all() and (memory == 1).all()
    del part
    memory[:] = 3
    assert (views.view(1, PAGE + 64, 2 * PAGE, "b") == 3).all()
    assert views.view(1, PAGE + 64, 2 * PAGE, "a") is None  # to be copied from now on


def test_views_that_were_only_read_stay_as_they_are(shared):
    memory, views = shared
    for value in range(5):
        memory[:] = value
        a = views.view(1, 0, 4 * PAGE, "a")
        assert (a == value).all()
        ballast = np.zeros(100 * PAGE, np.uint8)  # page faults of another kind
        ballast[::PAGE] = 1
        del a
    assert views.written == set()


def test_what_is_written_to_is_known_by_its_owner_too(shared):
    """Two models in a process, or a model and one that it calls, may have tensors of one name."""
    memory, views = shared
    view = views.view(1, 0, PAGE, (1, "x"))
    view[0] = 5
    del view
    views.settle()
    assert views.written == {(1, "x")} and views.view(1, 0, PAGE, (1, "x")) is None
    assert views.view(1, 0, PAGE, (2, "x"))[0] == memory[0] == 0


def test_neighbours_in_one_page(shared):
    memory, views = shared
    memory[:] = 1
    middle = 3 * PAGE + 128
    a, b = views.view(1, PAGE, middle - PAGE, "a"), views.view(1, middle, 2 * PAGE, "b")
    a[:] = 2
    b[:] = 3
    assert (a == 2).all() and (b == 3).all() and (memory == 1).all()
    del a
    views.settle()
    assert (b == 3).all()
    memory[PAGE:middle] = 4
    # The page that they share does not follow the segment as long as b is there.
    assert views.view(1, PAGE, middle - PAGE, "c") is None
    c = views.view(1, PAGE, 2 * PAGE, "c")
    assert (c == 4).all()
    del b
    d = views.view(1, 3 * PAGE, PAGE, "d")
    assert (d[:128] == 4).all() and (d[128:] == 1).all()


def test_what_overlaps_is_copied(shared):
    _, views = shared
    a = views.view(1, PAGE, PAGE, "a")
    for start, size in (PAGE, PAGE), (PAGE, 64), (0, PAGE + 1), (2 * PAGE - 1, 64), (0, 4 * PAGE):
        assert views.view(1, start, size, "b") is None
    assert views.view(1, 0, PAGE, "b") is not None and views.view(1, 2 * PAGE, PAGE, "b") is not None
    del a
    assert views.view(1, PAGE, PAGE, "b") is not None


def test_against_the_plain_truth(shared):
    """Blocks of any place and size come, are written to by both sides when it is their turn, and go."""
    memory, views = shared
    chance = random.Random(7)
    live = []  # start, view, what it has to hold
    refused = 0
    for n in range(4000):
        views.written.clear()
        if live and chance.random() < 0.45:
            start, view, want = live.pop(chance.randrange(len(live)))
            assert (view == want).all()
            continue
        if live and chance.random() < 0.4:
            _, view, want = chance.choice(live)
            begin = chance.randrange(len(view))
            view[begin : begin + PAGE] = want[begin : begin + PAGE] = n % 251
            continue
        start = chance.randrange(SIZE // 64 - 1) * 64
        end = min(start + chance.randrange(1, 4 * PAGE), SIZE)
        if any(other < end and start < other + len(view) for other, view, _ in live):
            assert views.view(1, start, end - start, "x") is None
            continue
        view = None  # the last one that was taken out, too
        memory[start:end] = chance.randrange(251)
        view = views.view(1, start, end - start, "x")
        refused += view is None
        if view is not None:
            live.append((start, view, memory[start:end].copy()))
            assert (view == memory[start]).all()
    assert 0 < refused < 1000
    live = view = None
    views.settle()
    page = views._memories[1].page
    assert not private.has_own_page(views._pagemap, page, page + SIZE // PAGE)  # nothing is left of what was written


def test_threads(shared):
    """Each has blocks of its own that are used again and again."""
    memory, views = shared
    failed = []

    def work(number):
        start, size = number * 16 * PAGE + 64, 8 * PAGE
        for n in range(300):
            views.written.clear()
            memory[start : start + size] = n % 250
            view = views.view(1, start, size, "x")
            if view is None:
                continue  # another thread has written to a tensor of that name
            if (view != n % 250).any():
                failed.append((number, n))
            view[:: 1 + n % 3] = 251
            view = None

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failed == []


def test_where_the_system_cannot_everything_is_copied(shared, monkeypatch):
    fd = os.memfd_create("test")
    os.ftruncate(fd, SIZE)
    for fault in (OSError("no pagemap"), None):
        if fault is None:  # a pagemap that tells nothing
            monkeypatch.setattr(private, "has_own_page", lambda pagemap, begin, end: False)
        else:

            def refuse(path, *_, fault=fault):
                raise fault

            monkeypatch.setattr(private.os, "open", refuse)
        monkeypatch.setattr(private, "_opened", (-1, 0))
        views = PrivateViews()
        views.add(1, fd, SIZE)
        assert views.view(1, 0, PAGE, "a") is None and views.untouched(1, 0)
        monkeypatch.undo()
    os.close(fd)


def test_python_that_was_built_on_an_old_system(monkeypatch):
    """It lacks os.memfd_create, as those of conda do; the kernel has what is needed."""
    fd = os.memfd_create("test")
    os.ftruncate(fd, SIZE)
    monkeypatch.delattr(private.os, "memfd_create")
    monkeypatch.setattr(private, "_opened", (-1, 0))
    views = PrivateViews()
    views.add(1, fd, SIZE)
    os.close(fd)
    assert views.view(1, 0, PAGE, "a") is not None


def test_pages_that_were_copied_unasked(shared):
    """As by mlockall: they would show for ever what was there then."""
    memory, views = shared
    a = views.view(1, 0, PAGE, "a")
    mapping = views._memories[1].mapping
    for at in range(0, SIZE, PAGE):
        mapping[at] = mapping[at]
    memory[:] = 5
    assert views.view(1, 4 * PAGE + 64, 2 * PAGE, "b") is None
    del a
    assert views.view(1, 0, PAGE, "b") is None


def test_a_segment_that_goes(shared):
    _, views = shared
    a = views.view(1, 0, PAGE, "a")
    a[0] = 1
    views.drop(1)
    assert views.view(1, PAGE, PAGE, "b") is None and a[0] == 1
    del a
    views.settle()
