"""CPU time and memory of a process and all its descendants, from /proc.

A server's Python workers are processes of their own: only the whole tree says what a request costs.
"""

import os
from dataclasses import dataclass

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
KIB = 1024


@dataclass(frozen=True)
class Stat:
    """The fields of /proc/PID/stat that are used here; times in clock ticks."""

    pid: int
    parent: int
    own: int  # utime + stime
    reaped: int  # cutime + cstime: what children that ended and were waited for had used
    start: int


def parse_stat(text):
    """Stat out of one /proc/PID/stat line. The command name may hold spaces and brackets."""
    opening, closing = text.index("("), text.rindex(")")
    fields = text[closing + 2 :].split()
    return Stat(
        pid=int(text[:opening]),
        parent=int(fields[1]),
        own=int(fields[11]) + int(fields[12]),
        reaped=int(fields[13]) + int(fields[14]),
        start=int(fields[19]),
    )


def descendants(root, stats):
    """root and everything below it, out of all Stats of the machine."""
    children = {}
    for stat in stats:
        children.setdefault(stat.parent, []).append(stat)
    found = [stat for stat in stats if stat.pid == root]
    for stat in found:  # grows while it is walked
        found.extend(children.get(stat.pid, ()))
    return found


def cpu_ticks(tree):
    """Ticks used by a tree: its living members, and the dead ones that a member has waited for."""
    return sum(stat.own + stat.reaped for stat in tree)


def read_all():
    stats = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                stats.append(parse_stat(file.read()))
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended since the directory was listed
    return stats


def tree(root):
    return descendants(root, read_all())


def cpu_seconds(root):
    return cpu_ticks(tree(root)) * TICK_SECONDS


def parse_kib(text, field):
    """Value in bytes of a "Field:   123 kB" line."""
    for line in text.splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * KIB
    return 0


def _sum_over_tree(root, file_name, field):
    total = 0
    for stat in tree(root):
        try:
            with open(f"/proc/{stat.pid}/{file_name}", encoding="utf-8") as file:
                total += parse_kib(file.read(), field)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return total


def rss_bytes(root):
    """Sum of the resident sizes: pages that two members share count twice."""
    return _sum_over_tree(root, "status", "VmRSS")


def pss_bytes(root):
    """Sum of the proportional sizes: a page shared by n members counts 1/n in each."""
    return _sum_over_tree(root, "smaps_rollup", "Pss")
