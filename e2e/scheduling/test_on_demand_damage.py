"""Models on demand whose files go bad while they are out: what served before serves again, as far as it loads, and all see the rest."""

from __future__ import annotations

from repository import X, answer, ensemble, metric, python_model, until
from server import Server

ON_DEMAND = ("--model-control-mode=on-demand", "--on-demand-idle-secs=1")
ALL = "version_policy { all { } }"
BROKEN = 'raise RuntimeError("no weights")'


def states(server, name):
    told = server.post("/v2/repository/index").json
    return {m["version"]: (m["state"], m.get("reason", "")) for m in told if m["name"] == name}


def out(server, *names):
    """Waits until models are out."""
    return all(
        until(lambda name=name: all(s[0] == "UNAVAILABLE" for s in states(server, name).values())) for name in names
    )


def version(server, name, path=""):
    reply = server.post(f"/v2/models/{name}{path}/infer", X)
    return reply.json["model_version"] if reply.status == 200 else f"{reply.status} {reply.error}"


def incomplete(server):
    return int(server.metrics().split("\nneso_on_demand_incomplete_models ")[1].split()[0])


def while_in(server, names, condition):
    """Waits until a condition holds of models that have answered just now: a moment later they may be out again."""
    return until(lambda: all(server.infer(name, X).status == 200 for name in names) and condition())


def two_versions(top, name, rules=""):
    for number in (1, 2):
        python_model(top, name, number, add=number, extra=ALL)
    if rules:
        (top / name / "rollout.yaml").write_text(rules)


def test_a_version_that_went_bad_leaves_the_others(tmp_path):
    """A canary whose file is damaged takes the stable version from nobody."""
    two_versions(tmp_path, "plain")
    two_versions(
        tmp_path,
        "ruled",
        "labels: {stable: 1, canary: 2}\nweights: {stable: 1, canary: 3}\nmirror: {to: canary}\n"
        "step_back: {from: canary, max_error_rate: 0.1}\n",
    )
    two_versions(tmp_path, "only", "labels: {old: 1}\nweights: {1: 0, 2: 1}\n")
    names = ("plain", "ruled", "only")
    with Server(tmp_path, *ON_DEMAND) as s:
        assert version(s, "plain") == version(s, "only") == "2"
        assert {version(s, "ruled") for _ in range(50)} == {"1", "2"} and out(s, *names)
        for name in names:
            python_model(tmp_path, name, 2, init=BROKEN, extra=ALL)
        for _ in range(2):
            assert version(s, "plain") == "1" and {version(s, "ruled") for _ in range(20)} == {"1"}
            assert version(s, "ruled", "/versions/stable") == "1"
            for path in ("/versions/2", "/versions/canary"):
                refused = version(s, "ruled", path)
                assert refused.startswith("503 ") and "version 2 is not at ready state" in refused, refused
            assert while_in(s, ["ruled"], lambda: states(s, "ruled")["1"][0] == "READY")
            assert while_in(s, ["ruled"], lambda: "came back without" in states(s, "ruled")["1"][1])
            two = states(s, "ruled")["2"]
            assert two[0] == "UNAVAILABLE" and "no weights" in two[1], two

            def told():
                told = s.get("/v2/repository/models/ruled/rollout").json
                return (
                    told.get("rules", {}).get("weights") == {"stable": 1, "canary": 3}
                    and told["versions"][0]["share"] == 1
                )

            assert while_in(s, ["ruled"], told)
            assert while_in(s, ["plain", "ruled"], lambda: incomplete(s) == 2)
            # Nobody has said that requests are for version 1: it does not get those of version 2.
            assert "no weights" in version(s, "only") and out(s, "plain", "ruled")
        assert "'ruled' comes back with the versions [1] of the [1 2] that it had when it left" in s.log()
        assert incomplete(s) == 0
        for name in names:
            python_model(tmp_path, name, 2, add=2, extra=ALL)
        assert version(s, "plain") == "2" and version(s, "ruled", "/versions/canary") == "2"
        assert {version(s, "ruled") for _ in range(50)} == {"1", "2"}
        assert while_in(s, ["ruled"], lambda: states(s, "ruled")["1"] == ("READY", "loaded on demand"))
        assert until(lambda: version(s, "only") == "2")


def test_a_configuration_that_went_bad_leaves_the_one_before(tmp_path):
    """A config.pbtxt or rollout.yaml that cannot be read, or with which nothing loads: the model is what it was, and the fault is told."""
    for name in ("text", "field", "gone", "loads", "whole"):
        python_model(tmp_path, name, add=1)
    two_versions(tmp_path, "rules", "weights: {1: 1}\n")
    ensemble(tmp_path, "around", "whole")
    config = (tmp_path / "around" / "config.pbtxt").read_text()
    damage = {
        "text": (lambda text: text[: len(text) // 2], "text/config.pbtxt:"),
        "field": (lambda text: text + "max_batch_size: -3\n", "field/config.pbtxt:4, field max_batch_size"),
        "loads": (lambda text: text.replace('"python"', '"nope"'), "nope"),
        "around": (lambda text: text.replace('"whole"', '"missing"'), "missing"),
    }
    names = ("around", "text", "field", "gone", "loads", "whole", "rules")
    with Server(tmp_path, *ON_DEMAND) as s:
        for name in names:
            assert version(s, name) == "1"
        assert out(s, *names)
        whole = {name: (tmp_path / name / "config.pbtxt").read_text() for name in damage}
        for name, (spoil, _) in damage.items():
            (tmp_path / name / "config.pbtxt").write_text(spoil(whole[name]))
        (tmp_path / "gone" / "config.pbtxt").unlink()
        (tmp_path / "gone" / "config.pbtxt").mkdir()
        (tmp_path / "rules" / "rollout.yaml").write_text("weights: {1: -1}\n")
        damage |= {"gone": (None, "failed to read text proto"), "rules": (None, "rules/rollout.yaml:1")}
        for _ in range(2):
            for name, (_, text) in damage.items():
                assert answer(s, name) == 2, name

                def told(name=name, text=text):
                    state, reason = states(s, name)["1"]
                    return state == "READY" and "came back without" in reason and text in reason

                assert while_in(s, [name], told), (name, states(s, name))
            assert out(s, *names)
        assert "'text' comes back with the configuration that it had when it left" in s.log()
        # Who asks for a load is told, whether it is in or not, and the model is as it was.
        for name in ("text", "loads"):
            for _ in range(2):
                failed = s.post(f"/v2/repository/models/{name}/load")
                assert failed.status in (400, 500) and damage[name][1] in failed.error and answer(s, name) == 2, failed
        for name, text in whole.items():
            (tmp_path / name / "config.pbtxt").write_text(text)
        assert s.post("/v2/repository/models/text/load").status == 200
        assert "came back without" not in states(s, "text")["1"][1]
        assert config == whole["around"] and answer(s, "around") == 2
        assert while_in(s, ["around"], lambda: states(s, "around")["1"] == ("READY", "loaded on demand"))


def test_a_configuration_that_is_bad_from_the_start(tmp_path):
    """There is nothing that served before: the error names the place, and a load is tried after a pause and only for a request."""
    python_model(tmp_path, "bad", extra="max_batch_size: -3\n")
    with Server(tmp_path, *ON_DEMAND) as s:
        refused = s.infer("bad", X)
        assert refused.status == 503 and "bad/config.pbtxt:4, field max_batch_size" in refused.error, refused
        assert int(refused.headers["retry-after"]) >= 1
        failed = metric(s, "neso_on_demand_loads_total", outcome="failed")
        assert failed == 1 and "tried again in" in s.infer("bad", X).error
        assert metric(s, "neso_on_demand_loads_total", outcome="failed") == 1


def test_what_an_agent_refuses_does_not_come_back(tmp_path):
    """A checksum that is asked for from now on is not passed by with the configuration of before."""
    python_model(tmp_path, "m", 1, add=1)
    with Server(tmp_path, *ON_DEMAND) as s:
        assert version(s, "m") == "1" and out(s, "m")
        with open(tmp_path / "m" / "config.pbtxt", "a") as config:
            config.write(
                'model_repository_agents { agents [ { name: "checksum"\n'
                '    parameters { key: "MD5:1/model.py" value: "5d41402abc4b2a76b9719d911017c592" } } ] }\n'
            )
        for _ in range(2):
            refused = version(s, "m")
            assert refused.startswith("503 ") and "5d41402abc4b2a76b9719d911017c592" in refused, refused
