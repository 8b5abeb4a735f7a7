"""The reports of neso perf: JSON, HTML and pictures."""

from __future__ import annotations

import csv
import html.parser
import io
import json
import struct
import subprocess
import xml.etree.ElementTree as ET

import pytest
from server import BINARY
from test_perf import MODEL, QUICK, SHAPE, UNSTABLE, at, perf


class Page(html.parser.HTMLParser):
    """What a page consists of, and what it would fetch or run."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.asked = {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.asked += [
            (tag, *a) for a in attrs if a[0] in ("src", "href", "xlink:href", "action") or a[0].startswith("on")
        ]


def test_html(server, tmp_path):
    """One file, that asks nobody for anything and runs nothing; failures and notes are in it."""
    data, page = tmp_path / "data.json", tmp_path / "r.html"
    one, wrong = {"content": [1.5], "shape": [1, 1]}, {"content": [9], "shape": [1, 1]}
    data.write_text(
        json.dumps({"data": [{"INPUT0": one}] * 2, "validation_data": [{"OUTPUT0": one}, {"OUTPUT0": wrong}]})
    )
    r = perf(
        *("-m", "identity_any_fp32", *at(server, "http"), *QUICK, "--concurrency-range", "1:2", "--input-data", data),
        *("-f", page, "--format", "html"),
    )
    assert r.returncode == 99, r
    text = page.read_text()
    parsed = Page(text)
    assert not parsed.asked and "script" not in parsed.tags and "link" not in parsed.tags, parsed.asked
    # Throughput and latency over the load and over time, and the latencies of each of the two loads.
    assert parsed.tags["svg"] == 6 and parsed.tags["table"] == 3, parsed.tags
    assert "unexpected output" in text and "prefers-color-scheme:dark" in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text


def test_hostile_name(tmp_path, server):
    """What a user or a server calls a model is no markup."""
    data, page = tmp_path / "d.json", tmp_path / "r.html"
    data.write_text('{"data": [{"payload": [{"model": "x"}]}]}')
    name = "<img src=x onerror=alert(1)>\u202e\"'"
    r = perf(
        *(
            "-m",
            name,
            "--service-kind",
            "openai",
            "--endpoint",
            "v2/health/live",
            "-u",
            server.http,
            "--input-data",
            data,
        ),
        *("-f", page, "--format", "html", "--request-count", 1),
    )
    assert r.returncode == 99, r  # the endpoint takes no POST
    if page.exists():  # nothing answered: there may be nothing to report
        assert not Page(page.read_text()).asked and "\u202e" not in page.read_text()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_json(server, protocol):
    """The report goes to standard output where no file is named, and all else beside it."""
    r = perf(*MODEL, *at(server, protocol), "--request-count", 40, "--concurrency-range", 4, "--format=json")
    assert r.returncode == 0 and "*** Measurement Settings ***" in r.stderr, r
    report = json.loads(r.stdout)
    assert (report["model"], report["protocol"], report["mode"]) == ("identity_any_fp32", protocol, "concurrency")
    [x] = report["results"]
    assert (x["load"], x["requests"], x["failed"], x["stable"]) == (4, 40, 0, True)
    assert sum(bar["count"] for bar in x["histogram"]) == 40 and x["server"][0]["inferences"] == 40
    latency = x["latency_us"]
    assert 0 < latency["min"] <= latency["p50"] <= latency["p99"] <= latency["p99.9"] <= latency["max"]


def test_csv_out(server):
    r = perf(*MODEL, *at(server, "http"), "--request-count", 10, "--format=csv")
    assert r.returncode == 0 and len(list(csv.DictReader(io.StringIO(r.stdout)))) == 1, r


def test_plots(server, tmp_path):
    r = perf(*MODEL, *at(server, "http"), *QUICK, "--plot", tmp_path / "p.svg", "--plot", tmp_path / "p.png")
    assert r.returncode in (0, UNSTABLE), r
    picture = ET.parse(tmp_path / "p.svg").getroot()  # two over time, one histogram
    assert (picture.attrib["width"], picture.attrib["height"]) == ("720", "900")
    png = (tmp_path / "p.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", png[16:24]) == (1440, 1800)


@pytest.mark.parametrize(
    "args",
    [
        ("-f", "/dev/full", "--format=html"),
        ("-f", "/dev/full", "--format=json"),
        ("-f", "/dev/full"),
        ("--profile-export-file", "/dev/full"),
    ],
)
def test_full_disk(server, tmp_path, args):
    """What cannot be written is said, and the other files are written."""
    r = perf(*MODEL, *at(server, "http"), "--request-count", 5, *args, "--plot", tmp_path / "p.svg")
    assert r.returncode == 99 and "failed to write /dev/full: " in r.stderr and "no space left" in r.stderr, r
    assert "Throughput" in r.stdout and (tmp_path / "p.svg").stat().st_size > 1000


def test_full_output(server):
    with open("/dev/full", "w") as full:
        r = subprocess.run(
            [
                BINARY,
                "perf",
                "-m",
                "identity_any_fp32",
                *SHAPE,
                "-u",
                server.http,
                "--request-count",
                "5",
                "--format=json",
            ],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert r.returncode == 99 and "failed to write the report" in r.stderr and "no space left" in r.stderr, r


@pytest.mark.parametrize(
    "args, text",
    [
        (("--format", "pdf"), "Failed to parse --format. Unsupported type provided: 'pdf'."),
        (("--plot", "p.jpg"), "The name must end in .svg or .png, got 'p.jpg'."),
    ],
)
def test_mistakes(args, text):
    r = perf("-m", "x", *args)
    assert r.returncode == 99 and text in r.stderr, r
