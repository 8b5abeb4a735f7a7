import goals
import pytest
import scenarios


def test_names_are_unique():
    names = [s.name for s in scenarios.SCENARIOS]
    assert len(set(names)) == len(names)


def test_every_goal_names_a_scenario_that_exists():
    names = {s.name for s in scenarios.SCENARIOS}
    told = {row.goal.split(": ")[0] for row in goals.evaluate({}) if ", c" in row.goal.split(": ")[0]}
    assert told and told <= names


@pytest.mark.parametrize("name", ["noop", "py_identity", "py_add_sub"])
def test_every_model_lies_in_its_repository(name):
    import compare

    repositories = {m: r for s in scenarios.SCENARIOS for m, r in zip((s.neso, s.peer), s.repositories, strict=True)}
    assert (compare.MODELS / repositories[name] / name / "config.pbtxt").exists()
