import os
import subprocess
import sys

import procstat

LINE = "17692 (triton (x) y) S 1 17692 17690 0 -1 4194560 9000 80 0 0 1234 567 89 10 20 0 35 0 4242 1 2 3\n"


def stat(pid, parent, own=0, reaped=0):
    return procstat.Stat(pid, parent, own, reaped, 0)


def test_parse_stat_with_brackets_in_the_name():
    assert procstat.parse_stat(LINE) == procstat.Stat(pid=17692, parent=1, own=1801, reaped=99, start=4242)


def test_descendants_over_several_levels():
    stats = [
        stat(1, 0),
        stat(10, 1),
        stat(11, 10),
        stat(12, 11),
        stat(20, 1),
        stat(13, 10),
    ]
    assert sorted(s.pid for s in procstat.descendants(10, stats)) == [10, 11, 12, 13]
    assert procstat.descendants(99, stats) == []


def test_cpu_counts_the_living_and_the_reaped():
    assert procstat.cpu_ticks([stat(1, 0, own=5, reaped=100), stat(2, 1, own=7)]) == 112


def test_parse_kib():
    text = "Name:\tx\nVmRSS:\t   1024 kB\nVmSwap:\t 0 kB\n"
    assert procstat.parse_kib(text, "VmRSS") == 2**20
    assert procstat.parse_kib(text, "VmHWM") == 0


def test_a_real_child_is_in_the_tree_and_its_time_stays():
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; sum(range(3000000)); print(1, flush=True); sys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        before = procstat.cpu_seconds(os.getpid())
        child.stdout.readline()
        assert child.pid in {s.pid for s in procstat.tree(os.getpid())}
        assert procstat.rss_bytes(child.pid) > 2**20
        assert procstat.pss_bytes(child.pid) > 2**20
        alive = procstat.cpu_seconds(os.getpid())
    finally:
        child.communicate()
    assert before <= alive <= procstat.cpu_seconds(os.getpid())
