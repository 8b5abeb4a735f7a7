import engines
import frameworks
import goals
import native
import networks
import pipelines
import pytest
import scenarios
import sentences

ALL = (
    scenarios.SCENARIOS
    + pipelines.PIPELINES
    + frameworks.FRAMEWORKS
    + engines.ENGINES
    + sentences.SENTENCES
    + native.NATIVE
)


def test_names_are_unique():
    names = [s.name for s in ALL]
    assert len(set(names)) == len(names)


def test_every_goal_names_a_scenario_that_exists():
    names = {s.name for s in ALL}
    told = {row.goal.split(": ")[0] for row in goals.evaluate({}) if ", c" in row.goal.split(": ")[0]}
    assert told and told <= names


def test_every_model_lies_in_its_repository(tmp_path, monkeypatch):
    import compare

    used = {(r, m) for s in ALL for m, r in zip((s.neso, s.peer), s.repositories, strict=True)}
    assert {m for _, m in used} >= {"noop", "py_identity", "py_add_sub", "ens_floats", "bls", "repeat", "sums"}
    frameworks.generate(tmp_path)
    monkeypatch.setattr(native, "WORK", tmp_path / "work")
    monkeypatch.setattr(native, "BACKENDS", tmp_path / "work" / "backends")
    # Folders and configurations are looked at here, not what takes long to write into them.
    monkeypatch.setattr(engines, "GENERATED", tmp_path)
    for name in ("resnet50", "forest"):
        monkeypatch.setattr(networks, name, lambda path: None)
    monkeypatch.setattr(engines.subprocess, "run", lambda *a, **k: None)
    engines.generate(engines.ENGINES)
    sentences.generate()
    native.generate(tmp_path, compare.MODELS, None)
    for repository, model in used:
        if not model or engines.missing(repository):
            continue  # a side that has no such backend, or a framework that is not installed
        top = compare.MODELS if (compare.MODELS / repository).is_dir() else tmp_path
        folder = top / repository / model
        assert (folder / "config.pbtxt").exists() and (folder / "1").is_dir(), folder


@pytest.mark.parametrize("group", ["ensemble", "BLS", "decoupled", "sequences", "cache", "ONNX"])
def test_only_runs_one_group(group, capsys):
    import compare

    compare.main(["--list", "--only", group.lower()])
    listed = capsys.readouterr().out.splitlines()[:-2]
    assert listed and all(name.startswith(group) for name in listed)
