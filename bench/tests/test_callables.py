"""The report on bound callables."""

import callables


def test_verdicts():
    name = "@batch add/sub, http, c32"
    figures = {
        (name, "neso"): {"rps": 45000.0, "cpu_us": 60.0},
        (name, "peer"): {"rps": 2800.0, "cpu_us": 420.0},
        ("memory", "neso"): {"MiB": 100.0},
        ("memory", "peer"): {"MiB": 300.0},
    }
    lines = callables.render(figures, {"neso": 0.2, "peer": 4.8}, 5, 3).splitlines()
    rows = {tuple(cell.strip() for cell in line.split("|")[1:3]): line for line in lines if line.startswith("|")}
    assert "| 16.1 | ≥ 15 | met |" in rows[name, "rps"]
    assert "NOT MET" in rows[name, "cpu_us"]
    assert "| 0.333 | ≤ 0.4 | met |" in rows["memory", "MiB"]
    assert "not measured" in rows["unbatched, http, c32", "rps"]
    assert "met" in rows["start to first answer", "s"]


def test_every_goal_has_a_scenario():
    names = {s.name for s in callables.SCENARIOS} | {"stream of 100, grpc", "memory", "memory under load"}
    assert {goal[0] for goal in callables.GOALS} <= names
