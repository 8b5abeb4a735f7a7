import endurance
import goals
import pytest
import report


def side(model="m", failure="", errors=0, **median):
    fields = {
        "rps": 0.0,
        "p50_us": 0.0,
        "p99_us": 0.0,
        "max_us": 0.0,
        "cpu_us": 0.0,
        "generator_cores": 0.1,
    } | median
    rounds = [] if failure else [fields]
    return {
        "model": model,
        "median": fields if rounds else dict.fromkeys(fields),
        "rounds": rounds,
        "requests": 1000,
        "errors": errors,
        "command": "wrk -c8",
        "crashes": 0,
        "failure": failure,
    }


def results(**more):
    meta = {
        "command": "compare",
        "date": "today",
        "commit": "abc",
        "rounds": 5,
        "seconds": 3,
        "machine": {"processor": "p"},
    }
    return {"meta": meta, "scenarios": {}, "endurance": {}, "lifecycle": {}} | more


def verdicts(data):
    return {row.goal: row.verdict for row in goals.evaluate(data) if row.verdict != goals.UNKNOWN}


NOOP, ADD_SUB = "no-op 64 B, HTTP, c8", "Python add/sub, HTTP, c32"


def test_absolute_goals():
    data = results(scenarios={NOOP: {"neso": side(rps=59999, cpu_us=20.0), "peer": side(rps=1)}})
    assert verdicts(data) == {
        f"{NOOP}: at most 20 µs of CPU a request": goals.MET,
        f"{NOOP}: at least 60,000 requests/s": goals.MISSED,
    }


@pytest.mark.parametrize(
    ("rps", "cpu", "want"),
    [(2000, 40, [goals.MET] * 2), (1999, 41, [goals.MISSED] * 2)],
)
def test_relative_goals(rps, cpu, want):
    data = results(
        scenarios={
            ADD_SUB: {
                "neso": side(rps=rps, cpu_us=cpu),
                "peer": side(rps=1000, cpu_us=100),
            }
        }
    )
    assert list(verdicts(data).values()) == want


def test_a_failure_of_neso_is_a_goal_not_met_and_one_of_the_peer_is_no_verdict():
    neso, peer = side(rps=1, cpu_us=1), side(rps=1, cpu_us=1)
    failed = results(scenarios={ADD_SUB: {"neso": side(failure="died"), "peer": peer}})
    assert set(verdicts(failed).values()) == {goals.MISSED}
    assert verdicts(results(scenarios={ADD_SUB: {"neso": neso, "peer": side(failure="died")}})) == {}


def test_errors_are_never_met():
    name = "no-op 1 MiB, gRPC, c32"
    data = results(scenarios={name: {"neso": side(cpu_us=100, errors=1)}})
    assert verdicts(data)[f"{name}: no failed request"] == goals.MISSED


def test_growth_ignores_the_start_and_single_swings():
    filling = [(t, 10 * 2**20 * t) for t in range(10)]
    flat = [(10 + t, 100 * 2**20) for t in range(20)]
    assert endurance.growth(filling + flat) == (0, 100 * 2**20)
    swings = [(t, (100 + (t % 5 == 0) * 50) * 2**20) for t in range(60)]
    assert endurance.growth(swings)[0] == 0
    leak = [(t, (100 + t) * 2**20) for t in range(60)]
    assert endurance.growth(leak)[0] == pytest.approx(30 * 2**20, rel=0.1)
    assert endurance.growth([]) == (0, 0)


def test_memory_goal():
    memory = {
        "before_mib": 20,
        "level_mib": 100,
        "gained_mib": 6,
        "peak_mib": 107,
        "samples": [],
    }
    neso = side(p50_us=100, p99_us=400) | {"memory": memory}
    found = verdicts(results(endurance={"x": {"neso": neso}}))
    assert found == {
        "x: memory flat": goals.MISSED,
        "x: p99 within 5 times p50": goals.MET,
        "x: no failed request": goals.MET,
    }


def test_report_puts_ratios_first_and_keeps_models_apart():
    same = {
        "neso": side("a", rps=300, p50_us=50, p99_us=1, cpu_us=1),
        "peer": side("a", rps=100, p50_us=100),
    }
    other = {"neso": side("noop", rps=500), "peer": side("py_identity", rps=100)}
    text = report.render(results(scenarios={ADD_SUB: same, NOOP: other}))
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        "## Ratios: Neso divided by Triton, same model, same run",
        "## Ratios: Neso's no-op against Triton's Python identity, same run",
        "## Ratios: Neso's no-op against stated figures of Triton's C++ no-op",
        "## Goals",
        "## Load",
        "## Command lines",
    ]
    first = text.split("## Ratios")[1]
    assert f"| {ADD_SUB} | 3.00 | 0.50 | - | - |" in first and NOOP not in first
    assert "figures of an earlier run" in text


def test_report_shows_failures_and_survives_foreign_text():
    entry = {"neso": side(failure="a | b\nc"), "peer": side(rps=1)}
    text = report.render(results(scenarios={ADD_SUB: entry}, endurance={"y": {"neso": side(failure="gone")}}))
    assert "a / b c" in text and "gone" in text
    table_lines = [line for line in text.splitlines() if line.startswith(f"| {ADD_SUB} | neso")]
    assert len(table_lines) == 1


@pytest.mark.parametrize(("us", "want"), [(80.4, "0.080"), (1234, "1.23"), (47000, "47.0"), (None, "-")])
def test_latency(us, want):
    assert report.latency(us) == want
