"""neso tune and neso perf on a disk that is full: what was measured is kept, what was there stays, nothing is left running."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from fulldisk import disk
from server import BINARY, ROOT
from test_perf import MODEL, at, perf
from test_tune import QUICK, SHAPE, serving, tune


def place(directory: Path) -> Path:
    shutil.copytree(ROOT / "examples" / "frameworks" / "digits_onnx", directory / "digits")
    return directory


def until(args, temp, line, then):
    """Runs neso tune, calls a function again and again once a line has come, and returns its exit status, output and errors."""
    environment = {**os.environ, "NESO_PYTHON": sys.executable, "TMPDIR": str(temp)}
    p = subprocess.Popen(
        [BINARY, "tune", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    errors = ""
    for text in p.stderr:
        errors += text
        if text.startswith(line):
            break
    while p.poll() is None:
        then()
        time.sleep(0.001)  # what another process lets go is to be taken, too
    out, rest = p.communicate(timeout=120)
    return p.returncode, out, errors + rest


def runs(file: Path):
    return json.loads(file.read_text())["runs"]


def search(models):
    """Four configurations, each measured once."""
    return [
        "--model-repository",
        models,
        "--model=digits",
        "--instances=1,2,3,4",
        "--search=brute",
        "--confirm=0",
        *QUICK,
    ]


def test_what_was_measured_is_kept(tmp_path):
    """The disk of the results becomes full in mid-search."""
    (tmp_path / "temp").mkdir()
    models = place(tmp_path / "models")
    args = search(models)
    with disk(tmp_path / "disk") as d:
        out = d.path / "out"
        args += ["--output", out, *SHAPE]
        code, said, errors = until(args, tmp_path / "temp", "#2 ", d.fill)
        assert code == 1 and "error: what was measured cannot be kept: failed to write" in errors, errors
        assert errors.count("no space left on device") >= 1 and "infer/s" in said, said + errors
        before = runs(out / "checkpoint.json")
        kept = Path(re.search(r"All of it is in (\S+):", errors)[1])
        assert [p.name for p in out.rglob("*") if p.name.startswith(".")] == [] and not serving(tmp_path)
        all_of_it = runs(kept)
        assert 1 <= len(before) < len(all_of_it) < 5 and all_of_it[: len(before)] == before
        d.free()
        shutil.copy(kept, out / "checkpoint.json")
        shutil.rmtree(kept.parent)
        on = tune(*args, temp=tmp_path / "temp")
        assert on.returncode == 0, on.stderr
        assert runs(out / "checkpoint.json")[: len(all_of_it)] == all_of_it and len(runs(out / "checkpoint.json")) == 4
        report = (out / "report.html").read_bytes()
        d.fill()
        again = tune("report", out, temp=tmp_path / "temp")
        assert again.returncode == 1 and "no space left on device" in again.stderr, again
        assert (out / "report.html").read_bytes() == report and not any((tmp_path / "temp").iterdir())


def test_no_room_for_a_repository(tmp_path):
    """A full directory of temporary files ends the search, and is no result of a configuration."""
    models = place(tmp_path / "models")
    args = search(models)
    with disk(tmp_path / "temp") as d:
        code, _, errors = until([*args, "--output", tmp_path / "out", *SHAPE], d.path, "#1 ", d.fill)
        assert code == 1 and "TMPDIR" in errors and "no space left on device" in errors, errors
        kept = runs(tmp_path / "out" / "checkpoint.json")
        assert 1 <= len(kept) < 4 and not any(r.get("failure") for r in kept), kept
        assert [p.name for p in d.path.iterdir()] == [".filler"] and not serving(tmp_path)


def test_apply(tmp_path):
    """A configuration for which there is no room stays as it was, and is written once there is some."""
    (tmp_path / "temp").mkdir()
    with disk(tmp_path / "disk") as d:
        models, out = place(d.path / "models"), tmp_path / "out"
        config = models / "digits" / "config.pbtxt"
        was = config.read_text().replace("{ }", "{ max_queue_delay_microseconds: 900000 }")
        config.write_text(was)  # two requests wait for more than they are
        args = [
            "--model-repository",
            models,
            "--model=digits",
            *QUICK,
            "--output",
            out,
            "--search=brute",
            "--confirm=0",
        ]
        args += ["--latency-budget=500ms@p50", "--max-batch-size=2", "--measurement-interval=500ms", *SHAPE]
        done = tune(*args, temp=tmp_path / "temp")
        assert done.returncode == 0, done.stderr
        d.fill()
        refused = tune("report", out, "--apply", temp=tmp_path / "temp")
        assert refused.returncode == 1 and f"{config} is left as it is" in refused.stderr, refused
        assert "no space left on device" in refused.stderr and config.read_text() == was
        assert sorted(p.name for p in config.parent.iterdir()) == ["1", "config.pbtxt", "labels.txt"], list(
            config.parent.iterdir()
        )
        d.free()
        applied = tune("report", out, "--apply", temp=tmp_path / "temp")
        assert applied.returncode == 0 and config.read_text() != was, applied
        assert (config.parent / "config.pbtxt.1.bak").read_text() == was


def test_files_of_perf(server, tmp_path):
    """What an earlier run has written stays; what was measured is printed."""
    with disk(tmp_path / "disk", size="512k") as d:
        files = [d.path / name for name in ("o.csv", "e.json", "p.svg")]
        args = [
            *MODEL,
            *at(server, "http"),
            "-f",
            files[0],
            "--profile-export-file",
            files[1],
            "--plot",
            files[2],
            "--request-count",
        ]
        first = perf(*args, 5)
        assert first.returncode == 0, first
        before = [f.read_bytes() for f in files]
        d.fill()
        r = perf(*args, 2000)
        assert r.returncode == 99 and "Request count: 2000" in r.stdout, r
        for f in files:
            assert f"failed to write {f}: no space left on device" in r.stderr, r
        assert [f.read_bytes() for f in files] == before and len(list(d.path.iterdir())) == 4
