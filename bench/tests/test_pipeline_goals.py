import pipeline_goals
import verdicts
from test_report import results, side

CALLEE, CALL = "BLS callee alone, 64 B, HTTP, c1", "BLS one exec, 64 B, HTTP, c1"


def rows(**scenarios):
    data = results(scenarios=scenarios)
    return {row.goal: row for row in pipeline_goals.rows(data) if row.verdict != verdicts.UNKNOWN}


def pair(name, neso, peer):
    return {name: {"neso": side(**neso), "peer": side(**peer)}}


def test_ratios_of_an_ensemble():
    found = rows(**pair("ensemble of three, 64 B, HTTP, c8", {"rps": 300, "cpu_us": 36}, {"rps": 100, "cpu_us": 100}))
    assert [row.verdict for row in found.values()] == [verdicts.MET, verdicts.MISSED]


def test_added_latency_is_the_difference_to_the_callee():
    data = pair(CALLEE, {"p50_us": 100}, {"p50_us": 200}) | pair(CALL, {"p50_us": 220}, {"p50_us": 500})
    (row,) = rows(**data).values()
    assert row.verdict == verdicts.MET and row.measured == "0.40 times (120 µs against 300 µs)"


def test_added_latency_without_a_figure_says_nothing():
    assert not rows(**pair(CALL, {"p50_us": 220}, {"p50_us": 500}))
    slower = pair(CALLEE, {"p50_us": 100}, {"p50_us": 600}) | pair(CALL, {"p50_us": 220}, {"p50_us": 500})
    assert not rows(**slower)
    broken = pair(CALLEE, {"failure": "died"}, {"p50_us": 1}) | pair(CALL, {"p50_us": 2}, {"p50_us": 5})
    (row,) = rows(**broken).values()
    assert row.verdict == verdicts.MISSED and row.measured == "died"


def test_sequences_want_answers_and_a_short_tail():
    name = "sequences, HTTP, c1000"
    found = rows(**pair(name, {"rps": 200, "p99_us": 11, "errors": 1}, {"rps": 100, "p99_us": 10}))
    assert [row.verdict for row in found.values()] == [verdicts.MET, verdicts.MISSED, verdicts.MISSED]
