"""What a run has measured, as bench/CLUSTER.md."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from release import ONLY6
from server import ROOT

HEAD = """# On a cluster

Neso's chart on a real Kubernetes of two nodes, while the official clients send requests over HTTP and gRPC without a pause.
`make e2e-cluster` writes this page; [cluster.md](../docs/internals/cluster.md) says what the cluster is. All of it, control plane,
nodes, pods and clients, shares the processors of one machine: what counts are the failed requests, the seconds say little of other
machines. The clients run in a pod of node 1. A whole run writes the page anew; one of some tests writes their lines, and leaves the others.

"""


@dataclass
class Row:
    """One scenario."""

    what: str
    load: object = None
    notes: list[str] = field(default_factory=list)
    passed: bool | None = None  # None: it has not come to an end
    skipped: str = ""  # why

    def note(self, text: str) -> None:
        self.notes.append(text)
        print(f"\n{self.what}: {text}")


WHOLE = "- the last whole run"
FAMILY = ", IPv6 alone"
NAMES = "| scenario | answers over HTTP | over gRPC | failed | | run |"


class Report:
    def __init__(self):
        self.begun = time.monotonic()
        self.rows: dict[str, Row] = {}
        self.facts: list[str] = []
        self.run = ""

    def row(self, item) -> Row:
        lines = (item.function.__doc__ or item.name).strip().splitlines()
        case = f" ({item.callspec.id})" if hasattr(item, "callspec") else ""
        case += FAMILY if ONLY6 else ""
        return self.rows.setdefault(item.nodeid, Row(lines[0].rstrip(".") + case))

    def outcome(self, item, passed: bool, skipped: str) -> None:
        if item.nodeid in self.rows:
            self.rows[item.nodeid].passed, self.rows[item.nodeid].skipped = passed, skipped

    def about(self, cluster) -> None:
        """The cluster and the machine."""
        info = cluster.get("nodes")["items"][0]["status"]["nodeInfo"]
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        self.run = f"{datetime.date.today().isoformat()}, {commit.stdout.strip()}"
        self.facts = [
            f"machine: {os.cpu_count()} processors ({platform.machine()}), {memory:.0f} GiB of memory, Linux {platform.release()}",
            f"cluster: Kubernetes {info['kubeletVersion']}, {info['containerRuntimeVersion']}, two nodes, "
            "four replicas unless said otherwise",
            "run: the day, and the commit on which the tests stood",
        ]

    def line(self, r: Row) -> str:
        load = ["", "", ""] if r.load is None else [r.load.answers["http"], r.load.answers["grpc"], len(r.load.faults)]
        end = "; ".join(r.notes) if r.passed else f"not run: {r.skipped}" if r.skipped else "**not as expected**"
        return "| " + " | ".join(str(cell) for cell in [r.what, *load, end, self.run]) + " |"

    def write(self, file: Path, summary: str = "") -> None:
        """Scenarios that this run has not run stay as they are. A whole run, which has a summary, leaves only the other cluster's."""
        before = file.read_text().splitlines() if file.exists() else []
        wholes = [line for line in before if line.startswith(WHOLE)]
        if NAMES in before:
            before = before[before.index(NAMES) + 2 :]
        lines = {line.split(" | ")[0]: line for line in before if line.startswith("| ")}
        if summary:
            lines = {name: line for name, line in lines.items() if name.endswith(FAMILY) != ONLY6}
            wholes = [line for line in wholes if line.startswith(WHOLE + FAMILY) != ONLY6]
            minutes = (time.monotonic() - self.begun) / 60
            wholes.append(f"{WHOLE}{FAMILY if ONLY6 else ''}: {self.run}, {minutes:.0f} minutes, {summary}")
        lines |= {f"| {r.what}": self.line(r) for r in self.rows.values() if r.passed is not None}
        head = [*(f"- {fact}" for fact in self.facts), *wholes]
        file.write_text(HEAD + "\n".join([*head, "", NAMES, "|---|---|---|---|---|---|", *lines.values()]) + "\n")
