import json

import load
import pytest


def test_wrk_result(sample):
    result = load.parse_wrk(sample("wrk.txt"))
    assert (result.requests, result.errors) == (53276, 0)
    assert (result.p50_us, result.p99_us, result.max_us) == (1196, 1961, 3599)
    assert result.rps == pytest.approx(25369.83, abs=0.1)


def test_wrk_error_statuses_are_no_requests(sample):
    result = load.parse_wrk(sample("wrk_errors.txt"))
    assert (result.requests, result.errors, result.rps) == (0, 170829, 0)


def test_wrk_without_result_line():
    with pytest.raises(load.LoadError, match="printed no result"):
        load.parse_wrk("unable to connect to 127.0.0.1:1 Connection refused")


def test_h2load_result(sample):
    assert load.parse_h2load(sample("h2load.txt")) == (2.07, 40000, 40000, 4000000)


def test_h2load_failed_calls_look_like_success(sample):
    seconds, total, good, data = load.parse_h2load(sample("h2load_unimplemented.txt"))
    assert (seconds, total, good, data) == (pytest.approx(0.00131), 3, 3, 0)
    assert load.answered(total, good, data, answer_bytes=100) == 0


@pytest.mark.parametrize(
    ("total", "good", "data", "answer_bytes", "want"),
    [
        (10, 10, 1000, 100, 10),
        (10, 10, 999, 100, 9),
        (10, 7, 1000, 100, 7),
        (10, 10, 1300, 100, 10),
        (10, 8, 0, 0, 8),
    ],
)
def test_answered(total, good, data, answer_bytes, want):
    assert load.answered(total, good, data, answer_bytes) == want


def test_h2load_without_result():
    with pytest.raises(load.LoadError):
        load.parse_h2load("starting benchmark...\n")


def test_h2load_log_keeps_good_answers_in_order(sample):
    lines = sample("h2load_log.txt").splitlines() + ["torn\tline", ""]
    assert load.parse_h2load_log(lines) == [1002, 1315, 1391, 1884]


@pytest.mark.parametrize(("share", "want"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_percentile(share, want):
    assert load.percentile(list(range(1, 101)), share) == want


def test_percentile_of_nothing_and_one():
    assert load.percentile([], 0.5) == 0
    assert load.percentile([7], 0.99) == 7


def test_commands_name_what_they_do():
    wrk = load.wrk_command("http://h:1/x", "body", {"A": "b"}, 8, 3)
    assert wrk[:4] == ["wrk", "-t1", "-c8", "-d3s"] and wrk[-4:] == [
        "--",
        "body",
        "A",
        "b",
    ]
    h2load = load.h2load_command("http://h:1/x", "body", {"te": "trailers"}, 4, 32, 1280, "log", h1=True)
    assert h2load[-1] == "http://h:1/x" and "te: trailers" in h2load and "--h1" in h2load
    assert h2load[1:7] == ["-n", "1280", "-c", "4", "-m", "32"]


def test_perf_result():
    report = {
        "results": [
            {
                "requests": 500,
                "failed": 2,
                "measured_seconds": 2.5,
                "client_cpu_us_per_request": 10.0,
                "latency_us": {"p50": 100.5, "p99": 900, "max": 1000},
            }
        ]
    }
    got = load.parse_perf(json.dumps(report))
    assert (got.requests, got.errors, got.rps, got.p50_us, got.p99_us, got.max_us) == (500, 2, 200, 100.5, 900, 1000)
    assert got.generator_cores == pytest.approx(0.002)


def test_perf_commands():
    words = load.perf_command(["neso", "perf"], "h:1", "json", "m", "d.json", 8, seconds=2)
    assert (
        words[:2] == ["neso", "perf"] and words[-4:] == ["-p", "2000", "-r", "1"] and "--input-tensor-format" in words
    )
    words = load.perf_command(["neso", "perf"], "h:1", "grpc", "m", "d.json", 8, requests=7)
    assert words[-2:] == ["--request-count", "7"] and words[words.index("-i") + 1] == "grpc"
