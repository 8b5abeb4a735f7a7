"""What a run has measured, as bench/CLUSTER.md."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from server import ROOT

HEAD = """# On a cluster

Neso's chart on a real Kubernetes of two nodes, while the official clients send requests over HTTP and gRPC without a pause.
`make e2e-cluster` has written this page; [cluster.md](../docs/internals/cluster.md) says what the cluster is. All of it, control plane,
nodes, pods and clients, shares the processors of one machine: what counts are the failed requests, the seconds say little of other
machines. Clients run on node 1's network and reach Services as its pods do.

"""


@dataclass
class Row:
    """One scenario."""

    what: str
    load: object = None
    notes: list[str] = field(default_factory=list)
    passed: bool = False

    def note(self, text: str) -> None:
        self.notes.append(text)
        print(f"\n{self.what}: {text}")


class Report:
    def __init__(self):
        self.rows: dict[str, Row] = {}
        self.facts: list[str] = []

    def row(self, item) -> Row:
        lines = (item.function.__doc__ or item.name).strip().splitlines()
        case = f" ({item.callspec.id})" if hasattr(item, "callspec") else ""
        return self.rows.setdefault(item.nodeid, Row(lines[0].rstrip(".") + case))

    def outcome(self, item, passed: bool) -> None:
        if item.nodeid in self.rows:
            self.rows[item.nodeid].passed = passed

    def about(self, cluster) -> None:
        """The cluster and the machine."""
        info = cluster.get("nodes")["items"][0]["status"]["nodeInfo"]
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        changed = subprocess.run(["git", "status", "--porcelain", "-uno"], cwd=ROOT, capture_output=True, text=True)
        self.facts = [
            f"date: {datetime.date.today().isoformat()}",
            f"commit: {commit.stdout.strip() or 'none'}{' and changes' if changed.stdout.strip() else ''}",
            f"machine: {os.cpu_count()} processors ({platform.machine()}), {memory:.0f} GiB of memory, Linux {platform.release()}",
            f"cluster: Kubernetes {info['kubeletVersion']}, {info['containerRuntimeVersion']}, two nodes, "
            "four replicas unless said otherwise",
        ]

    def write(self, file: Path) -> None:
        rows = self.rows.values()
        lines = [f"- {fact}" for fact in self.facts]
        lines += [f"- scenarios: {sum(r.passed for r in rows)} as expected, {sum(not r.passed for r in rows)} not", ""]
        lines += ["| scenario | answers over HTTP | over gRPC | failed | |", "|---|---|---|---|---|"]
        for r in rows:
            load = (
                ["", "", ""] if r.load is None else [r.load.answers["http"], r.load.answers["grpc"], len(r.load.faults)]
            )
            end = "; ".join(r.notes) if r.passed else "**not as expected**"
            lines.append("| " + " | ".join(str(cell) for cell in [r.what, *load, end]) + " |")
        file.write_text(HEAD + "\n".join(lines) + "\n")
