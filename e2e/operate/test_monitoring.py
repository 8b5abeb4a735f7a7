"""What deploy/ has for watching servers speaks of metrics that servers have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

from repository import X, identity_model, python_model
from server import Server

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = re.compile(r"\b(?:nv|neso|process|go)_[a-z0-9_]+\b")


def rules():
    return re.findall(r"^\s*expr: '?(.*?)'?$", (DEPLOY / "prometheus/neso.rules.yaml").read_text(), re.M)


def adapted():
    """What deploy/prometheus/adapter.yaml has the adapter ask for: the series, and the query of it."""
    text = (DEPLOY / "prometheus/adapter.yaml").read_text()
    series, queries = (re.findall(rf"{key}: '(.*)'$", text, re.M) for key in ("seriesQuery", "metricsQuery"))
    assert len(series) == len(queries) > 0
    return [
        q.replace("<<.Series>>{<<.LabelMatchers>>}", s).replace("<<.GroupBy>>", "pod")
        for s, q in zip(series, queries, strict=True)
    ]


def panels():
    board = json.loads((DEPLOY / "grafana/neso.json").read_text())
    return [t["expr"] for p in board["panels"] for t in p.get("targets", [])]


def test_metrics_are_there(tmp_path):
    python_model(tmp_path, "m", extra="dynamic_batching {}")
    identity_model(tmp_path, "i")
    with Server(tmp_path) as s:
        assert s.infer("m", X).status == 200
        there = set(NAME.findall(s.metrics()))
    for expr in rules() + panels() + adapted():
        asked = set(NAME.findall(expr))
        assert asked or "up{" in expr, expr
        assert asked <= there, f"{expr}: no server has {asked - there}"


def test_dashboard_is_whole():
    board = json.loads((DEPLOY / "grafana/neso.json").read_text())
    ids = [p["id"] for p in board["panels"]]
    assert len(ids) == len(set(ids)) and board["uid"] and board["schemaVersion"] >= 36
    variables = {v["name"] for v in board["templating"]["list"]} | {"__rate_interval"}
    used = set(re.findall(r"\$\{?([a-z_]+)\}?", json.dumps(board)))
    assert used - {"__all"} <= variables, used - variables
    places = set()
    for p in board["panels"]:
        g = p["gridPos"]
        cells = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        assert g["x"] + g["w"] <= 24 and not cells & places, p["title"]
        places |= cells
    assert len(panels()) > 20


def test_expressions_are_promql(tmp_path):
    tool = shutil.which("promtool")
    if not tool:
        print("promtool is not there (Debian's package prometheus): expressions are not parsed")
        return
    shutil.copytree(DEPLOY / "prometheus", tmp_path / "rules")
    subprocess.run([tool, "test", "rules", "neso.test.yaml"], cwd=tmp_path / "rules", check=True)
    every = [re.sub(r"\$__rate_interval", "5m", e).replace("$", "") for e in panels()]
    lines = ["groups:", "- name: panels", "  rules:"]
    every += adapted()
    for n, e in enumerate(every):
        lines += [f"  - record: panel_{n}", f"    expr: {json.dumps(e)}"]
    (tmp_path / "panels.yaml").write_text("\n".join(lines) + "\n")
    subprocess.run([tool, "check", "rules", str(tmp_path / "panels.yaml")], check=True)


def test_same_rules_for_the_operator():
    plain = (DEPLOY / "prometheus/neso.rules.yaml").read_text().splitlines()
    wrapped = (DEPLOY / "prometheus/operator.yaml").read_text().splitlines()
    start = plain.index("groups:")
    assert [line for line in wrapped if line.startswith("  ")] == ["  " + line for line in plain[start:]]
